/* idmount: gives a container host user ids of its own, over the layers that the engine has for its image.
 *
 * It runs on the host as the worker's child, between the engine's create and start: `idmount <host id> <layer directory> [<copies>]`. The
 * engine will mount an overlay of the directories that `lower` in the layer directory names. Until stdin ends, each of them and the
 * layer itself is shown with the session's user as <host id> and the grader as the id after it; on the disk the files keep
 * their owners. The overlay keeps what it was mounted from, so everything is then put back as the engine made it.
 *
 * With <copies>, a layer of the image is shown from <copies>/<name of the layer>/diff: other inodes, and thus another page cache,
 * than those of containers that have the layer itself (layer-copies.ts). */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define VIEWS "assay-lower"
enum { LOWER_BYTES = 64 << 10, LAYERS_MAX = 128, FIRST_ID = 1900000000 };

static const char *layer;
static const char *copies; /* NULL: the layers of the image themselves */
static char original[LOWER_BYTES];
static int plain = -1; /* the layer directory before anything covers it */
static bool covered;
static unsigned views;

static void write_all(int fd, const char *text, const char *what)
{
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || close(fd) != 0)
		err(1, "%s", what);
}

static void write_map(pid_t pid, const char *name, unsigned id)
{
	char path[64], map[256];
	snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
	/* Every id below those of containers is itself (host-ids.ts). */
	snprintf(map, sizeof map, "0 0 1000\n1000 %u 1\n1001 1001 63989\n64990 %u 1\n64991 64991 %u\n", id, id + 1, FIRST_ID - 64991);
	write_all(open(path, O_WRONLY | O_CLOEXEC), map, path);
}

/* A user namespace that only says which id is which. */
static int open_namespace(unsigned id)
{
	int ready[2];
	char byte, path[64];
	if (pipe2(ready, O_CLOEXEC) != 0)
		err(1, "pipe");
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWUSER) != 0 || write(ready[1], "", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	if (child < 0 || read(ready[0], &byte, 1) != 1)
		errx(1, "a user namespace could not be made");
	close(ready[0]);
	write_map(child, "gid_map", id);
	write_map(child, "uid_map", id);
	snprintf(path, sizeof path, "/proc/%d/ns/user", child);
	int namespace = open(path, O_RDONLY | O_CLOEXEC);
	if (namespace < 0)
		err(1, "%s", path);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return namespace;
}

static void show(int namespace, const char *from, const char *at, uint64_t attributes)
{
	int tree = open_tree(AT_FDCWD, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP | attributes, .userns_fd = (uint64_t)namespace};
	if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) != 0 ||
	    move_mount(tree, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) != 0)
		err(1, "showing %s at %s", from, at);
	close(tree);
	if (mount(NULL, at, NULL, MS_PRIVATE, NULL) != 0)
		err(1, "%s", at);
}

static void in_layer(char path[PATH_MAX], const char *name)
{
	if (snprintf(path, PATH_MAX, "%s/%s", layer, name) >= PATH_MAX)
		errx(1, "the path of the layer is too long");
}

static void write_lower(const char *text)
{
	char path[PATH_MAX];
	in_layer(path, "lower");
	write_all(open(path, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC), text, path);
}

/* The engine takes what `lower` names for links in the directory `l` beside the layers. All names together must fit into a page, so they
 * are shorter than the engine's own. */
static void link_name(char path[PATH_MAX], unsigned view)
{
	const char *id = strrchr(layer, '/') + 1;
	if (snprintf(path, PATH_MAX, "%.*sl/%.16s-%u", (int)(id - layer), layer, id, view) >= PATH_MAX)
		errx(1, "the path of the layer is too long");
}

/* Where the files of a layer that `lower` names are taken from. The engine's own layer of the container, whose name ends with "-init", is
 * in no other container. */
static void source_of(char from[PATH_MAX], const char *lower)
{
	static const char end[] = "/diff", own[] = "-init/diff";
	const char *id = strrchr(layer, '/') + 1;
	char link[PATH_MAX], real[PATH_MAX];
	if (snprintf(link, sizeof link, "%.*s/%s", (int)(id - 1 - layer), layer, lower) >= PATH_MAX)
		errx(1, "the path of the layer is too long");
	if (realpath(link, real) == NULL)
		err(1, "%s", link);
	size_t length = strlen(real);
	if (length < sizeof own || strcmp(real + length - strlen(end), end) != 0)
		errx(1, "%s is no layer", real);
	if (copies == NULL || strcmp(real + length - strlen(own), own) == 0) {
		strcpy(from, real);
		return;
	}
	real[length - strlen(end)] = '\0';
	if (snprintf(from, PATH_MAX, "%s/%s/diff", copies, strrchr(real, '/') + 1) >= PATH_MAX)
		errx(1, "the path of the copies is too long");
}

static void show_lower(int namespace)
{
	char list[LOWER_BYTES], names[LOWER_BYTES] = "", from[PATH_MAX], at[PATH_MAX], link[PATH_MAX], target[PATH_MAX], name[64];
	const char *id = strrchr(layer, '/') + 1;
	strcpy(list, original);
	in_layer(at, VIEWS);
	if (mkdir(at, 0700) != 0)
		err(1, "%s", at);
	for (char *rest = list, *lower; (lower = strsep(&rest, ":")) != NULL;) {
		if (views == LAYERS_MAX)
			errx(1, "more than %d layers", LAYERS_MAX);
		unsigned view = views++; /* from here on it is put back, however little of it there is */
		source_of(from, lower);
		snprintf(name, sizeof name, VIEWS "/%u", view);
		in_layer(at, name);
		snprintf(target, sizeof target, "../%s/" VIEWS "/%u", id, view);
		link_name(link, view);
		unlink(link); /* of an idmount that was killed */
		if (mkdir(at, 0700) != 0 || symlink(target, link) != 0)
			err(1, "%s", at);
		/* Read-only: whoever removes this directory with a view still in it must not remove the image. */
		show(namespace, from, at, MOUNT_ATTR_RDONLY);
		size_t used = strlen(names);
		if ((size_t)snprintf(names + used, sizeof names - used, "%s%s", used == 0 ? "" : ":", link + (id - layer)) >= sizeof names - used)
			errx(1, "too many layers");
	}
	write_lower(names);
}

/* The overlay was mounted on the view of the layer, and goes on on the layer itself. False where none is mounted. */
static bool keep_overlay(void)
{
	char path[PATH_MAX];
	in_layer(path, "merged");
	int overlay = open_tree(AT_FDCWD, path, OPEN_TREE_CLOEXEC);
	int target = openat(plain, "merged", O_PATH | O_DIRECTORY | O_CLOEXEC);
	bool moved = overlay >= 0 && target >= 0 &&
	             move_mount(overlay, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0;
	close(overlay);
	close(target);
	return moved;
}

/* Goes on where it fails: what comes after it must be undone too. */
static void restore_lower(void)
{
	int fd = openat(plain, "lower", O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || write(fd, original, strlen(original)) != (ssize_t)strlen(original))
		warn("lower");
	close(fd);
}

static void put_back(void)
{
	char path[PATH_MAX], name[64];
	if (!covered)
		return;
	for (unsigned i = 0; i < views; i++) {
		snprintf(name, sizeof name, VIEWS "/%u", i);
		in_layer(path, name);
		umount2(path, MNT_DETACH);
		rmdir(path);
		link_name(path, i);
		unlink(path);
	}
	in_layer(path, VIEWS);
	rmdir(path);
	restore_lower();
	/* Whoever has something open below the view, such as a program that reads the whole disk, does not keep it. */
	int flags = keep_overlay() ? MNT_DETACH | UMOUNT_NOFOLLOW : UMOUNT_NOFOLLOW;
	if (umount2(layer, flags) != 0)
		warn("%s", layer);
	covered = false;
}

static void read_lower(void)
{
	int fd = openat(plain, "lower", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, original, sizeof original - 1);
	if (got <= 0 || (size_t)got == sizeof original - 1)
		err(1, "lower");
	close(fd);
}

int main(int argc, char **argv)
{
	char *end, byte;
	bool counted = argc == 3 || argc == 4;
	unsigned long id = counted ? strtoul(argv[1], &end, 10) : 0;
	if (!counted || *end != '\0' || id < FIRST_ID || id >= UINT_MAX - 1 || argv[2][0] != '/' || (argc == 4 && argv[3][0] != '/'))
		errx(2, "usage: idmount <host id> <layer directory> [<copies>]");
	layer = argv[2];
	copies = argc == 4 ? argv[3] : NULL;
	plain = open(layer, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (plain < 0)
		err(1, "%s", layer);
	read_lower();
	/* A worker that is killed closes stdin; a signal must not leave the layer covered. */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	atexit(put_back);
	int namespace = open_namespace((unsigned)id);
	show(namespace, layer, layer, 0);
	covered = true;
	show_lower(namespace);
	if (write(STDOUT_FILENO, "ready\n", 6) != 6)
		errx(1, "nobody reads");
	while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR)
		;
	return 0;
}
