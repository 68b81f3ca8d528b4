/* The guest: PID 1 of a sandbox. See PROTOCOL.md. */
#include "awaiting.h"
#include "confine.h"
#include "execution.h"
#include "link.h"
#include "nest.h"
#include "shell-watch.h"
#include "shell.h"
#include "spawn.h"
#include "stream.h"
#include "user-namespace.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIGNAL_EVENT (UINT32_MAX - 1)
#define SHELLS_DIRECTORY "/run/assay-shell"
enum { EVENTS_MAX = 64, SIGNALS_MAX = 16 };

static int signals;

/* Without handlers PID 1 is deaf to everything from inside; what is blocked comes through the descriptor. */
static void open_signals(int epoll)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = SIGNAL_EVENT};
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR || signal(SIGCHLD, SIG_DFL) == SIG_ERR ||
	    sigprocmask(SIG_BLOCK, &set, NULL) != 0 || (signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC)) < 0 ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, signals, &event) != 0)
		err(1, "signals");
}

static void reap(void)
{
	struct rusage usage;
	int status;
	pid_t pid;
	while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0)
		if (!shell_reaped(pid, status) && !nest_reaped(pid))
			execution_reaped(pid, status, &usage);
}

/* A sender outside the sandbox has no pid here, and only the kernel can write SI_USER. */
static bool from_outside(const struct signalfd_siginfo *info)
{
	return getpid() != 1 || (info->ssi_code == SI_USER && info->ssi_pid == 0);
}

static void hear_signals(void)
{
	struct signalfd_siginfo infos[SIGNALS_MAX];
	ssize_t got = read(signals, infos, sizeof infos);
	for (ssize_t i = 0; i < got / (ssize_t)sizeof infos[0]; i++)
		if (infos[i].ssi_signo == SIGTERM && from_outside(&infos[i]))
			exit(0);
	reap();
}

static void dispatch(const struct epoll_event *event)
{
	if (event->data.u32 == LINK_EVENT)
		link_ready(event->events);
	else if (event->data.u32 == SIGNAL_EVENT)
		hear_signals();
	else if (event->data.u32 >= SHELL_EVENT)
		shell_ready(event->data.u32);
	else
		execution_ready(event->data.u32 / ROLES, event->data.u32 % ROLES, event->events);
}

static void hold_standard_descriptors(void)
{
	int fd;
	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= 2);
	if (fd < 0)
		err(1, "/dev/null");
	close(fd);
}

/* Both say -1 for no time at all. */
static int sooner(int a, int b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

static void prepare(int epoll, const char *path)
{
	char *secret = getenv("ASSAY_GUEST_SECRET");
	if (secret == NULL)
		errx(2, "ASSAY_GUEST_SECRET is not set");
	if (!link_prepare(epoll, path, secret))
		errx(2, "expected a socket path below 108 bytes and a secret of 64 hex digits");
	explicit_bzero(secret, strlen(secret));
	const char *users = getenv("ASSAY_GUEST_USERS");
	if (users != NULL && !user_namespace_enter(strcmp(users, "root") == 0))
		err(1, "user namespace");
	if (!confine())
		err(1, "seccomp");
	const char *shells = getenv("ASSAY_GUEST_SHELLS");
	if (!shells_prepare(epoll, shells == NULL ? SHELLS_DIRECTORY : shells))
		err(1, "ASSAY_GUEST_SHELLS");
	if (!spawn_prepare() || !executions_prepare(epoll))
		err(1, "limits");
	open_signals(epoll);
}

/* For a program that the engine starts beside the guest, with host ids of its own: what no process of the sandbox may do. */
static _Noreturn void run_confined(char **argv)
{
	if (prctl(PR_SET_DUMPABLE, 0) != 0 || !user_namespace_enter(false))
		err(1, "user namespace");
	if (!confine())
		err(1, "seccomp");
	execvp(argv[0], argv);
	err(errno == EACCES || errno == ENOEXEC ? 126 : 127, "%s", argv[0]);
}

int main(int argc, char **argv)
{
	if (argc > 2 && strcmp(argv[1], "confined") == 0)
		run_confined(argv + 2);
	if (prctl(PR_SET_DUMPABLE, 0) != 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		err(1, "prctl");
	if (argc != 2)
		errx(2, "usage: guest <socket path>");
	hold_standard_descriptors();
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll < 0)
		err(1, "epoll");
	prepare(epoll, argv[1]);
	for (;;) {
		struct epoll_event events[EVENTS_MAX];
		int count = epoll_wait(epoll, events, EVENTS_MAX, sooner(awaiting_timeout(), sooner(link_timeout(), shells_timeout())));
		if (count < 0 && errno != EINTR)
			err(1, "epoll");
		for (int i = 0; i < count; i++)
			dispatch(&events[i]);
		for (unsigned i = 0; i < executions_end(); i++)
			if (execution_at(i)->phase != PHASE_FREE)
				stream_pump(execution_at(i));
		shells_turn();
		awaiting_turn();
		link_turn();
	}
}
