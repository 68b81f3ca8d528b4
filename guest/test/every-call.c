/* Makes every system call of every entry, with arguments that none takes, and prints the error of each; 0 where there was none. */
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLS = 512, NO_ANSWER = 9999 };

static long native(long number)
{
	return syscall(number, -1L, -1L, -1L, -1L, -1L, -1L) < 0 ? errno : 0;
}

#ifdef __x86_64__
static long x32(long number)
{
	return native(number | 0x40000000);
}

static long i386(long number)
{
	long result;
	__asm__ volatile("int $0x80"
	                 : "=a"(result)
	                 : "a"(number), "b"(-1L), "c"(-1L), "d"(-1L), "S"(-1L), "D"(-1L)
	                 : "memory", "r8", "r9", "r10", "r11");
	return result < 0 ? -result : 0;
}
#endif

/* In a child: a call may end, stop or confuse whoever makes it. */
static void try(const char *entry, long (*call)(long), long number)
{
	int answer[2], error = NO_ANSWER;
	if (pipe(answer) != 0)
		_exit(1);
	pid_t child = fork();
	if (child == 0) {
		alarm(1);
		error = (int)call(number);
		_exit(write(answer[1], &error, sizeof error) != sizeof error);
	}
	close(answer[1]);
	if (child < 0 || read(answer[0], &error, sizeof error) != sizeof error)
		error = NO_ANSWER;
	close(answer[0]);
	waitpid(child, NULL, 0);
	printf("%s %ld %d\n", entry, number, error);
	fflush(stdout);
}

static void try_all(const char *entry, long (*call)(long), const long *left_out)
{
	for (long number = 1; number < CALLS; number++) {
		const long *found = left_out;
		while (*found != 0 && *found != number)
			found++;
		if (*found == 0)
			try(entry, call, number);
	}
}

/* Left out: what forks or returns elsewhere, and what waits whatever its arguments are. */
int main(void)
{
#ifdef __x86_64__
	static const long x86_64[] = {SYS_rt_sigreturn, SYS_pause, SYS_fork, SYS_vfork, SYS_close, 0};
	static const long x86[] = {2, 6, 29, 119, 173, 190, 0};
	try_all("x86_64", native, x86_64);
	try_all("x32", x32, x86_64);
	try_all("i386", i386, x86);
#else
	static const long other[] = {SYS_rt_sigreturn, 0};
	try_all("native", native, other);
#endif
	return 0;
}
