#include "stream.h"

#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

enum { PIPE_BYTES = 64 << 10, PIPE_GROWN = 1 << 20 };

void stream_shut(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void stream_close_input(struct execution *e)
{
	stream_shut(&e->input.fd);
	e->input.closed = true;
	e->said &= ~(1U << INPUT_ACK);
}

void stream_check_input(struct execution *e)
{
	struct pollfd input = {.fd = e->input.fd};
	if (e->input.fd >= 0 && poll(&input, 1, 0) == 1 && (input.revents & POLLERR))
		stream_close_input(e);
}

/* A read that finds nothing tells where the output of a program that has ended stops. */
static void found_empty(struct output *o)
{
	if (o->at_exit > o->ring.end)
		o->at_exit = o->ring.end;
}

static void drain(struct execution *e, struct output *o)
{
	struct iovec room[2];
	while (o->fd >= 0 && o->readable) {
		size_t asked = ring_room(&o->ring);
		if (asked == 0)
			return; /* until an acknowledgement makes room */
		ssize_t got = readv(o->fd, room, ring_room_segments(&o->ring, room));
		if (got < 0 && errno == EINTR)
			continue;
		if (got == 0 && e->shell != 0 && e->phase == PHASE_RUNNING) { /* a shell may open its streams again */
			o->readable = false;
			return;
		}
		if (got == 0 || (got < 0 && errno != EAGAIN)) {
			stream_shut(&o->fd);
			found_empty(o);
			if (e->terminal && !e->input.closed)
				stream_close_input(e); /* its other half */
			return;
		}
		if (got < 0) {
			found_empty(o);
			o->readable = false;
			return;
		}
		o->ring.end += (size_t)got;
		e->awaiting.moved |= MOVED_OUTPUT;
		if (got >= PIPE_BYTES && !o->grown) { /* only for those who fill it: a user's pipe pages are counted */
			o->grown = true;
			fcntl(o->fd, F_SETPIPE_SZ, PIPE_GROWN);
		}
		/* After the exit look for the end of file at once. A terminal gives less than it has. */
		if ((size_t)got < asked && e->phase != PHASE_EXITED && !e->terminal)
			o->readable = false;
	}
}

static void feed(struct execution *e)
{
	struct input *in = &e->input;
	struct iovec data[2];
	while (in->fd >= 0 && in->writable && ring_used(&in->ring) > 0) {
		ssize_t put = writev(in->fd, data, ring_data_segments(&in->ring, in->ring.start, INPUT_RING, data));
		if (put >= 0) {
			in->ring.start += (size_t)put;
			e->awaiting.moved |= MOVED_INPUT;
			e->said &= ~(1U << INPUT_ACK);
		} else if (errno == EAGAIN) {
			in->writable = false;
		} else if (errno != EINTR) {
			stream_close_input(e);
		}
	}
	if (in->fd < 0 || !in->ends || in->ring.start != in->length || (e->terminal && !in->writable))
		return;
	if (!e->terminal || terminal_type_end(e))
		stream_close_input(e);
	else
		in->writable = false;
}

void stream_pump(struct execution *e)
{
	drain(e, &e->output[0]);
	drain(e, &e->output[1]);
	feed(e);
}

bool stream_acknowledged(struct execution *e, uint8_t stream, uint64_t offset)
{
	struct output *o = &e->output[stream - 1];
	if (offset > o->ring.end)
		return false;
	if (offset > o->ring.start)
		o->ring.start = offset;
	if (offset > o->sent)
		o->sent = offset; /* stored by way of an earlier connection */
	return true;
}

bool stream_input(struct execution *e, uint64_t offset, const uint8_t *bytes, size_t count)
{
	struct input *in = &e->input;
	e->said &= ~(1U << INPUT_ACK);
	if (in->closed)
		return true;
	uint64_t received = in->ring.end;
	if (offset > received || count > UINT64_MAX - offset)
		return false;
	if (offset + count <= received)
		return true;
	size_t known = (size_t)(received - offset), fresh = count - known;
	if (fresh > ring_room(&in->ring) || (in->ends && offset + count > in->length))
		return false;
	ring_append(&in->ring, bytes + known, fresh);
	e->awaiting.moved |= MOVED_INPUT;
	return true;
}

bool stream_input_end(struct execution *e, uint64_t length)
{
	struct input *in = &e->input;
	if (in->closed)
		return true;
	if (length < in->ring.end || (in->ends && length != in->length))
		return false;
	in->ends = true;
	in->length = length;
	e->said &= ~(1U << INPUT_ACK);
	return true;
}
