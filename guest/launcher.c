/* launcher: starts programs for the worker.
 *
 * A fork of the worker copies the page tables of some hundred megabytes and stops the worker's event loop until the child has
 * executed its program: tens of milliseconds on a busy host. This process is small, so its forks are cheap and stop nobody.
 *
 * It runs on the host as the worker's child and ends when its stdin does; programs that still run then lose their stdin.
 * Frames in both directions, little endian: u32 kind, u32 number of the program, u32 length, payload.
 *   to it    START     u32 count of arguments, then arguments and environment, each ended by a NUL
 *            INPUT     bytes for stdin, at most INPUT_MAX before END
 *            END       ends stdin
 *            KILL      ends the program and what it started: each program is a process group of its own
 *   from it  OUTPUT, ERRORS   bytes of stdout, stderr
 *            EXIT      i32 wait status, after all that the program had written when it ended */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START = 1, INPUT, END, KILL };
enum { OUTPUT = 1, ERRORS, EXIT };
enum { PROGRAMS_MAX = 512, PAYLOAD_MAX = 1 << 20, INPUT_MAX = 1 << 20, STRINGS_MAX = 1024, PIECE = 16 << 10, PIPE_PIECES = 16 };
/* A program that could not be started ends like one that a shell could not find. */
enum { NOT_STARTED = 127 << 8 };

struct header {
	uint32_t kind, number, length;
};

struct program {
	pid_t pid; /* 0: the slot is free */
	uint32_t number;
	int input, output, errors; /* -1: closed */
};

static struct program programs[PROGRAMS_MAX];
/* It ends when the worker does: a worker that is told to stop has programs to run before. */
static const int ignored[] = {SIGPIPE, SIGTERM, SIGINT, SIGHUP};
static char payload[PAYLOAD_MAX + 1];

static void shut(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void say(uint32_t kind, uint32_t number, const void *data, uint32_t length)
{
	struct header header = {kind, number, length};
	char frame[sizeof header + PIECE];
	memcpy(frame, &header, sizeof header);
	memcpy(frame + sizeof header, data, length);
	for (size_t sent = 0, all = sizeof header + length; sent < all;) {
		ssize_t got = write(STDOUT_FILENO, frame + sent, all - sent);
		if (got < 0 && errno != EINTR)
			exit(0); /* the worker is gone */
		sent += got > 0 ? (size_t)got : 0;
	}
}

static void say_exit(uint32_t number, int32_t status)
{
	say(EXIT, number, &status, sizeof status);
}

static struct program *find(uint32_t number)
{
	for (struct program *p = programs; p < programs + PROGRAMS_MAX; p++)
		if (p->pid != 0 && p->number == number)
			return p;
	return NULL;
}

/* False at its end. A background child may hold the pipe for longer than the program lives, so nobody waits for that end. */
static bool pass_on(struct program *p, int *fd, uint32_t kind)
{
	char piece[PIECE];
	ssize_t got = read(*fd, piece, sizeof piece);
	if (got > 0)
		say(kind, p->number, piece, (uint32_t)got);
	else if (got == 0 || (errno != EAGAIN && errno != EINTR))
		shut(fd);
	return got > 0;
}

static void reap(void)
{
	int status;
	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
		for (struct program *p = programs; p < programs + PROGRAMS_MAX; p++) {
			if (p->pid != pid)
				continue;
			/* What the pipes hold at this moment, and no more: a child that it left may write for ever. */
			for (int i = 0; i < PIPE_PIECES && p->output >= 0 && pass_on(p, &p->output, OUTPUT); i++)
				;
			for (int i = 0; i < PIPE_PIECES && p->errors >= 0 && pass_on(p, &p->errors, ERRORS); i++)
				;
			shut(&p->input);
			shut(&p->output);
			shut(&p->errors);
			p->pid = 0;
			say_exit(p->number, status);
		}
}

/* Of the whole group: what a shell started must not go on without it. */
static void end_group(const struct program *p)
{
	kill(-p->pid, SIGKILL);
}

static _Noreturn void execute(const int *ends, char **arguments, char **environment)
{
	sigset_t none;
	if (setpgid(0, 0) != 0)
		_exit(126);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
		signal(ignored[i], SIG_DFL);
	for (int fd = 0; fd < 3; fd++)
		if (dup2(ends[fd], fd) < 0)
			_exit(126);
	environ = environment;
	execvp(arguments[0], arguments);
	warn("%s", arguments[0]);
	_exit(127);
}

/* Splits the strings of a START; false where there are too many, or the last has no end. */
static bool split(char *text, size_t length, uint32_t count, char **arguments, char **environment)
{
	size_t found = 0, variables = 0;
	if (length > 0 && text[length - 1] != '\0')
		return false;
	for (char *end = text + length; text < end; text += strlen(text) + 1) {
		char **into = found < count ? &arguments[found++] : &environment[variables++];
		if (found >= STRINGS_MAX || variables >= STRINGS_MAX)
			return false;
		*into = text;
	}
	arguments[found] = environment[variables] = NULL;
	return count > 0 && found == count;
}

static bool open_pipes(int near[3], int far[3])
{
	for (int fd = 0; fd < 3; fd++) {
		int ends[2];
		if (pipe2(ends, O_CLOEXEC) != 0)
			return false;
		near[fd] = ends[fd == 0];
		far[fd] = ends[fd != 0];
		if (fcntl(near[fd], F_SETFL, O_NONBLOCK) != 0)
			return false;
	}
	return true;
}

static void start(uint32_t number, char *text, size_t length)
{
	static char *arguments[STRINGS_MAX], *environment[STRINGS_MAX];
	struct program *free_slot = NULL;
	for (struct program *p = programs; p < programs + PROGRAMS_MAX && free_slot == NULL; p++)
		if (p->pid == 0)
			free_slot = p;
	uint32_t count = 0;
	if (length >= sizeof count)
		memcpy(&count, text, sizeof count);
	int near[3] = {-1, -1, -1}, far[3] = {-1, -1, -1};
	pid_t pid = -1;
	if (free_slot != NULL && length >= sizeof count &&
	    split(text + sizeof count, length - sizeof count, count, arguments, environment) && open_pipes(near, far))
		pid = fork();
	if (pid == 0)
		execute(far, arguments, environment);
	/* Here and in the child, whichever is first: a KILL may come before the child has run, and the program may fork at once. */
	if (pid > 0 && setpgid(pid, pid) != 0 && errno != EACCES && errno != ESRCH)
		warn("process group of program %u", number);
	for (int fd = 0; fd < 3; fd++) {
		shut(&far[fd]);
		if (pid < 0)
			shut(&near[fd]);
	}
	if (pid < 0)
		say_exit(number, NOT_STARTED);
	else
		*free_slot = (struct program){.pid = pid, .number = number, .input = near[0], .output = near[1], .errors = near[2]};
}

/* The pipe holds it all, or the program would be given half of its input. */
static void feed(struct program *p, const char *data, size_t length)
{
	if (p->input < 0 || length == 0)
		return;
	if (length > (size_t)fcntl(p->input, F_GETPIPE_SZ) && fcntl(p->input, F_SETPIPE_SZ, INPUT_MAX) < 0)
		warn("input of program %u", p->number);
	if (write(p->input, data, length) != (ssize_t)length && errno != EPIPE)
		end_group(p);
}

static void handle_frame(const struct header *header)
{
	struct program *p = find(header->number);
	if (header->kind == START && p == NULL)
		start(header->number, payload, header->length);
	else if (p != NULL && header->kind == INPUT)
		feed(p, payload, header->length);
	else if (p != NULL && header->kind == END)
		shut(&p->input);
	else if (p != NULL && header->kind == KILL)
		end_group(p);
}

static void read_all(void *into, size_t length)
{
	for (size_t done = 0; done < length;) {
		ssize_t got = read(STDIN_FILENO, (char *)into + done, length - done);
		if (got == 0 || (got < 0 && errno != EINTR))
			exit(0); /* the worker is gone */
		done += got > 0 ? (size_t)got : 0;
	}
}

static void read_frame(void)
{
	struct header header;
	read_all(&header, sizeof header);
	if (header.length > PAYLOAD_MAX)
		errx(2, "a frame of %u bytes", header.length);
	read_all(payload, header.length);
	handle_frame(&header);
}

static int watch_children(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	int fd = sigprocmask(SIG_BLOCK, &set, NULL) == 0 ? signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC) : -1;
	if (fd < 0)
		err(1, "signalfd");
	return fd;
}

int main(void)
{
	for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
		signal(ignored[i], SIG_IGN);
	int children = watch_children();
	for (;;) {
		struct pollfd fds[2 + 2 * PROGRAMS_MAX] = {{STDIN_FILENO, POLLIN, 0}, {children, POLLIN, 0}};
		struct program *of[PROGRAMS_MAX];
		nfds_t count = 2;
		for (struct program *p = programs; p < programs + PROGRAMS_MAX; p++)
			if (p->pid != 0) {
				of[(count - 2) / 2] = p;
				fds[count++] = (struct pollfd){p->output, POLLIN, 0};
				fds[count++] = (struct pollfd){p->errors, POLLIN, 0};
			}
		if (poll(fds, count, -1) < 0 && errno != EINTR)
			err(1, "poll");
		for (nfds_t i = 2; i < count; i += 2) {
			struct program *p = of[(i - 2) / 2];
			if (fds[i].revents != 0 && p->output >= 0)
				pass_on(p, &p->output, OUTPUT);
			if (fds[i + 1].revents != 0 && p->errors >= 0)
				pass_on(p, &p->errors, ERRORS);
		}
		struct signalfd_siginfo info;
		if (fds[1].revents != 0 && read(children, &info, sizeof info) > 0)
			reap();
		if (fds[0].revents != 0)
			read_frame();
	}
}
