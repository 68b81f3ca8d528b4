#include "reader.h"

#include "numbers.h"
#include "terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NAME_BYTES = 256, PATH_BYTES = 64, POLLED_MAX = 32, PROCESSES_MAX = 4096, THREADS_MAX = 256, PTS_MAJOR = 136 };

static struct wanted {
	const struct execution *e;
	bool found;
	char name[NAME_BYTES]; /* how /proc names the input where the program has it */
} wanted[EXECUTIONS_MAX];

static unsigned wanted_count, missing;

static bool read_link(const char *path, char name[static NAME_BYTES])
{
	ssize_t length = readlink(path, name, NAME_BYTES - 1);
	name[length > 0 ? length : 0] = 0;
	return length > 0;
}

void readers_forget(void)
{
	wanted_count = missing = 0;
}

void readers_want(const struct execution *e)
{
	struct wanted *w = &wanted[wanted_count++];
	char path[PATH_BYTES];
	*w = (struct wanted){.e = e};
	snprintf(path, sizeof path, "/proc/self/fd/%d", e->input.fd);
	if (e->terminal)
		terminal_name(e, w->name);
	else
		read_link(path, w->name);
	missing++;
}

static const struct wanted *find(const struct execution *e)
{
	for (unsigned i = 0; i < wanted_count; i++)
		if (wanted[i].e == e)
			return &wanted[i];
	return NULL;
}

bool readers_wanted(const struct execution *e)
{
	return find(e) != NULL;
}

bool readers_found(const struct execution *e)
{
	const struct wanted *w = find(e);
	return w != NULL && w->found;
}

static ssize_t read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t got = read(fd, text, size - 1);
	close(fd);
	text[got > 0 ? got : 0] = 0;
	return got;
}

/* Whether this terminal controls the thread, which then knows it as /dev/tty. */
static bool is_controlled_by(pid_t tid, unsigned index)
{
	char path[PATH_BYTES], text[1024];
	unsigned number = 0;
	snprintf(path, sizeof path, "/proc/%d/stat", tid);
	if (read_text(path, text, sizeof text) <= 0)
		return false;
	const char *fields = strrchr(text, ')'); /* the name before it is the program's to choose */
	return fields != NULL && sscanf(fields, ") %*c %*d %*d %*d %u", &number) == 1 &&
	       number == ((index & 0xff) | PTS_MAJOR << 8 | (index & ~0xffU) << 12);
}

static void note_descriptor(pid_t tid, unsigned long fd)
{
	char path[PATH_BYTES], name[NAME_BYTES];
	snprintf(path, sizeof path, "/proc/%d/fd/%lu", tid, fd);
	if (!read_link(path, name))
		return;
	for (unsigned i = 0; i < wanted_count; i++) {
		struct wanted *w = &wanted[i];
		bool by_name = strcmp(name, w->name) == 0;
		if (!w->found && (by_name || (w->e->terminal && strcmp(name, "/dev/tty") == 0 &&
		                              is_controlled_by(tid, w->e->terminal_index)))) {
			w->found = true;
			missing--;
		}
	}
}

static ssize_t read_memory(pid_t tid, unsigned long at, void *bytes, size_t count)
{
	char path[PATH_BYTES];
	snprintf(path, sizeof path, "/proc/%d/mem", tid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t got = pread(fd, bytes, count, (off_t)at);
	close(fd);
	return got;
}

static void note_polled(pid_t tid, unsigned long at, unsigned long count)
{
	struct pollfd polled[POLLED_MAX];
	ssize_t got = read_memory(tid, at, polled, sizeof polled[0] * (count < POLLED_MAX ? count : POLLED_MAX));
	for (ssize_t i = 0; i < got / (ssize_t)sizeof polled[0]; i++)
		if (polled[i].fd >= 0 && (polled[i].events & (POLLIN | POLLRDNORM)))
			note_descriptor(tid, (unsigned long)polled[i].fd);
}

static void note_selected(pid_t tid, unsigned long count, unsigned long at)
{
	fd_set set;
	FD_ZERO(&set);
	size_t bytes = count < FD_SETSIZE ? (count + 7) / 8 : sizeof set;
	if (at == 0 || read_memory(tid, at, &set, bytes) != (ssize_t)bytes)
		return;
	int left = POLLED_MAX;
	for (unsigned fd = 0; fd < count && fd < FD_SETSIZE && left > 0; fd++)
		if (FD_ISSET(fd, &set)) {
			note_descriptor(tid, fd);
			left--;
		}
}

/* The call a thread is blocked in: its number and arguments. Whoever waits for a time only is not waiting for input; of
 * epoll it cannot be seen what it waits for. */
static void note_thread(pid_t tid)
{
	char path[PATH_BYTES], text[256];
	long number;
	unsigned long a[5];
	snprintf(path, sizeof path, "/proc/%d/syscall", tid);
	if (read_text(path, text, sizeof text) <= 0 ||
	    sscanf(text, "%ld %lx %lx %lx %lx %lx", &number, &a[0], &a[1], &a[2], &a[3], &a[4]) != 6)
		return; /* it runs, or is none of ours */
	if (number == SYS_read || number == SYS_readv || number == SYS_splice)
		note_descriptor(tid, a[0]);
#ifdef SYS_poll
	else if (number == SYS_poll && (int)a[2] < 0)
		note_polled(tid, a[0], a[1]);
#endif
	else if (number == SYS_ppoll && a[2] == 0)
		note_polled(tid, a[0], a[1]);
#ifdef SYS_select
	else if (number == SYS_select && a[4] == 0)
		note_selected(tid, a[0], a[1]);
#endif
	else if (number == SYS_pselect6 && a[4] == 0)
		note_selected(tid, a[0], a[1]);
}

static void note_process(pid_t pid)
{
	char path[PATH_BYTES];
	struct stat tasks;
	struct numbers n;
	snprintf(path, sizeof path, "/proc/%d/task", pid);
	bool alone = stat(path, &tasks) != 0 || tasks.st_nlink <= 3; /* one link for each thread, two of its own */
	if (alone || !numbers_open(&n, path)) {
		note_thread(pid);
		return;
	}
	pid_t tid;
	for (unsigned looked = 0; (tid = numbers_next(&n)) > 0;)
		if (looked++ < THREADS_MAX)
			note_thread(tid);
}

void readers_find(void)
{
	struct numbers n;
	pid_t pid;
	if (missing == 0 || !numbers_open(&n, "/proc"))
		return;
	for (unsigned looked = 0; (pid = numbers_next(&n)) > 0;)
		if (missing > 0 && pid != getpid() && looked++ < PROCESSES_MAX)
			note_process(pid);
}
