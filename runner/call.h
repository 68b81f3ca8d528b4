#pragma once

#include "ask.h"

/* The grader's side: has a program run by the agent's side and returns the code to end with. */
int call(const struct ask *ask);
