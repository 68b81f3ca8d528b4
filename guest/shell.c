#include "shell.h"

#include "say.h"
#include "shell-kill.h"
#include "shell-watch.h"
#include "spawn.h"
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { IDLE_DEATHS_MAX = 5, INTERRUPTED = 124 };

/* What a shell is opened from, each time. Whole pages, since those of a shell that is gone are given back. */
struct origin {
	_Alignas(4096) struct start start;
	uint8_t payload[PAYLOAD_MAX];
	uint8_t text[TEXT_MAX]; /* of a command that waits for it */
};

static struct shell table[SHELLS_MAX];
static struct origin *origins;
static unsigned end;
static int epoll_fd;

bool shells_prepare(int epoll, const char *directory)
{
	epoll_fd = epoll;
	if (!shell_files_prepare(directory)) {
		errno = EINVAL;
		return false;
	}
	origins = mmap(NULL, SHELLS_MAX * sizeof *origins, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return origins != MAP_FAILED;
}

unsigned shells_end(void)
{
	return end;
}

struct shell *shell_at(unsigned index)
{
	return &table[index];
}

struct shell *shell_find(uint64_t number)
{
	for (unsigned i = 0; i < end; i++)
		if (table[i].phase != SHELL_FREE && table[i].number == number)
			return &table[i];
	return NULL;
}

bool shell_leads(pid_t session)
{
	for (unsigned i = 0; i < end; i++)
		if (table[i].pid > 0 && table[i].pid == session)
			return true;
	return false;
}

static void shut_all(struct shell *s)
{
	stream_shut(&s->script_fd);
	stream_shut(&s->status_fd);
	stream_shut(&s->gate_fd);
	stream_shut(&s->mark_fd);
	stream_shut(&s->hold_fd);
	stream_shut(&s->hold_output[0]);
	stream_shut(&s->hold_output[1]);
}

void shell_release(struct shell *s)
{
	shut_all(s);
	shell_files_remove(&s->files);
	madvise(&origins[s - table], sizeof *origins, MADV_DONTNEED);
	*s = (struct shell){.phase = SHELL_FREE};
	while (end > 0 && table[end - 1].phase == SHELL_FREE)
		end--;
}

static bool watch(const struct shell *s, int fd, enum shell_role role)
{
	uint32_t data = SHELL_EVENT + (uint32_t)(s - table) * SHELL_ROLES + role;
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = data};
	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* It never opened: the first time that is a failure, later its end. */
static void give_up(struct shell *s, uint32_t step, uint32_t error)
{
	shut_all(s);
	s->pid = 0;
	s->said = 0;
	s->failed_step = step;
	s->failed_errno = error;
	s->phase = s->opened == 0 && !s->closing ? SHELL_FAILED : SHELL_CLOSED;
	if (s->next_number != 0)
		say_failed(s->next_number, STEP_NO_SHELL, ENOENT);
	s->next_number = 0;
}

/* Everything a process starts from; what outlives it is set where it is opened for the first time. */
static void spawn_shell(struct shell *s)
{
	struct spawned spawned;
	const struct start *start = s->start;
	s->silenced = s->interrupted = false;
	s->form = 0;
	s->last_status = 0;
	if (!shell_files_open(&s->files, s->number, start->uid, start->gid) ||
	    (s->mark_fd = shell_files_pipe(&s->files, "m", O_RDONLY)) < 0 || !watch(s, s->mark_fd, SHELL_ROLE_MARK)) {
		give_up(s, STEP_PIPES, (uint32_t)errno);
		return;
	}
	int step = spawn(start, start->flags | START_INPUT | SPAWN_MUTE, &spawned);
	if (step != 0) {
		give_up(s, (uint32_t)step, (uint32_t)errno);
		return;
	}
	s->pid = spawned.pid;
	s->script_fd = spawned.input;
	s->status_fd = spawned.status;
	s->gate_fd = spawned.gate;
	bool gated = s->gate_fd >= 0;
	s->phase = gated ? SHELL_GATED : SHELL_STARTING;
	s->said = gated ? s->said & ~(1U << SPAWNED) : s->said | 1U << SPAWNED; /* else nobody is asked for GO */
	if (!watch(s, s->status_fd, SHELL_ROLE_STATUS)) {
		int error = errno;
		kill(s->pid, SIGKILL);
		give_up(s, STEP_PIPES, (uint32_t)error);
	}
}

/* One that failed keeps its slot until somebody needs it. */
static struct shell *take_slot(void)
{
	struct shell *failed = NULL;
	for (struct shell *s = table; s < table + SHELLS_MAX; s++) {
		if (s->phase == SHELL_FREE)
			return s;
		failed = s->phase == SHELL_FAILED ? s : failed;
	}
	if (failed != NULL)
		shell_release(failed);
	return failed;
}

struct shell *shell_open(uint64_t number, const uint8_t *payload, size_t length, bool *broken)
{
	struct shell *s = take_slot();
	*broken = false;
	if (s == NULL)
		return NULL;
	struct origin *origin = &origins[s - table];
	end = (unsigned)(s - table) < end ? end : (unsigned)(s - table) + 1;
	*s = (struct shell){.number = number, .start = &origin->start, .said = 1U << SHELL,
	                    .script_fd = -1, .status_fd = -1, .gate_fd = -1, .mark_fd = -1, .hold_fd = -1,
	                    .hold_output = {-1, -1}};
	memcpy(origin->payload, payload, length);
	*broken = !shell_decode(origin->payload, length, &origin->start);
	if (*broken) {
		shell_release(s);
		return NULL;
	}
	origin->start.flags |= START_INPUT; /* its script */
	if (shell_arguments(&origin->start))
		spawn_shell(s);
	else
		give_up(s, STEP_EXEC, E2BIG);
	return s;
}

void shell_go(struct shell *s)
{
	if (s->phase != SHELL_GATED)
		return;
	ssize_t ignored = write(s->gate_fd, "", 1); /* one that is dead already will be reaped */
	(void)ignored;
	stream_shut(&s->gate_fd);
	s->phase = SHELL_STARTING;
}

void shell_close(struct shell *s)
{
	s->closing = true;
	if (s->pid > 0)
		shell_kill_all(s);
	else
		s->said &= ~(1U << SHELL);
	if (s->phase == SHELL_FAILED)
		s->phase = SHELL_CLOSED;
}

static struct shell_lines lines_of(const struct shell *s, bool input, bool carry)
{
	return (struct shell_lines){s->dialect, s->form, s->files.path, input, carry};
}

/* A pipe takes all of so few bytes or none; a shell that left it full reads no more. */
static bool tell(struct shell *s, const char *text, size_t length)
{
	return length > 0 && write(s->script_fd, text, length) == (ssize_t)length;
}


void shell_silence(struct shell *s)
{
	s->silenced = true;
	if (s->pid > 0) /* 0 would be the guest's own group */
		kill(s->pid, SIGKILL);
}

static void introduce(struct shell *s)
{
	char text[SHELL_LINES_MAX];
	const char *init = shell_init(s->start, s->pid);
	s->phase = SHELL_OPENING;
	s->dialect = shell_dialect(s->start, s->pid);
	struct shell_lines lines = lines_of(s, false, false);
	if (!shell_files_write(&s->files, "init", init, strlen(init)) ||
	    !tell(s, text, shell_opening_lines(&lines, text, sizeof text)))
		shell_silence(s);
	shell_watch_opening(s);
}

/* The child closes the status pipe by its exec, or writes why there was none. */
static void hear_status(struct shell *s)
{
	uint32_t report[2];
	if (s->status_fd < 0)
		return;
	ssize_t got = read(s->status_fd, report, sizeof report);
	if (got < 0)
		return;
	stream_shut(&s->status_fd);
	if (got == sizeof report)
		give_up(s, report[0], report[1]);
	else if (s->phase == SHELL_STARTING)
		introduce(s);
}

static void finish(struct shell *s, int wait_status, uint32_t flags)
{
	struct execution *e = s->running;
	s->running = NULL;
	stream_shut(&s->hold_fd);
	stream_shut(&s->hold_output[0]);
	stream_shut(&s->hold_output[1]);
	shell_files_tidy(&s->files, e->number);
	shell_watch_nothing(s);
	e->ended = moment_now();
	execution_end(e, wait_status, flags);
}

static bool hand_over_command(struct shell *s)
{
	char text[SHELL_LINES_MAX], status[32];
	struct shell_lines lines = lines_of(s, s->input, s->last_status != 0);
	size_t length = shell_run_file(&lines, text, sizeof text);
	int status_length = snprintf(status, sizeof status, "return %d\n", s->last_status);
	return (length == 0 || shell_files_write(&s->files, "run", text, length)) &&
	       (!lines.carry || shell_files_write(&s->files, "rc", status, (size_t)status_length)) &&
	       tell(s, text, shell_command_lines(&lines, text, sizeof text));
}

/* The pipes that were opened for nothing are at their end, or will be in a moment. The new ones must not be before the
 * shell has opened them. */
static bool renew_output(struct shell *s)
{
	int output[2] = {shell_files_pipe(&s->files, "out", O_RDONLY), shell_files_pipe(&s->files, "err", O_RDONLY)};
	stream_shut(&s->hold_output[0]);
	stream_shut(&s->hold_output[1]);
	if (output[0] >= 0 && output[1] >= 0) {
		s->hold_output[0] = shell_files_reopen(&s->files, "out", O_WRONLY);
		s->hold_output[1] = shell_files_reopen(&s->files, "err", O_WRONLY);
		return execution_restream(s->running, output) && s->hold_output[0] >= 0 && s->hold_output[1] >= 0;
	}
	stream_shut(&output[0]);
	stream_shut(&output[1]);
	return false;
}

/* Nobody read the text although the shell went on: its user has taken the names. There are others. */
static bool try_another_form(struct shell *s)
{
	if (!s->reads_show || s->interrupted || shell_files_was_read(&s->files, "command"))
		return false;
	shell_files_input_open(&s->files); /* it opens it once more */
	if (s->input && s->hold_fd < 0)
		s->hold_fd = shell_files_reopen(&s->files, "in", O_RDWR);
	if (++s->form >= SHELL_FORMS || !renew_output(s) || !hand_over_command(s)) {
		s->form = 0;
		shell_silence(s);
	}
	return true;
}

static void run_next(struct shell *s)
{
	uint64_t number = s->next_number;
	s->next_number = 0;
	if (number != 0 && shell_run(s, number, &s->next) == NULL)
		say_failed(number, STEP_TABLE, EAGAIN);
}

static void hear_mark(struct shell *s)
{
	if (s->phase == SHELL_OPENING) {
		s->phase = SHELL_OPEN;
		s->opened++;
		s->said &= ~(1U << SHELL);
		s->reads_show = shell_files_was_read(&s->files, "init");
		shell_watch_nothing(s);
		run_next(s);
	}
	int status = s->running == NULL ? -1 : shell_files_status(&s->files);
	if (status < 0) {
		if (s->running != NULL && shell_files_input_open(&s->files))
			stream_shut(&s->hold_fd);
		return;
	}
	if (try_another_form(s))
		return;
	s->idle_deaths = 0;
	if (s->interrupted) {
		const char *calm = shell_calming_line(s->dialect);
		status = INTERRUPTED;
		tell(s, calm, strlen(calm));
	}
	s->interrupted = false;
	s->last_status = status;
	finish(s, W_EXITCODE(status, 0), 0);
}

void shell_ready(uint32_t event)
{
	struct shell *s = &table[(event - SHELL_EVENT) / SHELL_ROLES];
	if (s->phase == SHELL_FREE || s->pid <= 0)
		return;
	if ((event - SHELL_EVENT) % SHELL_ROLES == SHELL_ROLE_STATUS)
		hear_status(s);
	else
		hear_mark(s);
}

static void reopen(struct shell *s)
{
	shut_all(s);
	s->idle_deaths++;
	if (s->closing || s->idle_deaths > IDLE_DEATHS_MAX)
		give_up(s, STEP_EXEC, ECHILD);
	else
		spawn_shell(s);
}

bool shell_reaped(pid_t pid, int status)
{
	struct shell *s = table;
	while (s < table + end && s->pid != pid)
		s++;
	if (pid <= 0 || s == table + end)
		return false;
	s->pid = 0; /* it may be given away again */
	hear_status(s);
	if (s->running != NULL && !s->silenced)
		hear_mark(s); /* it may have reported and ended then */
	if (s->running != NULL) {
		s->idle_deaths = 0;
		finish(s, status, END_SHELL | (s->silenced ? END_SILENT : 0));
	}
	shell_watch_nothing(s);
	if (s->phase == SHELL_OPEN)
		reopen(s);
	else if (s->phase != SHELL_FAILED && s->phase != SHELL_CLOSED) /* one that had ended before it was killed ended by itself */
		give_up(s, s->silenced && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? STEP_SILENT : STEP_ENDED, (uint32_t)status);
	return true;
}

/* output[0], output[1] and the input as the guest holds them. */
static bool open_streams(struct shell *s, bool input, int fds[3])
{
	fds[0] = shell_files_pipe(&s->files, "out", O_RDONLY);
	fds[1] = fds[0] < 0 ? -1 : shell_files_pipe(&s->files, "err", O_RDONLY);
	fds[2] = -1;
	if (fds[1] < 0 || !input)
		return fds[1] >= 0;
	s->hold_fd = shell_files_pipe(&s->files, "in", O_RDWR);
	fds[2] = s->hold_fd < 0 ? -1 : shell_files_reopen(&s->files, "in", O_WRONLY);
	return fds[2] >= 0;
}

static void shut_streams(struct shell *s, int fds[3])
{
	int kept = errno;
	for (int i = 0; i < 3; i++)
		stream_shut(&fds[i]);
	stream_shut(&s->hold_fd);
	shell_files_tidy(&s->files, 0);
	errno = kept;
}

struct execution *shell_run(struct shell *s, uint64_t number, const struct shell_start *start)
{
	int fds[3] = {-1, -1, -1};
	if (!open_streams(s, start->input, fds) || !shell_files_write_command(&s->files, start->text, start->length)) {
		shut_streams(s, fds);
		uint32_t error = (uint32_t)errno;
		if (error == ENOENT)
			shell_silence(s); /* its directory is gone; it gets another when it is opened again */
		return execution_open_failed(number, STEP_PIPES, error);
	}
	struct execution *e = execution_open_in_shell(number, s->number, s->pid, fds);
	if (e == NULL || e->phase == PHASE_FAILED) {
		shut_streams(s, e == NULL ? fds : (int[]){-1, -1, -1});
		return e;
	}
	s->running = e;
	s->input = start->input;
	if (hand_over_command(s))
		shell_watch_command(s);
	else
		shell_silence(s);
	return e;
}

void shell_keep(struct shell *s, uint64_t number, const struct shell_start *start)
{
	uint8_t *text = origins[s - table].text;
	memcpy(text, start->text, start->length);
	s->next = *start;
	s->next.text = text;
	s->next_number = number;
}

void shell_rewind(struct shell *s)
{
	s->said = 0;
}

void shell_announce(struct shell *s)
{
	shell_rewind(s);
	s->next_number = 0;
}

enum frame_type shell_owes(const struct shell *s)
{
	uint32_t unsaid = ~s->said;
	if (s->phase == SHELL_GATED || s->phase == SHELL_STARTING || s->phase == SHELL_OPENING)
		return unsaid & 1U << SPAWNED ? SPAWNED : 0;
	if (s->phase == SHELL_FAILED)
		return unsaid & 1U << FAILED ? FAILED : 0;
	bool told = s->phase == SHELL_OPEN || s->phase == SHELL_CLOSED;
	return told && (unsaid & 1U << SHELL) ? SHELL : 0;
}
