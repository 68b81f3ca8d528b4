/* The numbers in a directory of /proc: processes, threads, descriptors. Read without a heap. */
#ifndef NUMBERS_H
#define NUMBERS_H

#include <dirent.h>
#include <stdbool.h>
#include <sys/types.h>

struct numbers {
	int fd;
	ssize_t at, filled;
	_Alignas(struct dirent64) char bytes[4096];
};

bool numbers_open(struct numbers *n, const char *path);

/* -1 at the end, which closes it. */
int numbers_next(struct numbers *n);

#endif
