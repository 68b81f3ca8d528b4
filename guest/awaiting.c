#include "awaiting.h"

#include "execution.h"
#include "reader.h"
#include "stream.h"
#include "terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <time.h>

enum {
	FIRST_MS = 5,
	SPACED_MS = 250,   /* at most, while the program may still be on its way to ask */
	PATIENT_MS = 2000, /* at most, after that */
	RARE_MS = 3600000, /* at most, once it was said to be quiet: it may come to read all the same */
	QUIET_MS = 1000,
	SHARE = 20,        /* looking takes at most this part of the time */
};

static int64_t next_ms = -1;

static int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* While bytes wait on either side something will happen by itself. */
static bool may_wait(const struct execution *e)
{
	return e->phase == PHASE_RUNNING && e->input.fd >= 0 && !e->input.ends && ring_used(&e->input.ring) == 0 &&
	       ring_room(&e->output[0].ring) > 0 && ring_room(&e->output[1].ring) > 0;
}

/* Whether nothing lies between the guest and the program. Polling a terminal also moves on what its driver has not. */
static bool all_taken(const struct execution *e)
{
	int left = 0;
	struct pollfd near = {.fd = e->terminal_fd, .events = POLLIN};
	if (e->terminal)
		return poll(&near, 1, 0) == 0;
	return ioctl(e->input.fd, FIONREAD, &left) == 0 && left == 0;
}

/* New input is answered soon; output alone does not make the looks more frequent. */
static void note_move(struct execution *e, int64_t now)
{
	struct awaiting *a = &e->awaiting;
	if (a->moved & MOVED_INPUT)
		a->spacing_ms = FIRST_MS;
	a->spacing_ms = least(a->spacing_ms, SPACED_MS);
	bool planned = a->kind == AWAITING_NONE && a->due_ms > now && !(a->moved & MOVED_INPUT);
	a->due_ms = planned ? least(a->due_ms, now + a->spacing_ms) : now + a->spacing_ms;
	a->kind = AWAITING_NONE;
	a->moved = 0;
	a->moved_ms = now;
	e->said &= ~(1U << AWAITING);
}

/* What it wrote before it waited goes first. */
static void judge(struct execution *e, bool reading, int64_t now)
{
	struct awaiting *a = &e->awaiting;
	uint8_t before = a->kind;
	e->output[0].readable = e->output[1].readable = true;
	stream_pump(e);
	if (!may_wait(e))
		return;
	if (reading)
		a->kind = AWAITING_READING;
	else if (a->moved == 0 && now - a->moved_ms >= QUIET_MS)
		a->kind = AWAITING_QUIET;
	if (a->kind == before)
		return;
	a->moved = 0;
	e->said &= ~(1U << AWAITING);
}

static void plan(struct execution *e, int64_t now, int64_t took)
{
	struct awaiting *a = &e->awaiting;
	bool young = now - a->moved_ms < QUIET_MS;
	int64_t most = young ? SPACED_MS : a->kind == AWAITING_QUIET ? RARE_MS : PATIENT_MS;
	int64_t doubled = least(2 * a->spacing_ms, most);
	a->spacing_ms = doubled > SHARE * took ? doubled : SHARE * took;
	a->due_ms = now + a->spacing_ms;
	if (young)
		a->due_ms = least(a->due_ms, a->moved_ms + QUIET_MS);
}

static bool is_due(const struct execution *e, int64_t now)
{
	return may_wait(e) && e->awaiting.kind != AWAITING_READING && e->awaiting.due_ms <= now;
}

/* One walk for all that are due. */
static void look(int64_t now)
{
	static struct execution *due[EXECUTIONS_MAX];
	unsigned count = 0;
	readers_forget();
	for (unsigned i = 0; i < executions_end(); i++)
		if (is_due(execution_at(i), now)) {
			due[count++] = execution_at(i);
			if (all_taken(execution_at(i)))
				readers_want(execution_at(i));
		}
	readers_find();
	int64_t took = now_ms() - now;
	for (unsigned i = 0; i < count; i++) {
		if (readers_wanted(due[i]))
			judge(due[i], readers_found(due[i]), now);
		if (due[i]->awaiting.kind != AWAITING_READING)
			plan(due[i], now, took);
	}
}

void awaiting_turn(void)
{
	int64_t now = -1;
	bool due = false;
	for (unsigned i = 0; i < executions_end(); i++) {
		struct execution *e = execution_at(i);
		if (!may_wait(e)) {
			e->awaiting.kind = AWAITING_NONE;
			continue;
		}
		if (now < 0 && (e->awaiting.moved || e->awaiting.kind != AWAITING_READING))
			now = now_ms();
		if (e->awaiting.moved)
			note_move(e, now);
		due = due || (now >= 0 && is_due(e, now));
	}
	if (due)
		look(now);
	next_ms = -1;
	for (unsigned i = 0; now >= 0 && i < executions_end(); i++) {
		const struct execution *e = execution_at(i);
		if (may_wait(e) && e->awaiting.kind != AWAITING_READING)
			next_ms = next_ms < 0 ? e->awaiting.due_ms : least(next_ms, e->awaiting.due_ms);
	}
}

int awaiting_timeout(void)
{
	if (next_ms < 0)
		return -1;
	int64_t wait = next_ms - now_ms();
	return wait > 0 ? (int)wait : 0;
}
