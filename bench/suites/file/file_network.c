/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `file` beside a network file system, library to library: NFS-Ganesha and libnfs. They measure the CPU
 * time that a client spends on reading, and reads of whole small files. Some files are read far more often than
 * others: the n-th in rank is read as often as 1/n^0.99 says, as in YCSB.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "file.h"
#include "peers/folder.h"
#include "peers/ganesha.h"

#define ROOM_BYTES   (1024 * MIB)
#define FLASH_BYTES  (1024 * MIB)
#define STREAM_NAME  "stream"
#define STREAM_BYTES (512 * MIB)
#define CPU_BAR	     0.5

#define NR_FILES   4096U
#define FILE_BYTES (16 * KIB)
#define EXPONENT   0.99
#define NR_READS   4096U
#define NR_FS	   2U
/* Files are made in order of their names. This, prime to their number, has ranks lie apart. */
#define STRIDE	   1103U
#define NAME_BYTES 16

struct network_stage {
	struct cluster *cluster;
	struct folder folder; /* that is exported */
	struct ganesha *ganesha;
	struct afar_session *session;
	struct afar_fs *fs[NR_FS]; /* in memory and on flash; the first alone where one is needed */
	uint64_t root[NR_FS];
	struct afar_file *file; /* the stream */
	char *memory;		/* MIB */
	double *share_up_to;	/* of all reads, what files of this rank or a lower have */
	unsigned short dice[3];
};

static void teardown(void *state)
{
	struct network_stage *stage = state;

	if (!stage)
		return;
	if (stage->file)
		afar_file_close(stage->file);
	for (unsigned i = 0; i < NR_FS; i++) {
		if (stage->fs[i])
			afar_fs_close(stage->fs[i]);
	}
	if (stage->session)
		afar_session_close(stage->session);
	ganesha_close(stage->ganesha);
	folder_remove(&stage->folder);
	cluster_stop(stage->cluster);
	free(stage->share_up_to);
	free(stage->memory);
	free(stage);
}

/* Puts a file into the exported folder, without the detour over NFS. */
static int put_file(const struct network_stage *stage, const char *name, uint64_t bytes)
{
	const size_t piece = bytes < MIB ? bytes : MIB;
	char path[sizeof(stage->folder.path) + NAME_BYTES];
	int fd, ret = 0;

	snprintf(path, sizeof(path), "%s/%s", stage->folder.path, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return bench_fail(-errno, "%s: %s", path, strerror(errno));
	for (uint64_t done = 0; done < bytes && !ret; done += piece) {
		if (write(fd, stage->memory, piece) != (ssize_t)piece)
			ret = bench_fail(-EIO, "%s: not all of it was written", path);
	}
	close(fd);
	return ret;
}

static int new_stage(struct network_stage **out)
{
	struct network_stage *stage = calloc(1, sizeof(*stage));

	*out = stage;
	if (stage)
		stage->memory = malloc(MIB);
	if (!stage || !stage->memory)
		return bench_fail(-ENOMEM, "no memory for the suite");
	memset(stage->memory, 0x5A, MIB);
	return folder_make_on_ext4(&stage->folder);
}

static int open_session(struct network_stage *stage)
{
	int ret = afar_session_open(cluster_uri(stage->cluster), NULL, &stage->session);

	return ret ? scene_fail("open a session", ret) : 0;
}

static const char *what_is_missing(void)
{
	return ganesha_missing() ? ganesha_missing() : folder_ext4_missing();
}

/* Ends a setup. */
static int settle(struct network_stage *stage, int ret, void **state)
{
	if (ret)
		teardown(stage);
	*state = ret ? NULL : stage;
	return ret;
}

/* ---- What a client's CPU does for its bytes */

static uint64_t own_cpu_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (uint64_t)used.tv_sec * 1000000000U + (uint64_t)used.tv_nsec;
}

/* The time of all threads of this process, the library's among them; milliseconds for a GB. */
static double cpu_ms(uint64_t begin, uint64_t bytes)
{
	return (double)(own_cpu_ns() - begin) / 1e6 / ((double)bytes / 1e9);
}

static int read_afar(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct network_stage *stage = state;
	const uint64_t bytes = bench_bytes(STREAM_BYTES, MIB);
	uint64_t begin = own_cpu_ns();

	(void)repetition;
	for (uint64_t done = 0; done < bytes; done += MIB) {
		ssize_t nr = afar_file_pread(stage->file, stage->memory, MIB, done);

		if (nr != (ssize_t)MIB)
			return scene_fail(row->name, nr < 0 ? (int)nr : -EIO);
	}
	*value = cpu_ms(begin, bytes);
	return 0;
}

static int read_nfs(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct network_stage *stage = state;
	const uint64_t bytes = bench_bytes(STREAM_BYTES, MIB);
	uint64_t begin = own_cpu_ns();
	int ret = ganesha_stream(stage->ganesha, STREAM_NAME, stage->memory, MIB, bytes);

	(void)row;
	(void)repetition;
	*value = cpu_ms(begin, bytes);
	return ret;
}

#define NFS_STREAM "libnfs on NFS-Ganesha over ext4, over tcp"
/* Not constant: bench_skip(). */
static struct bench_row cpu_rows[] = {
	{"client CPU of reads of 1 MiB, local", "ms/GB", BENCH_LOWER, NFS_STREAM, CPU_BAR, NULL,
	 read_afar, read_nfs},
	{"client CPU of reads of 1 MiB, tcp", "ms/GB", BENCH_LOWER, NFS_STREAM, BENCH_REPORTED,
	 NULL, read_afar, read_nfs},
};

static int begin_stream(struct network_stage *stage, const char *transport)
{
	int ret = put_file(stage, STREAM_NAME, STREAM_BYTES);

	if (!ret)
		ret = cluster_start_over(transport, 1, ROOM_BYTES, &stage->cluster);
	if (!ret)
		ret = ganesha_open(stage->folder.path, &stage->ganesha);
	if (!ret)
		ret = open_session(stage);
	if (!ret)
		ret = file_fs_open(stage->session, AFAR_TIER_DRAM, &stage->fs[0]);
	if (!ret)
		ret = file_make(stage->fs[0], STREAM_NAME, &stage->file);
	for (uint64_t done = 0; done < STREAM_BYTES && !ret; done += MIB) {
		ssize_t nr = afar_file_pwrite(stage->file, stage->memory, MIB, done);

		ret = nr < 0 ? scene_fail("fill the file", (int)nr) : 0;
	}
	return ret;
}

static int setup_cpu(const char *transport, struct bench_row *row, void **state)
{
	struct network_stage *stage;
	int ret;

	*state = NULL;
	if (what_is_missing()) {
		bench_skip(row, 1, what_is_missing());
		return 0;
	}
	ret = new_stage(&stage);
	if (!ret)
		ret = begin_stream(stage, transport);
	return settle(stage, ret, state);
}

static int setup_cpu_local(void **state)
{
	return setup_cpu("local", &cpu_rows[0], state);
}

static int setup_cpu_tcp(void **state)
{
	return setup_cpu("tcp", &cpu_rows[1], state);
}

const struct bench_stage file_cpu_local_stage = {setup_cpu_local, teardown, &cpu_rows[0], 1};
const struct bench_stage file_cpu_tcp_stage = {setup_cpu_tcp, teardown, &cpu_rows[1], 1};

/* ---- Small files, some of which are read often */

static int fill_shares(struct network_stage *stage)
{
	double sum = 0;

	stage->share_up_to = calloc(NR_FILES, sizeof(double));
	if (!stage->share_up_to)
		return bench_fail(-ENOMEM, "no memory for the suite");
	for (unsigned i = 0; i < NR_FILES; i++) {
		sum += 1 / pow(i + 1, EXPONENT);
		stage->share_up_to[i] = sum;
	}
	for (unsigned i = 0; i < NR_FILES; i++)
		stage->share_up_to[i] /= sum;
	return 0;
}

static void any_name(struct network_stage *stage, char name[NAME_BYTES])
{
	double dice = erand48(stage->dice);
	unsigned low = 0, high = NR_FILES - 1;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (stage->share_up_to[middle] < dice)
			low = middle + 1;
		else
			high = middle;
	}
	snprintf(name, NAME_BYTES, "%u", low * STRIDE % NR_FILES);
}

/* Does what a program does: finds the name, opens the file, reads it, closes it. */
static int read_whole(struct network_stage *stage, unsigned fs, const char *name)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	struct afar_file *file;
	ssize_t nr;
	int ret = afar_fs_lookup(stage->fs[fs], NULL, stage->root[fs], name, &stat);

	if (!ret)
		ret = afar_file_open(stage->fs[fs], NULL, stat.ino, O_RDONLY, &file);
	if (ret)
		return scene_fail("open a file", ret);
	nr = afar_file_pread(file, stage->memory, FILE_BYTES, 0);
	ret = afar_file_close(file);
	if (nr != (ssize_t)FILE_BYTES || ret)
		return scene_fail("read a file", nr < 0 ? (int)nr : ret ? ret : -EIO);
	return 0;
}

static int zipf_afar(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const unsigned *fs = row->parameters;
	struct network_stage *stage = state;
	uint64_t begin = clock_ns();
	char name[NAME_BYTES];
	int ret = 0;

	(void)repetition;
	for (unsigned i = 0; i < NR_READS && !ret; i++) {
		any_name(stage, name);
		ret = read_whole(stage, *fs, name);
	}
	*value = NR_READS * 1e6 / (double)(clock_ns() - begin);
	return ret;
}

static int zipf_nfs(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct network_stage *stage = state;
	uint64_t begin = clock_ns();
	char name[NAME_BYTES];
	int ret = 0;

	(void)row;
	(void)repetition;
	for (unsigned i = 0; i < NR_READS && !ret; i++) {
		any_name(stage, name);
		ret = ganesha_read(stage->ganesha, name, stage->memory, FILE_BYTES);
	}
	*value = NR_READS * 1e6 / (double)(clock_ns() - begin);
	return ret;
}

/* Puts as many in a call as one call takes. */
static int put_small_files(struct network_stage *stage, unsigned fs)
{
	static struct afar_small_file files[256];
	static char names[256][NAME_BYTES];
	int ret = 0;

	for (unsigned first = 0; first < NR_FILES && !ret; first += 256) {
		for (unsigned i = 0; i < 256; i++) {
			snprintf(names[i], NAME_BYTES, "%u", first + i);
			files[i] = (struct afar_small_file){.size = sizeof(struct afar_small_file),
							    .dir = stage->root[fs],
							    .name = names[i],
							    .mode = 0600,
							    .data = stage->memory,
							    .length = FILE_BYTES};
		}
		ret = afar_fs_write_files(stage->fs[fs], NULL, files, 256);
	}
	return ret ? scene_fail("make small files", ret) : 0;
}

static int open_small_files(struct network_stage *stage, unsigned fs, const char *name,
			    uint32_t tier)
{
	const struct afar_fs_policy policy = {
		.size = sizeof(policy),
		.pool = &(struct afar_policy){.size = sizeof(struct afar_policy), .tier = tier},
	};
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	int ret = afar_fs_create(stage->session, name, &policy, &stage->fs[fs]);

	if (!ret)
		ret = afar_fs_stat(stage->fs[fs], &stat);
	if (ret)
		return scene_fail("make a file system", ret);
	stage->root[fs] = stat.root;
	return put_small_files(stage, fs);
}

static int begin_zipf(struct network_stage *stage)
{
	char name[NAME_BYTES];
	int ret = fill_shares(stage);

	for (unsigned i = 0; i < NR_FILES && !ret; i++) {
		snprintf(name, sizeof(name), "%u", i);
		ret = put_file(stage, name, FILE_BYTES);
	}
	if (!ret)
		ret = cluster_start_flash(1, ROOM_BYTES, FLASH_BYTES, &stage->cluster);
	if (!ret)
		ret = ganesha_open(stage->folder.path, &stage->ganesha);
	if (!ret)
		ret = open_session(stage);
	if (!ret)
		ret = open_small_files(stage, 0, "memory", AFAR_TIER_DRAM);
	return ret ? ret : open_small_files(stage, 1, "flash", AFAR_TIER_FLASH);
}

#define NFS_ZIPF "the same files of NFS-Ganesha over ext4, by libnfs"
static const unsigned in_memory = 0, on_flash = 1;
static struct bench_row zipf_rows[] = {
	{"Zipf reads of 16 KiB files, tcp", "k/s", BENCH_HIGHER, NFS_ZIPF, BENCH_REPORTED,
	 &in_memory, zipf_afar, zipf_nfs},
	{"Zipf reads of 16 KiB files, flash", "k/s", BENCH_HIGHER, NFS_ZIPF, BENCH_REPORTED,
	 &on_flash, zipf_afar, zipf_nfs},
};

static int setup_zipf(void **state)
{
	struct network_stage *stage;
	int ret;

	*state = NULL;
	if (what_is_missing()) {
		bench_skip(zipf_rows, NR_ROWS(zipf_rows), what_is_missing());
		return 0;
	}
	ret = new_stage(&stage);
	if (!ret)
		ret = begin_zipf(stage);
	return settle(stage, ret, state);
}

const struct bench_stage file_zipf_stage = {setup_zipf, teardown, zipf_rows, NR_ROWS(zipf_rows)};
