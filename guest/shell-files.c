#include "shell-files.h"

#include "frame.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ROOT_BYTES = 128, ENTRIES_MAX = 1024, FILE_BYTES = SHELL_PATH_BYTES + 16 };

static char root[ROOT_BYTES];

bool shell_files_prepare(const char *directory)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";
	size_t length = strlen(directory);
	if (directory[0] != '/' || length >= sizeof root || strspn(directory, plain) != length)
		return false;
	strcpy(root, directory);
	return true;
}

static const char *file(const struct shell_files *files, const char *name)
{
	static char joined[FILE_BYTES];
	snprintf(joined, sizeof joined, "%s/%.14s", files->path, name);
	return joined;
}

/* Names within the directory, one batch at a time; a user who fills it makes us stop early, no more. */
static void each_name(const char *path, void (*visit)(int directory, const char *name))
{
	_Alignas(struct dirent64) char bytes[4096];
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), seen = 0;
	if (fd < 0)
		return;
	ssize_t filled;
	while (seen < ENTRIES_MAX && (filled = getdents64(fd, bytes, sizeof bytes)) > 0)
		for (ssize_t at = 0; at < filled; seen++) {
			struct dirent64 *entry = (struct dirent64 *)(bytes + at);
			at += entry->d_reclen;
			visit(fd, entry->d_name);
		}
	close(fd);
}

static void remove_name(int directory, const char *name)
{
	unlinkat(directory, name, 0); /* fails for the directory itself and what a user nested there */
}

/* The guest's own user needs no change, and may not make one. */
static bool hand_over(const struct shell_files *files, const char *name)
{
	return (files->owner == geteuid() && files->group == getegid()) || lchown(name, files->owner, files->group) == 0;
}

bool shell_files_open(struct shell_files *files, uint64_t number, uint32_t uid, uint32_t gid)
{
	files->owner = uid == KEEP_ID ? geteuid() : uid;
	files->group = gid == KEEP_ID ? getegid() : gid;
	snprintf(files->path, sizeof files->path, "%s/%llu", root, (unsigned long long)number);
	each_name(files->path, remove_name);
	return (mkdir(files->path, 0700) == 0 || errno == EEXIST) && hand_over(files, files->path);
}

void shell_files_remove(const struct shell_files *files)
{
	each_name(files->path, remove_name);
	rmdir(files->path);
}

static bool write_all(int fd, const void *bytes, size_t length)
{
	for (const char *at = bytes; length > 0;) {
		ssize_t put = write(fd, at, length);
		if (put < 0 && errno != EINTR)
			return false;
		at += put > 0 ? put : 0;
		length -= put > 0 ? (size_t)put : 0;
	}
	return true;
}

static bool write_file(const struct shell_files *files, const char *name, const void *bytes, size_t length, const char *tail)
{
	static const struct timespec never_read[2] = {{.tv_sec = 0}, {.tv_nsec = UTIME_OMIT}};
	const char *whole = file(files, name);
	unlink(whole);
	int fd = open(whole, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	bool written = write_all(fd, bytes, length) && write_all(fd, tail, strlen(tail)) && futimens(fd, never_read) == 0 &&
	               hand_over(files, whole);
	int error = errno;
	close(fd);
	errno = error;
	return written;
}

bool shell_files_write(const struct shell_files *files, const char *name, const void *bytes, size_t length)
{
	return write_file(files, name, bytes, length, "");
}

bool shell_files_write_command(const struct shell_files *files, const uint8_t *text, size_t length)
{
	return write_file(files, "command", text, length, length > 0 && text[length - 1] == '\n' ? "" : "\n");
}

int shell_files_reopen(const struct shell_files *files, const char *name, int flags)
{
	struct stat kind;
	int fd = open(file(files, name), flags | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &kind) != 0 || !S_ISFIFO(kind.st_mode))) {
		close(fd);
		fd = -1;
		errno = EINVAL;
	}
	return fd;
}

int shell_files_pipe(const struct shell_files *files, const char *name, int flags)
{
	const char *whole = file(files, name);
	unlink(whole);
	return mkfifo(whole, 0600) == 0 && hand_over(files, whole) ? shell_files_reopen(files, name, flags) : -1;
}

bool shell_files_was_read(const struct shell_files *files, const char *name)
{
	struct stat times;
	return lstat(file(files, name), &times) != 0 || times.st_atim.tv_sec != 0;
}

static int found_status;

static void take_status(int directory, const char *name)
{
	char *end;
	if (name[0] != 's')
		return;
	long status = strtol(name + 1, &end, 10);
	if (end == name + 1 || *end != 0)
		return;
	found_status = (int)(status & 255); /* zsh has wider ones */
	unlinkat(directory, name, 0);
}

int shell_files_status(const struct shell_files *files)
{
	if (unlink(file(files, "s0")) == 0)
		return 0;
	found_status = -1;
	each_name(files->path, take_status);
	return found_status;
}

bool shell_files_input_open(const struct shell_files *files)
{
	return unlink(file(files, "i")) == 0;
}

/* Whoever holds it is known by what /proc calls it, where it keeps its last name: no other command's pipe may have had the same. */
static void remove_pipe(const struct shell_files *files, const char *name, uint64_t number)
{
	char own[16], whole[FILE_BYTES];
	snprintf(own, sizeof own, "%c%llx", name[0], (unsigned long long)number);
	snprintf(whole, sizeof whole, "%s", file(files, own));
	if (rename(file(files, name), whole) == 0)
		unlink(whole);
	else
		unlink(file(files, name));
}

void shell_files_tidy(const struct shell_files *files, uint64_t number)
{
	static const char *const names[] = {"command", "run", "rc", "in", "i"};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		unlink(file(files, names[i]));
	remove_pipe(files, "out", number);
	remove_pipe(files, "err", number);
}
