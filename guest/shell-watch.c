#include "shell-watch.h"

#include "numbers.h"
#include "process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
	FIRST_CHECK_MS = 50,
	NEXT_SIGN_MS = 20,
	CHECK_MAX_MS = 2000,
	SIGNS_NEEDED = 2,
	INTERRUPT_EVERY_MS = 20,
	ZSH_INTERRUPT_EVERY_MS = 200,
	OPENING_MAX_MS = 30000,
	DESCRIPTORS_MAX = 256,
};

static int64_t next_due; /* not later than anything that is due; 0 for never */

static int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void due(int64_t at)
{
	if (at != 0 && (next_due == 0 || at < next_due))
		next_due = at;
}

static void check_from_now(struct shell *s)
{
	s->signs = 0;
	s->check_wait = FIRST_CHECK_MS;
	s->check_at = now_ms() + s->check_wait;
	due(s->check_at);
}

static uint64_t digest_words(pid_t pid)
{
	char path[32];
	unsigned char text[4096];
	uint64_t digest = 14695981039346656037U;
	snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text);
	if (fd >= 0)
		close(fd);
	for (ssize_t i = 0; i < got; i++)
		digest = (digest ^ text[i]) * 1099511628211U;
	return digest;
}

void shell_watch_opening(struct shell *s)
{
	s->words = digest_words(s->pid);
	s->opening_since = now_ms();
	check_from_now(s);
}

void shell_watch_command(struct shell *s)
{
	check_from_now(s);
}

void shell_watch_nothing(struct shell *s)
{
	s->check_at = s->interrupt_at = 0;
}

/* A zsh that is leaving its loops for one signal when the next comes may leave too many, and then does nothing any more. */
static int64_t interrupt_again(const struct shell *s, int64_t now)
{
	return now + (s->dialect == DIALECT_ZSH ? ZSH_INTERRUPT_EVERY_MS : INTERRUPT_EVERY_MS);
}

void shell_interrupt(struct shell *s)
{
	if (s->pid <= 0)
		return;
	kill(s->pid, shell_interrupt_signal(s->dialect)); /* before anything that the worker says next */
	s->interrupted = true;
	s->interrupt_at = interrupt_again(s, now_ms());
	due(s->interrupt_at);
}

static bool link_is(pid_t pid, int fd, const char *wanted)
{
	char path[64], target[PIPE_NAME_BYTES];
	snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
	ssize_t length = readlink(path, target, sizeof target - 1);
	target[length > 0 ? length : 0] = 0;
	return length > 0 && strcmp(target, wanted) == 0;
}

static bool sleeps(pid_t pid)
{
	char path[32], text[512];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = 0;
	const char *fields = strrchr(text, ')');
	return fields != NULL && fields[1] == ' ' && fields[2] == 'S';
}

/* While a command is read the shell's input is the command's. A shell that has its script there again, has read all of
 * it, sleeps and has not reported never will. */
static bool waits_for_more(const struct shell *s)
{
	char script[PIPE_NAME_BYTES];
	int unread = 0;
	process_name_pipe(s->script_fd, script);
	return ioctl(s->script_fd, FIONREAD, &unread) == 0 && unread == 0 && link_is(s->pid, 0, script) && sleeps(s->pid);
}

/* A shell that closed its script reports no more, whatever it does. A program that took its place has none either, and
 * may run as long as it likes. */
static bool lost_its_script(const struct shell *s)
{
	char script[PIPE_NAME_BYTES], path[32];
	struct numbers n;
	bool found = false;
	process_name_pipe(s->script_fd, script);
	snprintf(path, sizeof path, "/proc/%d/fd", s->pid);
	if (!numbers_open(&n, path))
		return false;
	for (int fd, looked = 0; (fd = numbers_next(&n)) >= 0; looked++)
		found = found || looked >= DESCRIPTORS_MAX || link_is(s->pid, fd, script);
	return !found && digest_words(s->pid) == s->words;
}

static void check(struct shell *s, int64_t now)
{
	bool late = s->phase == SHELL_OPENING && now - s->opening_since > OPENING_MAX_MS;
	s->signs = waits_for_more(s) || lost_its_script(s) ? s->signs + 1 : 0;
	if (late || s->signs >= SIGNS_NEEDED) {
		s->check_at = 0;
		shell_silence(s);
		return;
	}
	s->check_wait = s->check_wait * 2 < CHECK_MAX_MS ? s->check_wait * 2 : CHECK_MAX_MS;
	s->check_at = now + (s->signs > 0 ? NEXT_SIGN_MS : s->check_wait);
}

void shells_turn(void)
{
	if (next_due == 0)
		return;
	int64_t now = now_ms();
	if (now < next_due)
		return;
	next_due = 0;
	for (unsigned i = 0; i < shells_end(); i++) {
		struct shell *s = shell_at(i);
		if (s->phase == SHELL_FREE || s->pid <= 0)
			continue;
		if (s->interrupt_at != 0 && now >= s->interrupt_at) {
			kill(s->pid, shell_interrupt_signal(s->dialect));
			s->interrupt_at = interrupt_again(s, now);
		}
		if (s->check_at != 0 && now >= s->check_at)
			check(s, now);
		due(s->interrupt_at);
		due(s->check_at);
	}
}

int shells_timeout(void)
{
	if (next_due == 0)
		return -1;
	int64_t wait = next_due - now_ms();
	return wait > 0 ? (int)wait : 0;
}
