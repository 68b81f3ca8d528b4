/* A moment in the life of the sandbox, fine enough to tell which processes were made after it. */
#ifndef MOMENT_H
#define MOMENT_H

#include <stdbool.h>
#include <sys/types.h>

/* A start time in /proc has ticks of 10 ms; within one the order of pids decides. */
struct moment {
	unsigned long long tick;
	pid_t last_pid;
};

struct moment moment_now(void);

bool moment_before(struct moment m, unsigned long long start, pid_t pid);

#endif
