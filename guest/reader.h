/* Finds the processes that are blocked reading an execution's input, as the kernel shows it in /proc. */
#ifndef READER_H
#define READER_H

#include "execution.h"

#include <stdbool.h>

void readers_forget(void);

/* Adds an execution to those whose readers are looked for. */
void readers_want(const struct execution *e);

/* Walks through all processes and their threads, once for all. */
void readers_find(void);

bool readers_wanted(const struct execution *e);
bool readers_found(const struct execution *e);

#endif
