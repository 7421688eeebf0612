/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layer does what was simulated: the same trace through both, and as much is moved. The layer
 * runs on a fake device, with puts in flight; the simulator knows but counts. Ours against one
 * stream, in both.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "flash/ftl.h"
#include "lib/flash/flash_fake.h"
#include "simulator/simulate.h"

#define DEVICE_BYTES  (52U << 20)
#define SEGMENT_BYTES (32 * FTL_BLOCK)
#define STREAMS	      4U
#define NR_TIMES      3U
#define DEPTH	      8U

/*
 * Segments that the layer keeps free beyond the two of the simulator: their spare is of no use, so
 * the simulator has none of it.
 */
#define KEPT_FREE_MORE 3U

struct run;

struct request {
	struct ftl_put put;
	struct run *run;
	bool is_busy;
};

struct run {
	struct flash_device *device;
	struct ftl *ftl;
	struct trace *trace;
	struct iovec iov;
	struct request requests[DEPTH];
	unsigned nr_in_flight;
	struct simulate_options options;
	uint64_t capacity; /* blocks of the segments that the simulator has */
};

static void put_done(struct ftl_put *put)
{
	struct request *request = caa_container_of(put, struct request, put);

	assert_int_equal(put->result, 0);
	request->is_busy = false;
	request->run->nr_in_flight--;
}

static void put(struct run *run, uint32_t block)
{
	struct request *request = run->requests;

	while (run->nr_in_flight == DEPTH)
		assert_true(ftl_poll(run->ftl, -1) >= 0);
	while (request->is_busy)
		request++;
	request->run = run;
	request->is_busy = true;
	run->nr_in_flight++;
	request->put = (struct ftl_put){.lba = ftl_lba(1, block),
					.length = FTL_BLOCK,
					.iov = &run->iov,
					.nr_iov = 1,
					.done = put_done};
	ftl_put(run->ftl, &request->put);
}

static void drain(struct run *run)
{
	while (run->nr_in_flight)
		assert_true(ftl_poll(run->ftl, -1) >= 0);
}

static void make_layer(struct run *run, unsigned streams)
{
	const struct flash_fake_options device = {.size = DEVICE_BYTES,
						  .sector = FTL_BLOCK,
						  .depth = 32,
						  .seed = 1,
						  .is_in_order = true};
	const struct ftl_options options = {.segment_bytes = SEGMENT_BYTES};

	assert_int_equal(flash_fake_open(&device, &run->device), 0);
	assert_int_equal(ftl_create(run->device, &options), 0);
	assert_int_equal(ftl_open(run->device, FTL_STREAMS(streams), &run->ftl), 0);
	run->iov = (struct iovec){aligned_alloc(FTL_BLOCK, FTL_BLOCK), FTL_BLOCK};
	assert_non_null(run->iov.iov_base);
	memset(run->iov.iov_base, 0x5a, FTL_BLOCK);
}

static void plan(struct run *run, const char *name)
{
	struct ftl_stat stat;

	ftl_stat(run->ftl, &stat);
	run->options = (struct simulate_options){.segment_blocks = stat.segment_blocks,
						 .full_percent = 90,
						 .nr_streams = STREAMS,
						 .nr_times = NR_TIMES};
	run->capacity = (uint64_t)(stat.nr_segments - KEPT_FREE_MORE) * stat.segment_blocks;
	assert_int_equal(trace_make(name, simulate_trace_blocks(run->capacity, &run->options), 1,
				    &run->trace),
			 0);
}

static void close_run(struct run *run)
{
	trace_close(run->trace);
	if (ftl_audit(run->ftl))
		fail_msg("%s", error_last_line());
	assert_int_equal(ftl_close(run->ftl), 0);
	flash_device_close(run->device);
	free(run->iov.iov_base);
}

static double write_all(struct run *run)
{
	struct ftl_stat before, after;

	trace_rewind(run->trace);
	for (uint32_t block = 0; block < trace_nr_blocks(run->trace); block++)
		put(run, block);
	drain(run);
	ftl_stat(run->ftl, &before);
	for (uint64_t i = 0; i < NR_TIMES * run->capacity; i++)
		put(run, trace_next(run->trace));
	drain(run);
	ftl_stat(run->ftl, &after);
	assert_int_equal(after.user_blocks - before.user_blocks, NR_TIMES * run->capacity);
	return 1 + (double)(after.moved_blocks - before.moved_blocks) /
			   (double)(after.user_blocks - before.user_blocks);
}

/* Returns the layer's amplification; `*simulated`: what was to be expected. */
static double amplification(const char *trace, unsigned streams, double *simulated)
{
	enum simulate_policy policy = streams == 1 ? SIMULATE_GREEDY : SIMULATE_OURS;
	struct simulate_result result;
	struct run run = {0};
	double measured;

	make_layer(&run, streams);
	plan(&run, trace);
	assert_int_equal(simulate(run.trace, &run.options, policy, &result), 0);
	measured = write_all(&run);
	*simulated = result.amplification;
	print_message("%s, %u streams: %.3f, simulated %.3f\n", trace, streams, measured,
		      *simulated);
	close_run(&run);
	return measured;
}

static void compare(const char *trace, double saved)
{
	double simulated_one, simulated_ours;
	double one = amplification(trace, 1, &simulated_one);
	double ours = amplification(trace, STREAMS, &simulated_ours);

	assert_true(fabs(one / simulated_one - 1) < 0.05);
	assert_true(fabs(ours / simulated_ours - 1) < 0.05);
	assert_true(ours < (1 - saved) * one);
}

static void test_80_20(void **state)
{
	(void)state;
	compare("80/20", 0.25);
}

static void test_95_20(void **state)
{
	(void)state;
	compare("95/20", 0.45);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_80_20),
		cmocka_unit_test(test_95_20),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
