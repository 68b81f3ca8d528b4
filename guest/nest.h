/* Nests: processes that stay in a cgroup and fork the spares of one execution after another there, so that no process has
 * to be moved between cgroups, which the kernel is slow to do. */
#ifndef NEST_H
#define NEST_H

#include "frame.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { NESTS_MAX = 32 };

/* What is sent to a nest: where the start will be found, in memory that both share, and the child's ends of the pipes. */
struct egg {
	const struct start *start;
	int ends[5];
};

/* Makes the nest, or finds it made. */
void nest_open(uint64_t number);
void nest_close(uint64_t number);
void nests_close(void);

/* Whether the process was a nest. */
bool nest_reaped(pid_t pid);

/* Asks the nest for a child. False: there is no such nest, or it does not listen. */
bool nest_lay(uint64_t number, const struct egg *egg);

/* Something about it, or about its spare, is to be told to the worker. */
void nest_changed(uint64_t number);

/* The next nest that has to be told of, 0 for none. A pid of 0: it is gone. */
uint64_t nest_owes(pid_t *pid);

#endif
