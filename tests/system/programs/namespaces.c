/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes many namespaces, sooner than as many commands would.
 *
 *	namespaces PREFIX N    PREFIX0 … in the cluster of $AFAR_CLUSTER
 */
#include <stdio.h>
#include <stdlib.h>

#include <afar/afar.h>

int main(int argc, char **argv)
{
	struct afar_session *session;
	struct afar_namespace *ns;
	char name[64];
	int ret, nr;

	if (argc != 3)
		return 2;
	nr = atoi(argv[2]);
	ret = afar_session_open(getenv("AFAR_CLUSTER"), NULL, &session);
	for (int i = 0; i < nr && !ret; i++) {
		snprintf(name, sizeof(name), "%s%d", argv[1], i);
		ret = afar_namespace_create(session, name, NULL, &ns);
		if (!ret)
			afar_namespace_close(ns);
	}
	if (ret)
		fprintf(stderr, "namespaces: %s\n", afar_last_error());
	return ret || afar_session_close(session);
}
