/* A user namespace of the sandbox's own, in which its users have their usual ids whatever they are on the host. */
#ifndef USER_NAMESPACE_H
#define USER_NAMESPACE_H

#include <stdbool.h>

/* Makes the namespace, waits until the worker has written which id is which, and gives up every capability; as root those that
 * start and end programs of other users are kept. Before `confine`, which refuses such namespaces. False with errno set. */
bool user_namespace_enter(bool root);

#endif
