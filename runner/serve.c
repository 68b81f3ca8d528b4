#include "serve.h"

#include "address.h"
#include "handle.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BACKLOG = 64 };

static int open_socket(const char *text)
{
	struct sockaddr_un address;
	socklen_t length;
	if (!parse_address(text, &address, &length)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	mode_t before = umask(0); /* another user connects */
	bool listening = fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, BACKLOG) == 0;
	umask(before);
	return listening ? fd : -1;
}

int serve(const char *address)
{
	if (geteuid() == 0) {
		fprintf(stderr, "isolated: serve is the agent's side and does not run as root\n");
		return 125;
	}
	int listener = open_socket(address);
	if (listener < 0) {
		fprintf(stderr, "isolated: cannot listen on %s: %s\n", address, strerror(errno));
		return 125;
	}
	signal(SIGCHLD, SIG_IGN); /* handlers need no waiting for */
	signal(SIGPIPE, SIG_IGN);
	/* Whoever started this waits for the line. */
	if (write(STDOUT_FILENO, "ready\n", 6) != 6)
		return 125;
	for (;;) {
		int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (connection < 0) {
			if (errno == EINTR || errno == ECONNABORTED)
				continue;
			usleep(10000); /* out of descriptors or memory: others will end */
			continue;
		}
		pid_t pid = fork();
		if (pid == 0) {
			close(listener);
			handle(connection);
		}
		close(connection);
	}
}
