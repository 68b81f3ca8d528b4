#include "process.h"

#include "numbers.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS_MAX = 64, DESCRIPTORS_MAX = 4096 };

static struct walk walks[2];

bool process_read(pid_t pid, struct process *p)
{
	char path[32], text[1024];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t got = read(fd, text, sizeof text - 1);
	close(fd);
	if (got <= 0)
		return false;
	text[got] = 0;
	char *fields = strrchr(text, ')'); /* the name before it is the program's to choose */
	*p = (struct process){.pid = pid};
	return fields != NULL && sscanf(fields, ") %*c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
	                                &p->parent, &p->session, &p->start) == 3;
}

static int by_pid(const void *a, const void *b)
{
	return ((const struct process *)a)->pid - ((const struct process *)b)->pid;
}

struct process *process_find(struct walk *walk, pid_t pid)
{
	struct process key = {.pid = pid};
	return bsearch(&key, walk->list, walk->count, sizeof key, by_pid);
}

/* One whose parent is gone by now may be anybody's, and is believed. */
static bool is_kin(struct walk *walk, const struct process *p)
{
	const struct process *parent = process_find(walk, p->parent);
	return p->parent == getpid() || (parent == NULL ? p->parent > 0 : parent->kin);
}

/* The guest is subreaper of all it started, so nobody of them is found elsewhere, and nobody else is any of its business.
 * Parents come before their children but where the numbers began again. */
static void keep_kin(struct walk *walk)
{
	for (bool grew = true; grew;) {
		grew = false;
		for (struct process *p = walk->list; p < walk->list + walk->count; p++)
			if (!p->kin && p->pid != getpid() && is_kin(walk, p))
				p->kin = grew = true;
	}
	size_t kept = 0;
	for (size_t i = 0; i < walk->count; i++)
		if (walk->list[i].kin)
			walk->list[kept++] = walk->list[i];
	walk->count = kept;
}

static void take_walk(struct walk *walk)
{
	struct numbers n;
	pid_t pid;
	walk->count = 0;
	if (!numbers_open(&n, "/proc"))
		return;
	while ((pid = numbers_next(&n)) > 0)
		if (walk->count < PROCESSES_MAX && process_read(pid, &walk->list[walk->count]))
			walk->count++;
	keep_kin(walk);
}

bool process_same(const struct process *p, pid_t pid, unsigned long long start)
{
	return p != NULL && p->pid == pid && p->start == start;
}

bool process_reached(struct walk *before, const struct process *p)
{
	struct process *old = process_find(before, p->pid);
	return process_same(old, p->pid, p->start) && old->ours;
}

void process_name_pipe(int fd, char name[static PIPE_NAME_BYTES])
{
	char path[PIPE_NAME_BYTES];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	ssize_t length = fd < 0 ? 0 : readlink(path, name, PIPE_NAME_BYTES - 1);
	name[length > 0 ? length : 0] = 0;
}

/* Whoever holds a stream of the execution got it from there, wherever its parents went. Links are read and never
 * followed: what a hostile process has open may hang. */
bool process_holds(const struct process *p, char names[2][PIPE_NAME_BYTES])
{
	char path[PIPE_NAME_BYTES], target[PIPE_NAME_BYTES];
	struct numbers n;
	snprintf(path, sizeof path, "/proc/%d/fd", p->pid);
	if ((!names[0][0] && !names[1][0]) || !numbers_open(&n, path))
		return false;
	bool found = false;
	int descriptor;
	for (int looked = 0; (descriptor = numbers_next(&n)) >= 0;) {
		if (found || looked++ >= DESCRIPTORS_MAX)
			continue;
		snprintf(path, sizeof path, "/proc/%d/fd/%d", p->pid, descriptor);
		ssize_t length = readlink(path, target, sizeof target - 1);
		target[length > 0 ? length : 0] = 0;
		found = length > 0 && (strcmp(target, names[0]) == 0 || strcmp(target, names[1]) == 0);
	}
	return found;
}

/* Returns whether anybody was found that was not there before. */
static bool signal_fresh(const struct walk *walk, struct walk *before, int signal_number)
{
	bool fresh = false;
	for (size_t i = 0; i < walk->count; i++) {
		if (!walk->list[i].ours || process_reached(before, &walk->list[i]))
			continue;
		kill(walk->list[i].pid, signal_number);
		fresh = true;
	}
	return fresh;
}

static void kill_ours(const struct walk *walk)
{
	for (size_t i = 0; i < walk->count; i++)
		if (walk->list[i].ours)
			kill(walk->list[i].pid, SIGKILL);
}

/* Before a KILL everybody is stopped, so that no fork can outrun the walk. A fork that was under way goes on nevertheless, and
 * only a KILL ends it: whoever came of it in between is looked for afterwards. */
void processes_kill(marker *mark, void *whose, int signal_number)
{
	struct walk *walk = &walks[0], *before = &walks[1];
	bool deadly = signal_number == SIGKILL, killed = false;
	before->count = 0;
	for (int round = 0; round < ROUNDS_MAX; round++) {
		take_walk(walk);
		mark(whose, walk, before);
		bool fresh = signal_fresh(walk, before, deadly ? SIGSTOP : signal_number);
		struct walk *swap = walk;
		walk = before;
		before = swap;
		if (!fresh && (!deadly || killed))
			return;
		if (!fresh)
			kill_ours(before);
		killed = !fresh;
	}
	if (deadly)
		kill_ours(before);
}
