/* Whether a program waits for input. Looked for only while its input is open and it was not seen to read since it moved. */
#ifndef AWAITING_H
#define AWAITING_H

#include <stdbool.h>
#include <stdint.h>

/* READING: a process of the execution is blocked reading the input. QUIET: nothing was heard of it for a second. */
enum awaiting_kind { AWAITING_NONE, AWAITING_READING, AWAITING_QUIET };

enum moved { MOVED_OUTPUT = 1, MOVED_INPUT = 2 };

struct awaiting {
	uint8_t kind, moved;
	int64_t spacing_ms, moved_ms, due_ms; /* between two looks; when it last moved; when to look next */
};

/* Looks where it is time to. Comes after the pipes had their turn and before the worker is told. */
void awaiting_turn(void);

/* For epoll_wait: -1 while there is nothing to look for. */
int awaiting_timeout(void);

#endif
