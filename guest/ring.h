/* A byte ring addressed by stream offset: it holds the bytes [start, end) of a stream. The size is a power of two. */
#ifndef RING_H
#define RING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct ring {
	uint8_t *base;
	size_t size;
	uint64_t start, end;
};

size_t ring_used(const struct ring *r);
size_t ring_room(const struct ring *r);

/* Up to two segments of free room, for readv; returns how many. */
int ring_room_segments(const struct ring *r, struct iovec segments[2]);

/* Up to two segments of at most `most` bytes from offset `from`, which must lie in [start, end]; returns how many. */
int ring_data_segments(const struct ring *r, uint64_t from, size_t most, struct iovec segments[2]);

/* Copies in; the caller has seen to it that there is room. */
void ring_append(struct ring *r, const uint8_t *bytes, size_t count);

#endif
