#pragma once

/* The agent's side: runs what is asked for on the socket, as the user it was started as, until it is killed. */
int serve(const char *address);
