#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What the grader's side wants to have run. */
struct ask {
	const char *address;
	const char *directory;
	char **argv;
	char **env;
	uint32_t envc;
	double seconds;
	uint64_t output_max; /* of each stream */
	int status_fd;       /* where to say how it ended; -1: nowhere */
};

/* Reads the command line of `isolated run`. False after a message on stderr. */
bool read_arguments(int argc, char **argv, struct ask *ask);
