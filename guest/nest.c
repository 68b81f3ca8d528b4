#include "nest.h"

#include "link.h"
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

struct nest {
	uint64_t number; /* 0: the slot is free */
	pid_t pid;       /* 0: it is gone */
	int socket;
	bool told;
};

static struct nest nests[NESTS_MAX]; /* the socket of a free slot is not looked at */

static struct nest *find(uint64_t number)
{
	for (struct nest *n = nests; n < nests + NESTS_MAX; n++)
		if (n->number == number)
			return n;
	return NULL;
}

static void shut(struct nest *n)
{
	if (n->socket >= 0)
		close(n->socket);
	n->socket = -1;
}

/* The descriptors of an egg travel beside it. */
union fds {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(5 * sizeof(int))];
};

bool nest_lay(uint64_t number, const struct egg *egg)
{
	struct nest *n = find(number);
	if (number == 0 || n == NULL || n->socket < 0)
		return false;
	union fds fds;
	memset(&fds, 0, sizeof fds);
	struct iovec body = {(void *)(uintptr_t)&egg->start, sizeof egg->start};
	struct msghdr message = {.msg_iov = &body, .msg_iovlen = 1, .msg_control = &fds, .msg_controllen = sizeof fds.bytes};
	fds.header.cmsg_level = SOL_SOCKET;
	fds.header.cmsg_type = SCM_RIGHTS;
	fds.header.cmsg_len = CMSG_LEN(5 * sizeof(int));
	memcpy(CMSG_DATA(&fds.header), egg->ends, 5 * sizeof(int));
	return sendmsg(n->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof egg->start;
}

static bool take(int socket, struct egg *egg)
{
	union fds fds;
	struct iovec body = {(void *)(uintptr_t)&egg->start, sizeof egg->start};
	struct msghdr message = {.msg_iov = &body, .msg_iovlen = 1, .msg_control = &fds, .msg_controllen = sizeof fds.bytes};
	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof egg->start || message.msg_controllen == 0 ||
	    fds.header.cmsg_len != CMSG_LEN(5 * sizeof(int)))
		return false;
	memcpy(egg->ends, CMSG_DATA(&fds.header), 5 * sizeof(int));
	return true;
}

/* Its children are the guest's, which waits for them as for all others. It was forked deaf to all signals but KILL and STOP, and
 * undumpable as it stays, nobody in the sandbox reaches its descriptors. */
static _Noreturn void sit(int socket)
{
	link_forget_secret();
	setsid();
	spawn_keep_only(&socket);
	struct egg egg;
	while (take(socket, &egg)) {
		if (syscall(SYS_clone, (unsigned long)(CLONE_PARENT | SIGCHLD), 0UL, 0UL, 0UL, 0UL) == 0)
			spawn_hatch(egg.start, egg.ends);
		for (int i = 0; i < 5; i++)
			close(egg.ends[i]);
	}
	_exit(0);
}

void nest_open(uint64_t number)
{
	struct nest *n = find(number);
	if (n != NULL) {
		n->told = false;
		return;
	}
	int pair[2];
	n = find(0); /* a free slot */
	if (n == NULL || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return;
	sigset_t all, own;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &own); /* before it exists, so that no signal comes too early for it */
	pid_t pid = fork();
	if (pid == 0)
		sit(pair[1]);
	sigprocmask(SIG_SETMASK, &own, NULL);
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return;
	}
	*n = (struct nest){.number = number, .pid = pid, .socket = pair[0]};
}

void nest_close(uint64_t number)
{
	struct nest *n = find(number);
	if (number == 0 || n == NULL)
		return;
	if (n->pid > 0)
		kill(n->pid, SIGKILL);
	shut(n);
	*n = (struct nest){0};
}

void nests_close(void)
{
	for (struct nest *n = nests; n < nests + NESTS_MAX; n++)
		nest_close(n->number);
}

bool nest_reaped(pid_t pid)
{
	for (struct nest *n = nests; n < nests + NESTS_MAX; n++)
		if (n->number != 0 && n->pid == pid) {
			shut(n);
			n->pid = 0;
			n->told = false;
			return true;
		}
	return false;
}

void nest_changed(uint64_t number)
{
	struct nest *n = find(number);
	if (n != NULL)
		n->told = false;
}

uint64_t nest_owes(pid_t *pid)
{
	for (struct nest *n = nests; n < nests + NESTS_MAX; n++)
		if (n->number != 0 && !n->told) {
			n->told = true;
			*pid = n->pid;
			return n->number;
		}
	return 0;
}
