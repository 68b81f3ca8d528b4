#include "obey.h"

#include "execution.h"
#include "kill.h"
#include "say.h"
#include "stream.h"
#include "terminal.h"

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
	if (e != NULL && execution_is_spare(e)) {
		highest = frame->number;
		return execution_employ(e, frame->payload, frame->length);
	}
	if (!start_decode(frame->payload, frame->length, &start))
		return false;
	if (frame->number > highest) {
		if (e != NULL)
			execution_release(e); /* a spare that died */
		if (execution_open(frame->number, &start) == NULL)
			say_reply(FAILED, frame->number); /* not counted as seen, so it may be tried again */
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

static void obey_forget(struct execution *e)
{
	e->forgotten = true;
	if (e->phase == PHASE_FAILED || (e->said & 1U << CLOSED))
		execution_release(e);
}

bool obey(struct frame *frame)
{
	if (!welcomed || frame->type == WELCOME) {
		if (welcomed || frame->type != WELCOME)
			return false;
		welcomed = true;
		executions_drop_spares(); /* this worker may not know of them */
		say_everything();
		return true;
	}
	if (frame->type == START)
		return obey_start(frame);
	if (frame->type == SIGNAL && (get32(frame->payload) > 64 || get32(frame->payload + 4) - 1 > 2))
		return false;
	struct execution *e = execution_find(frame->number);
	if (frame->type == PREPARE && e == NULL && frame->number > highest)
		execution_prepare(frame->number);
	if (e == NULL || e->phase == PHASE_SPARE || frame->type == PREPARE)
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
	else
		obey_forget(e);
	return true;
}
