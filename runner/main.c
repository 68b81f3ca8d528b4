/* isolated: how a test has a program run by another user without any privilege. `serve` is started as the agent before the
 * tests; `run` is what the tests start, as the grader. Only bytes pass between the two, never a descriptor. */
#include "call.h"
#include "serve.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		return serve(argv[2]);
	struct ask ask;
	if (argc >= 2 && strcmp(argv[1], "run") == 0)
		return read_arguments(argc - 2, argv + 2, &ask) ? call(&ask) : 125;
	fprintf(stderr, "usage: isolated serve ADDRESS | isolated run [OPTION]... -- PROGRAM [ARGUMENT]...\n");
	return 125;
}
