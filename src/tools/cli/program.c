/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds what belongs to this program; see program.h. */
#include "program.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool program_find(const char *name, int mode, const char *const *places, char out[PATH_MAX])
{
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	self[length > 0 ? length : 0] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		slash[1] = '\0'; /* its folder */
	for (; *places; places++) {
		const bool is_absolute = **places == '/';

		/* Without /proc nobody knows where this program is: not in the current folder. */
		if (!**places || (!is_absolute && !slash))
			continue;
		if (snprintf(out, PATH_MAX, "%s%s/%s", is_absolute ? "" : self, *places, name) <
			    PATH_MAX &&
		    access(out, mode) == 0)
			return true;
	}
	snprintf(out, PATH_MAX, "%s", name);
	return false;
}

void program_find_daemon(char out[PATH_MAX])
{
	static const char *const places[] = {".", "../sbin", NULL};

	program_find("afard", X_OK, places, out);
}
