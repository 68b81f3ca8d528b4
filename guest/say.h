/* What the guest says: batches of frames, made from the state of the executions at the moment they can be sent. */
#ifndef SAY_H
#define SAY_H

#include "frame.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/* A new connection: HELLO, and no more before WELCOME. */
void say_nothing_yet(void);

/* WELCOME came: every execution, from the acknowledged byte. */
void say_everything(void);

/* An answer about a number that has no slot, UNKNOWN, FAILED, or SHELL for one that is closed. */
void say_reply(enum frame_type type, uint64_t number);
void say_failed(uint64_t number, uint32_t step, uint32_t error);
bool say_can_reply(void);

/* The next bytes to send, in rings where they lie; returns the number of segments, 0 when nothing is owed. */
int say_next(uint64_t highest, const uint8_t *secret, struct iovec **first);
void say_sent(size_t count);

/* In a child: a HELLO may lie in the buffer. */
void say_forget(void);

#endif
