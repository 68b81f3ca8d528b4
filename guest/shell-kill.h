/* Signals for what runs in a shell. */
#ifndef SHELL_KILL_H
#define SHELL_KILL_H

#include "shell.h"

#include <stdint.h>

/* The shell itself, or every process that the command made; never what earlier commands left running. */
void shell_kill_command(struct execution *e, int signal_number, uint32_t scope);

/* The shell and everything of it that can be found. */
void shell_kill_all(struct shell *s);

#endif
