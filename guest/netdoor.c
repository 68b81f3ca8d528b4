/* netdoor: opens listening sockets in the network namespaces of sandboxes and hands them to the worker.
 *
 * It runs on the host as the worker's child, which Node cannot do itself: enter a namespace. A request is a line on stdin,
 * `<id> <pid> <port>`; pid 0 tries it in an empty namespace. The answer is a message on Node's IPC channel: the socket, or
 * an errno. It ends when the worker does. */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BACKLOG = 128, LINE = 256 };

static int own;     /* the namespace we came from */
static int channel; /* Node's IPC */

/* A process that is gone by now may have given its number to one of the host's: its namespace is never entered. */
static bool is_own(int namespace)
{
	struct stat theirs, ours;
	return fstat(namespace, &theirs) != 0 || fstat(own, &ours) != 0 ||
	       (theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino);
}

static bool enter(int pid)
{
	if (pid == 0)
		return unshare(CLONE_NEWNET) == 0;
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/ns/net", pid);
	int namespace = open(path, O_RDONLY | O_CLOEXEC);
	if (namespace < 0)
		return false;
	bool entered = false;
	if (is_own(namespace))
		errno = EINVAL;
	else
		entered = setns(namespace, CLONE_NEWNET) == 0;
	int error = errno;
	close(namespace);
	errno = error;
	return entered;
}

static int open_listener(int pid, int port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	/* An empty namespace has no loopback address. */
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	address.sin_addr.s_addr = htonl(pid == 0 ? INADDR_ANY : INADDR_LOOPBACK);
	int yes = 1;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
	    bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	int error = errno;
	close(fd);
	errno = error;
	return -1;
}

static void answer(const char *text, int fd)
{
	struct iovec part = {.iov_base = (char *)text, .iov_len = strlen(text)};
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {.space = {0}};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	if (fd >= 0) {
		message.msg_control = control.space;
		message.msg_controllen = sizeof control.space;
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &fd, sizeof fd);
	}
	ssize_t sent;
	do
		sent = sendmsg(channel, &message, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	/* A message is far below the socket's buffer: less than all of it means that nobody reads any more. */
	if (sent != (ssize_t)part.iov_len)
		exit(0);
}

static void obey(const char *line)
{
	unsigned id;
	int pid, port;
	if (sscanf(line, "%u %d %d", &id, &pid, &port) != 3 || pid < 0 || port < 0 || port > 65535)
		errx(2, "expected <id> <pid> <port>");
	bool entered = enter(pid);
	int fd = entered ? open_listener(pid, port) : -1;
	int error = errno;
	if (entered && setns(own, CLONE_NEWNET) != 0)
		err(1, "the way back");
	char text[LINE];
	if (fd < 0)
		snprintf(text, sizeof text, "{\"id\":%u,\"error\":%d}\n", id, error);
	else
		snprintf(text, sizeof text, "{\"cmd\":\"NODE_HANDLE\",\"type\":\"net.Server\",\"msg\":{\"id\":%u}}\n", id);
	answer(text, fd);
	if (fd >= 0)
		close(fd);
}

/* Whole lines of stdin; false at its end. */
static bool hear(void)
{
	static char buffer[LINE];
	static size_t length;
	ssize_t got = read(STDIN_FILENO, buffer + length, sizeof buffer - 1 - length);
	if (got < 0 && errno == EINTR)
		return true;
	if (got <= 0)
		return false;
	length += (size_t)got;
	for (char *end; (end = memchr(buffer, '\n', length)) != NULL;) {
		*end = '\0';
		obey(buffer);
		size_t used = (size_t)(end - buffer) + 1;
		memmove(buffer, end + 1, length - used);
		length -= used;
	}
	return length < sizeof buffer - 1;
}

/* Node acknowledges what it was handed; there is nothing to learn from that. */
static bool drain(void)
{
	char ignored[1024];
	ssize_t got = recv(channel, ignored, sizeof ignored, MSG_DONTWAIT);
	return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

int main(void)
{
	const char *fd = getenv("NODE_CHANNEL_FD");
	if (fd == NULL)
		errx(2, "NODE_CHANNEL_FD is not set: this runs as the worker's child");
	channel = atoi(fd);
	if (fcntl(channel, F_SETFL, 0) != 0 || (own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) < 0)
		err(1, "start");
	for (;;) {
		struct pollfd waits[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = channel, .events = POLLIN}};
		if (poll(waits, 2, -1) < 0 && errno != EINTR)
			err(1, "poll");
		if (waits[0].revents != 0 && !hear())
			return 0;
		if (waits[1].revents != 0 && !drain())
			return 0;
	}
}
