/* The terminal of an execution. The guest has its far side and, until the program ends, a hold on the near one: so it is
 * never hung up under a program that merely closed its descriptors. */
#ifndef TERMINAL_H
#define TERMINAL_H

#include "execution.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	TERMINAL_NAME = 32,
	/* More than the kernel holds of what a program wrote. How much that is cannot be asked, only read. */
	TERMINAL_PENDING_MAX = 1 << 20,
};

/* Gives the execution a terminal in place of its pipes and tells the start where it is. False with errno set. */
bool terminal_open(struct execution *e, struct start *start);

/* In a child: takes it as standard input, output and error, and as what controls the session. */
bool terminal_take(const struct start *start);

void terminal_resize(const struct execution *e, uint16_t rows, uint16_t columns);

/* Types the end-of-file character; false while there is no room for it. */
bool terminal_type_end(struct execution *e);

/* How /proc names the near side; empty once the terminal is gone and its number may be another's. */
void terminal_name(const struct execution *e, char name[static TERMINAL_NAME]);

/* The process group that the keyboard's signals go to; 0 when nobody knows. */
pid_t terminal_foreground(const struct execution *e);

#endif
