#include "spawn.h"

#include "execution.h"
#include "link.h"
#include "nest.h"
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { STATUS_FD = 3, GATE_FD = 4, FIRST_UNUSED_FD = 5, HIGH_FD = 16, OPEN_FDS_MAX = 8 * EXECUTIONS_MAX };

#define TERMINAL_TYPE "xterm-256color"

static struct rlimit files;
static char child_score[8] = "500";
static int status_fd; /* in a child */
static bool hatched;  /* in a child of a nest */

bool spawn_prepare(void)
{
	if (getrlimit(RLIMIT_NOFILE, &files) != 0)
		return false;
	struct rlimit own = {files.rlim_max, files.rlim_max};
	if (setrlimit(RLIMIT_NOFILE, &own) != 0)
		return false;
	FILE *score = fopen("/proc/self/oom_score_adj", "re");
	int value = 0;
	if (score != NULL) {
		if (fscanf(score, "%d", &value) == 1)
			snprintf(child_score, sizeof child_score, "%d", value < 0 ? 500 : value < 500 ? value + 500 : 1000);
		fclose(score);
	}
	return true;
}

static _Noreturn void give_up(uint32_t step)
{
	uint32_t report[2] = {step, (uint32_t)errno};
	ssize_t ignored = write(status_fd, report, sizeof report);
	(void)ignored;
	_exit(127);
}

/* Once when it waits, and once more when it went through the gate: one that dies before has run nothing. */
static void tell_pid(void)
{
	uint32_t report[2] = {0, (uint32_t)getpid()};
	if (write(status_fd, report, sizeof report) != sizeof report)
		_exit(127); /* the guest wants it no more */
}

static void reset_signals(void)
{
	struct sigaction normal = {.sa_handler = SIG_DFL};
	for (int number = 1; number < NSIG; number++)
		sigaction(number, &normal, NULL); /* fails for KILL, STOP and the C library's own, which nobody changed */
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Through a high copy, since dup2 of a descriptor onto itself would keep close-on-exec. */
static int lift(int fd)
{
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
}

static void close_from(unsigned first)
{
	if (close_range(first, ~0U, 0) != 0)
		for (int fd = (int)first; fd < OPEN_FDS_MAX; fd++)
			close(fd);
}

/* Leaves 0 to 2, the status pipe and the gate, and nothing of the guest: a child behind the gate must not keep another
 * execution's input open. The guest itself always has 0 to 2, so no end lies there. */
static void arrange_descriptors(const int ends[5])
{
	int high[5];
	status_fd = ends[STATUS_FD];
	for (int i = 0; i < 5; i++)
		if ((high[i] = lift(ends[i])) < 0 && ends[i] >= 0)
			give_up(STEP_PIPES);
	status_fd = high[STATUS_FD];
	if (dup3(high[STATUS_FD], STATUS_FD, O_CLOEXEC) < 0)
		give_up(STEP_PIPES);
	status_fd = STATUS_FD;
	for (int i = 0; i < 3; i++)
		if (high[i] < 0)
			high[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (high[0] < 0 || dup2(high[0], 0) < 0 || dup2(high[1], 1) < 0 || dup2(high[2], 2) < 0)
		give_up(STEP_PIPES);
	if (high[GATE_FD] >= 0 && dup3(high[GATE_FD], GATE_FD, O_CLOEXEC) < 0)
		give_up(STEP_PIPES);
	close_from(high[GATE_FD] >= 0 ? FIRST_UNUSED_FD : GATE_FD);
}

/* The kernel is to take any child before the guest and the services of the host. Raising a score needs no privilege. A
 * program may lower its own to the least that a privileged process has set: what the engine gives the guest. The file
 * belongs to root while the process is undumpable. By now the child holds no secret and no descriptor of the guest, so
 * being dumpable for a moment gives away nothing that the program itself would not. */
static void face_the_oom_killer(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0 && prctl(PR_SET_DUMPABLE, 1) == 0) {
		fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
		prctl(PR_SET_DUMPABLE, 0);
	}
	if (fd < 0)
		return;
	ssize_t ignored = write(fd, child_score, strlen(child_score));
	(void)ignored;
	close(fd);
}

static bool become(uint32_t uid, uint32_t gid)
{
	gid_t group = gid == KEEP_ID ? getegid() : gid;
	uid_t user = uid == KEEP_ID ? geteuid() : uid;
	if (user == geteuid() && group == getegid())
		return true;
	return setgroups(1, &group) == 0 && setresgid(group, group, group) == 0 && setresuid(user, user, user) == 0;
}

static void take_empty_input(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || dup2(fd, 0) < 0)
		give_up(STEP_PIPES);
	close(fd);
}

static _Noreturn void run_child(const struct start *start, const int ends[5])
{
	link_forget_secret();
	reset_signals();
	setsid(); /* cannot fail: a new child leads no group */
	arrange_descriptors(ends);
	if (hatched)
		tell_pid();
	char go;
	if (ends[GATE_FD] >= 0 && read(GATE_FD, &go, 1) != 1)
		_exit(127); /* the guest is gone */
	if (hatched)
		tell_pid();
	if (ends[0] >= 0 && !(start->flags & START_INPUT))
		take_empty_input();
	if ((start->flags & START_TERMINAL) && !terminal_take(start))
		give_up(STEP_PIPES);
	face_the_oom_killer();
	if (setrlimit(RLIMIT_NOFILE, &files) != 0)
		give_up(STEP_EXEC);
	if (!become(start->uid, start->gid))
		give_up(STEP_USER);
	if (chdir(start->directory) != 0)
		give_up(STEP_DIRECTORY);
	environ = (char **)start->envp; /* execvp searches the PATH of the environment it passes on */
	if ((start->flags & START_TERMINAL) && setenv("TERM", TERMINAL_TYPE, 0) != 0)
		give_up(STEP_EXEC);
	execvp(start->argv[0], start->argv);
	give_up(STEP_EXEC);
}

static bool open_pipe(bool wanted, int *reader, int *writer)
{
	int fds[2];
	if (!wanted)
		return true;
	if (pipe2(fds, O_CLOEXEC) != 0)
		return false;
	*reader = fds[0];
	*writer = fds[1];
	return true;
}

/* A pipe's name in /proc can be opened by its owner alone, so the pipes of a program belong to its user: without that
 * `echo > /dev/stderr` fails for whomever a guest that is root starts. A change of this user may make the guest dumpable. */
static void make_files_as(uint32_t uid, uint32_t gid)
{
	int kept = errno;
	setfsgid(gid == KEEP_ID ? getegid() : gid);
	setfsuid(uid == KEEP_ID ? geteuid() : uid);
	prctl(PR_SET_DUMPABLE, 0);
	errno = kept;
}

static void close_all(const int *fds, int count)
{
	int kept = errno;
	for (int i = 0; i < count; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	errno = kept;
}

static bool unblock(int fd)
{
	return fd < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

_Noreturn void spawn_hatch(const struct start *start, const int ends[5])
{
	hatched = true;
	run_child(start, ends);
}

void spawn_keep_only(int *fd)
{
	int high = lift(*fd);
	if (high < 0 || dup3(high, STATUS_FD, O_CLOEXEC) < 0)
		_exit(127);
	*fd = STATUS_FD;
	close_from(STATUS_FD + 1);
}

static pid_t forked(const struct start *start, const int ends[5])
{
	pid_t pid = fork();
	if (pid == 0)
		run_child(start, ends);
	return pid;
}

static pid_t laid(uint64_t nest, const struct start *start, const int ends[5])
{
	struct egg egg = {.start = start};
	memcpy(egg.ends, ends, sizeof egg.ends);
	return nest_lay(nest, &egg) ? 0 : -1;
}

int spawn(const struct start *start, uint8_t flags, struct spawned *spawned)
{
	return spawn_in_nest(0, start, flags, spawned);
}

int spawn_in_nest(uint64_t nest, const struct start *start, uint8_t flags, struct spawned *spawned)
{
	int own[5] = {-1, -1, -1, -1, -1}, child[5] = {-1, -1, -1, -1, -1};
	bool gated = flags & START_GATED, pipes = !(flags & START_TERMINAL), input = pipes && (flags & START_INPUT),
	     output = pipes && !(flags & SPAWN_MUTE);
	int step = STEP_PIPES;
	pid_t pid = -1;
	bool foreign = nest == 0 && (start->uid != KEEP_ID || start->gid != KEEP_ID);
	if (foreign)
		make_files_as(start->uid, start->gid);
	bool opened = open_pipe(input, &child[0], &own[0]) && open_pipe(output, &own[1], &child[1]) &&
	              open_pipe(output, &own[2], &child[2]) && open_pipe(true, &own[STATUS_FD], &child[STATUS_FD]) &&
	              open_pipe(gated, &child[GATE_FD], &own[GATE_FD]) && unblock(own[0]) && unblock(own[1]) &&
	              unblock(own[2]) && unblock(own[STATUS_FD]);
	if (foreign)
		make_files_as(KEEP_ID, KEEP_ID);
	if (opened) {
		step = STEP_FORK;
		pid = nest == 0 ? forked(start, child) : laid(nest, start, child);
	}
	close_all(child, 5);
	if (pid < 0) {
		close_all(own, 5);
		return step;
	}
	*spawned = (struct spawned){pid, {own[1], own[2]}, own[0], own[STATUS_FD], own[GATE_FD]};
	return 0;
}
