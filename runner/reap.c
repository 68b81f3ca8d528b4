#include "reap.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 400, ROUND_US = 5000 };

bool reap(pid_t child, int *status)
{
	bool found = false;
	for (;;) {
		int ended;
		pid_t pid = waitpid(-1, &ended, WNOHANG);
		if (pid <= 0)
			return found;
		if (pid == child) {
			*status = ended;
			found = true;
		}
	}
}

/* The parent of a process, from the field after the last parenthesis of its stat; 0 where it is gone. */
static pid_t parent_of(pid_t pid)
{
	char path[32], text[512];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	FILE *file = fopen(path, "re");
	if (file == NULL)
		return 0;
	size_t length = fread(text, 1, sizeof text - 1, file);
	fclose(file);
	text[length] = 0;
	char *after = strrchr(text, ')');
	int parent = 0;
	if (after == NULL || sscanf(after + 1, " %*c %d", &parent) != 1)
		return 0;
	return parent;
}

static void kill_children(void)
{
	DIR *proc = opendir("/proc");
	if (proc == NULL)
		return;
	pid_t self = getpid();
	for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (pid > 0 && parent_of(pid) == self)
			kill(pid, SIGKILL);
	}
	closedir(proc);
}

void kill_descendants(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		pid_t pid;
		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
			;
		if (pid < 0 && errno == ECHILD)
			return;
		kill_children();
		usleep(round == 0 ? 200 : ROUND_US);
	}
}
