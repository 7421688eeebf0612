/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `registration` on what a cache saves where registering is a NIC's: the fabric's own registration, on
 * verbs. An operation is a read of 1 MiB from the memory of another process into the buffer, one at a time. And what
 * registering takes on small pages and on huge ones. Without an RDMA device they are skipped.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/error.h"
#include "fabric/fabric.h"
#include "fabric/listener.h"
#include "harness/process.h"
#include "memory/huge.h"
#include "peers/raw_fabric.h"
#include "registration.h"
#include "suites/verbs/verbs.h"

#define NR_OPERATIONS 400U
#define SPIN_NS	      50000U /* the default of a session; then it sleeps */
#define PATIENCE_NS   UINT64_C(30000000000)
#define SLICE_MS      100
#define PAGES_BYTES   ((size_t)256 << 20)

/* ---- The other process, which lends one buffer; on verbs it need do nothing while it is read */

struct offer {
	char address[FABRIC_ADDRESS_MAX];
	uint64_t key;
	uint64_t base;
};

/* One side of the connection. */
struct end {
	struct fabric *fabric;
	struct fabric_queue *queue;
	struct fabric_endpoint *endpoint;
};

static int open_end(struct end *end)
{
	char address[FABRIC_ADDRESS_MAX];
	int ret;

	snprintf(address, sizeof(address), "%s:0", getenv("AFAR_TEST_HOST"));
	ret = fabric_open_at("verbs", address, &end->fabric);
	if (!ret)
		ret = fabric_queue_open(end->fabric, 1, &end->queue);
	return ret;
}

static void close_end(struct end *end)
{
	if (end->endpoint)
		fabric_endpoint_close(end->endpoint);
	if (end->queue)
		fabric_queue_close(end->queue);
	if (end->fabric)
		fabric_close(end->fabric);
}

/* Sleeps until there may be something to poll. */
static void sleep_on(struct fabric_queue *queue)
{
	struct pollfd descriptor = {.fd = fabric_queue_fd(queue), .events = POLLIN};

	if (fabric_queue_arm(queue) == 0)
		poll(&descriptor, 1, SLICE_MS);
}

static int await_connection(struct end *end)
{
	uint64_t deadline = clock_ns() + PATIENCE_NS;
	struct fabric_completion completion;
	struct fabric_event event;

	while (clock_ns() < deadline && !bench_is_interrupted()) {
		fabric_queue_poll(end->queue, &completion, 1);
		if (fabric_queue_event(end->queue, &event) == 1)
			return event.kind == FABRIC_CONNECTED ? 0 : event.status;
		sleep_on(end->queue);
	}
	return -ETIMEDOUT;
}

static int accept_one(struct end *end, struct fabric_listener *listener)
{
	struct pollfd descriptor = {.fd = fabric_listener_fd(listener), .events = POLLIN};
	struct fabric_request request;
	int ret;

	while ((ret = fabric_listener_next(listener, &request)) == -EAGAIN)
		poll(&descriptor, 1, SLICE_MS);
	if (!ret)
		ret = fabric_accept(&request, end->queue, end->fabric->domain, NULL,
				    &end->endpoint);
	return ret ? ret : await_connection(end);
}

/* Until it is killed. */
static int lend(int channel, void *argument)
{
	struct pollfd descriptor = {.fd = channel, .events = POLLIN};
	char address[FABRIC_ADDRESS_MAX];
	struct fabric_listener *listener;
	struct fabric_memory memory;
	struct offer offer = {0};
	struct end end = {0};
	void *lent = bench_memory_map(PINNING_BUFFER_BYTES);
	int ret = lent ? open_end(&end) : -ENOMEM;

	(void)argument;
	snprintf(address, sizeof(address), "%s:0", getenv("AFAR_TEST_HOST"));
	if (!ret)
		ret = fabric_listen(end.fabric, address, &listener);
	if (!ret)
		ret = fabric_memory_register(end.fabric->domain, lent, PINNING_BUFFER_BYTES,
					     FABRIC_REMOTE_READ, &memory);
	if (ret)
		return bench_fail(1, "lend a buffer: %s", error_last_line());
	offer.key = memory.key;
	offer.base = memory.base;
	memcpy(offer.address, listener->address, sizeof(offer.address));
	ret = child_send(&(struct child){.channel = channel}, &offer, sizeof(offer));
	if (!ret)
		ret = accept_one(&end, listener);
	if (ret)
		return bench_fail(1, "lend a buffer: %s", error_last_line());
	while (poll(&descriptor, 1, -1) < 0 && errno == EINTR)
		;
	return 0;
}

/* ---- This process: a registrar, and reads */

struct verbs_stage {
	struct pinning pinning;
	struct child lender;
	struct offer offer;
	struct end end;
	uint64_t nr_reads;
};

static int add(void *context, void *addr, size_t length, void **registration)
{
	struct verbs_stage *stage = context;
	struct fabric_memory *memory = malloc(sizeof(*memory));
	int ret;

	if (!memory)
		return error_code(-ENOMEM);
	ret = fabric_memory_register(stage->end.fabric->domain, addr, length, FABRIC_LOCAL, memory);
	if (ret)
		free(memory);
	else
		*registration = memory;
	return ret;
}

static void remove_all(void *context, void *const *registrations, size_t nr)
{
	(void)context;
	for (size_t i = 0; i < nr; i++) {
		fabric_memory_deregister(registrations[i]);
		free(registrations[i]);
	}
}

static int await_read(struct verbs_stage *stage)
{
	uint64_t began = clock_ns();
	struct fabric_completion completion;

	while (fabric_queue_poll(stage->end.queue, &completion, 1) == 0) {
		uint64_t waited_ns = clock_ns() - began;

		if (waited_ns > PATIENCE_NS)
			return -ETIMEDOUT;
		if (waited_ns > SPIN_NS)
			sleep_on(stage->end.queue);
	}
	return completion.context == stage->nr_reads ? completion.status : -EIO;
}

static int read_once(void *context, void *buffer, void *registration)
{
	struct verbs_stage *stage = context;
	const struct fabric_memory *memory = registration;
	const struct fabric_piece piece = {buffer, PINNING_BUFFER_BYTES, memory->descriptor};
	int ret = fabric_read(stage->end.endpoint, &piece, 1, stage->offer.base, stage->offer.key,
			      ++stage->nr_reads);

	if (!ret)
		ret = await_read(stage);
	return ret ? bench_fail(ret, "read 1 MiB over verbs: %s", strerror(-ret)) : 0;
}

/* ---- Registering by size of page: milliseconds */

static int time_registering(struct verbs_stage *stage, void *memory, double *value)
{
	uint64_t began = clock_ns();
	void *registration;
	int ret = add(stage, memory, PAGES_BYTES, &registration);

	*value = (double)(clock_ns() - began) / 1e6;
	if (ret)
		return bench_fail(ret, "%s", error_last_line());
	remove_all(stage, &registration, 1);
	return 0;
}

static int run_huge_pages(void *stage, const struct bench_row *row, unsigned repetition,
			  double *value)
{
	uint64_t before = memory_huge_measure();
	void *memory = bench_memory_map(PAGES_BYTES);
	uint64_t huge = memory_huge_measure() - before;
	int ret;

	(void)row;
	(void)repetition;
	if (!memory)
		return bench_fail(-ENOMEM, "no %zu MiB on huge pages", PAGES_BYTES >> 20);
	ret = time_registering(stage, memory, value);
	bench_note("%llu MiB of it really were on huge pages", (unsigned long long)huge >> 20);
	bench_memory_unmap(memory, PAGES_BYTES);
	return ret;
}

static int run_small_pages(void *stage, const struct bench_row *row, unsigned repetition,
			   double *value)
{
	void *memory =
		mmap(NULL, PAGES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int ret;

	(void)row;
	(void)repetition;
	if (memory == MAP_FAILED)
		return bench_fail(-ENOMEM, "no %zu MiB on small pages", PAGES_BYTES >> 20);
	madvise(memory, PAGES_BYTES, MADV_NOHUGEPAGE);
	memset(memory, 1, PAGES_BYTES);
	ret = time_registering(stage, memory, value);
	munmap(memory, PAGES_BYTES);
	return ret;
}

/* ---- The stage */

/* Not constant: skip(). */
static struct bench_row rows[] = {
	PINNING_ROWS(20, ", verbs"),
	PINNING_ROWS(80, ", verbs"),
	{"register 256 MiB, huge pages, verbs", "ms", BENCH_LOWER, "pages of 4 KiB", BENCH_REPORTED,
	 NULL, run_huge_pages, run_small_pages},
};

static void skip(const char *why)
{
	for (unsigned i = 0; i < NR_ROWS(rows); i++) {
		rows[i].run_ours = NULL;
		rows[i].reference_is = why;
	}
}

static int connect_to_lender(struct verbs_stage *state)
{
	int ret = child_start(&state->lender, lend, NULL);

	if (!ret)
		ret = child_receive(&state->lender, &state->offer, sizeof(state->offer));
	if (ret)
		return bench_fail(ret, "the process that lends a buffer ended early");
	ret = open_end(&state->end);
	if (!ret)
		ret = fabric_connect(state->end.queue, state->offer.address, NULL, 0, NULL,
				     &state->end.endpoint);
	if (!ret)
		ret = await_connection(&state->end);
	return ret ? bench_fail(ret, "connect over verbs: %s", error_last_line()) : 0;
}

static void teardown(void *stage)
{
	struct verbs_stage *state = stage;

	close_end(&state->end);
	child_stop(&state->lender);
	pinning_close(&state->pinning);
	free(state);
}

static int setup(void **stage)
{
	struct verbs_stage *state = calloc(1, sizeof(*state));
	const char *obstacle = verbs_obstacle();
	int ret = 0;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	state->pinning.registrar = (struct registrar){add, remove_all, state};
	state->pinning.operate = read_once;
	state->pinning.nr_operations = NR_OPERATIONS;
	if (obstacle)
		skip(obstacle);
	else
		ret = connect_to_lender(state);
	if (!ret && !obstacle)
		ret = pinning_open(&state->pinning);
	if (ret)
		teardown(state);
	else
		*stage = state;
	return ret;
}

const struct bench_stage registration_verbs_stage = {setup, teardown, rows, NR_ROWS(rows)};
