/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `file` on one file, read and written from its beginning to its end by the blocking calls, and
 * on a queue. The reference is the same on a region. A file's bytes are ranges of one, so the difference is
 * what the file layer does for each call. Then what a write costs that makes a file longer.
 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "file.h"

#define SERVER_BYTES (512 * MIB)
#define BYTES	     (64 * MIB)
#define BAR	     0.95
#define NR_APPENDS   2000U
#define DEPTH	     8U /* operations in flight, on a queue */
#define MEMORY	     (DEPTH * 4 * MIB)

struct stream {
	bool is_write;
	uint64_t size;
};

struct stream_stage {
	struct file_scene at; /* its scene has the reference's region */
	struct afar_queue *queue;
	unsigned nr_appended; /* files */
};

/* How many bytes one measurement moves. */
static uint64_t bytes_of(const struct stream *stream)
{
	return stream->size < 64 * KIB ? BYTES / 4 : BYTES * 4;
}

static int run_file(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct stream *stream = row->parameters;
	struct stream_stage *stage = state;
	uint64_t begin = clock_ns(), bytes = bytes_of(stream);

	(void)repetition;
	for (uint64_t done = 0; done < bytes; done += stream->size) {
		uint64_t offset = done % BYTES;
		ssize_t nr = stream->is_write ? afar_file_pwrite(stage->at.file, stage->at.memory,
								 stream->size, offset)
					      : afar_file_pread(stage->at.file, stage->at.memory,
								stream->size, offset);

		if (nr != (ssize_t)stream->size)
			return scene_fail(row->name, nr < 0 ? (int)nr : -EIO);
	}
	*value = (double)bytes / (double)(clock_ns() - begin);
	return 0;
}

static int run_region(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct stream *stream = row->parameters;
	struct stream_stage *stage = state;
	uint64_t begin = clock_ns(), bytes = bytes_of(stream);

	(void)repetition;
	for (uint64_t done = 0; done < bytes; done += stream->size) {
		uint64_t offset = done % BYTES;
		ssize_t nr = stream->is_write
				     ? afar_region_pwrite(stage->at.scene.region, stage->at.memory,
							  stream->size, offset)
				     : afar_region_pread(stage->at.scene.region, stage->at.memory,
							 stream->size, offset);

		if (nr < 0)
			return scene_fail(row->name, (int)nr);
	}
	*value = (double)bytes / (double)(clock_ns() - begin);
	return 0;
}

/* ---- On a queue */

struct lap {
	struct afar_queue *queue;
	struct afar_target *target;
	const struct stream *stream;
	char *memory;
	uint64_t submitted, done; /* bytes */
};

static int submit_some(struct lap *lap, uint64_t bytes, struct afar_iov iov[DEPTH])
{
	const struct stream *stream = lap->stream;
	struct afar_op ops[DEPTH];
	unsigned nr = 0;

	while (lap->submitted < bytes && lap->submitted - lap->done < DEPTH * stream->size) {
		unsigned slot = (unsigned)(lap->submitted / stream->size % DEPTH);

		iov[slot] = (struct afar_iov){.addr = lap->memory + slot * stream->size,
					      .length = stream->size};
		ops[nr++] = (struct afar_op){
			.opcode = stream->is_write ? AFAR_OP_WRITE : AFAR_OP_READ,
			.target = lap->target,
			.offset = lap->submitted % BYTES,
			.nr_iov = 1,
			.iov = &iov[slot],
		};
		lap->submitted += stream->size;
	}
	return afar_queue_submit(lap->queue, ops, nr) == (int)nr ? 0 : -EIO;
}

static int run_lap(struct lap *lap, const struct bench_row *row, double *value)
{
	uint64_t begin = clock_ns(), bytes = bytes_of(lap->stream);
	struct afar_completion done[DEPTH];
	struct afar_iov iov[DEPTH];

	while (lap->done < bytes) {
		int nr, ret = submit_some(lap, bytes, iov);

		if (ret)
			return scene_fail(row->name, ret);
		nr = afar_queue_wait(lap->queue, done, DEPTH, 1, -1);
		for (int i = 0; i < nr; i++) {
			if (done[i].result != (int64_t)lap->stream->size)
				return scene_fail(row->name, (int)done[i].result);
			lap->done += lap->stream->size;
		}
	}
	*value = (double)bytes / (double)(clock_ns() - begin);
	return 0;
}

static int run_file_queue(void *state, const struct bench_row *row, unsigned repetition,
			  double *value)
{
	struct stream_stage *stage = state;
	struct lap lap = {
		.queue = stage->queue,
		.target = afar_file_target(stage->at.file),
		.stream = row->parameters,
		.memory = stage->at.memory,
	};

	(void)repetition;
	return run_lap(&lap, row, value);
}

static int run_region_queue(void *state, const struct bench_row *row, unsigned repetition,
			    double *value)
{
	struct stream_stage *stage = state;
	struct lap lap = {
		.queue = stage->queue,
		.target = afar_region_target(stage->at.scene.region),
		.stream = row->parameters,
		.memory = stage->at.memory,
	};

	(void)repetition;
	return run_lap(&lap, row, value);
}

/* ---- Longer files */

/* Each call makes the file longer by one block. */
static int run_extending(void *state, const struct bench_row *row, unsigned repetition,
			 double *value)
{
	struct stream_stage *stage = state;
	struct afar_file *file;
	char name[32];
	uint64_t begin;
	ssize_t nr = 0;
	int ret;

	(void)repetition;
	snprintf(name, sizeof(name), "grows-%u", stage->nr_appended++);
	ret = file_make(stage->at.fs, name, &file);
	if (ret)
		return ret;
	begin = clock_ns();
	for (unsigned i = 0; i < NR_APPENDS && nr >= 0; i++)
		nr = afar_file_pwrite(file, stage->at.memory, 4 * KIB, i * 4 * KIB);
	*value = (double)(clock_ns() - begin) / NR_APPENDS / 1e3;
	afar_file_close(file);
	return nr < 0 ? scene_fail(row->name, (int)nr) : 0;
}

static int run_overwriting(void *state, const struct bench_row *row, unsigned repetition,
			   double *value)
{
	struct stream_stage *stage = state;
	uint64_t begin = clock_ns();
	ssize_t nr = 0;

	(void)repetition;
	for (unsigned i = 0; i < NR_APPENDS && nr >= 0; i++)
		nr = afar_file_pwrite(stage->at.file, stage->at.memory, 4 * KIB, i * 4 * KIB);
	*value = (double)(clock_ns() - begin) / NR_APPENDS / 1e3;
	return nr < 0 ? scene_fail(row->name, (int)nr) : 0;
}

/* ---- The stages */

static void teardown(void *state)
{
	struct stream_stage *stage = state;

	if (stage->queue)
		afar_queue_close(stage->queue);
	file_scene_end(stage);
}

/* Both have their bytes before anything is measured. */
static int fill(struct stream_stage *stage)
{
	for (uint64_t offset = 0; offset < BYTES; offset += MIB) {
		ssize_t nr = afar_file_pwrite(stage->at.file, stage->at.memory, MIB, offset);

		if (nr >= 0)
			nr = afar_region_pwrite(stage->at.scene.region, stage->at.memory, MIB,
						offset);
		if (nr < 0)
			return scene_fail("fill the file", (int)nr);
	}
	return 0;
}

static int connect(struct stream_stage *stage)
{
	int ret = afar_queue_open(stage->at.scene.session, NULL, &stage->queue);

	if (!ret)
		ret = afar_queue_connect(stage->queue, afar_file_target(stage->at.file));
	if (!ret)
		ret = afar_queue_connect(stage->queue, afar_region_target(stage->at.scene.region));
	return ret ? scene_fail("connect the queue", ret) : 0;
}

static int setup(const char *transport, void **state)
{
	const struct file_setting setting = {
		.transport = transport, .server_bytes = SERVER_BYTES, .memory_bytes = MEMORY};
	struct stream_stage *stage;
	int ret = file_scene_make(&setting, sizeof(*stage), (void **)&stage);

	if (!ret)
		ret = scene_create_region(&stage->at.scene, SCENE_NAMESPACE, 0, BYTES);
	if (!ret)
		ret = fill(stage);
	if (!ret)
		ret = connect(stage);
	return file_scene_ready(ret, stage, teardown, state);
}

static int setup_local(void **state)
{
	return setup("local", state);
}

static int setup_tcp(void **state)
{
	return setup("tcp", state);
}

#define REGION "the same calls on a region"
#define STREAM(name, write, bytes)                                                             \
	{                                                                                      \
		name, "GB/s", BENCH_HIGHER, REGION, BAR, &(const struct stream){write, bytes}, \
			run_file, run_region                                                   \
	}
#define BY_QUEUE(name, write, bytes)                                                           \
	{                                                                                      \
		name, "GB/s", BENCH_HIGHER, "the same on a region", BAR,                       \
			&(const struct stream){write, bytes}, run_file_queue, run_region_queue \
	}
#define STREAMS(over)                                                                          \
	STREAM("read 4 KiB, " over, false, 4 * KIB),                                           \
		STREAM("read 64 KiB, " over, false, 64 * KIB),                                 \
		STREAM("read 1 MiB, " over, false, MIB),                                       \
		STREAM("read 4 MiB, " over, false, 4 * MIB),                                   \
		STREAM("write 4 KiB, " over, true, 4 * KIB),                                   \
		STREAM("write 64 KiB, " over, true, 64 * KIB),                                 \
		STREAM("write 1 MiB, " over, true, MIB),                                       \
		STREAM("write 4 MiB, " over, true, 4 * MIB),                                   \
		BY_QUEUE("read 4 KiB by queue, " over, false, 4 * KIB),                        \
		BY_QUEUE("read 64 KiB by queue, " over, false, 64 * KIB),                      \
		BY_QUEUE("read 1 MiB by queue, " over, false, MIB),                            \
		BY_QUEUE("read 4 MiB by queue, " over, false, 4 * MIB),                        \
		BY_QUEUE("write 4 KiB by queue, " over, true, 4 * KIB),                        \
		BY_QUEUE("write 64 KiB by queue, " over, true, 64 * KIB),                      \
		BY_QUEUE("write 1 MiB by queue, " over, true, MIB),                            \
		BY_QUEUE("write 4 MiB by queue, " over, true, 4 * MIB),                        \
	{                                                                                      \
		"write 4 KiB that makes the file longer, " over, "µs", BENCH_LOWER,            \
			"write 4 KiB over what is there", BENCH_REPORTED, NULL, run_extending, \
			run_overwriting                                                        \
	}

static const struct bench_row local_rows[] = {STREAMS("local")};
static const struct bench_row tcp_rows[] = {STREAMS("tcp")};

const struct bench_stage file_stream_local_stage = {setup_local, teardown, local_rows,
						    NR_ROWS(local_rows)};
const struct bench_stage file_stream_tcp_stage = {setup_tcp, teardown, tcp_rows, NR_ROWS(tcp_rows)};
