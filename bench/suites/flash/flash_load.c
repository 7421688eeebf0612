/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Does a load to a target. It keeps the load's number of operations in flight, a new one from the end of each. It ends
 * when the time is over or there are no more to do.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "flash.h"

#define SPAN_NS	   UINT64_C(1000000000)
#define FILL_DEPTH 8U

struct worker {
	struct flash_request request; /* first: done() finds it by that */
	struct run *run;
};

struct run {
	const struct flash_target *target;
	void *opened;
	const struct flash_load *load;
	uint64_t nr_places;  /* blocks that the target has     */
	uint64_t next;	     /* place, or the random state     */
	uint64_t nr_to_give; /* operations yet to be submitted */
	uint64_t deadline;
	uint64_t nr_ended;
	unsigned nr_in_flight;
	int status;
	struct worker *workers; /* as many as are in flight at most … */
	char *memory;		/* … and a block for each             */
	bool is_lent;		/* the memory is                      */
};

static uint64_t next_offset(struct run *run)
{
	uint64_t place = run->next % run->nr_places;

	if (run->load->is_random) {
		/* The multiplier and increment are Knuth's; the low bits are the poor ones. */
		run->next =
			run->next * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		place = (uint64_t)(((unsigned __int128)run->next * run->nr_places) >> 64);
	} else {
		run->next++;
	}
	return place * run->load->block;
}

static void give(struct worker *worker)
{
	struct run *run = worker->run;

	run->nr_to_give--;
	run->nr_in_flight++;
	worker->request.offset = next_offset(run);
	run->target->submit(run->opened, &worker->request);
}

static bool goes_on(const struct run *run)
{
	return !run->status && run->nr_to_give > 0 &&
	       (run->deadline == CLOCK_NEVER || clock_ns() < run->deadline);
}

static void one_ended(struct flash_request *request, int status)
{
	struct worker *worker = (struct worker *)request;
	struct run *run = worker->run;

	run->nr_in_flight--;
	run->nr_ended++;
	if (status && !run->status)
		run->status = bench_fail(
			status, "%s of %llu bytes: %s", request->is_write ? "write" : "read",
			(unsigned long long)request->memory.iov_len, strerror(-status));
	if (goes_on(run))
		give(worker);
}

static int lend_memory(struct run *run)
{
	int ret;

	if (!run->target->lend)
		return 0;
	ret = run->target->lend(run->opened, run->memory, run->load->depth * run->load->block);
	run->is_lent = ret == 0;
	return ret;
}

static int make_workers(struct run *run)
{
	const struct flash_load *load = run->load;

	run->workers = calloc(load->depth, sizeof(run->workers[0]));
	run->memory = mmap(NULL, load->depth * load->block, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!run->workers || run->memory == MAP_FAILED) {
		bench_fail(-ENOMEM, "no memory for the load");
		return -ENOMEM;
	}
	memset(run->memory, 0x5a, load->depth * load->block);
	for (unsigned i = 0; i < load->depth; i++) {
		run->workers[i] = (struct worker){
			.request = {.is_write = load->is_write,
				    .is_durable = load->is_durable,
				    .is_checked = load->is_checked,
				    .memory = {run->memory + i * load->block, load->block},
				    .done = one_ended},
			.run = run,
		};
	}
	return lend_memory(run);
}

static void free_workers(struct run *run)
{
	if (run->is_lent)
		run->target->take_back(run->opened);
	free(run->workers);
	if (run->memory != MAP_FAILED)
		munmap(run->memory, run->load->depth * run->load->block);
}

static int work(struct run *run)
{
	for (unsigned i = 0; i < run->load->depth && run->nr_to_give > 0; i++)
		give(&run->workers[i]);
	while (run->nr_in_flight > 0) {
		int ret = run->target->poll(run->opened, -1);

		if (ret < 0)
			return bench_fail(ret, "the target: %s", strerror(-ret));
		if (bench_is_interrupted())
			run->nr_to_give = 0;
	}
	return run->status;
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

int flash_load_run(const struct flash_target *target, void *opened, const struct flash_load *load,
		   struct flash_figures *out)
{
	struct run run = {
		.target = target, .opened = opened, .load = load, .nr_to_give = UINT64_MAX};
	uint64_t began, cpu_began;
	int ret;

	run.nr_places = target->size(opened) / load->block;
	run.next = clock_ns();
	ret = make_workers(&run);
	cpu_began = cpu_ns();
	began = clock_ns();
	run.deadline = began + (load->span_ns ? load->span_ns : SPAN_NS);
	if (!ret)
		ret = work(&run);
	if (!ret && run.nr_ended > 0) {
		out->per_second = (double)run.nr_ended * 1e9 / (double)(clock_ns() - began);
		out->cpu_ns = (double)(cpu_ns() - cpu_began) / (double)run.nr_ended;
	}
	free_workers(&run);
	return ret;
}

int flash_load_fill(const struct flash_target *target, void *opened, unsigned times)
{
	static const struct flash_load load = {.is_write = true, .block = MIB, .depth = FILL_DEPTH};
	struct run run = {
		.target = target, .opened = opened, .load = &load, .deadline = CLOCK_NEVER};
	int ret;

	run.nr_places = target->size(opened) / load.block;
	run.nr_to_give = run.nr_places * times;
	ret = make_workers(&run);
	if (!ret)
		ret = work(&run);
	free_workers(&run);
	return ret;
}
