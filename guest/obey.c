#include "obey.h"

#include "execution.h"
#include "kill.h"
#include "nest.h"
#include "say.h"
#include "shell-watch.h"
#include "shell.h"
#include "stream.h"
#include "terminal.h"

#include <errno.h>

static uint64_t highest;
static bool welcomed;

void obey_nobody(void)
{
	welcomed = false;
}

bool obey_welcomed(void)
{
	return welcomed;
}

uint64_t obey_highest(void)
{
	return highest;
}

static bool obey_start(struct frame *frame)
{
	static struct start start;
	struct execution *e = execution_find(frame->number);
	struct execution *spare = frame->number > highest ? execution_spare(start_nest(frame->payload)) : NULL;
	if (spare != NULL) {
		highest = frame->number;
		return execution_employ(spare, frame->number, frame->payload, frame->length);
	}
	if (!start_decode(frame->payload, frame->length, &start))
		return false;
	if (frame->number > highest) {
		if (execution_open(frame->number, &start) == NULL)
			say_failed(frame->number, STEP_TABLE, EAGAIN); /* not counted as seen, so it may be tried again */
		else
			highest = frame->number;
		return true;
	}
	if (e == NULL)
		say_reply(UNKNOWN, frame->number);
	else
		execution_rewind(e);
	return true;
}

static bool obey_open_shell(struct frame *frame)
{
	struct shell *s = shell_find(frame->number);
	bool broken;
	if (frame->number > highest) {
		s = shell_open(frame->number, frame->payload, frame->length, &broken);
		if (broken)
			return false;
		if (s == NULL)
			say_failed(frame->number, STEP_TABLE, EAGAIN);
		else
			highest = frame->number;
	} else if (s == NULL) {
		say_reply(UNKNOWN, frame->number);
	} else {
		shell_rewind(s);
	}
	return true;
}

/* The worker cannot know yet that it ended. */
static bool is_opened_again(const struct shell *s)
{
	return s->opened > 0 && s->phase != SHELL_OPEN && s->running == NULL;
}

/* A shell that is not there or busy is no end of the number: it may be tried again. */
static void run_in_shell(struct shell *s, uint64_t number, const struct shell_start *start)
{
	if (s == NULL || s->closing || s->phase == SHELL_FAILED || s->phase == SHELL_CLOSED)
		say_failed(number, STEP_NO_SHELL, ENOENT);
	else if (is_opened_again(s) && s->next_number == 0)
		shell_keep(s, number, start);
	else if (s->phase != SHELL_OPEN || s->running != NULL || s->silenced)
		say_failed(number, STEP_BUSY, EBUSY);
	else if (shell_run(s, number, start) == NULL)
		say_failed(number, STEP_TABLE, EAGAIN);
	else
		highest = number;
	if (s != NULL && s->next_number == number)
		highest = number;
}

static bool obey_shell_start(struct frame *frame)
{
	struct shell_start start;
	if (!shell_start_decode(frame->payload, frame->length, &start))
		return false;
	struct execution *e = execution_find(frame->number);
	struct shell *s = shell_find(start.shell);
	bool waits = s != NULL && s->next_number == frame->number;
	if (frame->number > highest)
		run_in_shell(s, frame->number, &start);
	else if (e != NULL)
		execution_rewind(e);
	else if (!waits)
		say_reply(UNKNOWN, frame->number);
	return true;
}

/* What may be said to a shell by its own number. */
static void obey_for_shell(struct frame *frame)
{
	struct shell *s = shell_find(frame->number);
	if (s == NULL && frame->type == CLOSE_SHELL)
		say_reply(SHELL, frame->number);
	if (s == NULL)
		return;
	if (frame->type == CLOSE_SHELL)
		shell_close(s);
	else if (frame->type == GO)
		shell_go(s);
	else if (frame->type == FORGET && s->phase == SHELL_FAILED)
		shell_release(s);
}

static void obey_interrupt(const struct execution *e)
{
	struct shell *s = e->shell == 0 ? NULL : shell_find(e->shell);
	if (s != NULL && s->running == e)
		shell_interrupt(s);
}

static void obey_forget(struct execution *e)
{
	e->forgotten = true;
	if (e->phase == PHASE_FAILED || (e->said & 1U << CLOSED))
		execution_release(e);
}

static void obey_nest(const struct frame *frame)
{
	if (frame->type == NEST) {
		nest_open(frame->number);
	} else if (frame->type == PREPARE) {
		execution_prepare(frame->number);
	} else {
		execution_drop_spare(frame->number);
		nest_close(frame->number);
	}
}

bool obey(struct frame *frame)
{
	if (!welcomed || frame->type == WELCOME) {
		if (welcomed || frame->type != WELCOME)
			return false;
		welcomed = true;
		executions_drop_spares(); /* this worker may not know of them */
		nests_close();
		say_everything();
		return true;
	}
	if (frame->type == START)
		return obey_start(frame);
	if (frame->type == OPEN_SHELL)
		return obey_open_shell(frame);
	if (frame->type == SHELL_START)
		return obey_shell_start(frame);
	if (frame->type == SIGNAL && (get32(frame->payload) > 64 || get32(frame->payload + 4) - 1 > 2))
		return false;
	if (frame->type == NEST || frame->type == PREPARE || frame->type == UNNEST) {
		obey_nest(frame);
		return true;
	}
	struct execution *e = execution_find(frame->number);
	if (e == NULL)
		obey_for_shell(frame);
	if (e == NULL)
		return true;
	if (frame->type == GO)
		execution_go(e);
	else if (frame->type == ACK)
		return stream_acknowledged(e, frame->stream, get64(frame->payload));
	else if (frame->type == INPUT)
		return stream_input(e, get64(frame->payload), frame->payload + 8, frame->length - 8);
	else if (frame->type == INPUT_END)
		return stream_input_end(e, get64(frame->payload));
	else if (frame->type == SIGNAL)
		kill_execution(e, (int)get32(frame->payload), get32(frame->payload + 4));
	else if (frame->type == RESIZE)
		terminal_resize(e, get16(frame->payload), get16(frame->payload + 2));
	else if (frame->type == INTERRUPT)
		obey_interrupt(e);
	else if (frame->type == FORGET)
		obey_forget(e);
	return true;
}
