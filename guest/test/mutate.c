/* Drives the fuzz target without clang: sound frames, mutated by a generator that always starts from the same seed. */
#include "frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_BYTES = 4096, FRAME_ROOM = 512 };

static uint64_t state = 0x9e3779b97f4a7c15;

static uint32_t random32(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 16);
}

static uint32_t below(uint32_t limit)
{
	return random32() % limit;
}

static size_t put_start(uint8_t *p)
{
	uint32_t argc = 1 + below(4), envc = below(4);
	uint8_t *at = put32(put32(put32(put32(put32(p, below(4)), random32()), random32()), argc), envc);
	for (uint32_t i = 0; i < 1 + argc + envc; i++) {
		uint32_t length = below(20);
		at = put32(at, length);
		memset(at, 'a' + (int)below(26), length);
		at += length;
	}
	return (size_t)(at - p);
}

static size_t put_sound_frame(uint8_t *p)
{
	enum frame_type type = WELCOME + below(UNNEST - WELCOME + 1);
	uint8_t payload[FRAME_ROOM] = {0};
	size_t length = 0;
	if (type == START || type == OPEN_SHELL)
		length = put_start(payload);
	else if (type == INPUT)
		length = 8 + below(64);
	else if (type == SHELL_START)
		length = 16 + below(64);
	else if (type == RESIZE)
		length = 4;
	else if (type == ACK || type == INPUT_END || type == SIGNAL)
		length = 8;
	memcpy(frame_header(p, type, type == ACK ? (uint8_t)(1 + below(2)) : 0, type != WELCOME, length), payload, length);
	return HEADER_BYTES + length;
}

static size_t mutate(uint8_t *bytes, size_t size)
{
	static const uint32_t corners[] = {0, 1, 3, 4, 24, 255, 4096, 4097, PAYLOAD_MAX, PAYLOAD_MAX + 1, INT32_MAX, UINT32_MAX};
	for (uint32_t n = below(4); n > 0; n--) {
		size_t at = below((uint32_t)size);
		uint32_t how = below(4);
		if (how == 0)
			bytes[at] = (uint8_t)random32();
		else if (how == 1)
			bytes[at] ^= (uint8_t)(1 << below(8));
		else if (how == 2 && at + 4 <= size)
			put32(bytes + at, corners[below(sizeof corners / sizeof corners[0])]);
		else if (how == 3)
			size = at + 1;
	}
	return size;
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 100000;
	static uint8_t bytes[INPUT_BYTES];
	for (long round = 0; round < rounds; round++) {
		size_t size = 1;
		bytes[0] = (uint8_t)random32();
		for (uint32_t frames = 1 + below(6); frames > 0; frames--)
			size += put_sound_frame(bytes + size);
		LLVMFuzzerTestOneInput(bytes, mutate(bytes, size));
	}
	printf("%ld rounds\n", rounds);
	return 0;
}
