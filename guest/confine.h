/* What no process of the sandbox may do, the guest included. */
#ifndef CONFINE_H
#define CONFINE_H

#include <stdbool.h>

/* io_uring, io_setup, AF_VSOCK and prlimit of another process are refused from here on, for this process and all its children. False with
 * errno set. */
bool confine(void);

#endif
