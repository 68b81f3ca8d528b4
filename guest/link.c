#include "link.h"

#include "frame.h"
#include "obey.h"
#include "say.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
	DECODER_BYTES = HEADER_BYTES + PAYLOAD_MAX,
	BATCHES_A_TURN = 8, /* then the pipes have their turn */
	SEND_BUFFER = 1 << 20,
	EAGER_MS = 2000,
	EAGER_EVERY_MS = 20,
	PATIENT_EVERY_MS = 200,
	TRIM_BYTES = 64 << 10,
};

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static uint8_t secret[SECRET_BYTES];
static int epoll_fd, fd = -1;
static uint32_t interest;
static bool watched, blocked, more;
static int64_t lost_at, next_try;
static struct decoder decoder;
static size_t decoder_peak;

static int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool link_prepare(int epoll, const char *path, const char *hex)
{
	epoll_fd = epoll;
	if (strlen(path) >= sizeof address.sun_path || strlen(hex) != 2 * SECRET_BYTES ||
	    strspn(hex, "0123456789abcdefABCDEF") != 2 * SECRET_BYTES)
		return false;
	strcpy(address.sun_path, path);
	for (int i = 0; i < SECRET_BYTES; i++)
		sscanf(hex + 2 * i, "%2hhx", &secret[i]);
	decoder.size = DECODER_BYTES;
	decoder.bytes = mmap(NULL, DECODER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	lost_at = next_try = now_ms();
	return decoder.bytes != MAP_FAILED;
}

void link_forget_secret(void)
{
	explicit_bzero(secret, sizeof secret);
	say_forget();
}

/* A worker that hangs up before WELCOME is no reason to be eager again. */
static void plan_next_try(void)
{
	int64_t now = now_ms();
	if (obey_welcomed())
		lost_at = now;
	next_try = now + (now - lost_at < EAGER_MS ? EAGER_EVERY_MS : PATIENT_EVERY_MS);
	obey_nobody();
}

static void hang_up(void)
{
	close(fd);
	fd = -1;
	plan_next_try();
}

static void watch(uint32_t events)
{
	struct epoll_event event = {.events = events, .data.u32 = LINK_EVENT};
	if (watched && events == interest)
		return;
	if (epoll_ctl(epoll_fd, watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) != 0)
		hang_up();
	watched = true;
	interest = events;
}

static void connect_again(void)
{
	if (now_ms() < next_try)
		return;
	plan_next_try();
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s < 0)
		return;
	if (connect(s, (struct sockaddr *)&address, sizeof address) != 0) {
		close(s);
		return;
	}
	int size = SEND_BUFFER;
	setsockopt(s, SOL_SOCKET, SO_SNDBUF, &size, sizeof size); /* the kernel's maximum may be lower, and will do */
	fd = s;
	watched = blocked = false;
	decoder.from = decoder.to = 0;
	say_nothing_yet();
	watch(EPOLLIN);
}

static void send_owed(void)
{
	more = false;
	for (int i = 0; i < BATCHES_A_TURN && fd >= 0 && !blocked; i++) {
		struct msghdr message = {0};
		message.msg_iovlen = (size_t)say_next(obey_highest(), secret, &message.msg_iov);
		if (message.msg_iovlen == 0)
			return;
		ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
		if (sent >= 0)
			say_sent((size_t)sent);
		else if (errno == EAGAIN)
			blocked = true;
		else if (errno != EINTR)
			hang_up();
	}
	more = fd >= 0 && !blocked;
}

/* Stops while there is no place for another answer. */
static void obey_all(void)
{
	struct frame frame;
	while (say_can_reply()) {
		enum decoded decoded = decoder_next(&decoder, &frame);
		if (decoded == DECODED_PARTIAL)
			return;
		if (decoded == DECODED_BROKEN || !obey(&frame)) {
			hang_up();
			return;
		}
	}
}

static void trim(void)
{
	decoder_peak = decoder.to > decoder_peak ? decoder.to : decoder_peak;
	if (decoder.from < decoder.to || decoder_peak <= TRIM_BYTES)
		return;
	madvise(decoder.bytes, DECODER_BYTES, MADV_DONTNEED);
	decoder_peak = 0;
}

static void hear(void)
{
	uint8_t *at;
	size_t room = decoder_room(&decoder, &at);
	ssize_t got = recv(fd, at, room, 0);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		hang_up();
		return;
	}
	decoder.to += (size_t)got;
	obey_all();
	trim();
}

void link_ready(uint32_t events)
{
	if (fd < 0)
		return;
	if (events & EPOLLOUT)
		blocked = false;
	if (!(events & ~(uint32_t)EPOLLOUT))
		return;
	if (interest & EPOLLIN)
		hear();
	else
		hang_up(); /* gone while it was not listened to */
}

void link_turn(void)
{
	if (fd < 0)
		connect_again();
	if (fd < 0)
		return;
	bool held = !say_can_reply();
	send_owed();
	if (fd >= 0 && held && say_can_reply()) {
		obey_all();
		more = true;
	}
	if (fd >= 0)
		watch((say_can_reply() ? EPOLLIN : 0) | (blocked ? EPOLLOUT : 0));
}

int link_timeout(void)
{
	if (fd >= 0)
		return more ? 0 : -1;
	int64_t wait = next_try - now_ms();
	return wait > 0 ? (int)wait : 0;
}
