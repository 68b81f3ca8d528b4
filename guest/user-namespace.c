#include "user-namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MAP_WAIT_MS = 20000, CAPABILITIES_MAX = 64 };

static const uint32_t root_keeps = 1U << CAP_SETUID | 1U << CAP_SETGID | 1U << CAP_KILL;

/* The worker writes the map of groups first. */
static bool wait_for_maps(void)
{
	for (int waited = 0; waited < MAP_WAIT_MS; waited++) {
		char byte;
		int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return false;
		ssize_t got = read(fd, &byte, 1);
		close(fd);
		if (got == 1)
			return true;
		struct timespec pause = {.tv_nsec = 1000000};
		nanosleep(&pause, NULL);
	}
	errno = ETIMEDOUT;
	return false;
}

static bool keep_only(uint32_t kept)
{
	for (unsigned capability = 0; capability < CAPABILITIES_MAX; capability++) {
		bool wanted = capability < 32 && (kept >> capability & 1);
		if (!wanted && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno != EINVAL)
			return false; /* EINVAL: this kernel knows no such capability */
	}
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{.effective = kept, .permitted = kept}};
	return syscall(SYS_capset, &header, data) == 0;
}

bool user_namespace_enter(bool root)
{
	if (unshare(CLONE_NEWUSER) != 0 || !wait_for_maps())
		return false;
	if (root && (setgroups(0, NULL) != 0 || setresgid(0, 0, 0) != 0 || setresuid(0, 0, 0) != 0))
		return false;
	/* A change of users may have made the guest dumpable. */
	return keep_only(root ? root_keeps : 0) && prctl(PR_SET_DUMPABLE, 0) == 0;
}
