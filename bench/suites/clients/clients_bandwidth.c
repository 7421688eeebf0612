/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `clients` about several servers: one client reads a region that is striped over two or four. The rows
 * differ in the size of the read and of the stripe unit. The reference is a region on one of the same servers.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "clients.h"
#include "harness/cluster.h"
#include "harness/scene.h"

#define KIB	     (UINT64_C(1) << 10)
#define MIB	     (UINT64_C(1) << 20)
#define REGION_BYTES (32 * MIB)
#define SERVER_BYTES (128 * MIB)
#define READ_BYTES   (128 * MIB) /* by each measurement */

enum width { WIDTH_1, WIDTH_2, WIDTH_4, NR_WIDTHS };
enum unit { UNIT_64K, UNIT_1M, UNIT_4M, NR_UNITS };

static const unsigned widths[NR_WIDTHS] = {1, 2, 4};
static const uint64_t units[NR_UNITS] = {64 * KIB, MIB, 4 * MIB};

/* A row's parameters. */
struct striped {
	enum width width;
	enum unit unit;
	uint64_t size;
};

struct bandwidth_stage {
	struct cluster *cluster;
	struct afar_session *session;
	struct scene scenes[NR_WIDTHS][NR_UNITS];
};

static int measure(const struct bandwidth_stage *state, const struct striped *striped,
		   enum width width, double *value)
{
	struct afar_mapping *mapping = state->scenes[width][striped->unit].mapping;
	uint64_t nr = READ_BYTES / striped->size, begin = clock_ns();
	int ret = 0;

	for (uint64_t i = 0; i < nr && !ret; i++)
		ret = afar_mapping_read(mapping, i * striped->size % REGION_BYTES, striped->size);
	if (ret)
		return scene_fail("read", ret);
	*value = (double)(nr * striped->size) / (double)(clock_ns() - begin);
	return 0;
}

static int run_striped(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct striped *striped = row->parameters;

	(void)repetition;
	return measure(stage, striped, striped->width, value);
}

static int run_single(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)repetition;
	return measure(stage, row->parameters, WIDTH_1, value);
}

static int open_region(struct bandwidth_stage *state, enum width width, enum unit unit)
{
	const struct afar_policy policy = {.size = sizeof(policy),
					   .tier = AFAR_TIER_DRAM,
					   .width = widths[width],
					   .stripe_bytes = units[unit]};
	struct scene *scene = &state->scenes[width][unit];
	char name[64];
	int ret;

	snprintf(name, sizeof(name), "over-%u-by-%u", widths[width], unit);
	ret = afar_namespace_create(state->session, name, &policy, &scene->ns);
	if (ret)
		return scene_fail("create a namespace", ret);
	ret = afar_namespace_reserve(scene->ns, REGION_BYTES);
	if (ret)
		return scene_fail("reserve", ret);
	ret = afar_region_create(scene->ns, SCENE_REGION, REGION_BYTES, 0, &scene->region);
	if (ret)
		return scene_fail("create a region", ret);
	return scene_map(scene, REGION_BYTES);
}

static void teardown(void *stage)
{
	struct bandwidth_stage *state = stage;

	for (unsigned width = 0; width < NR_WIDTHS; width++) {
		for (unsigned unit = 0; unit < NR_UNITS; unit++)
			scene_close(&state->scenes[width][unit]);
	}
	if (state->session)
		afar_session_close(state->session);
	cluster_stop(state->cluster);
	free(state);
}

static int setup(void **stage)
{
	const struct afar_session_options options = {.size = sizeof(options)};
	struct bandwidth_stage *state = calloc(1, sizeof(*state));
	int ret;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = cluster_start_over("tcp", widths[NR_WIDTHS - 1], SERVER_BYTES, &state->cluster);
	if (!ret) {
		ret = afar_session_open(cluster_uri(state->cluster), &options, &state->session);
		if (ret)
			scene_fail("open a session", ret);
	}
	for (unsigned width = 0; width < NR_WIDTHS && !ret; width++) {
		for (unsigned unit = 0; unit < NR_UNITS && !ret; unit++)
			ret = open_region(state, width, unit);
	}
	if (ret) {
		teardown(state);
		return ret;
	}
	*stage = state;
	return 0;
}

#define ONE_SERVER "the same over one server"
#define STRIPED(servers, width, unit_text, unit, size_text, size)                                  \
	{                                                                                          \
		"read " size_text " by " unit_text ", " servers, "GB/s", BENCH_HIGHER, ONE_SERVER, \
			BENCH_REPORTED, &(const struct striped){width, unit, size}, run_striped,   \
			run_single                                                                 \
	}
#define BY_SIZE(servers, width, unit_text, unit)                                \
	STRIPED(servers, width, unit_text, unit, "64 KiB", 64 * KIB),           \
		STRIPED(servers, width, unit_text, unit, "256 KiB", 256 * KIB), \
		STRIPED(servers, width, unit_text, unit, "1 MiB", MIB),         \
		STRIPED(servers, width, unit_text, unit, "4 MiB", 4 * MIB),     \
		STRIPED(servers, width, unit_text, unit, "8 MiB", 8 * MIB),     \
		STRIPED(servers, width, unit_text, unit, "16 MiB", 16 * MIB),   \
		STRIPED(servers, width, unit_text, unit, "32 MiB", 32 * MIB)
#define BY_UNIT(servers, width)                                                                 \
	BY_SIZE(servers, width, "64 KiB", UNIT_64K), BY_SIZE(servers, width, "1 MiB", UNIT_1M), \
		BY_SIZE(servers, width, "4 MiB", UNIT_4M)

static const struct bench_row rows[] = {
	BY_UNIT("2 servers", WIDTH_2),
	BY_UNIT("4 servers", WIDTH_4),
};

const struct bench_stage clients_bandwidth_stage = {setup, teardown, rows, NR_ROWS(rows)};
