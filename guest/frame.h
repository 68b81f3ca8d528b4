/* The wire format: headers, payloads, and a decoder that takes bytes as they come. See PROTOCOL.md. */
#ifndef FRAME_H
#define FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	HEADER_BYTES = 16,
	TEXT_MAX = 1 << 20,
	PAYLOAD_MAX = TEXT_MAX + (64 << 10),
	OUTPUT_MAX = 256 << 10,
	WORDS_MAX = 4096,
	SECRET_BYTES = 32,
	PROTOCOL_VERSION = 1,
};

enum frame_type {
	HELLO = 1, STATE, SYNCED, SPAWNED, STARTED, FAILED, OUTPUT, INPUT_ACK, EXIT, CLOSED, UNKNOWN, SHELL, AWAITING, NESTED,
	WELCOME = 64, START, GO, ACK, INPUT, INPUT_END, SIGNAL, FORGET, PREPARE,
	OPEN_SHELL, SHELL_START, CLOSE_SHELL, INTERRUPT, RESIZE, NEST, UNNEST,
};

enum { START_GATED = 1, START_INPUT = 2, START_PLACED = 4, START_TERMINAL = 8 };
#define START_FLAGS (START_GATED | START_INPUT | START_PLACED | START_TERMINAL)
#define KEEP_ID UINT32_MAX

struct frame {
	uint8_t type, stream;
	uint64_t number;
	uint32_t length;
	uint8_t *payload;
};

/* Bytes [from, to) wait to be decoded. The size must hold one frame of the largest size. */
struct decoder {
	uint8_t *bytes;
	size_t size, from, to;
};

enum decoded { DECODED_FRAME, DECODED_PARTIAL, DECODED_BROKEN };

struct start {
	uint8_t flags;
	uint16_t rows, columns; /* of the terminal, if it is to have one */
	unsigned terminal_index; /* which it is, once it is open */
	uint32_t uid, gid;
	char *directory;
	char *argv[WORDS_MAX + 1];
	char *envp[WORDS_MAX + 1];
};

uint16_t get16(const uint8_t *p);
uint32_t get32(const uint8_t *p);
uint64_t get64(const uint8_t *p);
uint8_t *put32(uint8_t *p, uint32_t value);
uint8_t *put64(uint8_t *p, uint64_t value);

/* Writes a header, returns where the payload goes. */
uint8_t *frame_header(uint8_t *p, enum frame_type type, uint8_t stream, uint64_t number, size_t length);

/* Moves what waits to the front; returns the room behind it, at *at. */
size_t decoder_room(struct decoder *d, uint8_t **at);

/* The payload points into the decoder and is valid until the next decoder_room. */
enum decoded decoder_next(struct decoder *d, struct frame *frame);

/* The nest whose spare a start asks for, 0 for none. */
uint64_t start_nest(const uint8_t *payload);

/* Terminates the strings in place, so it may be called once for a payload. */
bool start_decode(uint8_t *payload, size_t length, struct start *start);

/* The same for a shell, which may leave its program to the guest: then argv is empty. */
bool shell_decode(uint8_t *payload, size_t length, struct start *start);

struct shell_start {
	bool input;
	uint64_t shell;
	const uint8_t *text;
	size_t length;
};

bool shell_start_decode(const uint8_t *payload, size_t length, struct shell_start *start);

#endif
