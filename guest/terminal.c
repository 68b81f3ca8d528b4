#include "terminal.h"

#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { NEAR_FLAGS = O_RDWR | O_NOCTTY | O_CLOEXEC };

static void write_name(unsigned index, char name[static TERMINAL_NAME])
{
	snprintf(name, TERMINAL_NAME, "/dev/pts/%u", index);
}

void terminal_name(const struct execution *e, char name[static TERMINAL_NAME])
{
	name[0] = 0;
	if (e->output[0].fd >= 0)
		write_name(e->terminal_index, name);
}

static int open_near(int far, unsigned index)
{
	char name[TERMINAL_NAME];
	int fd = ioctl(far, TIOCGPTPEER, NEAR_FLAGS);
	write_name(index, name);
	return fd >= 0 ? fd : open(name, NEAR_FLAGS); /* Linux before 4.13 */
}

/* The size is there before the program can ask for it. A terminal of a user that is taken on later is given to it, where
 * the guest may: it opens its own standard output by name. */
static bool set_up(int far, struct start *start, int *near)
{
	int unlocked = 0;
	struct winsize size = {.ws_row = start->rows, .ws_col = start->columns};
	if (ioctl(far, TIOCSPTLCK, &unlocked) != 0 || ioctl(far, TIOCGPTN, &start->terminal_index) != 0 ||
	    ioctl(far, TIOCSWINSZ, &size) != 0 || (*near = open_near(far, start->terminal_index)) < 0)
		return false;
	if (start->uid != KEEP_ID && start->uid != geteuid()) {
		int ignored = fchown(*near, start->uid, (gid_t)-1);
		(void)ignored;
	}
	return true;
}

bool terminal_open(struct execution *e, struct start *start)
{
	bool input = start->flags & START_INPUT;
	int far = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC), near = -1, keyboard = -1;
	if (far < 0)
		return false;
	if (!set_up(far, start, &near) || (input && (keyboard = fcntl(far, F_DUPFD_CLOEXEC, 0)) < 0)) {
		int kept = errno;
		stream_shut(&near);
		stream_shut(&far);
		errno = kept;
		return false;
	}
	stream_shut(&e->output[0].fd);
	stream_shut(&e->output[1].fd);
	stream_shut(&e->input.fd);
	e->terminal = true;
	e->terminal_index = start->terminal_index;
	e->output[0].fd = far;
	e->input.fd = keyboard;
	e->terminal_fd = near;
	return true;
}

bool terminal_take(const struct start *start)
{
	char name[TERMINAL_NAME];
	write_name(start->terminal_index, name);
	int fd = open(name, NEAR_FLAGS);
	return fd >= 0 && ioctl(fd, TIOCSCTTY, 0) == 0 && dup2(fd, 0) == 0 && dup2(fd, 1) == 1 && dup2(fd, 2) == 2 &&
	       close(fd) == 0;
}

void terminal_resize(const struct execution *e, uint16_t rows, uint16_t columns)
{
	struct winsize size = {.ws_row = rows, .ws_col = columns};
	if (e->terminal && e->output[0].fd >= 0)
		ioctl(e->output[0].fd, TIOCSWINSZ, &size); /* fails for a terminal that is gone */
}

/* Within a line the character only hands over what was typed; at the beginning of one it is the end. */
static unsigned ends_needed(const struct execution *e, const struct termios *mode)
{
	const struct ring *ring = &e->input.ring;
	if (!(mode->c_lflag & ICANON) || ring->start == 0)
		return 1;
	uint8_t last = ring->base[(ring->start - 1) & (ring->size - 1)];
	bool fresh = last == '\n' || (last == '\r' && (mode->c_iflag & ICRNL)) || last == mode->c_cc[VEOF];
	return fresh ? 1 : 2;
}

bool terminal_type_end(struct execution *e)
{
	struct termios mode;
	if (tcgetattr(e->input.fd, &mode) != 0 || mode.c_cc[VEOF] == _POSIX_VDISABLE)
		return true;
	for (unsigned needed = ends_needed(e, &mode); e->ends_typed < needed; e->ends_typed++)
		if (write(e->input.fd, &mode.c_cc[VEOF], 1) != 1)
			return errno != EAGAIN && errno != EINTR;
	return true;
}

pid_t terminal_foreground(const struct execution *e)
{
	pid_t group = 0;
	return e->terminal_fd >= 0 && ioctl(e->output[0].fd, TIOCGPGRP, &group) == 0 && group > 0 ? group : 0;
}
