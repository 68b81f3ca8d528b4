/* What a shell is told: its arguments, what it reads when it opens, and the lines that run one command. The lines name no
 * command that a user could have redefined without the guest noticing, and keep nothing in the shell's variables. */
#ifndef SHELL_TEXT_H
#define SHELL_TEXT_H

#include "frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* POSIX is dash, ash and everybody else who reads what the standard says. */
enum dialect { DIALECT_BASH, DIALECT_ZSH, DIALECT_POSIX };

enum { SHELL_LINES_MAX = 4096 /* a pipe takes as much at once */, SHELL_FORMS = 3 };

struct shell_lines {
	enum dialect dialect;
	unsigned form;      /* which way to name a file to the shell; the next one when a user has taken the names of this one */
	const char *path;   /* of the shell's directory, in characters that need no quotes */
	bool input;         /* has an input of its own */
	bool carry;         /* the file `rc` returns the status that $? is to have */
};

/* Picks a program if none is given, and adds the arguments that make it read commands. False: too many. */
bool shell_arguments(struct start *start);

/* Which lines the program understands, by its name; what it is called decides where it has two ways. */
enum dialect shell_dialect(const struct start *start, pid_t pid);

/* For the file `init`. It makes a signal end the command text that is being read, whole, and nothing else. */
const char *shell_init(const struct start *start, pid_t pid);

/* URG, which does nothing where a user took the trap away. zsh forgets about it in places; not so about QUIT. */
int shell_interrupt_signal(enum dialect dialect);

/* All return the length, 0 when it does not fit. The lines that read `init`, and say so: */
size_t shell_opening_lines(const struct shell_lines *lines, char *text, size_t size);

/* that read `command` with its streams, and report its status: */
size_t shell_command_lines(const struct shell_lines *lines, char *text, size_t size);

/* the file `run`, which the lines above read for POSIX; 0 for others. */
size_t shell_run_file(const struct shell_lines *lines, char *text, size_t size);

/* After an interrupt: takes off what it left, and lets a late signal find nothing to end. */
const char *shell_calming_line(enum dialect dialect);

#endif
