#include <stdio.h>
#include <string.h>

#include "../cJSON.h"
#include "../cJSON_Utils.h"

static int is(cJSON *root, const char *pointer, const char *answer)
{
	cJSON *found = cJSONUtils_GetPointer(root, pointer);
	char *text = found != NULL ? cJSON_PrintUnformatted(found) : (char *)"nothing";
	return strcmp(text, answer) == 0;
}

int main(void)
{
	cJSON *root = cJSON_Parse("[0,10,20,30,40,50,60,70,80,90,100,110,120,130,140,150,160,170,180,190,200,210,220,230,240,250,260,270]");
	if (!is(root, "/1A", "nothing") || !is(root, "/1:", "nothing") || !is(root, "/12", "120")) {
		printf("not ok\n");
		return 1;
	}
	printf("ok\n");
	return 0;
}
