#include "kill.h"

#include "numbers.h"
#include "terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KNOWN_MAX = 32, PROCESSES_MAX = 4096, SESSIONS_MAX = 256, ROUNDS_MAX = 64, DESCRIPTORS_MAX = 4096, PATH_BYTES = 64 };

struct process {
	pid_t pid, parent, session;
	unsigned long long start;
	bool ours;
};

/* Sorted by pid, as /proc lists them. The walk before the present one is kept to know whom it reached. */
struct walk {
	size_t count;
	struct process list[PROCESSES_MAX];
};

static struct walk walks[2];

/* For each slot, who left the execution's session; the start time tells a process from a later one with the same pid. */
static struct known {
	pid_t pid;
	unsigned long long start;
} known[EXECUTIONS_MAX][KNOWN_MAX];

static bool read_process(pid_t pid, struct process *p)
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

static void take_walk(struct walk *walk)
{
	struct numbers n;
	pid_t pid;
	walk->count = 0;
	if (!numbers_open(&n, "/proc"))
		return;
	while ((pid = numbers_next(&n)) > 0)
		if (walk->count < PROCESSES_MAX && read_process(pid, &walk->list[walk->count]))
			walk->count++;
}

static int by_pid(const void *a, const void *b)
{
	return ((const struct process *)a)->pid - ((const struct process *)b)->pid;
}

static struct process *find(struct walk *walk, pid_t pid)
{
	struct process key = {.pid = pid};
	return bsearch(&key, walk->list, walk->count, sizeof key, by_pid);
}

static bool same(const struct process *p, pid_t pid, unsigned long long start)
{
	return p != NULL && p->pid == pid && p->start == start;
}

static bool reached(struct walk *before, const struct process *p)
{
	struct process *old = find(before, p->pid);
	return same(old, p->pid, p->start) && old->ours;
}

static bool is_known(const struct execution *e, const struct process *p)
{
	const struct known *mine = known[e - execution_at(0)];
	for (unsigned i = 0; i < e->known_count && i < KNOWN_MAX; i++)
		if (same(p, mine[i].pid, mine[i].start))
			return true;
	return false;
}

static void remember(struct execution *e, const struct process *p)
{
	if (p->session != e->pid && !is_known(e, p))
		known[e - execution_at(0)][e->known_count++ % KNOWN_MAX] = (struct known){p->pid, p->start};
}

/* The guest, and the sessions of other executions. */
static bool foreign(const struct execution *e, const struct process *p)
{
	if (p->pid == getpid())
		return true;
	for (unsigned i = 0; i < executions_end(); i++) {
		const struct execution *other = execution_at(i);
		if (other != e && other->phase != PHASE_FREE && other->pid > 0 && other->pid == p->session)
			return true;
	}
	return false;
}

/* How /proc names the pipe behind a descriptor of ours; empty when there is none. */
static void name_pipe(int fd, char name[static PATH_BYTES])
{
	char path[PATH_BYTES];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	ssize_t length = fd < 0 ? 0 : readlink(path, name, PATH_BYTES - 1);
	name[length > 0 ? length : 0] = 0;
}

/* Whoever holds a stream of the execution got it from there, wherever its parents went. Links are read and never
 * followed: what a hostile process has open may hang. */
static bool holds(const struct process *p, char names[2][PATH_BYTES])
{
	char path[PATH_BYTES], target[PATH_BYTES];
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

static bool session_of_ours(const pid_t *sessions, unsigned count, pid_t session)
{
	for (unsigned i = 0; i < count; i++)
		if (sessions[i] == session)
			return true;
	return false;
}

/* Children and sessions of those that are ours are ours, until no more are found. */
static void spread(const struct execution *e, struct walk *walk)
{
	pid_t sessions[SESSIONS_MAX], guest_session = getsid(0);
	unsigned count = 0;
	for (bool grew = true; grew;) {
		grew = false;
		for (size_t i = 0; i < walk->count; i++) {
			struct process *p = &walk->list[i], *parent = find(walk, p->parent);
			bool kin = (parent != NULL && parent->ours) || session_of_ours(sessions, count, p->session);
			if (!p->ours && kin && !foreign(e, p))
				p->ours = grew = true;
			if (p->ours && p->session != guest_session && count < SESSIONS_MAX &&
			    !session_of_ours(sessions, count, p->session)) {
				sessions[count++] = p->session;
				grew = true;
			}
		}
	}
}

static void mark(struct execution *e, struct walk *walk, struct walk *before)
{
	/* A session's number is not given away while it has members: a process that has it now is a stranger. */
	bool reused = e->phase == PHASE_EXITED && find(walk, e->pid) != NULL;
	char names[2][PATH_BYTES];
	if (e->terminal)
		terminal_name(e, names[0]);
	else
		name_pipe(e->output[0].fd, names[0]);
	name_pipe(e->output[1].fd, names[1]);
	for (size_t i = 0; i < walk->count; i++) {
		struct process *p = &walk->list[i];
		p->ours = !foreign(e, p) && ((p->session == e->pid && !reused) || is_known(e, p) || reached(before, p) ||
		                             holds(p, names));
	}
	spread(e, walk);
	for (size_t i = 0; i < walk->count; i++)
		if (walk->list[i].ours)
			remember(e, &walk->list[i]);
}

/* Before a KILL everybody is stopped, so that no fork can outrun the walk. */
static void kill_all(struct execution *e, int signal_number)
{
	struct walk *walk = &walks[0], *before = &walks[1];
	before->count = 0;
	for (int round = 0; round < ROUNDS_MAX; round++) {
		take_walk(walk);
		mark(e, walk, before);
		bool fresh = false;
		for (size_t i = 0; i < walk->count; i++) {
			if (!walk->list[i].ours || reached(before, &walk->list[i]))
				continue;
			kill(walk->list[i].pid, signal_number == SIGKILL ? SIGSTOP : signal_number);
			fresh = true;
		}
		struct walk *swap = walk;
		walk = before;
		before = swap;
		if (!fresh)
			break;
	}
	for (size_t i = 0; signal_number == SIGKILL && i < before->count; i++)
		if (before->list[i].ours)
			kill(before->list[i].pid, SIGKILL);
}

void kill_execution(struct execution *e, int signal_number, uint32_t scope)
{
	if (e->pid <= 0)
		return;
	bool reaped = e->phase == PHASE_EXITED;
	pid_t foreground = terminal_foreground(e);
	if (scope == SCOPE_ALL)
		kill_all(e, signal_number);
	else if (scope == SCOPE_GROUP && foreground > 0)
		kill(-foreground, signal_number);
	else if (scope == SCOPE_GROUP && !(reaped && kill(e->pid, 0) == 0)) /* as with sessions: a reused pid is a stranger */
		kill(-e->pid, signal_number);
	else if (scope == SCOPE_PROGRAM && !reaped)
		kill(e->pid, signal_number);
}
