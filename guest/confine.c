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
	VSOCK = 40,
};

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(test, value, yes, no) BPF_JUMP(BPF_JMP | (test) | BPF_K, (value), (yes), (no))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, (value))
#define REFUSE(error) RETURN(SECCOMP_RET_ERRNO | (error))

/* An architecture that is not named keeps its sockets; the engine's own filter judges it. Both supported machines are
 * little endian, so the low half of an argument comes first. */
static struct sock_filter filter[] = {
	LOAD(nr),
	BPF_STMT(BPF_ALU | BPF_AND | BPF_K, (unsigned)~X32_BIT),
	IF(BPF_JGE, IO_URING_SETUP, 0, 2),
	IF(BPF_JGT, IO_URING_REGISTER, 1, 0),
	REFUSE(ENOSYS),
	BPF_STMT(BPF_MISC | BPF_TAX, 0),
	LOAD(arch),
	IF(BPF_JEQ, AUDIT_ARCH_X86_64, 4, 0),
	IF(BPF_JEQ, AUDIT_ARCH_I386, 5, 0),
	IF(BPF_JEQ, AUDIT_ARCH_AARCH64, 8, 0),
	IF(BPF_JEQ, AUDIT_ARCH_ARM, 9, 0),
	RETURN(SECCOMP_RET_ALLOW),
	BPF_STMT(BPF_MISC | BPF_TXA, 0), /* x86_64 and x32 */
	IF(BPF_JEQ, SOCKET_X86_64, 8, 11),
	BPF_STMT(BPF_MISC | BPF_TXA, 0), /* i386 */
	IF(BPF_JEQ, SOCKETCALL_I386, 0, 1),
	REFUSE(ENOSYS),
	IF(BPF_JEQ, SOCKET_I386, 4, 7),
	BPF_STMT(BPF_MISC | BPF_TXA, 0), /* aarch64 */
	IF(BPF_JEQ, SOCKET_AARCH64, 2, 5),
	BPF_STMT(BPF_MISC | BPF_TXA, 0), /* 32-bit arm */
	IF(BPF_JEQ, SOCKET_ARM, 0, 3),
	LOAD(args[0]),
	IF(BPF_JEQ, VSOCK, 0, 1),
	REFUSE(EAFNOSUPPORT),
	RETURN(SECCOMP_RET_ALLOW),
};

bool confine(void)
{
	struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
