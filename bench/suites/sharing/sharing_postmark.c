/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows on PostMark's transactions (NetApp TR-3022): many small files that come and go. A transaction reads a file as a whole or appends to it, and
 * makes a file or removes one. All sizes and choices are PostMark's own by default, through a mount of a file system on flash. The program itself
 * cannot use a library's client, as of NFS here, so this does what it does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "peers/folder.h"
#include "peers/fuse_mount.h"
#include "peers/ganesha.h"
#include "suites/sharing/sharing.h"

#define NR_FILES    500U /* that there are, about */
#define FILES_MAX   (2 * NR_FILES)
#define BYTES_MIN   500U
#define BYTES_MAX   9770U
#define FILE_MAX    (256 * KIB) /* none becomes longer */
#define ROOM_BYTES  (256 * MIB)
#define FLASH_BYTES (1024 * MIB)
#define SPAN_NS	    UINT64_C(3000000000)

struct pool_file {
	unsigned name;
	uint64_t bytes;
};

/* Something that keeps files. Each call is a program's: opening, moving and closing; 0, or a negative code after bench_fail(). */
struct calls {
	int (*make)(void *handle, const char *name, const char *data, size_t length);
	int (*append)(void *handle, const char *name, uint64_t end, const char *data,
		      size_t length);
	int (*read)(void *handle, const char *name, char *data, size_t length);
	int (*remove)(void *handle, const char *name);
};

struct side {
	const struct calls *calls;
	void *handle; /* for these */
	struct pool_file files[FILES_MAX];
	unsigned nr, next; /* files, and the name of the next one */
	uint64_t random;
};

struct postmark_stage {
	struct cluster *cluster;
	struct folder folder; /* the peer's files */
	struct fuse_mount mount, peer_mount;
	struct ganesha *ganesha;
	struct side ours, peer;
	char data[FILE_MAX];
};

/* ---- In a mount, as programs do by stdio */

static FILE *open_mounted(const struct fuse_mount *mount, const char *name, const char *mode)
{
	char path[sizeof(mount->place) + 32];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", mount->place, name);
	file = fopen(path, mode);
	if (!file)
		bench_fail(-errno, "open %s: %s", path, strerror(errno));
	return file;
}

static int write_mounted(void *handle, const char *name, const char *mode, const char *data,
			 size_t length)
{
	FILE *file = open_mounted(handle, name, mode);
	bool is_written;

	if (!file)
		return -EIO;
	is_written = fwrite(data, 1, length, file) == length;
	return fclose(file) == 0 && is_written ? 0 : bench_fail(-EIO, "write %s", name);
}

static int make_mounted(void *handle, const char *name, const char *data, size_t length)
{
	return write_mounted(handle, name, "wxe", data, length);
}

static int append_mounted(void *handle, const char *name, uint64_t end, const char *data,
			  size_t length)
{
	(void)end;
	return write_mounted(handle, name, "ae", data, length);
}

static int read_mounted(void *handle, const char *name, char *data, size_t length)
{
	FILE *file = open_mounted(handle, name, "re");
	size_t nr;

	if (!file)
		return -EIO;
	nr = fread(data, 1, length, file);
	fclose(file);
	return nr == length ? 0 : bench_fail(-EIO, "read %s", name);
}

static int remove_mounted(void *handle, const char *name)
{
	const struct fuse_mount *mount = handle;
	char path[sizeof(mount->place) + 32];

	snprintf(path, sizeof(path), "%s/%s", mount->place, name);
	return unlink(path) ? bench_fail(-errno, "remove %s: %s", path, strerror(errno)) : 0;
}

static const struct calls mounted_calls = {make_mounted, append_mounted, read_mounted,
					   remove_mounted};

/* ---- By libnfs */

static int make_exported(void *handle, const char *name, const char *data, size_t length)
{
	return ganesha_make(handle, name, data, length);
}

static int append_exported(void *handle, const char *name, uint64_t end, const char *data,
			   size_t length)
{
	return ganesha_append(handle, name, end, data, length);
}

static int read_exported(void *handle, const char *name, char *data, size_t length)
{
	return ganesha_read(handle, name, data, length);
}

static int remove_exported(void *handle, const char *name)
{
	return ganesha_remove(handle, name);
}

static const struct calls exported_calls = {make_exported, append_exported, read_exported,
					    remove_exported};

/* ---- Transactions */

static unsigned draw(struct side *side, unsigned below)
{
	side->random = side->random * UINT64_C(6364136223846793005) + 1;
	return (unsigned)(side->random >> 33) % below;
}

static size_t draw_bytes(struct side *side)
{
	return BYTES_MIN + draw(side, BYTES_MAX - BYTES_MIN + 1);
}

static const char *name_of(const struct pool_file *file, char name[32])
{
	snprintf(name, 32, "pool-%u", file->name);
	return name;
}

static int make_one(struct side *side, const char *data)
{
	struct pool_file *file = &side->files[side->nr];
	char name[32];
	int ret;

	*file = (struct pool_file){.name = side->next++, .bytes = draw_bytes(side)};
	ret = side->calls->make(side->handle, name_of(file, name), data, file->bytes);
	side->nr += !ret;
	return ret;
}

static int remove_one(struct side *side)
{
	struct pool_file *file = &side->files[draw(side, side->nr)];
	char name[32];
	int ret = side->calls->remove(side->handle, name_of(file, name));

	if (!ret)
		*file = side->files[--side->nr];
	return ret;
}

static int read_one(struct side *side, struct postmark_stage *stage)
{
	const struct pool_file *file = &side->files[draw(side, side->nr)];
	char name[32];

	return side->calls->read(side->handle, name_of(file, name), stage->data, file->bytes);
}

static int append_one(struct side *side, struct postmark_stage *stage)
{
	struct pool_file *file = &side->files[draw(side, side->nr)];
	const size_t length = draw_bytes(side);
	char name[32];
	int ret;

	if (file->bytes + length > sizeof(stage->data))
		return read_one(side, stage);
	ret = side->calls->append(side->handle, name_of(file, name), file->bytes, stage->data,
				  length);
	file->bytes += ret ? 0 : length;
	return ret;
}

static int transact(struct side *side, struct postmark_stage *stage)
{
	int ret = draw(side, 2) ? read_one(side, stage) : append_one(side, stage);

	if (ret)
		return ret;
	if (side->nr < 2 || (side->nr < FILES_MAX && draw(side, 2)))
		return make_one(side, stage->data);
	return remove_one(side);
}

/* Gives transactions in a second. */
static int run(struct side *side, struct postmark_stage *stage, double *value)
{
	const uint64_t span_ns = bench_span_ns(SPAN_NS);
	uint64_t nr = 0, begin;
	int ret = 0;

	while (side->nr < NR_FILES && !ret && !bench_is_interrupted())
		ret = make_one(side, stage->data);
	begin = clock_ns();
	for (; !ret && clock_ns() - begin < span_ns; nr++)
		ret = bench_is_interrupted() ? -EINTR : transact(side, stage);
	*value = (double)nr * 1e9 / (double)(clock_ns() - begin);
	return ret;
}

static int run_ours(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct postmark_stage *stage = state;

	(void)row;
	(void)repetition;
	return run(&stage->ours, stage, value);
}

static int run_peer(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct postmark_stage *stage = state;

	(void)row;
	(void)repetition;
	return run(&stage->peer, stage, value);
}

/* ---- The stages */

static void teardown(void *state)
{
	struct postmark_stage *stage = state;

	if (!stage)
		return;
	fuse_mount_end(&stage->mount);
	fuse_mount_end(&stage->peer_mount);
	ganesha_close(stage->ganesha);
	folder_remove(&stage->folder);
	cluster_stop(stage->cluster);
	free(stage);
}

static int open_ours(struct postmark_stage *stage)
{
	int ret = cluster_start_flash(1, ROOM_BYTES, FLASH_BYTES, &stage->cluster);

	stage->ours = (struct side){.calls = &mounted_calls, .handle = &stage->mount};
	if (!ret)
		ret = file_fs_make(cluster_uri(stage->cluster), AFAR_TIER_FLASH);
	return ret ? ret
		   : fuse_mount_afar(&stage->mount, cluster_uri(stage->cluster), FILE_FS, "cached");
}

static int open_dirsync(struct postmark_stage *stage)
{
	int ret = folder_make_dirsync(&stage->folder);

	stage->peer = (struct side){.calls = &mounted_calls, .handle = &stage->peer_mount};
	return ret ? ret : fuse_mount_passthrough_paths(&stage->peer_mount, stage->folder.path);
}

static int open_ganesha(struct postmark_stage *stage)
{
	int ret = folder_make_on_ext4(&stage->folder);

	if (!ret)
		ret = ganesha_open(stage->folder.path, &stage->ganesha);
	stage->peer = (struct side){.calls = &exported_calls, .handle = stage->ganesha};
	return ret;
}

static int set_up(struct bench_row *row, const char *missing,
		  int (*open_peer)(struct postmark_stage *stage), void **state)
{
	struct postmark_stage *stage;
	int ret;

	*state = NULL;
	if (!missing)
		missing = fuse_mount_missing();
	if (missing) {
		bench_skip(row, 1, missing);
		return 0;
	}
	stage = calloc(1, sizeof(*stage));
	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = open_ours(stage);
	if (!ret)
		ret = open_peer(stage);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

#define POSTMARK(name, reference, bar)                                                          \
	{                                                                                       \
		"PostMark, fuse / " name, "tx/s", BENCH_HIGHER, reference, bar, NULL, run_ours, \
			run_peer                                                                \
	}

static struct bench_row dirsync_rows[] = {
	POSTMARK("ext4 dirsync", "libfuse's passthrough over ext4 with dirsync", BENCH_REPORTED),
};
static struct bench_row ganesha_rows[] = {
	POSTMARK("NFS", "NFS-Ganesha over ext4, by libnfs", 1.0),
};

static int set_up_dirsync(void **state)
{
	return set_up(dirsync_rows, fuse_passthrough_missing() ?: folder_dirsync_missing(),
		      open_dirsync, state);
}

static int set_up_ganesha(void **state)
{
	return set_up(ganesha_rows, ganesha_missing() ?: folder_ext4_missing(), open_ganesha,
		      state);
}

const struct bench_stage sharing_postmark_dirsync_stage = {set_up_dirsync, teardown, dirsync_rows,
							   NR_ROWS(dirsync_rows)};
const struct bench_stage sharing_postmark_ganesha_stage = {set_up_ganesha, teardown, ganesha_rows,
							   NR_ROWS(ganesha_rows)};
