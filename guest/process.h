/* The processes of the sandbox: who there is, who holds which pipe, and signals for those whom somebody marks. */
#ifndef PROCESS_H
#define PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { PROCESSES_MAX = 4096, PIPE_NAME_BYTES = 64 };

struct process {
	pid_t pid, parent, session;
	unsigned long long start;
	bool kin;  /* made by the guest, or by one of these */
	bool ours;
};

/* Sorted by pid, as /proc lists them. The walk before the present one is kept to know whom it reached. */
struct walk {
	size_t count;
	struct process list[PROCESSES_MAX];
};

struct process *process_find(struct walk *walk, pid_t pid);

/* The start time tells a process from a later one with the same pid. */
bool process_same(const struct process *p, pid_t pid, unsigned long long start);

/* Whether the walk before found it to be ours. */
bool process_reached(struct walk *before, const struct process *p);

bool process_read(pid_t pid, struct process *p);

/* How /proc names the pipe behind a descriptor of ours; empty when there is none. */
void process_name_pipe(int fd, char name[static PIPE_NAME_BYTES]);

/* Whether it holds one of two pipes. */
bool process_holds(const struct process *p, char names[2][PIPE_NAME_BYTES]);

/* Says who is ours in a walk. */
typedef void marker(void *whose, struct walk *walk, struct walk *before);

/* The signal goes once to each that is marked, until no more are found. */
void processes_kill(marker *mark, void *whose, int signal_number);

#endif
