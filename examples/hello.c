/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hello, other machine's memory: set up ahead, then write and read it one-sided.
 *
 *   afar up &
 *   cc hello.c $(pkg-config --cflags --libs afar) -o hello && ./hello
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <afar/afar.h>

#define SIZE ((size_t)16 << 20)

static void check(int ret)
{
	if (ret < 0) {
		fprintf(stderr, "hello: %s\n", afar_last_error());
		exit(1);
	}
}

int main(void)
{
	struct afar_session *session;
	struct afar_namespace *ns;
	struct afar_region *region;
	struct afar_mapping *mapping;

	check(afar_session_open(NULL, NULL, &session)); /* the cluster of AFAR_CLUSTER, or ours */
	check(afar_namespace_create(session, "hello", NULL, &ns));
	check(afar_namespace_reserve(ns, SIZE)); /* slow, ahead: servers get memory ready    */
	check(afar_region_alloc(ns, SIZE, AFAR_ALLOC_FIRST, &region)); /* metadata only      */
	check(afar_region_map(region, 0, SIZE, 0, &mapping));	       /* local memory       */

	strcpy(afar_mapping_data(mapping), "hello, other machine's memory");
	check(afar_mapping_write(mapping, 0, 64)); /* from here on one-sided, without set-up */
	memset(afar_mapping_data(mapping), 0, 64);
	check(afar_mapping_read(mapping, 0, 64));
	puts(afar_mapping_data(mapping));

	check(afar_mapping_unmap(mapping));
	check(afar_region_destroy(region));
	check(afar_region_close(region));
	check(afar_namespace_close(ns));
	check(afar_namespace_delete(session, "hello", 0));
	check(afar_session_close(session));
	return 0;
}
