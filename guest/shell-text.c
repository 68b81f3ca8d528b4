#include "shell-text.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PROGRAM_BYTES = 256 };

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash == NULL ? path : slash + 1;
}

static bool in_path(const struct start *start, const char *program)
{
	const char *path = "/usr/local/bin:/usr/bin:/bin";
	for (int i = 0; start->envp[i] != NULL; i++)
		if (strncmp(start->envp[i], "PATH=", 5) == 0)
			path = start->envp[i] + 5;
	for (const char *end; *path != 0; path = *end ? end + 1 : end) {
		char file[4096];
		end = strchrnul(path, ':');
		int length = snprintf(file, sizeof file, "%.*s/%s", (int)(end - path), path, program);
		if (length > 0 && (size_t)length < sizeof file && access(file, X_OK) == 0)
			return true;
	}
	return false;
}

/* busybox is called by its second word. */
static const char *called(const struct start *start)
{
	const char *name = base_name(start->argv[0]);
	return strcmp(name, "busybox") == 0 && start->argv[1] != NULL ? start->argv[1] : name;
}

bool shell_arguments(struct start *start)
{
	static char bash[] = "bash", sh[] = "sh", read_input[] = "-s", no_files[] = "-f", shopt[] = "-O",
	            aliases[] = "expand_aliases";
	size_t count = 0;
	if (start->argv[0] == NULL) {
		start->argv[0] = in_path(start, bash) ? bash : sh;
		start->argv[1] = NULL;
	}
	while (start->argv[count] != NULL)
		count++;
	if (count + 3 > WORDS_MAX)
		return false;
	if (strcmp(called(start), "bash") == 0) {
		start->argv[count++] = shopt;
		start->argv[count++] = aliases;
	} else if (strcmp(called(start), "zsh") == 0) {
		start->argv[count++] = no_files;
	}
	start->argv[count++] = read_input;
	start->argv[count] = NULL;
	return true;
}

/* sh may be any of them: the program behind the name tells. */
static const char *program_of(const struct start *start, pid_t pid, char name[static PROGRAM_BYTES])
{
	char link[64];
	snprintf(link, sizeof link, "/proc/%d/exe", pid);
	ssize_t length = readlink(link, name, PROGRAM_BYTES - 1);
	if (length <= 0)
		return called(start);
	name[length] = 0;
	return base_name(name);
}

enum dialect shell_dialect(const struct start *start, pid_t pid)
{
	char name[PROGRAM_BYTES];
	const char *program = program_of(start, pid, name);
	bool standard = strcmp(called(start), "sh") == 0; /* then bash and zsh do as the standard says */
	if (strncmp(program, "bash", 4) == 0)
		return standard ? DIALECT_POSIX : DIALECT_BASH;
	return strncmp(program, "zsh", 3) == 0 ? DIALECT_ZSH : DIALECT_POSIX;
}

/* bash: from its trap a return leaves one function or file; the DEBUG trap then leaves the next before it does anything.
 * zsh: a trap function that fails ends everything up to the `always`. Others: so does a failed expansion, up to the
 * `command`. Standard output is closed between commands there, which keeps a late signal from ending the shell itself. */
const char *shell_init(const struct start *start, pid_t pid)
{
	char name[PROGRAM_BYTES];
	const char *program = program_of(start, pid, name);
	if (strncmp(program, "bash", 4) == 0)
		return "trap '[[ ${BASH_SOURCE-} ]] && { trap \"return 124\" DEBUG; return 124; }' URG\n";
	if (strncmp(program, "zsh", 3) == 0)
		return "TRAPQUIT() { [[ $ZSH_EVAL_CONTEXT = *file* ]] && return 124; return 0 }\n";
	return "exec >&-\ntrap '{ : ${_interrupted?}; } 2>/dev/null 3>&1' URG\n";
}

int shell_interrupt_signal(enum dialect dialect)
{
	return dialect == DIALECT_ZSH ? SIGQUIT : SIGURG;
}

/* A backslash keeps aliases off. `command` keeps a POSIX shell alive through errors in the file. */
static const char *source_words(const struct shell_lines *lines)
{
	static const char *const words[][SHELL_FORMS] = {
		[DIALECT_BASH] = {"\\builtin \\.", "\\command \\.", "\\."},
		[DIALECT_ZSH] = {"\\builtin \\.", "\\.", "\\source"},
		[DIALECT_POSIX] = {"\\command \\.", "\\.", "\\."},
	};
	return words[lines->dialect][lines->form];
}

/* A redirection alone opens a file; zsh would run a command for it. */
static const char *nothing(const struct shell_lines *lines)
{
	return lines->dialect == DIALECT_ZSH ? "[[ 1 ]] " : "";
}

static size_t fitted(int length, size_t size)
{
	return length > 0 && (size_t)length < size ? (size_t)length : 0;
}

size_t shell_opening_lines(const struct shell_lines *lines, char *text, size_t size)
{
	return fitted(snprintf(text, size, "%s %s/init\n%s>%s/m\n", source_words(lines), lines->path, nothing(lines), lines->path), size);
}

/* Reads `command` with its streams. One with an input opens it first and says so, for nobody sees a reader come: by a file,
 * since what is heard of the pipe may still be the end of the command before. */
static int command_with_streams(const struct shell_lines *lines, const char *source, char *text, size_t size)
{
	const char *path = lines->path, *open = lines->dialect == DIALECT_ZSH ? "{ " : "", *close = *open ? " }" : "";
	char carried[SHELL_LINES_MAX / 4] = "";
	if (lines->carry && fitted(snprintf(carried, sizeof carried, "%s %s/rc||", source, path), sizeof carried) == 0)
		return -1;
	if (lines->input)
		return snprintf(text, size, "{ %s>%s/i >%s/m;%s%s%s %s/command%s >%s/out 2>%s/err;} <%s/in", nothing(lines), path, path,
		                carried, open, source, path, close, path, path, path);
	return snprintf(text, size, "%s%s%s %s/command%s </dev/null >%s/out 2>%s/err", carried, open, source, path, close, path, path);
}

size_t shell_run_file(const struct shell_lines *lines, char *text, size_t size)
{
	if (lines->dialect != DIALECT_POSIX)
		return 0;
	size_t length = fitted(command_with_streams(lines, "\\.", text, size - 1), size - 1);
	if (length > 0)
		text[length++] = '\n';
	return length;
}

size_t shell_command_lines(const struct shell_lines *lines, char *text, size_t size)
{
	const char *source = source_words(lines), *path = lines->path;
	char command[SHELL_LINES_MAX / 2];
	if (lines->dialect == DIALECT_POSIX)
		return fitted(snprintf(text, size, "%s %s/run\n>\"%s/s$?\" >%s/m\n", source, path, path, path), size);
	if (fitted(command_with_streams(lines, source, command, sizeof command), sizeof command) == 0)
		return 0;
	if (lines->dialect == DIALECT_BASH)
		return fitted(snprintf(text, size, "%s\n>\"%s/s$?\" >%s/m\n", command, path, path), size);
	/* An interrupt that meets the end of a loop leaves zsh breaking out of one too many: the shell's own takes that. */
	const char *loop = lines->form == 0 ? "repeat 1 " : "";
	return fitted(snprintf(text, size, "{ %s%s } always { TRY_BLOCK_ERROR=0 TRY_BLOCK_INTERRUPT=0 }\n[[ 1 ]] >\"%s/s$?\";[[ 1 ]] >%s/m\n",
	                       loop, command, path, path), size);
}

const char *shell_calming_line(enum dialect dialect)
{
	return dialect == DIALECT_BASH ? "\\trap - DEBUG\n" : dialect == DIALECT_ZSH ? "[[ 1 ]]\n" : ">/dev/null\n";
}
