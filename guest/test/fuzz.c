/* One input: the first byte chooses how the rest is cut into reads, the rest is what a worker sends. The same bytes then
 * drive a ring beside a plain model of it. */
#include "frame.h"
#include "ring.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_start(enum frame_type type, uint8_t *payload, size_t length, struct start *start)
{
	if (!(type == START ? start_decode(payload, length, start) : shell_decode(payload, length, start)))
		return;
	size_t total = strlen(start->directory);
	for (int i = 0; start->argv[i] != NULL; i++)
		total += strlen(start->argv[i]);
	for (int i = 0; start->envp[i] != NULL; i++)
		total += strlen(start->envp[i]);
	assert(total <= length);
}

static void fuzz_decoder(const uint8_t *data, size_t size, size_t step)
{
	static struct start start;
	struct shell_start command;
	static uint8_t bytes[HEADER_BYTES + PAYLOAD_MAX];
	struct decoder d = {.bytes = bytes, .size = sizeof bytes};
	struct frame frame;
	uint8_t *at;
	for (size_t done = 0; done < size;) {
		size_t room = decoder_room(&d, &at), n = step < size - done ? step : size - done;
		n = n < room ? n : room;
		assert(n > 0); /* a whole frame always fits, so there is always room for more */
		memcpy(at, data + done, n);
		d.to += n;
		done += n;
		enum decoded decoded;
		while ((decoded = decoder_next(&d, &frame)) == DECODED_FRAME) {
			assert(frame.payload + frame.length <= d.bytes + d.to);
			uint8_t *copy = malloc(frame.length + 1); /* the sanitizer sees every step beyond it */
			assert(copy != NULL);
			copy += 1;
			memcpy(copy, frame.payload, frame.length);
			if (frame.type == START || frame.type == OPEN_SHELL)
				check_start(frame.type, copy, frame.length, &start);
			else if (frame.type == SHELL_START && shell_start_decode(copy, frame.length, &command))
				assert(command.text + command.length == copy + frame.length);
			copy -= 1;
			free(copy);
		}
		if (decoded == DECODED_BROKEN)
			return;
	}
}

enum { RING = 64 };

static void check_ring(const struct ring *r, const uint8_t *model, uint64_t base, uint64_t from, size_t most)
{
	struct iovec v[2];
	int count = ring_data_segments(r, from, most, v);
	for (int i = 0; i < count; i++) {
		assert(memcmp(v[i].iov_base, model + (from - base), v[i].iov_len) == 0);
		from += v[i].iov_len;
	}
	assert(from <= r->end);
}

static void fuzz_ring(const uint8_t *data, size_t size, uint64_t base)
{
	static uint8_t model[1 << 16];
	uint8_t *memory = malloc(RING);
	assert(memory != NULL);
	struct ring r = {.base = memory, .size = RING, .start = base, .end = base};
	for (size_t i = 0; i + 1 < size && r.end - base < sizeof model - RING; i++) {
		size_t n = data[i] & 63;
		if (data[i] & 64)
			r.start += n < ring_used(&r) ? n : ring_used(&r);
		else if (n <= ring_room(&r) && n <= size - i) {
			memcpy(model + (r.end - base), data + i, n);
			ring_append(&r, data + i, n);
		}
		assert(ring_used(&r) + ring_room(&r) == RING);
		check_ring(&r, model, base, r.start, data[i + 1]);
	}
	free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	fuzz_decoder(data + 1, size - 1, (size_t)data[0] + 1);
	fuzz_ring(data + 1, size - 1, data[0] & 1 ? UINT32_MAX - 100 : data[0]);
	return 0;
}
