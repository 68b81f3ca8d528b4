/* Timers of shells: one that reports nothing any more is found, one that is to be interrupted is told again and again.
 * No timer runs while every shell is idle. */
#ifndef SHELL_WATCH_H
#define SHELL_WATCH_H

#include "shell.h"

void shell_watch_opening(struct shell *s);
void shell_watch_command(struct shell *s);
void shell_watch_nothing(struct shell *s);

/* Until the command ends. */
void shell_interrupt(struct shell *s);

/* Does what is due. */
void shells_turn(void);

/* For epoll_wait: -1 while nothing will be due. */
int shells_timeout(void);

#endif
