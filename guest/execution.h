/* The table of executions: what the guest knows of each and which frame each owes the worker next. */
#ifndef EXECUTION_H
#define EXECUTION_H

#include "awaiting.h"
#include "frame.h"
#include "moment.h"
#include "ring.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

enum {
	EXECUTIONS_MAX = 256,
	SPARES_MAX = 32, /* one for each nest */
	OUTPUT_RING = 1 << 20,
	INPUT_RING = 256 << 10,
};

enum failed_step { STEP_PIPES = 1, STEP_FORK, STEP_DIRECTORY, STEP_USER, STEP_EXEC, STEP_TABLE, STEP_NO_SHELL, STEP_BUSY,
                   STEP_SPARE, STEP_ENDED, STEP_SILENT };

/* In EXIT: the shell ended with the execution; the guest ended it because it reported nothing any more. */
enum end_flags { END_SHELL = 1, END_SILENT = 2 };

/* SPARE was made before its start is known, GATED waits for GO, STARTING for the exec, FAILED ran nothing, EXITED has been reaped. */
enum phase { PHASE_FREE, PHASE_SPARE, PHASE_GATED, PHASE_STARTING, PHASE_RUNNING, PHASE_FAILED, PHASE_EXITED };

/* The descriptors of an execution that epoll watches. */
enum role { ROLE_STDOUT, ROLE_STDERR, ROLE_INPUT, ROLE_STATUS, ROLES };

struct output {
	int fd;             /* -1 once nobody holds the other end */
	bool readable;      /* epoll said so and no read has found it empty since */
	bool grown;
	struct ring ring;   /* from the acknowledged byte to the last one read */
	uint64_t sent;      /* given to the present connection */
	uint64_t at_exit;   /* the end of what was in the pipe when the program ended */
};

struct input {
	int fd;
	bool writable, closed, ends;
	struct ring ring;   /* from the first byte not written to the last one received */
	uint64_t length;    /* of the whole input, once `ends` */
};

struct execution {
	enum phase phase;
	uint64_t number;    /* 0 for a spare */
	uint64_t nest;      /* the spare's */
	bool let_go;        /* the spare's process has left the gate behind */
	pid_t pid;
	bool started, forgotten;
	uint32_t said;      /* bit n: frame type n was said on this connection and is still true */
	int status_fd, gate_fd;
	bool terminal;      /* output 0 and the input are its far side, output 1 is nothing */
	unsigned terminal_index, ends_typed;
	int terminal_fd;    /* its near side, until the program ends */
	struct plan *plan;  /* where a spare finds its start */
	struct output output[2];
	struct input input;
	struct awaiting awaiting;
	uint32_t failed_step, failed_errno;
	int wait_status;
	struct rusage usage;
	uint64_t began_us, lasted_us; /* on the monotonic clock, from the fork or GO */
	uint64_t shell;     /* the number of the shell it runs in, 0 for a process of its own */
	uint32_t end_flags;
	struct moment began, ended; /* for a shell's: which processes were made between, see moment.h */
	unsigned known_count; /* processes that left its session, see kill.c */
};

/* Reserves every buffer there will ever be. False with errno set. */
bool executions_prepare(int epoll);

/* Slots from the end on are free. */
unsigned executions_end(void);
struct execution *execution_at(unsigned index);
struct execution *execution_find(uint64_t number);

/* Runs it, or leaves it failed; NULL when the table is full. */
struct execution *execution_open(uint64_t number, struct start *start);
void execution_release(struct execution *e);

/* A command of the shell with this pid, which has the other ends of output[0], output[1] and the input; -1 for no input. */
struct execution *execution_open_in_shell(uint64_t number, uint64_t shell, pid_t pid, const int fds[3]);

/* Reads its output from these pipes from now on. False with errno set. */
bool execution_restream(struct execution *e, const int output[2]);

/* One that ran nothing; NULL when the table is full. */
struct execution *execution_open_failed(uint64_t number, uint32_t step, uint32_t error);
void execution_fail(struct execution *e, uint32_t step, uint32_t error);

/* It ended with this wait status; what is in its pipes belongs to it. */
void execution_end(struct execution *e, int status, uint32_t flags);

/* Makes a process in a nest for an execution that will come; where it cannot, nobody is told. */
void execution_prepare(uint64_t nest);

/* The process that waits in a nest, and lives as far as is known; NULL for none. */
struct execution *execution_spare(uint64_t nest);

/* Gives a spare its number and its start. False: the payload is no start. */
bool execution_employ(struct execution *e, uint64_t number, const uint8_t *payload, size_t length);

/* All of them, or the one of a nest. */
void execution_drop_spare(uint64_t nest);
void executions_drop_spares(void);

void execution_go(struct execution *e);
void execution_ready(unsigned index, enum role role, uint32_t events);
void execution_reaped(pid_t pid, int status, const struct rusage *usage);

/* Everything about it will be said again, output from the acknowledged byte. */
void execution_rewind(struct execution *e);

/* The type of the frame it owes next, 0 for none. Announcing: only what need not wait for output. */
enum frame_type execution_owes(const struct execution *e, bool announcing);

#endif
