/* What the worker asks for, frame by frame. */
#ifndef OBEY_H
#define OBEY_H

#include "frame.h"

#include <stdbool.h>
#include <stdint.h>

/* A new connection: nothing counts before WELCOME. */
void obey_nobody(void);

/* False: the worker broke the protocol. */
bool obey(struct frame *frame);

bool obey_welcomed(void);

/* The highest number ever started. */
uint64_t obey_highest(void);

#endif
