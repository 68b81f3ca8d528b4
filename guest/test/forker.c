/* Run as an execution: makes children as fast as it can, each of which only holds the streams. Much memory makes a fork
 * take long, so that a signal finds one under way. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MEMORY = 64 << 20, CHILDREN_MAX = 400, LIFE_S = 120 };

int main(void)
{
	char *memory = malloc(MEMORY);
	if (memory == NULL)
		return 1;
	memset(memory, 1, MEMORY);
	alarm(LIFE_S); /* should the guest fail, nobody outlives the test for long */
	for (int made = 0; made < CHILDREN_MAX; made++) {
		if (fork() == 0) {
			alarm(LIFE_S);
			for (;;)
				pause();
		}
		if (made == 0 && write(1, "go\n", 3) != 3)
			return 1;
	}
	for (;;)
		pause();
}
