#include "shell-kill.h"

#include "kill.h"
#include "process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CGROUP_BYTES = 4096 };

/* The worker puts a shell and all it starts into one cgroup, where it can. */
static size_t read_cgroup(pid_t pid, char text[static CGROUP_BYTES])
{
	char path[32];
	snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? 0 : read(fd, text, CGROUP_BYTES);
	if (fd >= 0)
		close(fd);
	return got > 0 ? (size_t)got : 0;
}

struct group {
	size_t length;
	char text[CGROUP_BYTES];
};

static bool in_group(const struct group *group, const struct process *p)
{
	char text[CGROUP_BYTES];
	return group->length > 0 && read_cgroup(p->pid, text) == group->length && memcmp(text, group->text, group->length) == 0;
}

static void add_children(struct walk *walk, bool (*possible)(const struct execution *e, const struct process *p),
                         const struct execution *e)
{
	for (bool grew = true; grew;) {
		grew = false;
		for (size_t i = 0; i < walk->count; i++) {
			struct process *p = &walk->list[i], *parent = process_find(walk, p->parent);
			if (p->ours || parent == NULL || !parent->ours || !possible(e, p))
				continue;
			p->ours = grew = true;
		}
	}
}

/* Made since the command began, and neither the guest nor a shell. */
static bool made_since(const struct execution *e, const struct process *p)
{
	return p->pid != getpid() && !shell_leads(p->pid) && moment_before(e->began, p->start, p->pid);
}

/* Likewise, and before the command ended. */
static bool of_its_time(const struct execution *e, const struct process *p)
{
	bool ended = e->phase == PHASE_EXITED;
	return made_since(e, p) && !(ended && moment_before(e->ended, p->start, p->pid));
}

/* Whether it shows that it is another execution's. */
static bool is_others(const struct execution *e, const struct process *p)
{
	for (unsigned i = 0; i < executions_end(); i++) {
		const struct execution *other = execution_at(i);
		char names[2][PIPE_NAME_BYTES];
		if (other == e || other->phase == PHASE_FREE)
			continue;
		if (other->shell == 0 && other->pid > 0 && other->pid == p->session)
			return true;
		process_name_pipe(other->output[0].fd, names[0]);
		process_name_pipe(other->output[1].fd, names[1]);
		if (process_holds(p, names))
			return true;
	}
	return false;
}

/* Whoever has lost its parent shows by its streams where it came from; without them, that it left the shell's session. */
static bool is_stray(const struct execution *e, const struct process *p, struct walk *walk)
{
	if (is_others(e, p))
		return false;
	struct process *leader = process_find(walk, p->session);
	return p->session == e->pid || leader == NULL || of_its_time(e, leader);
}

static void mark_command(void *whose, struct walk *walk, struct walk *before)
{
	const struct execution *e = whose;
	const struct shell *s = shell_find(e->shell);
	bool shell_lives = s != NULL && s->pid == e->pid;
	static struct group group;
	char names[2][PIPE_NAME_BYTES];
	group.length = shell_lives ? read_cgroup(e->pid, group.text) : 0;
	process_name_pipe(e->output[0].fd, names[0]);
	process_name_pipe(e->output[1].fd, names[1]);
	/* `exec 3>&1` in the command: then the streams say nothing of what the shell made later. */
	struct process *itself = shell_lives ? process_find(walk, e->pid) : NULL;
	bool telling = itself == NULL || !process_holds(itself, names);
	for (size_t i = 0; i < walk->count; i++) {
		struct process *p = &walk->list[i];
		bool child = shell_lives && p->parent == e->pid, orphan = p->parent == getpid();
		if (!of_its_time(e, p)) {
			/* What its processes made after its end, and whose parents are gone. */
			p->ours = made_since(e, p) &&
			          (process_reached(before, p) || (orphan && telling && process_holds(p, names) && !is_others(e, p)));
			continue;
		}
		p->ours = child || process_reached(before, p) || process_holds(p, names) ||
		          (orphan && in_group(&group, p) && is_stray(e, p, walk));
	}
	add_children(walk, made_since, e);
}

void shell_kill_command(struct execution *e, int signal_number, uint32_t scope)
{
	const struct shell *s = shell_find(e->shell);
	if (e->pid <= 0)
		return; /* it ran nothing */
	if (scope != SCOPE_PROGRAM)
		processes_kill(mark_command, e, signal_number);
	else if (s != NULL && s->running == e && s->pid > 0)
		kill(s->pid, signal_number);
}

static bool anybody(const struct execution *e, const struct process *p)
{
	(void)e;
	return p->pid != getpid();
}

static bool holds_its_streams(const struct shell *s, const struct process *p)
{
	for (unsigned i = 0; i < executions_end(); i++) {
		const struct execution *e = execution_at(i);
		char names[2][PIPE_NAME_BYTES];
		if (e->phase == PHASE_FREE || e->shell != s->number)
			continue;
		process_name_pipe(e->output[0].fd, names[0]);
		process_name_pipe(e->output[1].fd, names[1]);
		if (process_holds(p, names))
			return true;
	}
	return false;
}

static void mark_shell(void *whose, struct walk *walk, struct walk *before)
{
	const struct shell *s = whose;
	static struct group group;
	group.length = read_cgroup(s->pid, group.text);
	struct process guest = {.pid = getpid()};
	bool own_group = group.length > 0 && !in_group(&group, &guest);
	for (size_t i = 0; i < walk->count; i++) {
		struct process *p = &walk->list[i];
		p->ours = p->pid != getpid() && (p->session == s->pid || process_reached(before, p) ||
		                                 (own_group && in_group(&group, p)) || holds_its_streams(s, p));
	}
	add_children(walk, anybody, NULL);
}

void shell_kill_all(struct shell *s)
{
	if (s->pid <= 0)
		return;
	kill(s->pid, SIGHUP);
	processes_kill(mark_shell, s, SIGKILL);
	kill(s->pid, SIGKILL);
}
