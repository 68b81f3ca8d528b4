/* A shell's directory: the files and pipes by which one command is handed to it and its status comes back. A user's
 * process may do to them what it likes; nothing here follows a link or waits. */
#ifndef SHELL_FILES_H
#define SHELL_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { SHELL_PATH_BYTES = 192 };

struct shell_files {
	char path[SHELL_PATH_BYTES];
	uid_t owner;
	gid_t group;
};

/* The directory that holds those of all shells. False when the path cannot be written into a line without quotes. */
bool shell_files_prepare(const char *directory);

/* Makes the shell's directory, or empties it. All of these return false or -1 with errno set. */
bool shell_files_open(struct shell_files *files, uint64_t number, uint32_t uid, uint32_t gid);
void shell_files_remove(const struct shell_files *files);

bool shell_files_write(const struct shell_files *files, const char *name, const void *bytes, size_t length);

/* The file `command`, ending with a newline whatever the text does. */
bool shell_files_write_command(const struct shell_files *files, const uint8_t *text, size_t length);

/* Makes a pipe with a name and opens the guest's end of it. */
int shell_files_pipe(const struct shell_files *files, const char *name, int flags);
int shell_files_reopen(const struct shell_files *files, const char *name, int flags);

/* A file that was written and never read has no access time. */
bool shell_files_was_read(const struct shell_files *files, const char *name);

/* The status that the shell reported, taken away; -1 when it has not. */
int shell_files_status(const struct shell_files *files);

/* Whether the shell has said that its input is open, taken away. */
bool shell_files_input_open(const struct shell_files *files);

/* What belongs to one command, which has this number. */
void shell_files_tidy(const struct shell_files *files, uint64_t number);

#endif
