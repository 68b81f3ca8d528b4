#include "frame.h"

#include <string.h>

uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint64_t get64(const uint8_t *p)
{
	return get32(p) | (uint64_t)get32(p + 4) << 32;
}

uint8_t *put32(uint8_t *p, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		*p++ = (uint8_t)(value >> 8 * i);
	return p;
}

uint8_t *put64(uint8_t *p, uint64_t value)
{
	return put32(put32(p, (uint32_t)value), (uint32_t)(value >> 32));
}

uint8_t *frame_header(uint8_t *p, enum frame_type type, uint8_t stream, uint64_t number, size_t length)
{
	p = put32(p, (uint32_t)length);
	*p++ = (uint8_t)type;
	*p++ = stream;
	*p++ = 0;
	*p++ = 0;
	return put64(p, number);
}

/* What a frame from the worker must look like before anybody looks into its payload. */
static const struct rule {
	uint32_t least, most;
	bool numbered, streamed;
} rules[] = {
	[WELCOME - WELCOME] = {0, 0, false, false},
	[START - WELCOME] = {24, PAYLOAD_MAX, true, false},
	[GO - WELCOME] = {0, 0, true, false},
	[ACK - WELCOME] = {8, 8, true, true},
	[INPUT - WELCOME] = {8, PAYLOAD_MAX, true, false},
	[INPUT_END - WELCOME] = {8, 8, true, false},
	[SIGNAL - WELCOME] = {8, 8, true, false},
	[FORGET - WELCOME] = {0, 0, true, false},
	[PREPARE - WELCOME] = {0, 0, true, false},
	[OPEN_SHELL - WELCOME] = {24, PAYLOAD_MAX, true, false},
	[SHELL_START - WELCOME] = {16, 16 + TEXT_MAX, true, false},
	[CLOSE_SHELL - WELCOME] = {0, 0, true, false},
	[INTERRUPT - WELCOME] = {0, 0, true, false},
	[RESIZE - WELCOME] = {4, 4, true, false},
	[NEST - WELCOME] = {0, 0, true, false},
	[UNNEST - WELCOME] = {0, 0, true, false},
};

static bool header_is_sound(const uint8_t *p, const struct frame *frame)
{
	if (frame->type < WELCOME || frame->type > UNNEST || p[6] != 0 || p[7] != 0)
		return false;
	const struct rule *rule = &rules[frame->type - WELCOME];
	bool stream = rule->streamed ? frame->stream == 1 || frame->stream == 2 : frame->stream == 0;
	return stream && rule->numbered == (frame->number != 0) && frame->length >= rule->least &&
	       frame->length <= rule->most;
}

size_t decoder_room(struct decoder *d, uint8_t **at)
{
	if (d->from > 0) {
		memmove(d->bytes, d->bytes + d->from, d->to - d->from);
		d->to -= d->from;
		d->from = 0;
	}
	*at = d->bytes + d->to;
	return d->size - d->to;
}

enum decoded decoder_next(struct decoder *d, struct frame *frame)
{
	uint8_t *p = d->bytes + d->from;
	size_t waiting = d->to - d->from;
	if (waiting < HEADER_BYTES)
		return DECODED_PARTIAL;
	frame->length = get32(p);
	frame->type = p[4];
	frame->stream = p[5];
	frame->number = get64(p + 8);
	frame->payload = p + HEADER_BYTES;
	if (!header_is_sound(p, frame))
		return DECODED_BROKEN;
	if (waiting - HEADER_BYTES < frame->length)
		return DECODED_PARTIAL;
	d->from += HEADER_BYTES + frame->length;
	return DECODED_FRAME;
}

/* Moves the string over its own length, which makes room for the NUL. */
static char *take_string(uint8_t **at, uint8_t *end)
{
	uint8_t *p = *at;
	if (end - p < 4)
		return NULL;
	uint32_t length = get32(p);
	if ((size_t)(end - p) - 4 < length || memchr(p + 4, 0, length) != NULL)
		return NULL;
	memmove(p, p + 4, length);
	p[length] = 0;
	*at = p + 4 + length;
	return (char *)p;
}

static bool take_strings(uint8_t **at, uint8_t *end, uint32_t count, char **strings)
{
	for (uint32_t i = 0; i < count; i++)
		if ((strings[i] = take_string(at, end)) == NULL)
			return false;
	strings[count] = NULL;
	return true;
}

static bool take_size(uint8_t **at, const uint8_t *end, struct start *start)
{
	start->rows = start->columns = 0;
	if (!(start->flags & START_TERMINAL))
		return true;
	if (end - *at < 4)
		return false;
	start->rows = get16(*at);
	start->columns = get16(*at + 2);
	*at += 4;
	return true;
}

uint64_t start_nest(const uint8_t *payload)
{
	return (uint64_t)(payload[2] | payload[3] << 8);
}

static bool decode(uint8_t *payload, size_t length, struct start *start)
{
	if (length < 24 || (payload[0] & ~START_FLAGS) != 0 || payload[1])
		return false;
	start->flags = payload[0];
	start->uid = get32(payload + 4);
	start->gid = get32(payload + 8);
	uint32_t argc = get32(payload + 12), envc = get32(payload + 16);
	if (argc > WORDS_MAX || envc > WORDS_MAX)
		return false;
	uint8_t *at = payload + 20, *end = payload + length;
	start->directory = take_string(&at, end);
	return start->directory != NULL && take_strings(&at, end, argc, start->argv) &&
	       take_strings(&at, end, envc, start->envp) && take_size(&at, end, start) && at == end;
}

bool start_decode(uint8_t *payload, size_t length, struct start *start)
{
	return decode(payload, length, start) && start->argv[0] != NULL;
}

bool shell_decode(uint8_t *payload, size_t length, struct start *start)
{
	return decode(payload, length, start) && (start->flags & ~START_GATED) == 0;
}

bool shell_start_decode(const uint8_t *payload, size_t length, struct shell_start *start)
{
	static const uint8_t nothing[7];
	if (length < 16 || (payload[0] & ~START_INPUT) != 0 || memcmp(payload + 1, nothing, sizeof nothing) != 0)
		return false;
	*start = (struct shell_start){payload[0] != 0, get64(payload + 8), payload + 16, length - 16};
	return true;
}
