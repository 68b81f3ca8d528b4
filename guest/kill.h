/* Signals for an execution: its program, its process group, or every process of it that can be found. */
#ifndef KILL_H
#define KILL_H

#include "execution.h"

#include <stdint.h>

enum { SCOPE_PROGRAM = 1, SCOPE_GROUP, SCOPE_ALL };

void kill_execution(struct execution *e, int signal_number, uint32_t scope);

#endif
