/* SPDX-License-Identifier: BSD-3-Clause */
/* Clusters with a store, regions as targets of loads, and layers to compare them with, for suite
 * `flash-tier`. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "flash_tier.h"
#include "harness/process.h"

/* ---- Clusters */

int tier_cluster_start(struct tier_cluster *cluster, uint64_t file_bytes, bool is_sparse,
		       uint64_t memory_bytes)
{
	const struct cluster_store store = {cluster->file.path, cluster->cache,
					    cluster->scrub,	cluster->is_sleepy,
					    cluster->transport, cluster->has_metrics};
	int ret = is_sparse ? flash_file_make_sparse(&cluster->file, file_bytes)
			    : flash_file_make(&cluster->file, file_bytes);

	if (!ret)
		ret = flash_layer_create(cluster->file.path, 0);
	return ret ? ret : cluster_start_on_store(&store, memory_bytes, &cluster->cluster);
}

void tier_cluster_stop(struct tier_cluster *cluster)
{
	cluster_stop(cluster->cluster);
	flash_file_remove(&cluster->file);
	*cluster = (struct tier_cluster){0};
}

uint64_t tier_server_cpu_ns(const struct tier_cluster *cluster)
{
	return process_cpu_ns(cluster_server(cluster->cluster, 0));
}

/* ---- Regions as targets */

struct tier_region {
	struct scene scene;
	struct flash_queue *queue;
};

static uint64_t region_size(void *target)
{
	const struct tier_region *region = target;

	return flash_target_queue.size(region->queue);
}

static void submit_to_region(void *target, struct flash_request *request)
{
	const struct tier_region *region = target;

	flash_target_queue.submit(region->queue, request);
}

static int poll_region(void *target, int timeout_ms)
{
	const struct tier_region *region = target;

	return flash_target_queue.poll(region->queue, timeout_ms);
}

static int lend_to_region(void *target, void *memory, size_t length)
{
	const struct tier_region *region = target;

	return flash_target_queue.lend(region->queue, memory, length);
}

static void take_back_from_region(void *target)
{
	const struct tier_region *region = target;

	flash_target_queue.take_back(region->queue);
}

const struct flash_target flash_target_region = {
	.size = region_size,
	.lend = lend_to_region,
	.take_back = take_back_from_region,
	.submit = submit_to_region,
	.poll = poll_region,
};

int tier_region_open(const struct tier_cluster *cluster, uint32_t tier, uint64_t bytes,
		     struct tier_region **out)
{
	const char *name =
		tier == AFAR_TIER_FLASH ? SCENE_NAMESPACE "-flash" : SCENE_NAMESPACE "-dram";
	struct tier_region *region = calloc(1, sizeof(*region));
	int ret;

	if (!region)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = scene_open(&region->scene, cluster_uri(cluster->cluster), 0);
	if (!ret)
		ret = scene_create_region_on(&region->scene, tier, name, 1, bytes);
	if (!ret)
		ret = flash_queue_open(region->scene.session,
				       afar_region_target(region->scene.region), bytes,
				       &region->queue);
	if (!ret)
		ret = flash_load_fill(&flash_target_region, region, 1);
	if (ret)
		tier_region_close(region);
	else
		*out = region;
	return ret;
}

void tier_region_close(struct tier_region *region)
{
	if (!region)
		return;
	flash_queue_close(region->queue);
	scene_close(&region->scene);
	free(region);
}

struct afar_region *tier_region_handle(const struct tier_region *region)
{
	return region->scene.region;
}

int tier_cluster_restart(struct tier_cluster *cluster, struct tier_region *region,
			 const char *scrub)
{
	int ret;

	cluster_stop_server(cluster->cluster, 0);
	cluster_set_scrub(cluster->cluster, scrub);
	ret = cluster_restart_server(cluster->cluster, 0);
	return ret ? ret : flash_queue_connect(region->queue);
}

/* ---- Layers */

int tier_layer_open(struct flash_file *file, uint64_t bytes, void **layer)
{
	int ret = flash_file_make(file, 2 * bytes);

	if (!ret)
		ret = flash_layer_create(file->path, 0);
	if (!ret)
		ret = flash_layer_open(file->path, bytes, layer);
	return ret ? ret : flash_load_fill(&flash_target_layer, *layer, 1);
}

void tier_layer_close(struct flash_file *file, void *layer)
{
	if (layer)
		flash_target_layer.close(layer);
	flash_file_remove(file);
}
