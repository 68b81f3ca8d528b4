/* Frames, rings and the filter by example. */
#include "confine.c"
#include "frame.h"
#include "ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int checks;

#define CHECK(condition) \
	do { \
		checks++; \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
			exit(1); \
		} \
	} while (0)

static void integers_are_little_endian(void)
{
	uint8_t bytes[12];
	CHECK(put64(put32(bytes, 0x01020304), 0x1122334455667788) == bytes + 12);
	CHECK(memcmp(bytes, "\4\3\2\1\x88\x77\x66\x55\x44\x33\x22\x11", 12) == 0);
	CHECK(get32(bytes) == 0x01020304 && get64(bytes + 4) == 0x1122334455667788);
}

static size_t put_frame(uint8_t *p, enum frame_type type, uint8_t stream, uint64_t number, const char *payload, size_t n)
{
	memcpy(frame_header(p, type, stream, number, n), payload, n);
	return HEADER_BYTES + n;
}

static void frames_come_whole_however_they_are_cut(void)
{
	uint8_t wire[256], buffer[HEADER_BYTES + 64], *at;
	size_t size = 0;
	size += put_frame(wire + size, WELCOME, 0, 0, "", 0);
	size += put_frame(wire + size, ACK, 2, 7, "\1\0\0\0\0\0\0\0", 8);
	size += put_frame(wire + size, INPUT, 0, 9, "\0\0\0\0\0\0\0\0hello", 13);
	for (size_t step = 1; step <= size; step++) {
		struct decoder d = {.bytes = buffer, .size = sizeof buffer};
		struct frame f, got[3];
		size_t frames = 0;
		for (size_t done = 0; done < size;) {
			size_t room = decoder_room(&d, &at), n = step < size - done ? step : size - done;
			n = n < room ? n : room;
			memcpy(at, wire + done, n);
			d.to += n;
			done += n;
			enum decoded decoded;
			while ((decoded = decoder_next(&d, &f)) == DECODED_FRAME) {
				CHECK(frames < 3);
				got[frames++] = f;
				if (f.type == INPUT)
					CHECK(f.length == 13 && memcmp(f.payload + 8, "hello", 5) == 0);
			}
			CHECK(decoded == DECODED_PARTIAL);
		}
		CHECK(frames == 3 && got[0].type == WELCOME && got[1].type == ACK && got[1].stream == 2 && got[1].number == 7);
	}
}

static enum decoded decode_one(enum frame_type type, uint8_t stream, uint64_t number, uint32_t length)
{
	uint8_t bytes[HEADER_BYTES];
	frame_header(bytes, type, stream, number, length);
	struct decoder d = {.bytes = bytes, .size = sizeof bytes, .to = sizeof bytes};
	struct frame f;
	return decoder_next(&d, &f);
}

static void a_bad_header_is_broken_before_its_payload_comes(void)
{
	CHECK(decode_one(START, 0, 1, PAYLOAD_MAX) == DECODED_PARTIAL);
	CHECK(decode_one(START, 0, 1, PAYLOAD_MAX + 1) == DECODED_BROKEN);
	CHECK(decode_one(START, 0, 1, 23) == DECODED_BROKEN);
	CHECK(decode_one(START, 0, 0, 24) == DECODED_BROKEN);
	CHECK(decode_one(WELCOME, 0, 1, 0) == DECODED_BROKEN);
	CHECK(decode_one(ACK, 0, 1, 8) == DECODED_BROKEN);
	CHECK(decode_one(ACK, 3, 1, 8) == DECODED_BROKEN);
	CHECK(decode_one(GO, 1, 1, 0) == DECODED_BROKEN);
	CHECK(decode_one(GO, 0, 1, 0) == DECODED_FRAME);
	CHECK(decode_one(HELLO, 0, 0, 44) == DECODED_BROKEN);
	CHECK(decode_one(SHELL_START, 0, 1, 16 + TEXT_MAX) == DECODED_PARTIAL);
	CHECK(decode_one(SHELL_START, 0, 1, 17 + TEXT_MAX) == DECODED_BROKEN);
	CHECK(decode_one(SHELL_START, 0, 1, 15) == DECODED_BROKEN);
	CHECK(decode_one(CLOSE_SHELL, 0, 1, 0) == DECODED_FRAME);
	CHECK(decode_one(INTERRUPT, 0, 0, 0) == DECODED_BROKEN);
	CHECK(decode_one(RESIZE, 0, 1, 4) == DECODED_PARTIAL);
	CHECK(decode_one(RESIZE, 0, 1, 5) == DECODED_BROKEN);
	CHECK(decode_one(UNNEST + 1, 0, 1, 0) == DECODED_BROKEN);
}

static size_t put_start(uint8_t *p, uint32_t argc, uint32_t envc, const char *const *strings, int count)
{
	uint8_t *at = put32(p, START_GATED | START_INPUT);
	at = put32(put32(put32(put32(at, 1000), KEEP_ID), argc), envc);
	for (int i = 0; i < count; i++) {
		size_t length = strlen(strings[i]);
		at = put32(at, (uint32_t)length);
		memcpy(at, strings[i], length);
		at += length;
	}
	return (size_t)(at - p);
}

static void a_start_is_decoded_in_place(void)
{
	static struct start s;
	uint8_t exact[256];
	const char *strings[] = {"/workspace", "sh", "", "-c", "A=b", "C="};
	size_t length = put_start(exact, 3, 2, strings, 6);
	uint8_t *bytes = malloc(length); /* exactly, so that a write behind it is seen */
	CHECK(bytes != NULL);
	for (size_t cut = 0; cut <= length; cut++) {
		memcpy(bytes, exact, length);
		CHECK(start_decode(bytes, cut, &s) == (cut == length));
	}
	CHECK(s.flags == 3 && s.uid == 1000 && s.gid == KEEP_ID && strcmp(s.directory, "/workspace") == 0);
	CHECK(strcmp(s.argv[0], "sh") == 0 && strcmp(s.argv[1], "") == 0 && strcmp(s.argv[2], "-c") == 0 && s.argv[3] == NULL);
	CHECK(strcmp(s.envp[0], "A=b") == 0 && strcmp(s.envp[1], "C=") == 0 && s.envp[2] == NULL);
	free(bytes);
}

static void a_start_that_lies_is_refused(void)
{
	static struct start s;
	uint8_t bytes[256];
	const char *strings[] = {"/", "sh", "-c"};
	size_t length = put_start(bytes, 0, 2, strings, 3);
	CHECK(!start_decode(bytes, length, &s));
	length = put_start(bytes, WORDS_MAX + 1, 0, strings, 3);
	CHECK(!start_decode(bytes, length, &s));
	length = put_start(bytes, 2, UINT32_MAX, strings, 3);
	CHECK(!start_decode(bytes, length, &s));
	length = put_start(bytes, 2, 0, strings, 3);
	bytes[length - 1] = 0; /* a NUL within a string */
	CHECK(!start_decode(bytes, length, &s));
	length = put_start(bytes, 1, 0, strings, 3); /* more than was counted */
	CHECK(!start_decode(bytes, length, &s));
	length = put_start(bytes, 2, 0, strings, 3);
	bytes[0] = 16; /* a flag nobody knows */
	CHECK(!start_decode(bytes, length, &s));
}

static void a_terminal_brings_its_size(void)
{
	static struct start s;
	uint8_t bytes[256];
	const char *strings[] = {"/", "sh"};
	size_t length = put_start(bytes, 1, 0, strings, 2);
	memcpy(bytes + length, "\x18\0\x50\1", 4);
	bytes[0] = START_TERMINAL | START_INPUT;
	CHECK(!start_decode(bytes, length + 3, &s));
	length = put_start(bytes, 1, 0, strings, 2); /* decoding moved the strings */
	bytes[0] = START_TERMINAL | START_INPUT;
	CHECK(start_decode(bytes, length + 4, &s) && s.rows == 24 && s.columns == 336);
	length = put_start(bytes, 1, 0, strings, 2);
	CHECK(!start_decode(bytes, length + 4, &s)); /* a size for no terminal */
	CHECK(start_decode(bytes, put_start(bytes, 1, 0, strings, 2), &s) && s.rows == 0);
}

static void a_shell_may_leave_its_program_to_the_guest(void)
{
	static struct start s;
	uint8_t bytes[256];
	const char *strings[] = {"/", "A=b"};
	size_t length = put_start(bytes, 0, 1, strings, 2);
	bytes[0] = START_GATED;
	CHECK(shell_decode(bytes, length, &s) && s.argv[0] == NULL && strcmp(s.envp[0], "A=b") == 0);
	length = put_start(bytes, 0, 1, strings, 2);
	CHECK(!shell_decode(bytes, length, &s)); /* its input is its script */
}

static void a_command_of_a_shell_is_decoded(void)
{
	struct shell_start s;
	uint8_t bytes[32] = {START_INPUT};
	put64(bytes + 8, 7);
	memcpy(bytes + 16, "echo", 4);
	CHECK(shell_start_decode(bytes, 20, &s) && s.input && s.shell == 7 && s.length == 4 && s.text == bytes + 16);
	CHECK(shell_start_decode(bytes, 16, &s) && s.length == 0);
	CHECK(!shell_start_decode(bytes, 15, &s));
	bytes[0] = 1;
	CHECK(!shell_start_decode(bytes, 20, &s));
	bytes[0] = 0;
	bytes[7] = 1;
	CHECK(!shell_start_decode(bytes, 20, &s));
}

static void a_ring_wraps(void)
{
	uint8_t memory[8];
	struct ring r = {.base = memory, .size = sizeof memory, .start = 5, .end = 5};
	struct iovec v[2];
	CHECK(ring_room(&r) == 8 && ring_used(&r) == 0);
	CHECK(ring_data_segments(&r, 5, 100, v) == 0);
	ring_append(&r, (const uint8_t *)"abcdef", 6);
	CHECK(ring_used(&r) == 6 && ring_room(&r) == 2);
	CHECK(ring_data_segments(&r, 5, 100, v) == 2 && v[0].iov_len == 3 && v[1].iov_len == 3);
	CHECK(memcmp(v[0].iov_base, "abc", 3) == 0 && memcmp(v[1].iov_base, "def", 3) == 0);
	CHECK(ring_data_segments(&r, 8, 2, v) == 1 && v[0].iov_len == 2 && memcmp(v[0].iov_base, "de", 2) == 0);
	CHECK(ring_room_segments(&r, v) == 1 && v[0].iov_len == 2 && v[0].iov_base == memory + 3);
	r.start = 9;
	CHECK(ring_room_segments(&r, v) == 2 && v[0].iov_len == 5 && v[1].iov_len == 1);
	ring_append(&r, (const uint8_t *)"ghijkl", 6);
	CHECK(ring_room(&r) == 0 && ring_room_segments(&r, v) == 0);
}

/* As the kernel does when it takes a filter (seccomp_is_const_allow): false also where an instruction is none that it follows. */
static bool always_allowed(uint32_t number, uint32_t architecture)
{
	uint32_t value = 0;
	for (size_t at = 0; at < sizeof filter / sizeof filter[0]; at++) {
		const struct sock_filter *i = &filter[at];
		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (i->k != offsetof(struct seccomp_data, nr) && i->k != offsetof(struct seccomp_data, arch))
				return false;
			value = i->k == offsetof(struct seccomp_data, nr) ? number : architecture;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			at += value == i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			at += value >= i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			at += value > i->k ? i->jt : i->jf;
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			value &= i->k;
			break;
		case BPF_RET | BPF_K:
			return i->k == SECCOMP_RET_ALLOW;
		default:
			return false;
		}
	}
	return false;
}

static void the_kernel_runs_no_filter_for_ordinary_calls(void)
{
	CHECK(always_allowed(0, AUDIT_ARCH_X86_64) && always_allowed(257, AUDIT_ARCH_X86_64) && always_allowed(202, AUDIT_ARCH_X86_64));
	CHECK(always_allowed(3, AUDIT_ARCH_I386) && always_allowed(63, AUDIT_ARCH_AARCH64) && always_allowed(3, AUDIT_ARCH_ARM));
	CHECK(!always_allowed(56, AUDIT_ARCH_X86_64) && !always_allowed(220, AUDIT_ARCH_AARCH64) && !always_allowed(272, AUDIT_ARCH_X86_64));
	for (uint32_t number = LSM_GET_SELF_ATTR; number <= LSM_LIST_MODULES; number++)
		CHECK(!always_allowed(number, AUDIT_ARCH_X86_64));
	CHECK(!always_allowed(OPEN_TREE_ATTR, AUDIT_ARCH_I386) && always_allowed(OPEN_TREE_ATTR + 1, AUDIT_ARCH_I386));
}

int main(void)
{
	the_kernel_runs_no_filter_for_ordinary_calls();
	integers_are_little_endian();
	frames_come_whole_however_they_are_cut();
	a_bad_header_is_broken_before_its_payload_comes();
	a_start_is_decoded_in_place();
	a_start_that_lies_is_refused();
	a_terminal_brings_its_size();
	a_shell_may_leave_its_program_to_the_guest();
	a_command_of_a_shell_is_decoded();
	a_ring_wraps();
	printf("%d checks\n", checks);
	return 0;
}
