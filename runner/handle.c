#include "handle.h"

#include "frame.h"
#include "reap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* More than a pipe holds by default: what a program left in it when it ended. */
enum { LEFT_MAX = 1 << 20 };

struct job {
	int connection;
	pid_t child;
	int input, output[2];
	uint8_t held[FRAME_DATA_MAX]; /* input that the program has not taken yet */
	size_t held_from, held_to;
	bool input_ended;
};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static _Noreturn void leave(int code)
{
	kill_descendants();
	_exit(code);
}

static _Noreturn void run_program(struct run *run, const int ends[3], int failed)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGCHLD, SIG_DFL);
	setsid();
	int report = fcntl(failed, F_DUPFD_CLOEXEC, 16), high[3];
	for (int i = 0; i < 3; i++)
		high[i] = fcntl(ends[i], F_DUPFD_CLOEXEC, 16);
	if (report < 0 || dup2(high[0], 0) < 0 || dup2(high[1], 1) < 0 || dup2(high[2], 2) < 0)
		_exit(127);
	if (chdir(run->directory) == 0) {
		for (uint32_t i = 0; i < run->envc; i++)
			if (strchr(run->envp[i], '=') != NULL)
				putenv(run->envp[i]);
		/* Nothing but 0 to 2 goes on; the report closes itself when the program starts. */
		for (int fd = 3; fd < 16; fd++)
			close(fd);
		execvp(run->argv[0], run->argv);
	}
	uint32_t error = (uint32_t)errno;
	write_all(report, &error, sizeof error);
	_exit(127);
}

/* Starts the program. Returns 0, or why it did not start. */
static int start(struct job *job, struct run *run)
{
	int in[2], out[2], err[2], failed[2];
	if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0 ||
	    pipe2(failed, O_CLOEXEC) != 0)
		return errno;
	job->child = fork();
	if (job->child == 0)
		run_program(run, (int[]){in[0], out[1], err[1]}, failed[1]);
	int error = job->child < 0 ? errno : 0;
	close(in[0]);
	close(out[1]);
	close(err[1]);
	close(failed[1]);
	uint32_t told;
	if (error == 0 && read_all(failed[0], &told, sizeof told))
		error = told == 0 ? EIO : (int)told;
	close(failed[0]);
	job->input = in[1];
	job->output[0] = out[0];
	job->output[1] = err[0];
	for (int *fd = (int[]){in[1], out[0], err[0], -1}; *fd >= 0; fd++)
		fcntl(*fd, F_SETFL, O_NONBLOCK);
	return error;
}

/* A frame of input, or the end of the connection. The buffer is empty when this is called. */
static bool take_input(struct job *job)
{
	uint8_t header[FRAME_HEADER];
	if (!read_all(job->connection, header, sizeof header))
		return false;
	uint32_t length = get_u32(header);
	if (header[4] == FRAME_INPUT_END && length == 0) {
		job->input_ended = true;
		return true;
	}
	if (header[4] != FRAME_INPUT || length > sizeof job->held || !read_all(job->connection, job->held, length))
		return false;
	job->held_from = 0;
	job->held_to = length;
	return true;
}

static void feed(struct job *job)
{
	ssize_t count = write(job->input, job->held + job->held_from, job->held_to - job->held_from);
	if (count > 0)
		job->held_from += (size_t)count;
	else if (count < 0 && errno != EAGAIN && errno != EINTR)
		close_fd(&job->input); /* the program reads no more; what still comes is dropped */
}

/* Passes on what can be read now, one frame. False at the end of the stream or when nothing is there. */
static bool pass_on(struct job *job, int stream)
{
	uint8_t bytes[FRAME_DATA_MAX];
	ssize_t count = read(job->output[stream], bytes, sizeof bytes);
	if (count == 0)
		close_fd(&job->output[stream]);
	if (count <= 0)
		return false;
	if (!send_frame(job->connection, stream == 0 ? FRAME_STDOUT : FRAME_STDERR, bytes, (size_t)count))
		leave(1);
	return true;
}

static void finish(struct job *job, int status)
{
	/* What lies in the pipes now and no more: a child that writes on cannot hold back the result. */
	for (int stream = 0; stream < 2; stream++)
		for (size_t most = LEFT_MAX / FRAME_DATA_MAX; most > 0 && job->output[stream] >= 0; most--)
			if (!pass_on(job, stream))
				break;
	kill_descendants();
	uint8_t payload[4];
	put_u32(payload, (uint32_t)status);
	send_frame(job->connection, FRAME_EXIT, payload, sizeof payload);
	_exit(0);
}

/* Without a handler the signal would be dropped and the wait go on. */
static void note_child(int number)
{
	(void)number;
}

static _Noreturn void relay(struct job *job)
{
	sigset_t waiting;
	sigfillset(&waiting);
	sigdelset(&waiting, SIGCHLD);
	for (;;) {
		bool pending = job->held_from < job->held_to;
		if (job->input < 0)
			job->held_from = job->held_to;
		else if (!pending && job->input_ended)
			close_fd(&job->input);
		bool wants = !job->input_ended && (job->input < 0 || !pending);
		struct pollfd set[4] = {
			{.fd = job->connection, .events = (short)(wants ? POLLIN | POLLRDHUP : POLLRDHUP)},
			{.fd = pending ? job->input : -1, .events = POLLOUT},
			{.fd = job->output[0], .events = POLLIN},
			{.fd = job->output[1], .events = POLLIN},
		};
		int ready = ppoll(set, 4, NULL, &waiting);
		if (ready < 0 && errno != EINTR)
			leave(1);
		int status;
		if (reap(job->child, &status))
			finish(job, status);
		if (ready < 0)
			continue;
		if (set[0].revents & (POLLHUP | POLLRDHUP | POLLERR))
			leave(1); /* whoever asked is gone */
		if ((set[0].revents & POLLIN) && !take_input(job))
			leave(1);
		if (set[1].revents != 0)
			feed(job);
		for (int stream = 0; stream < 2; stream++)
			if (set[2 + stream].revents != 0)
				pass_on(job, stream);
	}
}

_Noreturn void handle(int connection)
{
	static struct job job;
	static struct run run;
	static uint8_t payload[FRAME_RUN_MAX + 1];
	job = (struct job){.connection = connection, .child = -1, .input = -1, .output = {-1, -1}};
	sigset_t ends;
	sigemptyset(&ends);
	sigaddset(&ends, SIGCHLD);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	signal(SIGCHLD, note_child);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	uint8_t header[FRAME_HEADER];
	if (!read_all(connection, header, sizeof header))
		_exit(1);
	uint32_t length = get_u32(header);
	if (header[4] != FRAME_RUN || length > FRAME_RUN_MAX || !read_all(connection, payload, length) ||
	    !parse_run(payload, length, &run))
		_exit(1);
	int error = start(&job, &run);
	if (error != 0) {
		uint8_t told[4];
		put_u32(told, (uint32_t)error);
		send_frame(connection, FRAME_FAILED, told, sizeof told);
		leave(1);
	}
	relay(&job);
}
