/* Reads lines `pointer <document> <pointer>` and `patch <document> <patches>`, tab between the parts; prints what comes out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cJSON.h"
#include "cJSON_Utils.h"

static void show(cJSON *item)
{
	char *text = item != NULL ? cJSON_PrintUnformatted(item) : NULL;
	printf("%s\n", text != NULL ? text : "nothing");
	free(text);
}

int main(void)
{
	static char line[65536];
	while (fgets(line, sizeof line, stdin) != NULL) {
		line[strcspn(line, "\n")] = 0;
		char *kind = strtok(line, "\t"), *document = strtok(NULL, "\t"), *rest = strtok(NULL, "\t");
		cJSON *root = cJSON_Parse(document);
		if (strcmp(kind, "pointer") == 0) {
			show(cJSONUtils_GetPointer(root, rest != NULL ? rest : ""));
		} else {
			cJSON *patches = cJSON_Parse(rest);
			int status = cJSONUtils_ApplyPatches(root, patches);
			printf("%d ", status != 0);
			show(root);
			cJSON_Delete(patches);
		}
		cJSON_Delete(root);
	}
	return 0;
}
