#include "call.h"

#include "address.h"
#include "frame.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OTHER = 125, TIMED_OUT = 124, NOT_STARTED = 127 };

/* Everything that comes from the other side is hostile: lengths are checked, and it can neither block nor outlast us. */
struct talk {
	const struct ask *ask;
	int connection;
	double deadline;
	uint8_t in[FRAME_HEADER + FRAME_DATA_MAX]; /* a frame that is coming */
	size_t in_length;
	uint8_t out[FRAME_RUN_MAX]; /* what is still to be sent */
	size_t out_from, out_to;
	bool input_over;
	uint64_t passed[2];
};

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Says how it ended and returns the code. */
__attribute__((format(printf, 3, 4))) static int tell(const struct ask *ask, int code, const char *format, ...)
{
	char line[256];
	va_list values;
	va_start(values, format);
	int length = vsnprintf(line, sizeof line - 1, format, values);
	va_end(values);
	size_t bytes = length < 0 ? 0 : length >= (int)sizeof line - 1 ? sizeof line - 2 : (size_t)length;
	line[bytes] = '\n';
	if (ask->status_fd >= 0)
		write_all(ask->status_fd, line, bytes + 1);
	else if (code == OTHER)
		fprintf(stderr, "isolated: %.*s\n", (int)bytes, line);
	return code;
}

/* The other side must be another user and not root: a program that ran as this user could read the tests. */
static const char *check_peer(int connection)
{
	struct ucred peer;
	socklen_t length = sizeof peer;
	if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
		return "cannot tell who listens";
	if (peer.uid == geteuid())
		return "the spawner runs as this very user, so nothing would be isolated";
	if (peer.uid == 0)
		return "the spawner runs as root";
	return NULL;
}

/* A spawner that takes no connections is full at some time; a connect that blocks would then outlast every limit. */
static int connect_to(const char *text, double deadline)
{
	struct sockaddr_un address;
	socklen_t length;
	if (!parse_address(text, &address, &length)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	while (connect(fd, (struct sockaddr *)&address, length) != 0) {
		if (errno != EAGAIN && errno != EINTR)
			return -1;
		if (now() >= deadline) {
			errno = ETIMEDOUT;
			return -1;
		}
		usleep(10000);
	}
	return fd;
}

static bool put_word(struct talk *talk, const char *word)
{
	size_t length = strlen(word);
	if (length > sizeof talk->out - talk->out_to || sizeof talk->out - talk->out_to - length < 4)
		return false;
	put_u32(talk->out + talk->out_to, (uint32_t)length);
	memcpy(talk->out + talk->out_to + 4, word, length);
	talk->out_to += 4 + length;
	return true;
}

static bool put_request(struct talk *talk)
{
	const struct ask *ask = talk->ask;
	uint32_t argc = 0;
	while (ask->argv[argc] != NULL)
		argc++;
	talk->out[4] = FRAME_RUN;
	put_u32(talk->out + FRAME_HEADER, argc);
	put_u32(talk->out + FRAME_HEADER + 4, ask->envc);
	talk->out_to = FRAME_HEADER + 8;
	if (!put_word(talk, ask->directory))
		return false;
	for (uint32_t i = 0; i < argc; i++)
		if (!put_word(talk, ask->argv[i]))
			return false;
	for (uint32_t i = 0; i < ask->envc; i++)
		if (!put_word(talk, ask->env[i]))
			return false;
	put_u32(talk->out, (uint32_t)(talk->out_to - FRAME_HEADER));
	return true;
}

/* Takes from stdin; the buffer is empty when this is called. */
static void take_input(struct talk *talk)
{
	ssize_t count = read(STDIN_FILENO, talk->out + FRAME_HEADER, FRAME_DATA_MAX);
	if (count < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	talk->input_over = count <= 0;
	put_u32(talk->out, count > 0 ? (uint32_t)count : 0);
	talk->out[4] = count > 0 ? FRAME_INPUT : FRAME_INPUT_END;
	talk->out_from = 0;
	talk->out_to = FRAME_HEADER + (count > 0 ? (size_t)count : 0);
}

static bool is_gone(ssize_t count)
{
	return count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
}

/* What a whole frame means: -1 to go on, else the code to end with. */
static int take_frame(struct talk *talk, uint8_t type, const uint8_t *payload, uint32_t length)
{
	const struct ask *ask = talk->ask;
	if (type == FRAME_STDOUT || type == FRAME_STDERR) {
		int stream = type - FRAME_STDOUT;
		uint64_t room = ask->output_max - talk->passed[stream];
		size_t passed = length < room ? length : (size_t)room;
		talk->passed[stream] += passed;
		if (!write_all(stream == 0 ? STDOUT_FILENO : STDERR_FILENO, payload, passed))
			return tell(ask, OTHER, "unavailable stdout or stderr was closed");
		return passed < length ? tell(ask, OTHER, "output-limit") : -1;
	}
	if (type == FRAME_FAILED && length == 4) {
		uint32_t error = get_u32(payload);
		return tell(ask, NOT_STARTED, "not-started %s", error < 4096 ? strerror((int)error) : "for no known reason");
	}
	if (type != FRAME_EXIT || length != 4)
		return tell(ask, OTHER, "lost");
	int status = (int)get_u32(payload);
	if (WIFEXITED(status))
		return tell(ask, WEXITSTATUS(status), "exited %d", WEXITSTATUS(status));
	if (WIFSIGNALED(status))
		return tell(ask, 128 + WTERMSIG(status), "signaled %d", WTERMSIG(status));
	return tell(ask, OTHER, "lost");
}

/* Reads what has come and takes at most one frame, so that the deadline is looked at in between. */
static int take_output(struct talk *talk)
{
	size_t want = FRAME_HEADER;
	if (talk->in_length >= FRAME_HEADER)
		want += get_u32(talk->in);
	if (want > sizeof talk->in)
		return tell(talk->ask, OTHER, "lost");
	if (talk->in_length < want) {
		ssize_t count = read(talk->connection, talk->in + talk->in_length, want - talk->in_length);
		if (is_gone(count))
			return tell(talk->ask, OTHER, "lost");
		talk->in_length += count > 0 ? (size_t)count : 0;
	}
	if (talk->in_length < FRAME_HEADER || talk->in_length < FRAME_HEADER + (size_t)get_u32(talk->in))
		return -1;
	talk->in_length = 0;
	return take_frame(talk, talk->in[4], talk->in + FRAME_HEADER, get_u32(talk->in));
}

static int converse(struct talk *talk)
{
	for (;;) {
		double left = talk->deadline - now();
		if (left <= 0)
			return tell(talk->ask, TIMED_OUT, "timed-out");
		bool pending = talk->out_from < talk->out_to;
		struct pollfd set[2] = {
			{.fd = talk->connection, .events = (short)(pending ? POLLIN | POLLOUT : POLLIN)},
			{.fd = pending || talk->input_over ? -1 : STDIN_FILENO, .events = POLLIN},
		};
		int ready = poll(set, 2, left > 3600 ? 3600000 : (int)ceil(left * 1000));
		if (ready < 0 && errno != EINTR)
			return tell(talk->ask, OTHER, "lost");
		if (ready <= 0)
			continue;
		if (set[0].revents & (POLLIN | POLLHUP | POLLERR)) {
			int code = take_output(talk);
			if (code >= 0)
				return code;
		}
		if (set[0].revents & POLLOUT) {
			ssize_t count = write(talk->connection, talk->out + talk->out_from, talk->out_to - talk->out_from);
			/* A program that has ended may leave input behind; what it said comes first, so go on reading. */
			if (count > 0)
				talk->out_from += (size_t)count;
			else if (is_gone(count))
				talk->out_from = talk->out_to, talk->input_over = true;
		}
		if (set[1].revents != 0)
			take_input(talk);
	}
}

int call(const struct ask *ask)
{
	static struct talk talk;
	signal(SIGPIPE, SIG_IGN);
	talk.ask = ask;
	talk.deadline = now() + ask->seconds;
	talk.connection = connect_to(ask->address, talk.deadline);
	if (talk.connection < 0 && errno == ETIMEDOUT)
		return tell(ask, TIMED_OUT, "timed-out");
	if (talk.connection < 0)
		return tell(ask, OTHER, "unavailable %s: %s", ask->address, strerror(errno));
	const char *problem = check_peer(talk.connection);
	if (problem != NULL)
		return tell(ask, OTHER, "unavailable %s", problem);
	if (!put_request(&talk))
		return tell(ask, OTHER, "unavailable the arguments are too long together");
	return converse(&talk);
}
