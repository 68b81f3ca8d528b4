/* The bytes of an execution: from its pipes into the rings, from the ring of its input into its pipe. */
#ifndef STREAM_H
#define STREAM_H

#include "execution.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads and writes whatever the pipes allow at the moment. */
void stream_pump(struct execution *e);

/* False: the worker broke the protocol. */
bool stream_acknowledged(struct execution *e, uint8_t stream, uint64_t offset);
bool stream_input(struct execution *e, uint64_t offset, const uint8_t *bytes, size_t count);
bool stream_input_end(struct execution *e, uint64_t length);

void stream_close_input(struct execution *e);

/* Closes it if nobody can read it any more. */
void stream_check_input(struct execution *e);
void stream_shut(int *fd);

#endif
