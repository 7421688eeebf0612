/* SPDX-License-Identifier: BSD-3-Clause */
/* The main program of a layer's unit tests; see group.h. */
#include "group.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static struct test_group *groups;

void test_group_add(struct test_group *group)
{
	group->next = groups;
	groups = group;
}

int main(int argc, char **argv)
{
	int status = 0;

	for (const struct test_group *group = groups; group; group = group->next) {
		if (argc < 2) {
			char *no_arguments[] = {(char *)group->name, NULL};

			status |= group->run(1, no_arguments) ? 1 : 0;
		} else if (strcmp(group->name, argv[1]) == 0) {
			return group->run(argc - 1, argv + 1);
		}
	}
	if (argc < 2)
		return status;

	fprintf(stderr, "%s has no group '%s'; it has:", argv[0], argv[1]);
	for (const struct test_group *group = groups; group; group = group->next)
		fprintf(stderr, " %s", group->name);
	fputc('\n', stderr);
	return 2;
}
