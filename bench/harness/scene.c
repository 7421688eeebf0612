/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps that bring a client of a private cluster to where a row begins, for the region suite. */
#include "scene.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

int scene_fail(const char *what, int status)
{
	return bench_fail(status, "%s: %s", what,
			  *afar_last_error() ? afar_last_error() : afar_strerror(status));
}

int scene_fail_operation(const char *what, struct afar_queue *queue,
			 const struct afar_completion *done)
{
	int ret = afar_queue_explain(queue, done);

	return scene_fail(what, ret ? ret : -EIO);
}

int scene_open(struct scene *scene, const char *uri, uint64_t cache_bytes)
{
	const struct afar_session_options options = {.size = sizeof(options),
						     .cache_bytes = cache_bytes};
	int ret = afar_session_open(uri, &options, &scene->session);

	return ret ? scene_fail("open a session", ret) : 0;
}

int scene_create_region_on(struct scene *scene, uint32_t tier, const char *name, unsigned width,
			   uint64_t bytes)
{
	const struct afar_policy policy = {.size = sizeof(policy), .tier = tier, .width = width};
	int ret = afar_namespace_create(scene->session, name, &policy, &scene->ns);

	if (ret)
		return scene_fail("create a namespace", ret);
	ret = afar_namespace_reserve(scene->ns, bytes);
	if (ret)
		return scene_fail("reserve", ret);
	ret = afar_region_create(scene->ns, SCENE_REGION, bytes, 0, &scene->region);
	return ret ? scene_fail("create a region", ret) : 0;
}

int scene_create_region(struct scene *scene, const char *name, unsigned width, uint64_t bytes)
{
	return scene_create_region_on(scene, AFAR_TIER_DRAM, name, width, bytes);
}

int scene_open_region(struct scene *scene)
{
	int ret = afar_namespace_open(scene->session, SCENE_NAMESPACE, &scene->ns);

	if (ret)
		return scene_fail("open the namespace", ret);
	ret = afar_region_open(scene->ns, SCENE_REGION, &scene->region);
	return ret ? scene_fail("open the region", ret) : 0;
}

int scene_map(struct scene *scene, uint64_t bytes)
{
	int ret = afar_region_map(scene->region, 0, bytes, 0, &scene->mapping);

	return ret ? scene_fail("map", ret) : 0;
}

static void close_region(struct scene *scene)
{
	if (scene->mapping)
		afar_mapping_unmap(scene->mapping);
	if (scene->region)
		afar_region_close(scene->region);
	scene->mapping = NULL;
	scene->region = NULL;
}

void scene_free_region(struct scene *scene)
{
	if (scene->region)
		afar_region_destroy(scene->region);
	close_region(scene);
}

int scene_status(const struct scene *scene, json_t **out)
{
	char *text = NULL;
	int ret = afar_session_status(scene->session, &text);

	if (ret)
		return scene_fail("status", ret);
	*out = json_loads(text, 0, NULL);
	free(text);
	return *out ? 0 : bench_fail(-EPROTO, "the cluster's status is not JSON");
}

uint64_t status_sum(const json_t *json, const char *key)
{
	uint64_t sum = 0;
	const char *name;
	size_t index;
	json_t *each;

	json_array_foreach(json, index, each) sum += status_sum(each, key);
	json_object_foreach((json_t *)json, name, each)
	{
		if (!strcmp(name, key))
			sum += (uint64_t)json_integer_value(each);
		else
			sum += status_sum(each, key);
	}
	return sum;
}

void scene_close(struct scene *scene)
{
	close_region(scene);
	if (scene->ns)
		afar_namespace_close(scene->ns);
	if (scene->session)
		afar_session_close(scene->session);
	memset(scene, 0, sizeof(*scene));
}
