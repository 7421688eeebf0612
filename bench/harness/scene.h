/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The scene that most rows start from: a client of a private cluster with a namespace and a region.
 * Each step says what failed. The close functions end what there is.
 */
#ifndef BENCH_SCENE_H
#define BENCH_SCENE_H

#include <jansson.h>
#include <stdint.h>

#include <afar/afar.h>

#define SCENE_NAMESPACE "bench"
#define SCENE_REGION	"region"

struct scene {
	struct afar_session *session;
	struct afar_namespace *ns;
	struct afar_region *region;
	struct afar_mapping *mapping;
};

/* Says what libafar said. Returns `status`. */
int scene_fail(const char *what, int status);
/* Says why an operation has not moved all of its bytes. Returns a negative code. */
int scene_fail_operation(const char *what, struct afar_queue *queue,
			 const struct afar_completion *done);

/* Opens a session that keeps up to `cache_bytes` of mapping memory (0: the default). */
int scene_open(struct scene *scene, const char *uri, uint64_t cache_bytes);
/* Makes namespace `name` (striped over `width` servers, 0: all), reserves and allocates. */
int scene_create_region(struct scene *scene, const char *name, unsigned width, uint64_t bytes);
/* Does what scene_create_region does, on `tier` (AFAR_TIER_…). */
int scene_create_region_on(struct scene *scene, uint32_t tier, const char *name, unsigned width,
			   uint64_t bytes);
/* Opens the namespace and region that another session created as SCENE_NAMESPACE. */
int scene_open_region(struct scene *scene);
/* Maps all of the region. */
int scene_map(struct scene *scene, uint64_t bytes);
/* Unmaps and frees the region; the reservation stays. */
void scene_free_region(struct scene *scene);
/* Asks for the cluster's status; the caller owns `*out`. */
int scene_status(const struct scene *scene, json_t **out);
/* Adds up the numbers called `key` anywhere in a JSON value. */
uint64_t status_sum(const json_t *json, const char *key);
/* Closes all handles; what was created stays in the cluster. */
void scene_close(struct scene *scene);

#endif
