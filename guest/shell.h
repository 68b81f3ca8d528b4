/* The shells: long-lived processes that read one command text after the other and keep their state between them. */
#ifndef SHELL_H
#define SHELL_H

#include "execution.h"
#include "frame.h"
#include "shell-files.h"
#include "shell-text.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { SHELLS_MAX = 64 };

/* What epoll hands back for a shell: this, its index and the role. */
#define SHELL_EVENT 0x40000000U
enum shell_role { SHELL_ROLE_STATUS, SHELL_ROLE_MARK, SHELL_ROLES };

/* GATED waits for GO, STARTING for the exec, OPENING for its first report; CLOSED is gone for good, FAILED never came. */
enum shell_phase { SHELL_FREE, SHELL_GATED, SHELL_STARTING, SHELL_OPENING, SHELL_OPEN, SHELL_CLOSED, SHELL_FAILED };

struct shell {
	enum shell_phase phase;
	uint64_t number;
	pid_t pid;
	uint32_t opened;    /* how often */
	uint32_t said;      /* as for executions */
	uint32_t failed_step, failed_errno;
	bool closing;       /* CLOSE_SHELL came: it is not opened again */
	bool silenced;      /* the guest is killing it because it would not report */
	unsigned idle_deaths; /* since a command last ended in it */
	struct start *start;
	struct shell_files files;
	int script_fd, status_fd, gate_fd;
	int mark_fd;        /* the pipe `m`, which the shell opens and closes to say something */
	int hold_fd;        /* keeps the input open until the shell has it */
	int hold_output[2]; /* keep pipes that were made anew from being at their end */
	enum dialect dialect;
	unsigned form;
	bool reads_show;    /* a read file gets an access time here */
	int last_status;
	struct execution *running;
	bool input;         /* which has an input */
	uint64_t next_number; /* of a command that came while it was being opened again; 0 for none */
	struct shell_start next;
	bool interrupted;
	int64_t interrupt_at, check_at; /* in ms on the monotonic clock, 0 for never; see shell-watch.c */
	int64_t check_wait, opening_since;
	unsigned signs;     /* how often in a row it was seen to be beyond reporting */
	uint64_t words;     /* a digest of its command line, which an exec changes */
};

/* False with errno set. */
bool shells_prepare(int epoll, const char *directory);

unsigned shells_end(void);
struct shell *shell_at(unsigned index);
struct shell *shell_find(uint64_t number);

/* Opens it, or leaves it failed; NULL when the table is full. The payload was not decoded yet; *broken says it cannot be. */
struct shell *shell_open(uint64_t number, const uint8_t *payload, size_t length, bool *broken);
void shell_go(struct shell *s);
void shell_close(struct shell *s);
void shell_release(struct shell *s);

/* Ends one that does not report any more. */
void shell_silence(struct shell *s);

/* NULL when the table of executions is full. The shell is open and idle. */
struct execution *shell_run(struct shell *s, uint64_t number, const struct shell_start *start);

/* Keeps a command until the shell is open again; there is no other. */
void shell_keep(struct shell *s, uint64_t number, const struct shell_start *start);

void shell_ready(uint32_t event);

/* False: it was no shell. */
bool shell_reaped(pid_t pid, int status);

void shell_rewind(struct shell *s);

/* For a new connection. A command that waits has nothing to be told by: the worker takes it for lost and sends it again. */
void shell_announce(struct shell *s);
enum frame_type shell_owes(const struct shell *s);

/* The session that a shell leads. */
bool shell_leads(pid_t session);

#endif
