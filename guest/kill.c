#include "kill.h"

#include "process.h"
#include "shell-kill.h"
#include "shell.h"
#include "terminal.h"

#include <signal.h>
#include <unistd.h>

enum { KNOWN_MAX = 32, SESSIONS_MAX = 256 };

/* For each slot, who left the execution's session; the start time tells a process from a later one with the same pid. */
static struct known {
	pid_t pid;
	unsigned long long start;
} known[EXECUTIONS_MAX][KNOWN_MAX];

static bool is_known(const struct execution *e, const struct process *p)
{
	const struct known *mine = known[e - execution_at(0)];
	for (unsigned i = 0; i < e->known_count && i < KNOWN_MAX; i++)
		if (process_same(p, mine[i].pid, mine[i].start))
			return true;
	return false;
}

static void remember(struct execution *e, const struct process *p)
{
	if (p->session != e->pid && !is_known(e, p))
		known[e - execution_at(0)][e->known_count++ % KNOWN_MAX] = (struct known){p->pid, p->start};
}

/* The guest, and the sessions of other executions and of shells. */
static bool foreign(const struct execution *e, const struct process *p)
{
	if (p->pid == getpid() || shell_leads(p->session))
		return true;
	for (unsigned i = 0; i < executions_end(); i++) {
		const struct execution *other = execution_at(i);
		if (other != e && other->phase != PHASE_FREE && other->pid > 0 && other->pid == p->session)
			return true;
	}
	return false;
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
			struct process *p = &walk->list[i], *parent = process_find(walk, p->parent);
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

static void mark(void *whose, struct walk *walk, struct walk *before)
{
	struct execution *e = whose;
	/* A session's number is not given away while it has members: a process that has it now is a stranger. */
	bool reused = e->phase == PHASE_EXITED && process_find(walk, e->pid) != NULL;
	char names[2][PIPE_NAME_BYTES];
	if (e->terminal)
		terminal_name(e, names[0]);
	else
		process_name_pipe(e->output[0].fd, names[0]);
	process_name_pipe(e->output[1].fd, names[1]);
	for (size_t i = 0; i < walk->count; i++) {
		struct process *p = &walk->list[i];
		p->ours = !foreign(e, p) && ((p->session == e->pid && !reused) || is_known(e, p) || process_reached(before, p) ||
		                             process_holds(p, names));
	}
	spread(e, walk);
	for (size_t i = 0; i < walk->count; i++)
		if (walk->list[i].ours)
			remember(e, &walk->list[i]);
}

void kill_execution(struct execution *e, int signal_number, uint32_t scope)
{
	if (e->shell != 0) {
		shell_kill_command(e, signal_number, scope);
		return;
	}
	if (e->pid <= 0)
		return;
	bool reaped = e->phase == PHASE_EXITED;
	pid_t foreground = terminal_foreground(e);
	if (scope == SCOPE_ALL)
		processes_kill(mark, e, signal_number);
	else if (scope == SCOPE_GROUP && foreground > 0)
		kill(-foreground, signal_number);
	else if (scope == SCOPE_GROUP && !(reaped && kill(e->pid, 0) == 0)) /* as with sessions: a reused pid is a stranger */
		kill(-e->pid, signal_number);
	else if (scope == SCOPE_PROGRAM && !reaped)
		kill(e->pid, signal_number);
}
