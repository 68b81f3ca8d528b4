#include "frame.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void put_u32(uint8_t *at, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

uint32_t get_u32(const uint8_t *at)
{
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

bool write_all(int fd, const void *bytes, size_t length)
{
	const uint8_t *at = bytes;
	while (length > 0) {
		ssize_t count = write(fd, at, length);
		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return false;
		at += count;
		length -= (size_t)count;
	}
	return true;
}

bool read_all(int fd, void *bytes, size_t length)
{
	uint8_t *at = bytes;
	while (length > 0) {
		ssize_t count = read(fd, at, length);
		if (count < 0 && errno == EINTR)
			continue;
		if (count <= 0)
			return false;
		at += count;
		length -= (size_t)count;
	}
	return true;
}

bool send_frame(int fd, enum frame_type type, const void *payload, size_t length)
{
	uint8_t header[FRAME_HEADER];
	put_u32(header, (uint32_t)length);
	header[4] = (uint8_t)type;
	return write_all(fd, header, sizeof header) && write_all(fd, payload, length);
}

/* Cuts one word out of the payload and ends it with NUL. That byte is the first of the next word's length, which is read
 * before it is overwritten, or the one behind the payload. */
static char *take_word(uint8_t **at, size_t *left, uint32_t *length_of_next)
{
	uint32_t length = *length_of_next;
	if (length > *left)
		return NULL;
	char *word = (char *)*at;
	*at += length;
	*left -= length;
	if (memchr(word, 0, length) != NULL)
		return NULL;
	*length_of_next = *left >= 4 ? get_u32(*at) : 0;
	word[length] = 0;
	size_t skipped = *left >= 4 ? 4 : *left;
	*at += skipped;
	*left -= skipped;
	return word;
}

bool parse_run(uint8_t *payload, size_t length, struct run *run)
{
	if (length < 12)
		return false;
	uint32_t argc = get_u32(payload), envc = get_u32(payload + 4), next = get_u32(payload + 8);
	if (argc < 1 || argc > WORDS_MAX || envc > WORDS_MAX)
		return false;
	uint8_t *at = payload + 12;
	size_t left = length - 12;
	/* The lengths still have to be there: every word but the first is led by four bytes. */
	if (left < 4 * ((size_t)argc + envc))
		return false;
	if ((run->directory = take_word(&at, &left, &next)) == NULL)
		return false;
	for (uint32_t i = 0; i < argc; i++)
		if ((run->argv[i] = take_word(&at, &left, &next)) == NULL)
			return false;
	for (uint32_t i = 0; i < envc; i++)
		if ((run->envp[i] = take_word(&at, &left, &next)) == NULL)
			return false;
	run->argv[argc] = NULL;
	run->envp[envc] = NULL;
	run->envc = envc;
	return left == 0 && run->argv[0][0] != 0;
}
