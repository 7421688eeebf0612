/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Holds a region and a volume open over what happens to their cluster, and tells what calls answer.
 *
 *	handles NAMESPACE REGION VOLUME [RETRY-MS]   opens both and prints "ready". Then, for each line of its input up
 *	                                             to "end", calls all that a handle is for. Prints a line
 *	                                             of what each returned and why, and "done".
 *
 * The cluster is that of $AFAR_CLUSTER.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <afar/volume.h>

static struct afar_session *session;
static struct afar_namespace *ns;
static struct afar_region *region;
static struct afar_volume *volume;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "handles: %s: %s\n", what, afar_last_error());
	exit(1);
}

static void tell(const char *what, long ret)
{
	printf("%s %ld %s\n", what, ret, ret < 0 ? afar_last_error() : "");
}

static void call_all(void)
{
	struct afar_namespace_stat ns_stat = {.size = sizeof(ns_stat)};
	struct afar_volume_stat volume_stat = {.size = sizeof(volume_stat)};
	struct afar_region *other = NULL;
	struct afar_namespace *again = NULL;
	char bytes[4096] = "mine";

	tell("volume-read", (long)afar_volume_pread(volume, bytes, sizeof(bytes), 0));
	tell("volume-write", (long)afar_volume_pwrite(volume, bytes, sizeof(bytes), 0, 0));
	tell("volume-sync", afar_volume_sync(volume));
	tell("volume-stat", afar_volume_stat(volume, &volume_stat));
	tell("region-read", (long)afar_region_pread(region, bytes, sizeof(bytes), 0));
	tell("region-write", (long)afar_region_pwrite(region, bytes, sizeof(bytes), 0));
	tell("region-sync", afar_region_sync(region));
	tell("namespace-stat", afar_namespace_stat(ns, &ns_stat));
	tell("region-alloc", afar_region_alloc(ns, 4096, 0, &other));
	if (other)
		afar_region_close(other);
	tell("namespace-open", afar_namespace_open(session, "n", &again));
	if (again)
		afar_namespace_close(again);
}

int main(int argc, char **argv)
{
	struct afar_volume_options options = {
		.size = sizeof(options),
		.retry_ms = argc == 5 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0,
	};
	char line[16];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 4 || afar_session_open(NULL, NULL, &session) ||
	    afar_namespace_open(session, argv[1], &ns) || afar_region_open(ns, argv[2], &region) ||
	    afar_volume_open(session, argv[3], &options, &volume))
		die("open all");
	call_all();
	puts("ready");
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "end\n") != 0) {
		call_all();
		puts("done");
	}
	if (afar_volume_close(volume) || afar_region_close(region) || afar_namespace_close(ns) ||
	    afar_session_close(session))
		die("close all");
	return 0;
}
