/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A target's binding is replaced under load: by one on the same server, by one on another, by a longer one. No
 * command does that to a region yet. So the test does it to a region of its own, with the layouts of others
 * that hold the same bytes.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "client/namespace/region.h"
#include "lib/api/api.h"
#include "lib/base/effort.h"
#include "lib/base/transport.h"

#define LENGTH	   (256 * KIB)
#define NR_REGIONS 6U
#define NR_PIECES  64U
#define PIECE	   (LENGTH / NR_PIECES)
#define READ_BYTES (LENGTH - PIECE) /* by workers; the last piece is the writer's */
#define ROUNDS_MIN 200U		    /* of each worker between two replacements */

static struct afar_namespace *ns;
static struct afar_region *regions[NR_REGIONS];
static Afar__Frame *replies[NR_REGIONS]; /* what the manager says of them */
static uint8_t wanted[LENGTH];
static uint64_t layout_number = 1000;

/* ---- The regions */

static const Afar__RegionInfo *info_of(unsigned i)
{
	return replies[i]->reply->region_info;
}

static uint64_t server_of(unsigned i)
{
	assert_int_equal(info_of(i)->layout->n_servers, 1);
	return info_of(i)->layout->servers[0]->server;
}

static void ask(unsigned i)
{
	Afar__RegionOpen open = AFAR__REGION_OPEN__INIT;

	open.namespace_ = regions[i]->target.ns;
	open.name = regions[i]->name;
	assert_int_equal(session_call_for(session, RPC_REQUEST(REGION_OPEN, region_open, &open),
					  AFAR__REPLY__RESULT_REGION_INFO, &replies[i]),
			 0);
}

/* One that is at the same server as region 0, or is not. */
static unsigned find_region(bool is_beside)
{
	for (unsigned i = 1; i < NR_REGIONS; i++) {
		if ((server_of(i) == server_of(0)) == is_beside)
			return i;
	}
	fail_msg("all regions are on one side");
	return 0;
}

static int setup(void **state)
{
	const struct afar_policy policy = {.size = sizeof(policy), .stripe_bytes = MIB};
	char name[] = "r0";

	if (start(state) || afar_namespace_create(session, "bindings", &policy, &ns) ||
	    afar_namespace_reserve(ns, 16 * MIB))
		return -1;
	for (size_t i = 0; i < LENGTH; i++)
		wanted[i] = (uint8_t)(i * 7 + i / 4096);
	for (unsigned i = 0; i < NR_REGIONS; i++) {
		name[1] = (char)('0' + i);
		if (afar_region_create(ns, name, LENGTH, 0, &regions[i]) ||
		    afar_region_pwrite(regions[i], wanted, LENGTH, 0) != LENGTH)
			return -1;
		ask(i);
	}
	return 0;
}

static int teardown(void **state)
{
	for (unsigned i = 0; i < NR_REGIONS; i++) {
		afar__frame__free_unpacked(replies[i], NULL);
		if (afar_region_close(regions[i]))
			return -1;
	}
	return afar_namespace_close(ns) || stop(state) ? -1 : 0;
}

/* ---- Replacing */

static void replace(struct afar_target *target, const Afar__LayoutInfo *message, uint64_t length)
{
	const struct layout_description layout = {
		.message = message, .number = ++layout_number, .length = length};
	struct binding *binding;

	pthread_mutex_lock(&target->lock);
	assert_int_equal(binding_new(target, &layout, &binding), 0);
	target_bind(target, binding);
	pthread_mutex_unlock(&target->lock);
}

/* The first LENGTH bytes of a region: its first group, cut. */
static void replace_by(struct afar_target *target, unsigned i)
{
	Afar__LayoutInfo layout = *info_of(i)->layout;
	Layout__Layout form = *layout.form;
	Layout__Group group = *form.groups[0], *groups[] = {&group};

	assert_true(group.length >= LENGTH);
	group.length = LENGTH;
	form.groups = groups;
	form.n_groups = 1;
	layout.form = &form;
	replace(target, &layout, LENGTH);
}

/* The target gets LENGTH bytes of the first region, and as many of the second behind them. */
static void append(struct afar_target *target, unsigned first, unsigned second)
{
	const Afar__LayoutInfo *a = info_of(first)->layout, *b = info_of(second)->layout;
	Layout__Group one = *a->form->groups[0], two = *b->form->groups[0],
		      *groups[] = {&one, &two};
	Layout__Copy copy = *two.chunks[0]->copies[0], *copies[] = {&copy};
	Layout__Chunk chunk = *two.chunks[0], *chunks[] = {&chunk};
	Layout__Home *homes[] = {a->form->homes[0], b->form->homes[0]};
	Layout__Layout form = LAYOUT__LAYOUT__INIT;
	Afar__Server *servers[] = {a->servers[0], b->servers[0]};
	Afar__Access *accesses[] = {a->accesses[0], b->accesses[0]};
	Afar__LayoutInfo layout = AFAR__LAYOUT_INFO__INIT;

	one.length = two.length = LENGTH;
	assert_int_equal(two.n_chunks, 1);
	copy.home = 1;
	chunk.copies = copies;
	two.chunks = chunks;
	form.groups = groups;
	form.homes = homes;
	form.n_groups = form.n_homes = 2;
	layout.form = &form;
	layout.servers = servers;
	layout.accesses = accesses;
	layout.n_servers = layout.n_accesses = 2;
	replace(target, &layout, 2 * LENGTH);
}

/* ---- Load */

struct worker {
	pthread_t thread;
	void (*work)(struct worker *worker, unsigned round);
	struct afar_region *region;
	struct afar_queue *queue;
	atomic_uint nr_rounds;
	atomic_bool is_over;
	uint8_t memory[LENGTH];
	struct afar_buffer *buffer; /* NULL: none is needed */
};

static void read_blocking(struct worker *worker, unsigned round)
{
	size_t offset = round % (NR_PIECES - 1) * PIECE, length = READ_BYTES - offset;

	assert_int_equal(afar_region_pread(worker->region, worker->memory, length, offset), length);
	assert_memory_equal(worker->memory, wanted + offset, length);
}

static void write_blocking(struct worker *worker, unsigned round)
{
	(void)round;
	assert_int_equal(afar_region_pwrite(worker->region, wanted + READ_BYTES, PIECE, READ_BYTES),
			 PIECE);
}

/* Reads all of it in pieces, and flushes behind. If the queue is not connected for some of it, that
 * fails, and all is done again. */
static void read_by_queue(struct worker *worker, unsigned round)
{
	struct afar_op ops[NR_PIECES] = {0};
	struct afar_completion done[NR_PIECES];
	struct afar_iov iov[NR_PIECES - 1];
	bool has_failed;

	(void)round;
	for (unsigned i = 0; i < NR_PIECES; i++)
		ops[i] = (struct afar_op){.opcode = AFAR_OP_FLUSH,
					  .target = afar_region_target(worker->region)};
	for (unsigned i = 0; i < NR_PIECES - 1; i++) {
		iov[i] = (struct afar_iov){worker->buffer, worker->memory + i * PIECE, PIECE};
		ops[i].opcode = AFAR_OP_READ;
		ops[i].offset = i * PIECE;
		ops[i].iov = &iov[i];
		ops[i].nr_iov = 1;
	}
	do {
		has_failed = false;
		memset(worker->memory, 0, READ_BYTES);
		assert_int_equal(
			afar_queue_connect(worker->queue, afar_region_target(worker->region)), 0);
		assert_int_equal(afar_queue_submit(worker->queue, ops, NR_PIECES), NR_PIECES);
		assert_int_equal(afar_queue_wait(worker->queue, done, NR_PIECES, NR_PIECES, -1),
				 NR_PIECES);
		for (unsigned i = 0; i < NR_PIECES; i++) {
			if (done[i].result >= 0)
				continue;
			assert_true(done[i].result == -AFAR_ESERVER ||
				    done[i].result == -ENOTCONN || done[i].result == -ECANCELED);
			has_failed = true;
		}
	} while (has_failed);
	assert_memory_equal(worker->memory, wanted, READ_BYTES);
}

static void *run(void *argument)
{
	struct worker *worker = argument;

	while (!worker->is_over)
		worker->work(worker, worker->nr_rounds++);
	return NULL;
}

static struct worker *begin(void (*work)(struct worker *, unsigned), struct afar_region *region)
{
	const struct afar_queue_options options = {.size = sizeof(options), .depth = NR_PIECES + 1};
	struct worker *worker = calloc(1, sizeof(*worker));

	assert_non_null(worker);
	worker->work = work;
	worker->region = region;
	worker->buffer = register_if_needed(worker->memory, LENGTH);
	assert_int_equal(afar_queue_open(session, &options, &worker->queue), 0);
	assert_int_equal(pthread_create(&worker->thread, NULL, run, worker), 0);
	return worker;
}

static void end(struct worker *worker)
{
	worker->is_over = true;
	assert_int_equal(pthread_join(worker->thread, NULL), 0);
	assert_int_equal(afar_queue_close(worker->queue), 0);
	unregister(worker->buffer);
	free(worker);
}

static void await_rounds(struct worker *const *workers, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		unsigned until = workers[i]->nr_rounds + ROUNDS_MIN / (i + 1);

		while (workers[i]->nr_rounds < until)
			test_pause();
	}
}

/* ---- Tests */

static void test_replaced_under_load(void **state)
{
	struct afar_region *region = regions[0];
	const unsigned beside = find_region(true), away = find_region(false);
	struct worker *workers[] = {begin(write_blocking, region), begin(read_blocking, region),
				    begin(read_by_queue, region)};
	uint8_t byte = 0, tail[PIECE];

	(void)state;
	await_rounds(workers, 3);
	replace_by(&region->target, beside);
	await_rounds(workers, 3);
	replace_by(&region->target, away);
	await_rounds(workers, 3);
	append(&region->target, 0, away);
	await_rounds(workers, 3);
	for (unsigned i = 0; i < 3; i++)
		end(workers[i]);
	/* Both parts are where the layout says. */
	assert_int_equal(afar_region_pread(region, tail, PIECE, 2 * LENGTH - PIECE), PIECE);
	assert_memory_equal(tail, wanted + LENGTH - PIECE, PIECE);
	assert_int_equal(afar_region_pread(region, &byte, 1, 2 * LENGTH), -ERANGE);
	byte = (uint8_t)~wanted[7];
	assert_int_equal(afar_region_pwrite(regions[away], &byte, 1, 7), 1);
	assert_int_equal(afar_region_pread(region, tail, 1, LENGTH + 7), 1);
	assert_int_equal(tail[0], byte);
	assert_int_equal(afar_region_pread(region, tail, 1, 7), 1);
	assert_int_equal(tail[0], wanted[7]);
	byte = wanted[7];
	assert_int_equal(afar_region_pwrite(regions[away], &byte, 1, 7), 1);
}

/* A group without memory behind the region's own. */
static void append_hole(struct afar_target *target, unsigned i)
{
	Afar__LayoutInfo layout = *info_of(i)->layout;
	Layout__Layout form = *layout.form;
	Layout__Group group = *form.groups[0], hole = LAYOUT__GROUP__INIT,
		      *groups[] = {&group, &hole};

	group.length = hole.length = LENGTH;
	form.groups = groups;
	form.n_groups = 2;
	layout.form = &form;
	replace(target, &layout, 2 * LENGTH);
}

static void test_holes(void **state)
{
	struct afar_region *region = regions[2];
	struct afar_queue *queue;
	struct afar_completion done;
	uint8_t memory[2 * PIECE];
	struct afar_buffer *buffer = register_if_needed(memory, sizeof(memory));
	struct afar_iov iov[] = {{buffer, memory, 100},
				 {buffer, memory + 100, 0},
				 {buffer, memory + 100, 2 * PIECE - 100}};
	struct afar_op op = {.opcode = AFAR_OP_READ,
			     .target = afar_region_target(region),
			     .iov = iov,
			     .nr_iov = 3,
			     .offset = LENGTH - PIECE};
	uint64_t before;

	(void)state;
	append_hole(&region->target, 2);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, op.target), 0);
	for (unsigned i = 0; i < 2; i++) {
		memset(memory, 0xff, sizeof(memory));
		assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
		assert_int_equal(afar_queue_wait(queue, &done, 1, 1, -1), 1);
		assert_int_equal(done.result, 2 * PIECE);
		/* From the end of the group into the hole, then from within the hole. */
		if (i == 0)
			assert_memory_equal(memory, wanted + LENGTH - PIECE, PIECE);
		for (size_t at = i == 0 ? PIECE : 0; at < 2 * PIECE; at++)
			assert_int_equal(memory[at], 0);
		op.offset = LENGTH + 3;
	}
	memset(memory, 0xff, PIECE);
	assert_int_equal(afar_region_pread(region, memory, PIECE, LENGTH + PIECE), PIECE);
	for (size_t at = 0; at < PIECE; at++)
		assert_int_equal(memory[at], 0);
	expect_error(afar_region_pwrite(region, wanted, PIECE, LENGTH), -ENXIO);
	expect_error(afar_region_pwrite(region, wanted, PIECE, LENGTH - 1), -ENXIO);
	expect_error(afar_region_fetch_add(region, LENGTH, 1, &before), -ENXIO);
	assert_int_equal(afar_region_pwrite(region, wanted, LENGTH, 0), LENGTH);
	assert_int_equal(afar_queue_close(queue), 0);
	unregister(buffer);
}

/* Code that looks at a binding when it is replaced keeps it until it is done. Then the binding is gone (a leak checker
 * sees to that). */
static void test_old_bindings_end(void **state)
{
	struct afar_target *target = &regions[1]->target;
	struct binding *kept = target_binding(target);

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		replace_by(target, 1);
	assert_int_equal(kept->nr_references, 1);
	assert_false(kept->is_ready);
	assert_int_equal(kept->layout->nr_homes, 1);
	binding_unref(kept);
	assert_int_equal(target->binding->nr_references, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_old_bindings_end),
		cmocka_unit_test(test_replaced_under_load),
		cmocka_unit_test(test_holes),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
