#include "address.h"

#include <stddef.h>
#include <string.h>

bool parse_address(const char *text, struct sockaddr_un *address, socklen_t *length)
{
	size_t bytes = strlen(text);
	memset(address, 0, sizeof *address);
	address->sun_family = AF_UNIX;
	if (bytes < 2 || bytes >= sizeof address->sun_path)
		return false;
	memcpy(address->sun_path, text, bytes);
	bool abstract = text[0] == '@';
	if (abstract)
		address->sun_path[0] = 0;
	*length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes + (abstract ? 0 : 1));
	return true;
}
