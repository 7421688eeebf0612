/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `volume` on volumes on flash. Through NBD they are compared with servers of a file
 * on the same file system, with the same client. The library's calls are compared with NBD.
 *
 * qemu-nbd has no cache between, as our store: O_DIRECT. The plugin `file` of nbdkit cannot do
 * without the page cache. It drops what it has read, and has writes written back in the background.
 * On all three a flush, and a write that is forced, is durable when it has ended.
 */
#include <errno.h>
#include <stdlib.h>

#include "volume.h"

#define BYTES	     (VOLUME_FLASH_BYTES / 2)
#define MEMORY_BYTES (64 * MIB)
#define BAR	     1.0
#define SYNCED_BAR   1.5

struct lent_stage {
	struct volume_stage base;
	struct tier_cluster cluster;
	struct flash_file file; /* of the others */
};

#define FILE_IS "nbdkit's plugin file, cache=none, on the same file system; same client"
#define QEMU_IS "qemu-nbd on a file of the same file system, O_DIRECT by io_uring; same client"
#define NBD_IS	"the same volume by fio, through NBD and our plugin"

#define WAITS                                                                                  \
	"unflushed, theirs may be lost with the machine; ours with the server, whereupon the " \
	"library writes it again"
#define SYNCED "either is durable when it has ended, by a flush of the device"

#define LENT(name, unit, reference, lent, other, bar, text, ...)        \
	{                                                               \
		name, unit, BENCH_HIGHER, reference, bar,               \
			&(const struct volume_row){.ours = (lent),      \
						   .theirs = (other),   \
						   .guarantee = (text), \
						   __VA_ARGS__},        \
			volume_run_lent, volume_run_theirs              \
	}
/* clang-format off */
#define LENT_ROWS(name, reference, way, forced)                                        \
	LENT("NBD, flash, read 4 KiB random, depth 1 / " name, "k/s", reference,              \
	     VOLUME_LENT_TCP, way, BAR, NULL, VOLUME_RANDOM(1)),                              \
	LENT("NBD, flash, read 4 KiB random, depth 32 / " name, "k/s", reference,             \
	     VOLUME_LENT_TCP, way, BAR, NULL, VOLUME_RANDOM(32)),                             \
	LENT("NBD, flash, read 1 MiB, depth 8 / " name, "GB/s", reference,                    \
	     VOLUME_LENT_TCP, way, BAR, NULL, VOLUME_BULK, VOLUME_ORDERED),                   \
	LENT("NBD, flash, write 4 KiB random, depth 1 / " name, "k/s", reference,             \
	     VOLUME_LENT_TCP, way, BAR, WAITS, VOLUME_RANDOM(1), VOLUME_WRITE),               \
	LENT("NBD, flash, write 4 KiB random, depth 32 / " name, "k/s", reference,            \
	     VOLUME_LENT_TCP, way, BAR, WAITS, VOLUME_RANDOM(32), VOLUME_WRITE),              \
	LENT("NBD, flash, read 1 MiB, depth 8, written at random / " name, "GB/s", reference, \
	     VOLUME_LENT_TCP, way, BENCH_REPORTED, NULL, VOLUME_BULK),                        \
	LENT("NBD, flash, write 1 MiB, depth 8 / " name, "GB/s", reference,                   \
	     VOLUME_LENT_TCP, way, BAR, WAITS, VOLUME_BULK, VOLUME_WRITE),                    \
	LENT("NBD, flash, write 4 KiB and flush, depth 1 / " name, "k/s", reference,          \
	     VOLUME_LENT_TCP, way, SYNCED_BAR, SYNCED, VOLUME_RANDOM(1), VOLUME_DURABLE),     \
	LENT("NBD, flash, write 4 KiB and flush, depth 32 / " name, "k/s", reference,         \
	     VOLUME_LENT_TCP, way, SYNCED_BAR, SYNCED, VOLUME_RANDOM(32), VOLUME_DURABLE),    \
	LENT("NBD, flash, write 4 KiB forced, depth 1 / " name, "k/s", reference,             \
	     VOLUME_LENT_FORCED, forced, SYNCED_BAR, SYNCED, VOLUME_RANDOM(1), VOLUME_WRITE), \
	LENT("NBD, flash, write 4 KiB forced, depth 32 / " name, "k/s", reference,            \
	     VOLUME_LENT_FORCED, forced, SYNCED_BAR, SYNCED, VOLUME_RANDOM(32), VOLUME_WRITE)
/* clang-format on */
#define NR_LENT 11
#define NATIVE(name, unit, lent, ...)                                               \
	{                                                                           \
		"native, flash, " name, unit, BENCH_HIGHER, NBD_IS, BENCH_REPORTED, \
			&(const struct volume_row){.ours = (lent), __VA_ARGS__},    \
			volume_run_native, volume_run_lent                          \
	}

/* Not constant: without the other programs they are skipped. Those against qemu-nbd are the last. */
static struct bench_row rows[] = {
	NATIVE("read 4 KiB random, one call", "k/s", VOLUME_LENT_TCP, VOLUME_RANDOM(1)),
	NATIVE("read 4 KiB random, queue, depth 32", "k/s", VOLUME_LENT_TCP, VOLUME_RANDOM(32)),
	NATIVE("write 4 KiB random, one call", "k/s", VOLUME_LENT_TCP, VOLUME_RANDOM(1),
	       VOLUME_WRITE),
	NATIVE("write 4 KiB random, queue, depth 32", "k/s", VOLUME_LENT_TCP, VOLUME_RANDOM(32),
	       VOLUME_WRITE),
	NATIVE("read 1 MiB, queue, depth 8", "GB/s", VOLUME_LENT_TCP, VOLUME_BULK, VOLUME_ORDERED),
	NATIVE("write 1 MiB, queue, depth 8", "GB/s", VOLUME_LENT_TCP, VOLUME_BULK, VOLUME_WRITE),
	LENT_ROWS("nbdkit", FILE_IS, VOLUME_FILE, VOLUME_FILE_FORCED),
	LENT_ROWS("qemu-nbd", QEMU_IS, VOLUME_QEMU, VOLUME_QEMU_FORCED),
};

static void teardown(void *state)
{
	struct lent_stage *stage = state;

	if (!stage)
		return;
	volume_stage_close(&stage->base);
	tier_cluster_stop(&stage->cluster);
	flash_file_remove(&stage->file);
	free(stage);
}

static int setup(void **state)
{
	struct lent_stage *stage;
	int ret;

	if (volume_nbd_missing()) {
		bench_skip(rows, NR_ROWS(rows), volume_nbd_missing());
		return 0;
	}
	if (volume_qemu_missing())
		bench_skip(&rows[NR_ROWS(rows) - NR_LENT], NR_LENT, volume_qemu_missing());
	stage = calloc(1, sizeof(*stage));
	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = tier_cluster_start(&stage->cluster, VOLUME_FILE_BYTES, false, MEMORY_BYTES);
	if (!ret)
		ret = flash_file_make(&stage->file, BYTES);
	stage->base.place.file = stage->file.path;
	if (!ret)
		ret = volume_stage_open(&stage->base, stage->cluster.cluster, AFAR_TIER_FLASH,
					BYTES);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

const struct bench_stage volume_flash_stage = {setup, teardown, rows, NR_ROWS(rows)};
