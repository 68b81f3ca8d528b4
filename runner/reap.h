#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Waits for every child that has ended; true once `child` is among them, with its status. */
bool reap(pid_t child, int *status);

/* Kills all descendants of this process, which is their subreaper: what a killed parent leaves becomes a child of ours. */
void kill_descendants(void);
