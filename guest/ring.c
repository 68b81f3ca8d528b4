#include "ring.h"

#include <string.h>

size_t ring_used(const struct ring *r)
{
	return (size_t)(r->end - r->start);
}

size_t ring_room(const struct ring *r)
{
	return r->size - ring_used(r);
}

static int segments_of(const struct ring *r, uint64_t from, size_t count, struct iovec segments[2])
{
	size_t at = (size_t)from & (r->size - 1);
	size_t first = count < r->size - at ? count : r->size - at;
	segments[0] = (struct iovec){r->base + at, first};
	segments[1] = (struct iovec){r->base, count - first};
	return (first > 0) + (count > first);
}

int ring_room_segments(const struct ring *r, struct iovec segments[2])
{
	return segments_of(r, r->end, ring_room(r), segments);
}

int ring_data_segments(const struct ring *r, uint64_t from, size_t most, struct iovec segments[2])
{
	uint64_t count = r->end - from;
	return segments_of(r, from, count < most ? (size_t)count : most, segments);
}

void ring_append(struct ring *r, const uint8_t *bytes, size_t count)
{
	struct iovec segments[2];
	segments_of(r, r->end, count, segments);
	memcpy(segments[0].iov_base, bytes, segments[0].iov_len);
	memcpy(segments[1].iov_base, bytes + segments[0].iov_len, segments[1].iov_len);
	r->end += count;
}
