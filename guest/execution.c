#include "execution.h"

#include "nest.h"
#include "spawn.h"
#include "stream.h"
#include "terminal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SLOT_BYTES = 2 * OUTPUT_RING + INPUT_RING };

/* A start that a spare shares with the guest, pointers included: it is mapped before the fork. */
struct plan {
	struct start start;
	uint8_t payload[PAYLOAD_MAX];
};

static struct execution table[EXECUTIONS_MAX];
static struct plan *plans;
static uint8_t *buffers;
static unsigned end; /* small while few are live, which keeps the loop short and the pages untouched */
static int epoll_fd;

/* One reservation for all rings. Pages come when they are touched and go when the slot is released; children do not
 * inherit them, and a huge page would make every small command cost two megabytes. */
bool executions_prepare(int epoll)
{
	size_t size = (size_t)SLOT_BYTES * EXECUTIONS_MAX;
	epoll_fd = epoll;
	buffers = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	plans = mmap(NULL, SPARES_MAX * sizeof *plans, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (buffers == MAP_FAILED || plans == MAP_FAILED)
		return false;
	madvise(buffers, size, MADV_NOHUGEPAGE); /* a kernel without huge pages refuses, rightly */
	return madvise(buffers, size, MADV_DONTFORK) == 0;
}

unsigned executions_end(void)
{
	return end;
}

struct execution *execution_at(unsigned index)
{
	return &table[index];
}

struct execution *execution_find(uint64_t number)
{
	for (unsigned i = 0; i < end; i++)
		if (table[i].phase != PHASE_FREE && table[i].number == number)
			return &table[i];
	return NULL;
}

static uint64_t now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void shut_all(struct execution *e)
{
	stream_shut(&e->status_fd);
	stream_shut(&e->gate_fd);
	stream_shut(&e->output[0].fd);
	stream_shut(&e->output[1].fd);
	stream_shut(&e->input.fd);
	stream_shut(&e->terminal_fd);
}

static void give_back(const struct ring *ring)
{
	if (ring->end > 0)
		madvise(ring->base, ring->end < ring->size ? (size_t)ring->end : ring->size, MADV_DONTNEED);
}

void execution_release(struct execution *e)
{
	shut_all(e);
	give_back(&e->output[0].ring);
	give_back(&e->output[1].ring);
	give_back(&e->input.ring);
	e->phase = PHASE_FREE;
	while (end > 0 && table[end - 1].phase == PHASE_FREE)
		end--;
}

void execution_fail(struct execution *e, uint32_t step, uint32_t error)
{
	shut_all(e);
	e->input.closed = true;
	e->phase = PHASE_FAILED;
	e->failed_step = step;
	e->failed_errno = error;
	e->pid = 0; /* whoever reaps it need not find the slot */
	e->started = false;
}

static bool watch(const struct execution *e, int fd, enum role role, uint32_t events)
{
	struct epoll_event event = {.events = events | EPOLLET, .data.u32 = (uint32_t)(e - table) * ROLES + role};
	return fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool watch_all(const struct execution *e)
{
	return watch(e, e->output[0].fd, ROLE_STDOUT, EPOLLIN) && watch(e, e->output[1].fd, ROLE_STDERR, EPOLLIN) &&
	       watch(e, e->input.fd, ROLE_INPUT, EPOLLOUT) && watch(e, e->status_fd, ROLE_STATUS, EPOLLIN);
}

static void reset(struct execution *e, uint64_t number)
{
	uint8_t *base = buffers + (size_t)(e - table) * SLOT_BYTES;
	*e = (struct execution){.number = number};
	e->said = 1U << STATE | 1U << INPUT_ACK;
	e->awaiting.moved = MOVED_INPUT;
	e->status_fd = e->gate_fd = e->input.fd = e->terminal_fd = -1;
	for (int i = 0; i < 2; i++) {
		e->output[i].fd = -1;
		e->output[i].ring = (struct ring){.base = base + i * OUTPUT_RING, .size = OUTPUT_RING};
	}
	e->input.ring = (struct ring){.base = base + 2 * OUTPUT_RING, .size = INPUT_RING};
}

static struct execution *take_slot(uint64_t number)
{
	struct execution *e = table;
	while (e < table + end && e->phase != PHASE_FREE)
		e++;
	if (e == table + EXECUTIONS_MAX)
		return NULL;
	end += e == table + end;
	reset(e, number);
	e->began_us = now_us();
	return e;
}

static bool occupy(struct execution *e, const struct spawned *spawned, enum phase phase)
{
	e->pid = spawned->pid;
	if (!e->terminal) {
		e->output[0].fd = spawned->output[0];
		e->output[1].fd = spawned->output[1];
		e->input.fd = spawned->input;
	}
	e->input.writable = true;
	e->input.closed = e->input.fd < 0;
	e->status_fd = spawned->status;
	e->gate_fd = spawned->gate;
	e->phase = phase;
	return watch_all(e);
}

struct execution *execution_open(uint64_t number, struct start *start)
{
	struct execution *e = take_slot(number);
	if (e == NULL)
		return NULL;
	struct spawned spawned;
	bool terminal = start->flags & START_TERMINAL;
	int step = terminal && !terminal_open(e, start) ? STEP_PIPES : spawn(start, start->flags, &spawned);
	if (step != 0) {
		execution_fail(e, (uint32_t)step, (uint32_t)errno);
	} else if (!occupy(e, &spawned, spawned.gate >= 0 ? PHASE_GATED : PHASE_STARTING)) {
		int error = errno; /* the user's limit of watches, or no memory */
		kill(e->pid, SIGKILL);
		execution_fail(e, STEP_PIPES, (uint32_t)error);
	}
	return e;
}

struct execution *execution_open_in_shell(uint64_t number, uint64_t shell, pid_t pid, const int fds[3])
{
	struct execution *e = take_slot(number);
	if (e == NULL)
		return NULL;
	struct spawned ends = {.pid = pid, .output = {fds[0], fds[1]}, .input = fds[2], .status = -1, .gate = -1};
	e->shell = shell;
	e->started = true;
	e->began = moment_now();
	if (!occupy(e, &ends, PHASE_RUNNING))
		execution_fail(e, STEP_PIPES, (uint32_t)errno);
	return e;
}

bool execution_restream(struct execution *e, const int output[2])
{
	for (int i = 0; i < 2; i++) {
		stream_shut(&e->output[i].fd);
		e->output[i].fd = output[i];
	}
	return watch(e, e->output[0].fd, ROLE_STDOUT, EPOLLIN) && watch(e, e->output[1].fd, ROLE_STDERR, EPOLLIN);
}

struct execution *execution_open_failed(uint64_t number, uint32_t step, uint32_t error)
{
	struct execution *e = take_slot(number);
	if (e != NULL)
		execution_fail(e, step, error);
	return e;
}

static struct plan *free_plan(void)
{
	bool used[SPARES_MAX] = {false};
	for (unsigned i = 0; i < end; i++)
		if (table[i].phase != PHASE_FREE && table[i].plan != NULL)
			used[table[i].plan - plans] = true;
	for (unsigned i = 0; i < SPARES_MAX; i++)
		if (!used[i])
			return &plans[i];
	return NULL;
}

static bool is_live_spare(const struct execution *e)
{
	return e->phase == PHASE_SPARE && e->status_fd >= 0 && e->pid > 0;
}

/* One whose pid is not known yet ends by itself when it finds its pipes closed. */
static void drop_spare(struct execution *e)
{
	if (is_live_spare(e))
		kill(e->pid, SIGKILL);
	execution_release(e);
}

static struct execution *any_spare(uint64_t nest)
{
	for (struct execution *e = table; e < table + end; e++)
		if (e->phase == PHASE_SPARE && e->nest == nest)
			return e;
	return NULL;
}

struct execution *execution_spare(uint64_t nest)
{
	struct execution *e = any_spare(nest);
	return e != NULL && is_live_spare(e) ? e : NULL;
}

void execution_drop_spare(uint64_t nest)
{
	struct execution *e = any_spare(nest);
	if (e != NULL)
		drop_spare(e);
}

void execution_prepare(uint64_t nest)
{
	struct plan *plan = free_plan();
	struct execution *e = plan == NULL || any_spare(nest) != NULL ? NULL : take_slot(0);
	if (e == NULL)
		return;
	e->nest = nest;
	struct spawned spawned;
	if (spawn_in_nest(nest, &plan->start, START_GATED | START_INPUT, &spawned) != 0) {
		execution_release(e);
		return;
	}
	e->plan = plan;
	if (!occupy(e, &spawned, PHASE_SPARE))
		drop_spare(e);
}

/* A spare has pipes; its start says that it is to have a terminal. */
static void change_to_terminal(struct execution *e, struct start *start)
{
	if (terminal_open(e, start) && watch(e, e->output[0].fd, ROLE_STDOUT, EPOLLIN) &&
	    watch(e, e->input.fd, ROLE_INPUT, EPOLLOUT))
		return;
	int error = errno;
	kill(e->pid, SIGKILL);
	e->plan = NULL;
	execution_fail(e, STEP_PIPES, (uint32_t)error);
}

bool execution_employ(struct execution *e, uint64_t number, const uint8_t *payload, size_t length)
{
	e->number = number;
	struct start *start = &e->plan->start;
	memcpy(e->plan->payload, payload, length);
	if (!start_decode(e->plan->payload, length, start))
		return false;
	if (start->flags & START_TERMINAL)
		change_to_terminal(e, start);
	else if (!(start->flags & START_INPUT))
		stream_shut(&e->input.fd);
	if (e->phase == PHASE_FAILED)
		return true;
	e->input.closed = e->input.fd < 0;
	e->phase = PHASE_GATED;
	if (!(start->flags & START_GATED) || (start->flags & START_PLACED))
		execution_go(e);
	return true;
}

void executions_drop_spares(void)
{
	for (struct execution *e = table; e < table + end; e++)
		if (e->phase == PHASE_SPARE)
			drop_spare(e);
}

void execution_go(struct execution *e)
{
	if (e->phase != PHASE_GATED || e->status_fd < 0)
		return;
	ssize_t ignored = write(e->gate_fd, "", 1); /* a child that is dead already will be reaped */
	(void)ignored;
	stream_shut(&e->gate_fd);
	e->began_us = now_us();
	e->phase = PHASE_STARTING;
}

/* It died by itself, or somebody killed it. */
static void lose_spare(struct execution *e)
{
	if (e->pid > 0)
		nest_changed(e->nest);
	execution_release(e);
}

/* The child closes the status pipe by its exec, or writes why there was none; one that hatched tells its pid first, and again
 * behind the gate. */
static void hear_status(struct execution *e)
{
	uint32_t report[2];
	if (e->status_fd < 0)
		return;
	ssize_t got;
	while ((got = read(e->status_fd, report, sizeof report)) == sizeof report && report[0] == 0) {
		if (e->pid != 0) {
			e->let_go = true;
			continue;
		}
		e->pid = (pid_t)report[1];
		nest_changed(e->nest);
	}
	if (got < 0)
		return;
	stream_shut(&e->status_fd);
	e->plan = NULL;
	if (e->phase == PHASE_SPARE) {
		lose_spare(e); /* it may have been reaped before its pid was known */
	} else if (got == sizeof report) {
		execution_fail(e, report[0], report[1]);
	} else if (e->nest != 0 && !e->let_go) {
		execution_fail(e, STEP_SPARE, ESRCH); /* whoever kills all processes kills those that wait for a command too */
	} else if (e->phase == PHASE_STARTING) { /* one that died behind the gate never started */
		e->started = true;
		e->phase = PHASE_RUNNING;
	}
}

void execution_ready(unsigned index, enum role role, uint32_t events)
{
	struct execution *e = &table[index];
	if (e->phase == PHASE_FREE)
		return;
	if (role == ROLE_STATUS)
		hear_status(e);
	else if (role != ROLE_INPUT)
		e->output[role].readable = true;
	else if (events & EPOLLERR)
		stream_check_input(e); /* nobody can read it any more, or whatever had this slot a moment ago */
	else
		e->input.writable = true;
}

void execution_end(struct execution *e, int status, uint32_t flags)
{
	e->phase = PHASE_EXITED;
	e->wait_status = status;
	e->end_flags = flags;
	e->lasted_us = now_us() - e->began_us;
	stream_shut(&e->terminal_fd);
	for (int i = 0; i < 2; i++) {
		struct output *o = &e->output[i];
		int left = 0;
		if (o->fd >= 0 && e->terminal)
			left = TERMINAL_PENDING_MAX;
		else if (o->fd >= 0 && ioctl(o->fd, FIONREAD, &left) != 0)
			left = 0;
		o->at_exit = o->ring.end + (uint64_t)left;
		o->readable = true;
	}
}

void execution_reaped(pid_t pid, int status, const struct rusage *usage)
{
	struct execution *e = table;
	while (e < table + end && (e->pid != pid || e->shell != 0 || e->phase == PHASE_FREE || e->phase == PHASE_EXITED))
		e++;
	if (e == table + end)
		return; /* an orphan */
	hear_status(e);
	if (e->phase == PHASE_SPARE)
		lose_spare(e);
	if (e->phase == PHASE_FAILED || e->phase == PHASE_FREE)
		return;
	e->usage = *usage;
	execution_end(e, status, 0);
}

void execution_rewind(struct execution *e)
{
	e->said = 0;
	e->output[0].sent = e->output[0].ring.start;
	e->output[1].sent = e->output[1].ring.start;
}

static bool sent_up_to_exit(const struct execution *e)
{
	return e->output[0].sent >= e->output[0].at_exit && e->output[1].sent >= e->output[1].at_exit;
}

static bool nothing_left(const struct output *o)
{
	return o->fd < 0 && ring_used(&o->ring) == 0;
}

enum frame_type execution_owes(const struct execution *e, bool announcing)
{
	uint32_t unsaid = ~e->said;
	if (e->phase == PHASE_FREE)
		return 0;
	if (e->phase == PHASE_SPARE)
		return 0; /* its nest tells of it */
	if (unsaid & 1U << STATE)
		return STATE;
	if (e->phase == PHASE_GATED && (unsaid & 1U << SPAWNED))
		return SPAWNED;
	if (e->started && (unsaid & 1U << STARTED))
		return STARTED;
	if (e->phase == PHASE_FAILED)
		return unsaid & 1U << FAILED ? FAILED : 0;
	if (unsaid & 1U << INPUT_ACK)
		return INPUT_ACK;
	if (announcing)
		return 0;
	if (e->phase == PHASE_EXITED && (unsaid & 1U << EXIT) && sent_up_to_exit(e))
		return EXIT;
	bool output = e->output[0].sent < e->output[0].ring.end || e->output[1].sent < e->output[1].ring.end;
	if (output && (e->started || e->phase == PHASE_EXITED))
		return OUTPUT;
	if (e->phase == PHASE_RUNNING && e->awaiting.kind != AWAITING_NONE && !e->awaiting.moved && (unsaid & 1U << AWAITING))
		return AWAITING;
	bool closed = !(unsaid & 1U << EXIT) && nothing_left(&e->output[0]) && nothing_left(&e->output[1]);
	return closed && (unsaid & 1U << CLOSED) ? CLOSED : 0;
}
