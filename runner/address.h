#pragma once

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

/* `@name` is a name in the network name space, anything else a path. False where it is too long. */
bool parse_address(const char *text, struct sockaddr_un *address, socklen_t *length);
