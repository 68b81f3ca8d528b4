#include "ask.h"

#include "frame.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"usage: isolated run [--timeout SECONDS] [--max-output BYTES] [--cwd DIRECTORY] [--env NAME=VALUE]...\n"
	"                    [--status-fd NUMBER] [--socket ADDRESS] -- PROGRAM [ARGUMENT]...\n"
	"Runs a program as the agent's user, with stdin, stdout and stderr of this process.\n"
	"Ends like the program: its code, 128 + its signal; 124 over the time, 127 not started, 125 anything else.\n"
	"To --status-fd it says: exited N, signaled N, timed-out, output-limit, not-started TEXT, lost, or unavailable TEXT.\n";

static bool is_number(const char *text, double min, double max, double *value)
{
	char *end;
	errno = 0;
	*value = strtod(text, &end);
	return errno == 0 && end != text && *end == 0 && *value >= min && *value <= max;
}

static bool take_option(const char *name, char *value, struct ask *ask)
{
	double number;
	if (strcmp(name, "--timeout") == 0)
		return is_number(value, 0.001, 86400, &ask->seconds);
	if (strcmp(name, "--max-output") == 0 && is_number(value, 0, 1e12, &number)) {
		ask->output_max = (uint64_t)number;
		return true;
	}
	if (strcmp(name, "--status-fd") == 0 && is_number(value, 3, 1023, &number)) {
		ask->status_fd = (int)number;
		return true;
	}
	if (strcmp(name, "--cwd") == 0 && value[0] == '/') {
		ask->directory = value;
		return true;
	}
	if (strcmp(name, "--socket") == 0) {
		ask->address = value;
		return true;
	}
	if (strcmp(name, "--env") == 0 && strchr(value, '=') != NULL && ask->envc < WORDS_MAX) {
		ask->env[ask->envc++] = value;
		return true;
	}
	return false;
}

bool read_arguments(int argc, char **argv, struct ask *ask)
{
	static char *env[WORDS_MAX];
	const char *address = getenv("ASSAY_SPAWNER"), *directory = getenv("ASSAY_WORKSPACE");
	*ask = (struct ask){
		.address = address != NULL ? address : "@assay-agent",
		.directory = directory != NULL ? directory : "/workspace",
		.env = env,
		.seconds = 10,
		.output_max = 1 << 20,
		.status_fd = -1,
	};
	int at = 0;
	while (at < argc && strcmp(argv[at], "--") != 0) {
		if (at + 1 >= argc || !take_option(argv[at], argv[at + 1], ask)) {
			fprintf(stderr, "isolated: found %s%s%s\n%s", argv[at], at + 1 < argc ? " " : "",
			        at + 1 < argc ? argv[at + 1] : "", usage);
			return false;
		}
		at += 2;
	}
	ask->argv = argv + at + 1;
	if (at + 1 < argc && argc - at - 1 <= WORDS_MAX && argv[at + 1][0] != 0)
		return true;
	fprintf(stderr, "isolated: found no program\n%s", usage);
	return false;
}
