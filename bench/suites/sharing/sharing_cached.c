/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows on a file that is read through a program's cache (afar/cache.h): random blocks that are there, beside asking the servers for them. */
#include "suites/sharing/sharing.h"

#include <errno.h>
#include <fcntl.h>

#include <afar/cache.h>

#include "base/clock.h"

#define SERVER_BYTES (256 * MIB)
#define FLASH_BYTES  (512 * MIB)
#define FILE_BYTES   (32 * MIB)
#define NR_BLOCKS    (FILE_BYTES / AFAR_FILE_BLOCK)
#define SPAN_NS	     UINT64_C(200000000)

struct cached_stage {
	struct file_scene scene; /* with memory for the file */
	struct afar_file *reader;
	struct afar_cache *cache;
};

/* Gives the mean time of a read, in µs; without a cache if that is NULL. */
static int time_mean(const struct cached_stage *stage, struct afar_cache *cache, double *value)
{
	const uint64_t begin = clock_ns(), end = begin + bench_span_ns(SPAN_NS);
	uint64_t nr = 0, seed = 1, now;
	char bytes[AFAR_FILE_BLOCK];

	do {
		uint64_t at;
		ssize_t ret;

		seed = seed * UINT64_C(6364136223846793005) + 1;
		at = (seed >> 33) % NR_BLOCKS * AFAR_FILE_BLOCK;
		ret = cache ? afar_cache_read_file(cache, stage->reader, bytes, sizeof(bytes), at)
			    : afar_file_pread(stage->reader, bytes, sizeof(bytes), at);
		if (ret != (ssize_t)sizeof(bytes))
			return scene_fail("read a file", ret < 0 ? (int)ret : -EIO);
		nr++;
		now = clock_ns();
	} while (now < end && !bench_is_interrupted());
	*value = (double)(now - begin) / 1e3 / (double)nr;
	return 0;
}

static int run_kept(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct cached_stage *of = stage;

	(void)row;
	(void)repetition;
	return time_mean(of, of->cache, value);
}

static int run_asked(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)row;
	(void)repetition;
	return time_mean(stage, NULL, value);
}

static void teardown(void *state)
{
	struct cached_stage *stage = state;

	if (stage->cache)
		afar_cache_close(stage->cache);
	if (stage->reader)
		afar_file_close(stage->reader);
	file_scene_end(stage);
}

/* Nothing is kept of a file that is open to write, so it is closed first. All of it is in the cache then. */
static int prepare(struct cached_stage *stage)
{
	struct file_scene *scene = &stage->scene;
	const uint64_t ino = afar_file_ino(scene->file);
	ssize_t ret = afar_file_pwrite(scene->file, scene->memory, FILE_BYTES, 0);

	if (ret >= 0)
		ret = afar_file_close(scene->file);
	scene->file = NULL;
	if (ret >= 0)
		ret = afar_file_open(scene->fs, NULL, ino, O_RDONLY, &stage->reader);
	if (ret >= 0)
		ret = afar_cache_open(scene->scene.session, 2 * FILE_BYTES, &stage->cache);
	if (ret >= 0)
		ret = afar_cache_read_file(stage->cache, stage->reader, scene->memory, FILE_BYTES,
					   0);
	return ret < 0 ? scene_fail("fill a cache", (int)ret) : 0;
}

static int set_up(const char *transport, void **out)
{
	const struct file_setting setting = {.transport = transport,
					     .server_bytes = SERVER_BYTES,
					     .flash_bytes = transport ? 0 : FLASH_BYTES,
					     .memory_bytes = FILE_BYTES};
	struct cached_stage *stage;
	int ret = file_scene_make(&setting, sizeof(*stage), (void **)&stage);

	if (!ret)
		ret = prepare(stage);
	return file_scene_ready(ret, stage, teardown, out);
}

static int set_up_tcp(void **out)
{
	return set_up("tcp", out);
}

static int set_up_flash(void **out)
{
	return set_up(NULL, out);
}

#define CACHED(on)                                                                   \
	{                                                                            \
		"random 4 KiB of a file that a cache has, " on, "µs", BENCH_LOWER,   \
			"without a cache", BENCH_REPORTED, NULL, run_kept, run_asked \
	}

static const struct bench_row tcp_rows[] = {CACHED("tcp")};
static const struct bench_row flash_rows[] = {CACHED("flash")};

const struct bench_stage sharing_cached_tcp_stage = {set_up_tcp, teardown, tcp_rows,
						     NR_ROWS(tcp_rows)};
const struct bench_stage sharing_cached_flash_stage = {set_up_flash, teardown, flash_rows,
						       NR_ROWS(flash_rows)};
