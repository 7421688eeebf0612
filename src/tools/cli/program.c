/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds what belongs to this program; see program.h. */
#include "program.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool program_find(const char *name, const char *const *places, char out[PATH_MAX])
{
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	self[length > 0 ? length : 0] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		slash[1] = '\0'; /* its folder */
	for (; *places; places++) {
		if (**places &&
		    snprintf(out, PATH_MAX, "%s%s/%s", **places == '/' ? "" : self, *places, name) <
			    PATH_MAX &&
		    access(out, F_OK) == 0)
			return true;
	}
	snprintf(out, PATH_MAX, "%s", name);
	return false;
}

void program_find_daemon(char out[PATH_MAX])
{
	static const char *const places[] = {".", "../sbin", NULL};

	program_find("afard", places, out);
}
