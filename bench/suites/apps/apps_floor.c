/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The floor of a sort, for suite `apps`: how long reading all bytes twice, writing them twice, and sorting them in memory
 * takes by itself. There are as many processes as a sort has workers. Each has a share, and all do one part after the other
 * together. They move whole megabytes, many at once, from and to warm memory. Each sorts its share in memory of its own by
 * the same radix sort, with the sorted records copied out. A sort does all that in small pieces, and samples, chooses
 * buckets, and meets.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <afar/afar.h>

#include "apps/sort/radix.h"
#include "apps/sort/word.h"
#include "apps_sort.h"
#include "base/clock.h"
#include "harness/process.h"
#include "harness/program.h"

#define PIECE_BYTES   ((size_t)1000000) /* whole records */
#define NR_PIECES     16U		/* in a process's memory */
#define DEPTH	      16U
#define COPY_BYTES    ((size_t)256 << 10)
#define AHEAD	      12U
#define PROCESSES_MAX 64U
#define STEP_BYTES    ((uint64_t)64 << 20) /* of what a namespace lacks for a region */

enum part { READ_INPUT, WRITE_BUCKETS, READ_BUCKETS, WRITE_OUTPUT, SORT, NR_PARTS };

struct share {
	unsigned number, nr;
	uint64_t bytes; /* of the whole input */
};

struct process {
	struct afar_session *session;
	struct afar_namespace *ns;
	struct afar_region *in, *buckets, *out;
	struct afar_queue *queue;
	struct afar_buffer *buffer;
	uint64_t begin, end;
	uint8_t *records; /* its share, as it is in the input */
	struct item *items, *scratch;
	uint8_t *copy;
};

/* ---- Moving bytes */

static int await(struct process *process, unsigned *nr_busy, unsigned nr)
{
	struct afar_completion done[DEPTH];
	int nr_done = afar_queue_wait(process->queue, done, DEPTH, nr, -1);

	for (int i = 0; i < nr_done; i++)
		if (done[i].result < 0)
			return (int)done[i].result;
	if (nr_done > 0)
		*nr_busy -= (unsigned)nr_done;
	return nr_done < 0 ? nr_done : 0;
}

static int move(struct process *process, struct afar_region *region, uint16_t opcode)
{
	uint8_t *data = afar_buffer_data(process->buffer);
	unsigned nr_busy = 0, piece = 0;
	int ret = 0;

	for (uint64_t at = process->begin; at < process->end && ret >= 0;) {
		const uint64_t left = process->end - at;
		const struct afar_iov iov = {process->buffer,
					     data + piece++ % NR_PIECES * PIECE_BYTES,
					     left < PIECE_BYTES ? left : PIECE_BYTES};
		const struct afar_op op = {.opcode = opcode,
					   .nr_iov = 1,
					   .target = afar_region_target(region),
					   .offset = at,
					   .iov = &iov};

		ret = nr_busy == DEPTH ? await(process, &nr_busy, 1) : 0;
		if (ret == 0)
			ret = afar_queue_submit(process->queue, &op, 1);
		nr_busy += ret == 1;
		at += iov.length;
	}
	while (ret >= 0 && nr_busy)
		ret = await(process, &nr_busy, nr_busy);
	return ret < 0 ? ret : 0;
}

/* ---- Sorting */

/* Sorts the share, and copies its records in order. */
static void sort(struct process *process)
{
	const size_t nr = (process->end - process->begin) / SORTING_RECORD_BYTES;
	const uint8_t *data = process->records;
	size_t filled = 0;

	for (size_t i = 0; i < nr; i++) {
		uint32_t at = (uint32_t)(i * SORTING_RECORD_BYTES);

		process->items[i] = (struct item){word_at(data + at, SORTING_RECORD_BYTES), at,
						  SORTING_RECORD_BYTES};
	}
	radix_sort(data, process->items, process->scratch, nr);
	for (size_t i = 0; i < nr; i++) {
		if (i + AHEAD < nr) {
			__builtin_prefetch(data + process->items[i + AHEAD].at);
			__builtin_prefetch(data + process->items[i + AHEAD].at + 64);
		}
		memcpy(process->copy + filled, data + process->items[i].at, SORTING_RECORD_BYTES);
		filled += SORTING_RECORD_BYTES;
		if (filled + SORTING_RECORD_BYTES > COPY_BYTES)
			filled = 0;
	}
}

static int do_part(struct process *process, enum part part)
{
	switch (part) {
	case READ_INPUT:
		return move(process, process->in, AFAR_OP_READ);
	case WRITE_BUCKETS:
		return move(process, process->buckets, AFAR_OP_WRITE);
	case READ_BUCKETS:
		return move(process, process->buckets, AFAR_OP_READ);
	case WRITE_OUTPUT:
		return move(process, process->out, AFAR_OP_WRITE);
	default:
		sort(process);
		return 0;
	}
}

/* ---- A process */

static int open_region(struct process *process, const char *name, struct afar_region **out)
{
	int ret = afar_region_open(process->ns, name, out);

	return ret ? ret : afar_queue_connect(process->queue, afar_region_target(*out));
}

static void *get(size_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, bytes, MADV_HUGEPAGE);
	return memory;
}

static int get_records(struct process *process)
{
	const size_t bytes = process->end - process->begin, nr = bytes / SORTING_RECORD_BYTES;

	/* Items say in 32 bits where their records are. */
	if (bytes > UINT32_MAX)
		return -EFBIG;
	process->records = get(bytes + 1);
	process->items = get((nr + 1) * sizeof(*process->items));
	process->scratch = get((nr + 1) * sizeof(*process->scratch));
	process->copy = malloc(COPY_BYTES);
	if (!process->records || !process->items || !process->scratch || !process->copy)
		return -ENOMEM;
	return afar_region_pread(process->in, process->records, bytes, process->begin) ==
			       (ssize_t)bytes
		       ? 0
		       : -EIO;
}

static int open_all(struct process *process)
{
	int ret = afar_session_open(NULL, NULL, &process->session);

	if (!ret)
		ret = afar_namespace_open(process->session, "s", &process->ns);
	if (!ret)
		ret = afar_queue_open(process->session, NULL, &process->queue);
	if (!ret)
		ret = open_region(process, "in", &process->in);
	if (!ret)
		ret = open_region(process, "buckets", &process->buckets);
	if (!ret)
		ret = open_region(process, "out", &process->out);
	if (!ret)
		ret = afar_buffer_alloc(process->session, NR_PIECES * PIECE_BYTES,
					&process->buffer);
	return ret ? ret : get_records(process);
}

/* The servers get back at once what it had open. Else they would wait for the session's end, and the next sort for its room. */
static void close_all(const struct process *process)
{
	struct afar_region *const regions[] = {process->in, process->buckets, process->out};

	if (process->queue)
		afar_queue_close(process->queue);
	if (process->buffer)
		afar_buffer_unregister(process->buffer);
	for (unsigned i = 0; i < 3; i++)
		if (regions[i])
			afar_region_close(regions[i]);
	if (process->ns)
		afar_namespace_close(process->ns);
	if (process->session)
		afar_session_close(process->session);
}

/* Does each part once unasked, and then each when it is told to. */
static int process_main(int channel, void *argument)
{
	const struct share *share = argument;
	const uint64_t nr_records = share->bytes / SORTING_RECORD_BYTES;
	const struct child parent = {.channel = channel};
	struct process process = {
		.begin = nr_records * share->number / share->nr * SORTING_RECORD_BYTES,
		.end = nr_records * (share->number + 1) / share->nr * SORTING_RECORD_BYTES,
	};
	int ret = open_all(&process);
	char word;

	for (unsigned i = 0; i < NR_PARTS && !ret; i++)
		ret = do_part(&process, (enum part)i);
	for (unsigned i = 0; i < NR_PARTS && !ret; i++) {
		if (child_send(&parent, &ret, sizeof(ret)) ||
		    child_receive(&parent, &word, sizeof(word)))
			return 1;
		ret = do_part(&process, (enum part)i);
	}
	child_send(&parent, &ret, sizeof(ret));
	close_all(&process);
	return ret != 0;
}

/* ---- All of them */

struct processes {
	struct child children[PROCESSES_MAX];
	struct share shares[PROCESSES_MAX];
	unsigned nr;
};

static void stop(struct processes *processes)
{
	for (unsigned i = 0; i < processes->nr; i++)
		child_stop(&processes->children[i]);
}

static int start(struct processes *processes, uint64_t bytes)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	int ret = 0;

	processes->nr = cores < 1 ? 1 : cores > PROCESSES_MAX ? PROCESSES_MAX : (unsigned)cores;
	for (unsigned i = 0; i < processes->nr && !ret; i++) {
		processes->shares[i] = (struct share){i, processes->nr, bytes};
		ret = child_start(&processes->children[i], process_main, &processes->shares[i]);
	}
	return ret;
}

/* Waits until all have ended what they are at. */
static int await_all(const struct processes *processes)
{
	int status;

	for (unsigned i = 0; i < processes->nr; i++) {
		int ret = child_receive(&processes->children[i], &status, sizeof(status));

		if (ret || status)
			return bench_fail(ret ? ret : status, "a part of a sort: %s",
					  afar_strerror(ret ? ret : status));
	}
	return 0;
}

static int run_parts(const struct processes *processes, double *seconds)
{
	double parts[NR_PARTS] = {0};
	const char word = 0;
	int ret = await_all(processes);

	*seconds = 0;
	for (unsigned part = 0; part < NR_PARTS && !ret; part++) {
		const uint64_t begin_ns = clock_ns();

		for (unsigned i = 0; i < processes->nr && !ret; i++)
			ret = child_send(&processes->children[i], &word, sizeof(word));
		if (!ret)
			ret = await_all(processes);
		parts[part] = (double)(clock_ns() - begin_ns) / 1e9;
		*seconds += parts[part];
	}
	if (!ret)
		bench_note("its parts: read %.3f s, write %.3f s, read %.3f s, write %.3f s, sort "
			   "%.3f s",
			   parts[READ_INPUT], parts[WRITE_BUCKETS], parts[READ_BUCKETS],
			   parts[WRITE_OUTPUT], parts[SORT]);
	return ret;
}

/* ---- The regions that the parts are written to. Their bytes do not matter: all are written before any is timed. */

/* The namespace has most of the room, from a sort before. */
static int make_region(struct afar_namespace *ns, const char *name, uint64_t bytes)
{
	struct afar_region *region;
	int ret;

	while ((ret = afar_region_create(ns, name, bytes, 0, &region)) == -AFAR_ERESERVE) {
		ret = afar_namespace_reserve(ns, STEP_BYTES);
		if (ret)
			return ret;
	}
	return ret ? ret : afar_region_close(region);
}

static int make_regions(uint64_t bytes)
{
	struct afar_session *session;
	struct afar_namespace *ns;
	int ret = afar_session_open(NULL, NULL, &session);

	if (ret)
		return ret;
	ret = afar_namespace_open(session, "s", &ns);
	if (!ret) {
		ret = make_region(ns, "buckets", bytes);
		if (!ret)
			ret = make_region(ns, "out", bytes);
		afar_namespace_close(ns);
	}
	afar_session_close(session);
	return ret;
}

/* In a process of its own, which ends with what it has open, because those that are forked later want no threads here. */
static int make_main(int channel, void *argument)
{
	const struct child parent = {.channel = channel};
	int ret = make_regions(*(const uint64_t *)argument);

	child_send(&parent, &ret, sizeof(ret));
	return ret != 0;
}

static int need_regions(uint64_t bytes)
{
	struct child child;
	int status = 0, ret = child_start(&child, make_main, &bytes);

	if (ret)
		return ret;
	ret = child_receive(&child, &status, sizeof(status));
	child_stop(&child);
	if (ret || status)
		return bench_fail(ret ? ret : status, "regions for the parts of a sort: %s",
				  afar_strerror(ret ? ret : status));
	return 0;
}

static int remove_regions(void)
{
	static const char *const buckets[] = {PROGRAM_AFAR, "region", "rm", "s:buckets", NULL};
	static const char *const out[] = {PROGRAM_AFAR, "region", "rm", "s:out", NULL};
	int ret = apps_run(buckets, NULL);

	return ret ? ret : apps_run(out, NULL);
}

/* Waits until they have closed what they had open. */
static void await_ends(const struct processes *processes)
{
	char word;

	for (unsigned i = 0; i < processes->nr; i++)
		child_receive(&processes->children[i], &word, sizeof(word));
}

int sorting_run_floor(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const uint64_t bytes = sorting_bytes(row);
	struct sorting_stage *stage = state;
	struct processes processes = {0};
	double seconds = 1;
	int ret = sorting_need_cluster(stage, row);

	(void)repetition;
	if (!ret)
		ret = need_regions(bytes);
	if (!ret)
		ret = start(&processes, bytes);
	if (!ret)
		ret = run_parts(&processes, &seconds);
	if (!ret)
		await_ends(&processes);
	stop(&processes);
	if (!ret)
		ret = remove_regions();
	sorting_turn_ends(stage, ret);
	*value = (double)bytes / seconds / 1e9;
	return ret;
}
