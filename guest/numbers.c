#include "numbers.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

bool numbers_open(struct numbers *n, const char *path)
{
	n->at = n->filled = 0;
	n->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return n->fd >= 0;
}

int numbers_next(struct numbers *n)
{
	for (;;) {
		if (n->at == n->filled) {
			n->at = 0;
			n->filled = getdents64(n->fd, n->bytes, sizeof n->bytes);
			if (n->filled <= 0) {
				close(n->fd);
				return -1;
			}
		}
		struct dirent64 *entry = (struct dirent64 *)(n->bytes + n->at);
		n->at += entry->d_reclen;
		if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
			return atoi(entry->d_name);
	}
}
