/* Makes a process for an execution. */
#ifndef SPAWN_H
#define SPAWN_H

#include "frame.h"

#include <stdbool.h>
#include <sys/types.h>

/* The guest's ends of the pipes; -1 where there is none. */
struct spawned {
	pid_t pid;
	int output[2];
	int input, status, gate;
};

/* What a child steps back from: the guest's own descriptor limit and its score with the out-of-memory killer. */
bool spawn_prepare(void);

/* The flags say which pipes to make. A gated child looks at the rest of the start only behind the gate, so it may be made
 * before its start is known. 0, or the failed step with errno set. Status then tells: 8 bytes (step, errno) of a failure, or the end of file of an exec. */
int spawn(const struct start *start, uint8_t flags, struct spawned *spawned);

/* Among the flags, never on the wire: no pipes for the output, it goes to nobody. */
enum { SPAWN_MUTE = 128 };
/* The same by way of a nest: the pid comes as the first report of the status pipe, with a step of 0. */
int spawn_in_nest(uint64_t nest, const struct start *start, uint8_t flags, struct spawned *spawned);

/* In a nest: closes every descriptor but 0 to 2 and this one, which it moves. */
void spawn_keep_only(int *fd);

/* In a child of a nest: tells its pid and goes the way of all children. */
_Noreturn void spawn_hatch(const struct start *start, const int ends[5]);

#endif
