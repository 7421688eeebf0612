/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows on files that are opened again: open, read 4 KiB, close. Some of them the session keeps, so that it asks nobody. Another session has the others
 * open to write, so that each opening and closing is the manager's. The reference is the same with those alone.
 */
#include "suites/sharing/sharing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/clock.h"

#define SERVER_BYTES (256 * MIB)
#define NR_FILES     16U /* of each kind */
#define PARTS	     4U	 /* of which a row keeps some */
#define SPAN_NS	     UINT64_C(200000000)

struct opens_stage {
	struct file_scene writer; /* with memory for a block */
	struct scene scene;	  /* the reader's, its session alone */
	struct afar_fs *fs;	  /* likewise */
	uint64_t kept[NR_FILES], written[NR_FILES];
	struct afar_file *files[NR_FILES]; /* the writer's */
};

static int use(struct afar_fs *fs, uint64_t ino)
{
	struct afar_file *file;
	int ret = afar_file_open(fs, NULL, ino, O_RDONLY, &file);
	char bytes[AFAR_FILE_BLOCK];
	ssize_t nr;

	if (ret)
		return scene_fail("open a file", ret);
	nr = afar_file_pread(file, bytes, sizeof(bytes), 0);
	ret = afar_file_close(file);
	if (nr != (ssize_t)sizeof(bytes))
		return scene_fail("read a file", nr < 0 ? (int)nr : -EIO);
	return ret ? scene_fail("close a file", ret) : 0;
}

/* Gives the time of one, in µs. It opens PARTS files one after the other, of which `nr_kept` are kept. */
static int time_mean(struct opens_stage *stage, unsigned nr_kept, double *value)
{
	const uint64_t begin = clock_ns(), end = begin + bench_span_ns(SPAN_NS);
	uint64_t nr = 0, now;
	int ret = 0;

	do {
		const uint64_t *inos = nr % PARTS < nr_kept ? stage->kept : stage->written;

		ret = use(stage->fs, inos[nr++ / PARTS % NR_FILES]);
		now = clock_ns();
	} while (!ret && (now < end || nr % PARTS) && !bench_is_interrupted());
	*value = (double)(now - begin) / 1e3 / (double)nr;
	return ret;
}

static int run_kept(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)repetition;
	return time_mean(stage, *(const unsigned *)row->parameters, value);
}

static int run_asked(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)row;
	(void)repetition;
	return time_mean(stage, 0, value);
}

#define OPENS(name, bar, nr)                                                               \
	{                                                                                  \
		"open, read 4 KiB, close, " name, "µs", BENCH_LOWER, "all are asked", bar, \
			&(const unsigned){nr}, run_kept, run_asked                         \
	}
#define OPENS_ROWS(on, bar)                                                       \
	OPENS(on ", kept", bar, 4), OPENS(on ", 3 of 4 kept", BENCH_REPORTED, 3), \
		OPENS(on ", 2 of 4 kept", BENCH_REPORTED, 2),                     \
		OPENS(on ", 1 of 4 kept", BENCH_REPORTED, 1)

/* ---- The stages */

static void teardown(void *state)
{
	struct opens_stage *stage = state;

	for (unsigned i = 0; i < NR_FILES; i++)
		if (stage->files[i])
			afar_file_close(stage->files[i]);
	if (stage->fs)
		afar_fs_close(stage->fs);
	scene_close(&stage->scene);
	file_scene_end(stage);
}

/* Makes a file, which stays open if the caller wants it. */
static int make(struct opens_stage *stage, const char *kind, unsigned i, uint64_t *ino,
		struct afar_file **out)
{
	struct afar_file *file;
	char name[32];
	ssize_t nr;
	int ret;

	snprintf(name, sizeof(name), "%s-%u", kind, i);
	ret = file_make(stage->writer.fs, name, &file);
	if (ret)
		return ret;
	nr = afar_file_pwrite(file, stage->writer.memory, AFAR_FILE_BLOCK, 0);
	*ino = afar_file_ino(file);
	if (out)
		*out = file;
	else
		afar_file_close(file);
	return nr < 0 ? scene_fail("write a file", (int)nr) : 0;
}

static int make_files(struct opens_stage *stage)
{
	int ret = 0;

	for (unsigned i = 0; i < NR_FILES && !ret; i++) {
		ret = make(stage, "kept", i, &stage->kept[i], NULL);
		if (!ret)
			ret = make(stage, "written", i, &stage->written[i], &stage->files[i]);
	}
	/* The first answer tells of the delegation alone. */
	for (unsigned i = 0; i < 2 * NR_FILES && !ret; i++)
		ret = use(stage->fs, stage->kept[i % NR_FILES]);
	return ret;
}

static int set_up(const char *transport, void **out)
{
	const struct file_setting setting = {.transport = transport,
					     .server_bytes = SERVER_BYTES,
					     .memory_bytes = AFAR_FILE_BLOCK};
	struct opens_stage *stage;
	int ret = file_scene_make(&setting, sizeof(*stage), (void **)&stage);

	if (!ret)
		ret = scene_open(&stage->scene, cluster_uri(stage->writer.cluster), 0);
	if (!ret)
		ret = file_fs_join(stage->scene.session, &stage->fs);
	if (!ret)
		ret = make_files(stage);
	return file_scene_ready(ret, stage, teardown, out);
}

static int set_up_local(void **stage)
{
	return set_up("local", stage);
}

static int set_up_tcp(void **stage)
{
	return set_up("tcp", stage);
}

static const struct bench_row local_rows[] = {OPENS_ROWS("local", 1 / 50.0)};
static const struct bench_row tcp_rows[] = {OPENS_ROWS("tcp", 1 / 5.0)};

const struct bench_stage sharing_opens_local_stage = {set_up_local, teardown, local_rows,
						      NR_ROWS(local_rows)};
const struct bench_stage sharing_opens_tcp_stage = {set_up_tcp, teardown, tcp_rows,
						    NR_ROWS(tcp_rows)};
