#include "confine.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

enum {
	X32_BIT = 0x40000000,
	IO_URING_SETUP = 425, /* the three calls have the same numbers on every architecture */
	IO_URING_REGISTER = 427,
	SOCKET_X86_64 = 41,
	SOCKET_I386 = 359,
	SOCKETCALL_I386 = 102,
	SOCKET_AARCH64 = 198,
	SOCKET_ARM = 281,
	PRLIMIT_X86_64 = 302,
	PRLIMIT_I386 = 340,
	PRLIMIT_AARCH64 = 261,
	PRLIMIT_ARM = 369,
	VSOCK = 40,
	IO_SETUP_X86_64 = 206,
	IO_SETUP_X32 = 543,
	IO_SETUP_I386 = 245,
	IO_SETUP_AARCH64 = 0,
	IO_SETUP_ARM = 243,
	NEW_NAMESPACE = 0x7e020000, /* CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET */
	OPEN_TREE = 428, /* to 433: the calls that mount; the same everywhere, like those below */
	FSPICK = 433,
	CLONE3 = 435,
	MOUNT_SETATTR = 442,
	QUOTACTL_FD = 443,
	LSM_GET_SELF_ATTR = 459, /* to 461, those of security modules */
	LSM_LIST_MODULES = 461,
	OPEN_TREE_ATTR = 467,
};

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(test, value, yes, no) BPF_JUMP(BPF_JMP | (test) | BPF_K, (value), (yes), (no))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, (value))
#define REFUSE(error) RETURN(SECCOMP_RET_ERRNO | (error))
#define ALLOW RETURN(SECCOMP_RET_ALLOW)

/* Each rule leaves the number of the call where it is, unless the call is the rule's own. Both supported machines are little
 * endian, so the low half of an argument comes first. Of a filter that is made of nothing but loads, comparisons with constants, AND and
 * returns the kernel finds out once which calls are always allowed, and then runs no filter at all for those. */
#define NO_CALL(number) IF(BPF_JEQ, number, 0, 1), REFUSE(ENOSYS)
#define NO_VSOCK(number) IF(BPF_JEQ, number, 0, 4), LOAD(args[0]), IF(BPF_JEQ, VSOCK, 0, 1), REFUSE(EAFNOSUPPORT), ALLOW
/* The limits of other processes: those of the guest have the session's user, so the kernel would allow it. */
#define OWN_LIMITS_ONLY(number) IF(BPF_JEQ, number, 0, 4), LOAD(args[0]), IF(BPF_JEQ, 0, 1, 0), REFUSE(EPERM), ALLOW

/* The engine's filter lets these through where the guest makes a user namespace; nobody else is to make one. */
#define NO_NAMESPACE(clone) IF(BPF_JEQ, clone, 0, 4), LOAD(args[0]), IF(BPF_JSET, NEW_NAMESPACE, 0, 1), REFUSE(EPERM), ALLOW
#define DENY(number) IF(BPF_JEQ, number, 0, 1), REFUSE(EPERM)

#define COUNT(...) (sizeof((struct sock_filter[]){__VA_ARGS__}) / sizeof(struct sock_filter))
#define BLOCK(architecture, ...) IF(BPF_JEQ, architecture, 0, COUNT(__VA_ARGS__)), __VA_ARGS__
#define LOAD_CALL LOAD(nr), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, (unsigned)~X32_BIT)
#define RANGE(first, last, error) IF(BPF_JGE, first, 0, 2), IF(BPF_JGT, last, 1, 0), REFUSE(error)
#define RULES(architecture, ...) BLOCK(architecture, LOAD_CALL, __VA_ARGS__, ALLOW)

/* Requests of the old asynchronous I/O are counted for the whole host (fs.aio-max-nr): one session could take all of them.
 * An architecture that is not named keeps its calls; the engine's own filter judges it. */
static struct sock_filter filter[] = {
	LOAD_CALL,
	RANGE(IO_URING_SETUP, IO_URING_REGISTER, ENOSYS),
	NO_CALL(CLONE3), /* its flags are out of the filter's sight; the C library then uses clone */
	RANGE(OPEN_TREE, FSPICK, EPERM),
	DENY(MOUNT_SETATTR),
	DENY(QUOTACTL_FD),
	RANGE(LSM_GET_SELF_ATTR, LSM_LIST_MODULES, ENOSYS), /* as on older engines, which programs are used to */
	NO_CALL(OPEN_TREE_ATTR),
	LOAD(arch),
	/* and x32. In the order: unshare, setns, mount, umount2, bpf, perf_event_open, fanotify_init, quotactl, sethostname,
	 * setdomainname, syslog, lookup_dcookie, name_to_handle_at */
	RULES(AUDIT_ARCH_X86_64, NO_CALL(IO_SETUP_X86_64), NO_CALL(IO_SETUP_X32), NO_VSOCK(SOCKET_X86_64), OWN_LIMITS_ONLY(PRLIMIT_X86_64), NO_NAMESPACE(56), DENY(272), DENY(308),
	      DENY(165), DENY(166), DENY(321), DENY(298), DENY(300), DENY(179), DENY(170), DENY(171), DENY(103), DENY(212), DENY(303)),
	/* and umount */
	RULES(AUDIT_ARCH_I386, NO_CALL(IO_SETUP_I386), NO_CALL(SOCKETCALL_I386), NO_VSOCK(SOCKET_I386), OWN_LIMITS_ONLY(PRLIMIT_I386), NO_NAMESPACE(120),
	      DENY(310), DENY(346), DENY(21), DENY(52), DENY(357), DENY(336), DENY(338), DENY(131), DENY(74), DENY(121), DENY(103),
	      DENY(253), DENY(341), DENY(22)),
	RULES(AUDIT_ARCH_AARCH64, NO_CALL(IO_SETUP_AARCH64), NO_VSOCK(SOCKET_AARCH64), OWN_LIMITS_ONLY(PRLIMIT_AARCH64), NO_NAMESPACE(220), DENY(97), DENY(268),
	      DENY(40), DENY(39), DENY(280), DENY(241), DENY(262), DENY(60), DENY(161), DENY(162), DENY(116), DENY(18), DENY(264)),
	RULES(AUDIT_ARCH_ARM, NO_CALL(IO_SETUP_ARM), NO_VSOCK(SOCKET_ARM), OWN_LIMITS_ONLY(PRLIMIT_ARM), NO_NAMESPACE(120), DENY(337), DENY(375), DENY(21),
	      DENY(52), DENY(386), DENY(364), DENY(367), DENY(131), DENY(74), DENY(121), DENY(103), DENY(249), DENY(370)),
	ALLOW,
};

bool confine(void)
{
	struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
