#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A frame is a u32 payload length and a u8 type, then the payload. Integers are little endian. */
enum {
	FRAME_HEADER = 5,
	FRAME_DATA_MAX = 65536,
	FRAME_RUN_MAX = 1 << 20,
	WORDS_MAX = 4096,
};

enum frame_type {
	/* From the grader's side. */
	FRAME_RUN = 1,       /* u32 argc, u32 envc, then working directory, arguments, variables: each a u32 length and bytes */
	FRAME_INPUT = 2,     /* bytes for stdin */
	FRAME_INPUT_END = 3, /* empty */
	/* From the agent's side. */
	FRAME_STDOUT = 16,
	FRAME_STDERR = 17,
	FRAME_FAILED = 18, /* u32 errno: nothing ran */
	FRAME_EXIT = 19,   /* u32 wait status. The last frame */
};

/* What is to be run. Points into the payload that it was read from. */
struct run {
	char *directory;
	char *argv[WORDS_MAX + 1];
	char *envp[WORDS_MAX + 1];
	uint32_t envc;
};

void put_u32(uint8_t *at, uint32_t value);
uint32_t get_u32(const uint8_t *at);

/* Whole or not at all; false with errno where the other side is gone. The descriptor is a blocking one. */
bool write_all(int fd, const void *bytes, size_t length);
bool read_all(int fd, void *bytes, size_t length);
bool send_frame(int fd, enum frame_type type, const void *payload, size_t length);

/* Reads the payload of a FRAME_RUN in place; `payload` has room for one byte more. False for anything malformed. */
bool parse_run(uint8_t *payload, size_t length, struct run *run);
