/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `file` on many small files. One program makes, looks at, reads and removes files of 4 KiB,
 * one after another, through `afar mount` of a file system on flash. The references are other ways to have
 * files, all on the ext4 that the manager and the server keep their stores on.
 *
 * Repetitions share the files: each makes its part, and the later rows take one part after the other.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "file.h"
#include "peers/folder.h"
#include "peers/fuse_mount.h"
#include "peers/ganesha.h"
#include "peers/gluster.h"

#define NR_FILES   100000U
#define FILE_BYTES 4096U
#define NAME_BYTES 32
/* A measurement ends after so long, though not all of its files have been done. */
#define SPAN_NS	   UINT64_C(1000000000)
#define ROOM_BYTES (256 * MIB)
/* Files, and the blocks of those that were removed and are not zeroed yet. */
#define FLASH_BYTES (2048 * MIB)

/* ---- Targets: something that keeps files */

enum job { MAKE, LOOK, READ, REMOVE, NR_JOBS };

/* Does a job to one file of that name; 0 or a negative code, after bench_fail(). */
typedef int job_call(void *target, const char *name, char *data);

struct part {
	unsigned nr;	  /* files in it */
	unsigned nr_gone; /* of these, the first, that were removed */
};

struct target {
	job_call *const *calls; /* by job */
	void *handle;		/* for the calls */
	struct part *parts;	/* for each repetition, and the warm-up */
	unsigned next[NR_JOBS]; /* the part that the job has next */
};

static int fail_at(const char *what, const char *path)
{
	return bench_fail(-errno, "%s %s: %s", what, path, strerror(errno));
}

struct path {
	char text[128];
};

static struct path path_of(const struct fuse_mount *mount, const char *name)
{
	struct path path;

	snprintf(path.text, sizeof(path.text), "%s/%s", mount->place, name);
	return path;
}

static int make_mounted(void *target, const char *name, char *data)
{
	const struct path path = path_of(target, name);
	int fd = open(path.text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t nr;

	if (fd < 0)
		return fail_at("make", path.text);
	nr = write(fd, data, FILE_BYTES);
	if (close(fd) || nr != FILE_BYTES)
		return fail_at("write", path.text);
	return 0;
}

static int look_mounted(void *target, const char *name, char *data)
{
	const struct path path = path_of(target, name);
	struct stat found;

	(void)data;
	return stat(path.text, &found) ? fail_at("stat", path.text) : 0;
}

static int read_mounted(void *target, const char *name, char *data)
{
	const struct path path = path_of(target, name);
	int fd = open(path.text, O_RDONLY | O_CLOEXEC);
	ssize_t nr;

	if (fd < 0)
		return fail_at("open", path.text);
	nr = read(fd, data, FILE_BYTES);
	close(fd);
	return nr == FILE_BYTES ? 0 : fail_at("read", path.text);
}

static int remove_mounted(void *target, const char *name, char *data)
{
	const struct path path = path_of(target, name);

	(void)data;
	return unlink(path.text) ? fail_at("remove", path.text) : 0;
}

static job_call *const mounted_calls[NR_JOBS] = {make_mounted, look_mounted, read_mounted,
						 remove_mounted};

static int make_exported(void *target, const char *name, char *data)
{
	return ganesha_make(target, name, data, FILE_BYTES);
}

static int look_exported(void *target, const char *name, char *data)
{
	(void)data;
	return ganesha_look(target, name);
}

static int read_exported(void *target, const char *name, char *data)
{
	return ganesha_read(target, name, data, FILE_BYTES);
}

static int remove_exported(void *target, const char *name, char *data)
{
	(void)data;
	return ganesha_remove(target, name);
}

static job_call *const exported_calls[NR_JOBS] = {make_exported, look_exported, read_exported,
						  remove_exported};

/* ---- Jobs */

static unsigned nr_parts(void)
{
	return bench_repetitions() + 1;
}

static int do_one(struct target *target, enum job job, unsigned part, unsigned i)
{
	char name[NAME_BYTES];
	char data[FILE_BYTES] = {0};

	snprintf(name, sizeof(name), "file-%u-%u", part, i);
	return target->calls[job](target->handle, name, data);
}

static bool is_over(uint64_t begin, uint64_t span_ns)
{
	return clock_ns() - begin >= span_ns || bench_is_interrupted();
}

/* Makes files of the part until the time is over. */
static int fill_part(struct target *target, unsigned part, uint64_t span_ns)
{
	uint64_t begin = clock_ns();
	struct part *made = &target->parts[part];
	int ret = 0;

	while (!ret && made->nr < NR_FILES / nr_parts() && !is_over(begin, span_ns)) {
		ret = do_one(target, MAKE, part, made->nr);
		made->nr += !ret;
	}
	return ret;
}

static int go_through(struct target *target, enum job job, unsigned part, uint64_t span_ns,
		      unsigned *nr_done)
{
	uint64_t begin = clock_ns();
	struct part *made = &target->parts[part];
	unsigned i = made->nr_gone;
	int ret = 0;

	for (; i < made->nr && !ret && !is_over(begin, span_ns); i++)
		ret = do_one(target, job, part, i);
	*nr_done = i - made->nr_gone;
	if (job == REMOVE)
		made->nr_gone = i;
	return ret;
}

/* The rows before may have been left out: then the part is not there yet. */
static int find_part(struct target *target, enum job job, unsigned *part)
{
	const uint64_t span_ns = bench_span_ns(SPAN_NS);
	int ret = 0;

	*part = target->next[job]++ % nr_parts();
	while (job != MAKE && target->next[MAKE] <= *part && !ret)
		ret = fill_part(target, target->next[MAKE]++, span_ns);
	return ret;
}

/* `*value`: thousands of files in a second. */
static int run_job(struct target *target, enum job job, double *value)
{
	const uint64_t span_ns = bench_span_ns(SPAN_NS);
	unsigned part, nr;
	uint64_t begin;
	int ret = find_part(target, job, &part);

	if (ret)
		return ret;
	begin = clock_ns();
	if (job == MAKE) {
		ret = fill_part(target, part, span_ns);
		nr = target->parts[part].nr;
	} else {
		ret = go_through(target, job, part, span_ns, &nr);
	}
	*value = nr * 1e6 / (double)(clock_ns() - begin);
	if (bench_is_interrupted())
		return -EINTR;
	if (!ret && !nr)
		ret = bench_fail(-ENODATA, "there are no files to go through");
	return ret;
}

/* ---- The stages */

enum peer_kind { PASSTHROUGH, GANESHA, GLUSTER };

struct names_peer {
	enum peer_kind kind;
	bool is_dirsync;
	struct bench_row *rows;
	unsigned nr_rows;
};

struct names_stage {
	struct cluster *cluster;
	struct folder folder; /* the peer's files */
	struct fuse_mount mount, peer_mount;
	struct ganesha *ganesha;
	struct gluster gluster;
	struct target ours, peer;
};

static unsigned files_of(const struct target *target)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < nr_parts(); i++)
		nr += target->parts[i].nr;
	return nr;
}

static enum job job_of(const struct bench_row *row)
{
	return *(const enum job *)row->parameters;
}

static int run_ours(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct names_stage *stage = state;
	int ret = run_job(&stage->ours, job_of(row), value);

	(void)repetition;
	bench_note("files that there was time to make, of %u: ours %u, the reference %u", NR_FILES,
		   files_of(&stage->ours), files_of(&stage->peer));
	return ret;
}

static int run_peer(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct names_stage *stage = state;

	(void)repetition;
	return run_job(&stage->peer, job_of(row), value);
}

static void teardown(void *state)
{
	struct names_stage *stage = state;

	if (!stage)
		return;
	fuse_mount_end(&stage->mount);
	fuse_mount_end(&stage->peer_mount);
	ganesha_close(stage->ganesha);
	gluster_close(&stage->gluster);
	folder_remove(&stage->folder);
	cluster_stop(stage->cluster);
	free(stage->ours.parts);
	free(stage->peer.parts);
	free(stage);
}

static int open_peer(struct names_stage *stage, const struct names_peer *peer)
{
	int ret = peer->is_dirsync ? folder_make_dirsync(&stage->folder)
				   : folder_make_on_ext4(&stage->folder);

	if (ret)
		return ret;
	stage->peer.calls = mounted_calls;
	switch (peer->kind) {
	case GANESHA:
		ret = ganesha_open(stage->folder.path, &stage->ganesha);
		stage->peer.calls = exported_calls;
		stage->peer.handle = stage->ganesha;
		return ret;
	case GLUSTER:
		stage->peer.handle = &stage->gluster.mount;
		return gluster_open(stage->folder.path, &stage->gluster);
	default:
		stage->peer.handle = &stage->peer_mount;
		return fuse_mount_passthrough_paths(&stage->peer_mount, stage->folder.path);
	}
}

static int open_ours(struct names_stage *stage)
{
	int ret = cluster_start_flash(1, ROOM_BYTES, FLASH_BYTES, &stage->cluster);

	stage->ours.calls = mounted_calls;
	stage->ours.handle = &stage->mount;
	if (!ret)
		ret = file_fs_make(cluster_uri(stage->cluster), AFAR_TIER_FLASH);
	return ret ? ret
		   : fuse_mount_afar(&stage->mount, cluster_uri(stage->cluster), FILE_FS, "cached");
}

static const char *what_is_missing(const struct names_peer *peer)
{
	static const char *(*const is_missing[])(void) = {
		[PASSTHROUGH] = fuse_passthrough_missing,
		[GANESHA] = ganesha_missing,
		[GLUSTER] = gluster_missing,
	};
	const char *missing = fuse_mount_missing();

	if (!missing)
		missing = is_missing[peer->kind]();
	if (missing)
		return missing;
	return peer->is_dirsync ? folder_dirsync_missing() : folder_ext4_missing();
}

static int setup(const struct names_peer *peer, void **state)
{
	const char *missing = what_is_missing(peer);
	struct names_stage *stage;
	int ret;

	*state = NULL;
	if (missing) {
		bench_skip(peer->rows, peer->nr_rows, missing);
		return 0;
	}
	stage = calloc(1, sizeof(*stage));
	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	stage->ours.parts = calloc(nr_parts(), sizeof(*stage->ours.parts));
	stage->peer.parts = calloc(nr_parts(), sizeof(*stage->peer.parts));
	ret = stage->ours.parts && stage->peer.parts
		      ? open_ours(stage)
		      : bench_fail(-ENOMEM, "no memory for the suite");
	if (!ret)
		ret = open_peer(stage, peer);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

static const enum job make = MAKE, look = LOOK, take = READ, drop = REMOVE;

#define JOB(name, reference, bar, job)                                                \
	{                                                                             \
		name, "k/s", BENCH_HIGHER, reference, bar, &(job), run_ours, run_peer \
	}
#define JOBS(against, reference, bar)                                           \
	JOB("create 4 KiB files, fuse / " against, reference, bar, make),       \
		JOB("stat 4 KiB files, fuse / " against, reference, bar, look), \
		JOB("read 4 KiB files, fuse / " against, reference, bar, take), \
		JOB("unlink 4 KiB files, fuse / " against, reference, bar, drop)

/* file_names_NAME_stage. Its rows are not constant: bench_skip(). */
#define STAGE(name, kind, is_dirsync, ...)                                                         \
	static struct bench_row name##_rows[] = {JOBS(__VA_ARGS__)};                               \
	static const struct names_peer name = {kind, is_dirsync, name##_rows,                      \
					       NR_ROWS(name##_rows)};                              \
	static int setup_##name(void **state)                                                      \
	{                                                                                          \
		return setup(&name, state);                                                        \
	}                                                                                          \
	const struct bench_stage file_names_##name##_stage = {setup_##name, teardown, name##_rows, \
							      NR_ROWS(name##_rows)};

STAGE(dirsync, PASSTHROUGH, true, "ext4 dirsync", "libfuse's passthrough over ext4 with dirsync",
      1.0)
STAGE(plain, PASSTHROUGH, false, "ext4", "libfuse's passthrough over ext4", BENCH_REPORTED)
STAGE(ganesha, GANESHA, false, "NFS", "NFS-Ganesha over ext4, by libnfs", 1.0)
STAGE(gluster, GLUSTER, false, "GlusterFS", "GlusterFS over ext4, one brick, by its own mount", 1.0)
