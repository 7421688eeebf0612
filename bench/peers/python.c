/* SPDX-License-Identifier: BSD-3-Clause */
/* See python.h. BENCH_PYTHON is the Python's path, empty if the module was not built. */
#include "python.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/harness.h"
#include "harness/program.h"
#include "peer.h"

int python_run(const char *uri, const char *what, const char *const arguments[3], double *value)
{
	char script[PATH_MAX], cluster[PATH_MAX], path[PATH_MAX + 32], said[64], *end;
	const char *const all[] = {"env", cluster,	path,	      BENCH_PYTHON, script,
				   what,  arguments[0], arguments[1], arguments[2], NULL};
	int ret = peer_find_built("peer_python.py", script);

	if (ret)
		return bench_fail(ret, "peer_python.py: it was not built");
	snprintf(cluster, sizeof(cluster), "AFAR_CLUSTER=%s", uri);
	snprintf(path, sizeof(path), "PYTHONPATH=%.*s/../python",
		 (int)(strrchr(script, '/') - script), script);
	ret = program_run(all, said, sizeof(said), NULL);
	if (ret)
		return ret;
	*value = strtod(said, &end);
	return end == said ? bench_fail(-EPROTO, "peer_python.py %s has said '%s'", what, said) : 0;
}

const char *python_missing(const char *module, const char *missing)
{
	double has = 0;

	if (!*BENCH_PYTHON)
		return "not built: the Python module (python3-dev)";
	return !python_run("", "has", (const char *[]){module, NULL, NULL}, &has) && has > 0
		       ? NULL
		       : missing;
}
