#include "say.h"

#include "execution.h"
#include "frame.h"
#include "nest.h"
#include "shell.h"

#include <string.h>

enum {
	REPLIES_MAX = 64,
	LATE_REPLIES_MAX = SHELLS_MAX, /* for commands that waited in vain */
	SEGMENTS_MAX = 64,
	HEADS_BYTES = 8192,
	FRAME_HEAD_MAX = 96, /* the largest frame without its output bytes */
	BATCH_BYTES = 512 << 10,
};

/* An answer about a number that has no slot. Lost with the connection: the worker asks again. */
struct reply {
	enum frame_type type;
	uint64_t number;
	uint32_t step, error;
};

static bool hello_said, welcomed, synced;
static struct reply replies[REPLIES_MAX + LATE_REPLIES_MAX];
static unsigned reply_count, turn;

/* Frames on their way: their heads, and segments that point to the heads and into rings. */
static uint8_t heads[HEADS_BYTES];
static size_t heads_used, batch_bytes;
static struct iovec segments[SEGMENTS_MAX];
static int segment_first, segment_count;

void say_nothing_yet(void)
{
	hello_said = welcomed = synced = false;
	segment_first = segment_count = 0;
	reply_count = 0;
}

void say_everything(void)
{
	welcomed = true;
	for (unsigned i = 0; i < shells_end(); i++)
		shell_announce(shell_at(i));
	for (unsigned i = 0; i < executions_end(); i++)
		execution_rewind(execution_at(i));
}

void say_reply(enum frame_type type, uint64_t number)
{
	replies[reply_count++] = (struct reply){.type = type, .number = number};
}

void say_failed(uint64_t number, uint32_t step, uint32_t error)
{
	if (reply_count < REPLIES_MAX + LATE_REPLIES_MAX)
		replies[reply_count++] = (struct reply){FAILED, number, step, error};
}

bool say_can_reply(void)
{
	return reply_count < REPLIES_MAX;
}

void say_forget(void)
{
	explicit_bzero(heads, sizeof heads);
}

static void add_segment(void *base, size_t length)
{
	struct iovec *next = &segments[segment_count];
	if (segment_count > 0 && (uint8_t *)next[-1].iov_base + next[-1].iov_len == base) {
		next[-1].iov_len += length;
	} else {
		*next = (struct iovec){base, length};
		segment_count++;
	}
	batch_bytes += length;
}

static bool batch_has_room(void)
{
	return segment_count + 3 <= SEGMENTS_MAX && heads_used + FRAME_HEAD_MAX <= HEADS_BYTES && batch_bytes < BATCH_BYTES;
}

/* Where the payload goes: `here` bytes of it follow in the heads, the rest (`elsewhere`) is added by the caller. */
static uint8_t *add_frame(enum frame_type type, uint8_t stream, uint64_t number, size_t here, size_t elsewhere)
{
	uint8_t *head = heads + heads_used;
	heads_used += HEADER_BYTES + here;
	add_segment(head, HEADER_BYTES + here);
	return frame_header(head, type, stream, number, here + elsewhere);
}

static uint64_t microseconds(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

static void add_output(struct execution *e, int stream)
{
	struct output *o = &e->output[stream];
	struct iovec data[2];
	int count = ring_data_segments(&o->ring, o->sent, OUTPUT_MAX, data);
	if (count == 0)
		return;
	size_t length = data[0].iov_len + data[1].iov_len;
	put64(add_frame(OUTPUT, (uint8_t)(stream + 1), e->number, 8, length), o->sent);
	for (int i = 0; i < count; i++)
		add_segment(data[i].iov_base, data[i].iov_len);
	o->sent += length;
}

static void add_control(struct execution *e, enum frame_type type)
{
	static const uint8_t lengths[] = {
		[STATE] = 24, [SPAWNED] = 4, [STARTED] = 4, [FAILED] = 8, [INPUT_ACK] = 17, [EXIT] = 56, [CLOSED] = 16,
		[AWAITING] = 1,
	};
	uint8_t *p = add_frame(type, 0, e->number, lengths[type], 0);
	e->said |= 1U << type;
	if (type == STATE) {
		put64(put64(put64(p, e->output[0].ring.start), e->output[1].ring.start), e->input.ring.end);
	} else if (type == SPAWNED || type == STARTED) {
		put32(p, (uint32_t)e->pid);
	} else if (type == FAILED) {
		put32(put32(p, e->failed_step), e->failed_errno);
	} else if (type == INPUT_ACK) {
		*put64(put64(p, e->input.ring.end), e->input.ring.start) = (uint8_t)(e->input.closed | e->input.ends << 1);
	} else if (type == AWAITING) {
		*p = e->awaiting.kind;
	} else if (type == EXIT) {
		p = put64(put32(p, (uint32_t)e->wait_status), microseconds(e->usage.ru_utime));
		p = put64(put64(p, microseconds(e->usage.ru_stime)), (uint64_t)e->usage.ru_maxrss);
		p = put64(put64(put64(p, e->output[0].at_exit), e->output[1].at_exit), e->lasted_us);
		put32(p, e->end_flags);
	} else {
		put64(put64(p, e->output[0].ring.end), e->output[1].ring.end);
		if (e->forgotten)
			execution_release(e);
	}
}

/* False: the batch is full and the execution may owe more. Output of each stream goes once in a round. */
static bool add_execution(struct execution *e, bool announcing)
{
	enum frame_type type;
	bool output_said = false;
	while ((type = execution_owes(e, announcing)) != 0) {
		if (!batch_has_room())
			return false;
		if (type != OUTPUT) {
			add_control(e, type);
		} else if (!output_said) {
			output_said = true;
			add_output(e, 0);
			if (batch_has_room())
				add_output(e, 1);
		} else {
			return true;
		}
	}
	return true;
}

/* False: the batch is full and a shell may owe more. */
static bool add_shells(void)
{
	enum frame_type type;
	for (unsigned i = 0; i < shells_end(); i++) {
		struct shell *s = shell_at(i);
		while ((type = shell_owes(s)) != 0) {
			if (!batch_has_room())
				return false;
			uint8_t *p = add_frame(type, 0, s->number, type == SPAWNED ? 4 : 8, 0);
			s->said |= 1U << type;
			p = put32(p, type == FAILED ? s->failed_step : (uint32_t)s->pid);
			if (type != SPAWNED)
				put32(p, type == FAILED ? s->failed_errno : s->opened);
			if (type == SHELL && s->phase == SHELL_CLOSED)
				shell_release(s);
		}
	}
	return true;
}

static bool add_replies(void)
{
	for (; reply_count > 0 && batch_has_room(); reply_count--) {
		struct reply *r = &replies[reply_count - 1];
		uint8_t *p = add_frame(r->type, 0, r->number, r->type == UNKNOWN ? 0 : 8, 0);
		if (r->type != UNKNOWN)
			put32(put32(p, r->step), r->error); /* a closed shell has pid 0 and was opened 0 times */
	}
	return reply_count == 0;
}

static bool add_nests(void)
{
	pid_t pid;
	while (batch_has_room()) {
		uint64_t number = nest_owes(&pid);
		if (number == 0)
			return true;
		const struct execution *spare = execution_spare(number);
		put32(put32(add_frame(NESTED, 0, number, 8, 0), (uint32_t)pid), spare == NULL ? 0 : (uint32_t)spare->pid);
	}
	return false;
}

static void compose(uint64_t highest, const uint8_t *secret)
{
	heads_used = batch_bytes = 0;
	segment_first = segment_count = 0;
	if (!hello_said) {
		uint8_t *p = add_frame(HELLO, 0, 0, 12 + SECRET_BYTES, 0);
		memcpy(put64(put32(p, PROTOCOL_VERSION), highest), secret, SECRET_BYTES);
		hello_said = true;
	}
	if (!welcomed)
		return;
	if (!add_shells())
		return;
	if (!synced) {
		for (unsigned i = 0; i < executions_end(); i++)
			if (!add_execution(execution_at(i), true))
				return;
		if (!batch_has_room())
			return;
		add_frame(SYNCED, 0, 0, 0, 0);
		synced = true;
	}
	if (!add_replies() || !add_nests())
		return;
	for (unsigned i = 0; i < executions_end() && batch_has_room(); i++) {
		turn = turn + 1 < executions_end() ? turn + 1 : 0;
		add_execution(execution_at(turn), false);
	}
}

int say_next(uint64_t highest, const uint8_t *secret, struct iovec **first)
{
	if (segment_first == segment_count)
		compose(highest, secret);
	*first = segments + segment_first;
	return segment_count - segment_first;
}

void say_sent(size_t count)
{
	while (count > 0) {
		struct iovec *s = &segments[segment_first];
		size_t step = count < s->iov_len ? count : s->iov_len;
		s->iov_base = (uint8_t *)s->iov_base + step;
		s->iov_len -= step;
		count -= step;
		segment_first += s->iov_len == 0;
	}
}
