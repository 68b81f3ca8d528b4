/* Run as an execution: prints the error of each call that the guest's filter must refuse, and of some it must not. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void tell(const char *name, long result)
{
	printf("%s=%ld\n", name, result);
}

static long error_of(long number, long a, long b, long c)
{
	return syscall(number, a, b, c) < 0 ? errno : 0;
}

#ifdef __x86_64__
/* The 32-bit entry works from 64-bit code, with the 32-bit numbers. */
static long error_of_i386(long number, long a, long b, long c)
{
	long result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory", "r8", "r9", "r10", "r11");
	return result < 0 ? -result : 0;
}
#endif

int main(void)
{
	tell("unix", error_of(SYS_socket, AF_UNIX, SOCK_STREAM, 0));
	tell("vsock", error_of(SYS_socket, 40, SOCK_STREAM, 0));
	tell("vsock_high_bits", error_of(SYS_socket, 40 | 1L << 32, SOCK_STREAM, 0));
	for (long number = 425; number <= 427; number++)
		tell("io_uring", error_of(number, 0, 0, 0));
	tell("io_setup", error_of(SYS_io_setup, 0, 0, 0));
	tell("close_range", error_of(436, 100, 99, 0));
	tell("own_limits", error_of(SYS_prlimit64, 0, 99, 0));
	tell("unshare", error_of(SYS_unshare, CLONE_NEWUSER, 0, 0));
	tell("setns", error_of(SYS_setns, -1, CLONE_NEWUSER, 0));
	tell("clone", error_of(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0));
	tell("clone3", error_of(435, 0, 0, 0));
	tell("mount", error_of(SYS_mount, 0, 0, 0));
	tell("open_tree", error_of(428, -1, 0, 0));
	tell("fspick", error_of(433, -1, 0, 0));
	tell("pidfd_open", error_of(434, -1, 0, 0));
	tell("mount_setattr", error_of(442, -1, 0, 0));
	for (long number = 459; number <= 461; number++)
		tell("lsm", error_of(number, 0, 0, 0));
	tell("open_tree_attr", error_of(467, -1, 0, 0));
	tell("perf_event_open", error_of(SYS_perf_event_open, 0, 0, 0));
	tell("bpf", error_of(SYS_bpf, -1, 0, 0));
	tell("limits_of_another", error_of(SYS_prlimit64, getppid(), 99, 0));
#ifdef __x86_64__
	long x32 = error_of(41 | 0x40000000, 40, SOCK_STREAM, 0);
	tell("x32_vsock_refused", x32 == EAFNOSUPPORT || x32 == ENOSYS);
	tell("i386_socketcall", error_of_i386(102, 1, 0, 0));
	tell("i386_vsock", error_of_i386(359, 40, SOCK_STREAM, 0));
	tell("i386_unix", error_of_i386(359, AF_UNIX, SOCK_STREAM, 0));
	tell("i386_unshare", error_of_i386(310, CLONE_NEWUSER, 0, 0));
	tell("i386_clone", error_of_i386(120, CLONE_NEWUSER | SIGCHLD, 0, 0));
	tell("i386_mount", error_of_i386(21, 0, 0, 0));
	tell("i386_own_limits", error_of_i386(340, 0, 99, 0));
	tell("i386_limits_of_another", error_of_i386(340, getppid(), 99, 0));
	tell("i386_io_uring", error_of_i386(425, 0, 0, 0));
	tell("i386_io_setup", error_of_i386(245, 0, 0, 0));
#endif
	return 0;
}
