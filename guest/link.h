/* The connection to the worker: connects for ever, says what the executions owe, does what the worker asks. */
#ifndef LINK_H
#define LINK_H

#include <stdbool.h>
#include <stdint.h>

#define LINK_EVENT UINT32_MAX

/* The secret is 64 hex digits. False when the path or the secret cannot be one, or there is no memory. */
bool link_prepare(int epoll, const char *path, const char *secret);

/* In a child, which must not know it. */
void link_forget_secret(void);

void link_ready(uint32_t events);

/* Connects if it is time to, and sends until the socket is full or nothing is owed. */
void link_turn(void);

/* For epoll_wait: -1 while only events matter. */
int link_timeout(void);

#endif
