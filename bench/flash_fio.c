/* SPDX-License-Identifier: BSD-3-Clause */
/* Has fio do a load to a file, and reads what it measured. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "flash.h"
#include "peer.h"

#define ARGUMENT_SIZE 384

const char *flash_fio_missing(void)
{
	return peer_is_installed("fio") ? NULL : "not installed: apt install fio";
}

/* Its descriptor registered, as ours is; other than that what it does by itself. */
static int start(struct peer *peer, const char *path, const struct flash_load *load)
{
	static const char *const none[] = {NULL};
	char pattern[32], block[32], depth[32], file[ARGUMENT_SIZE], output[ARGUMENT_SIZE];
	const char *const arguments[] = {"fio",
					 "--name=afar",
					 "--ioengine=io_uring",
					 "--direct=1",
					 "--registerfiles=1",
					 "--norandommap",
					 "--randrepeat=0",
					 "--time_based",
					 "--runtime=1",
					 "--thread",
					 "--output-format=json",
					 pattern,
					 block,
					 depth,
					 file,
					 output,
					 load->is_durable ? "--sync=dsync" : NULL,
					 NULL};

	snprintf(pattern, sizeof(pattern), "--rw=%s%s", load->is_random ? "rand" : "",
		 load->is_write ? "write" : "read");
	snprintf(block, sizeof(block), "--bs=%llu", (unsigned long long)load->block);
	snprintf(depth, sizeof(depth), "--iodepth=%u", load->depth);
	snprintf(file, sizeof(file), "--filename=%s", path);
	snprintf(output, sizeof(output), "--output=%s/result", peer->folder);
	return peer_run(peer, arguments, none);
}

static void wait_for(struct peer *peer)
{
	const struct timespec pause = {.tv_nsec = 5000000};

	while (peer_is_alive(peer) && !bench_is_interrupted())
		nanosleep(&pause, NULL);
}

static int read_result(const struct peer *peer, const struct flash_load *load,
		       struct flash_figures *out)
{
	char path[ARGUMENT_SIZE];
	double user = 0, kernel = 0;
	json_t *result;
	int ret;

	snprintf(path, sizeof(path), "%s/result", peer->folder);
	result = json_load_file(path, 0, NULL);
	ret = result ? json_unpack(result, "{s:[{s:F, s:F, s:{s:F}}]}", "jobs", "usr_cpu", &user,
				   "sys_cpu", &kernel, load->is_write ? "write" : "read", "iops",
				   &out->per_second)
		     : -1;
	json_decref(result);
	if (ret || out->per_second <= 0)
		return peer_fail(peer, "fio measured nothing", -EIO);
	out->cpu_ns = (user + kernel) / 100 * 1e9 / out->per_second;
	return 0;
}

int flash_fio_run(const char *path, const struct flash_load *load, struct flash_figures *out)
{
	struct peer peer;
	int ret = peer_open(&peer);

	if (!ret)
		ret = start(&peer, path, load);
	if (!ret) {
		wait_for(&peer);
		ret = bench_is_interrupted() ? -EINTR : read_result(&peer, load, out);
	}
	peer_close(&peer);
	return ret;
}
