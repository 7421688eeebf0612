/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `region` about processes. They tell how soon a fresh client has its first byte,
 * what idle processes cost, and how much memory they need beside the chunks. The clients are
 * children of this process, which itself opens no session here.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <afar/afar.h>

#include "base/clock.h"
#include "harness/cluster.h"
#include "harness/process.h"
#include "harness/scene.h"
#include "region.h"

#define MIB		 (UINT64_C(1) << 20)
#define REGION_BYTES	 (64 * MIB)
#define SERVER_BYTES	 (256 * MIB)
#define NR_MORE_QUEUES	 64U
#define CONNECT_BAR_MS	 10.0
#define IDLE_BAR_PERCENT 1.0
#define IDLE_SPAN_NS	 UINT64_C(10000000000)
#define IDLE_SETTLE_NS	 UINT64_C(500000000)

/* ---- Clients: they send one message for each thing done, and go on when they get one */

static int tell(int channel, double value)
{
	return child_send(&(struct child){.channel = channel}, &value, sizeof(value));
}

static int await_word(int channel)
{
	char word;

	return recv(channel, &word, 1, 0) == 1 ? 0 : -EPIPE;
}

static int connect_queue(struct scene *scene)
{
	struct afar_queue *queue;
	int ret = afar_queue_open(scene->session, NULL, &queue);

	if (ret)
		return scene_fail("open a queue", ret);
	ret = afar_queue_connect(queue, afar_region_target(scene->region));
	return ret ? scene_fail("connect a queue", ret) : 0;
}

/* Makes the region that others open; on a word, more queues; then sleeps until it is ended. */
static int holder_main(int channel, void *argument)
{
	struct scene scene = {0};
	int ret = scene_open(&scene, argument, 0);

	if (!ret)
		ret = scene_create_region(&scene, SCENE_NAMESPACE, 1, REGION_BYTES);
	if (!ret)
		ret = scene_map(&scene, REGION_BYTES);
	if (!ret)
		ret = connect_queue(&scene);
	if (!ret)
		ret = tell(channel, 0);
	if (!ret)
		ret = await_word(channel);
	for (unsigned i = 0; i < NR_MORE_QUEUES && !ret; i++)
		ret = connect_queue(&scene);
	if (!ret)
		ret = tell(channel, 0);
	return ret ? 1 : await_word(channel);
}

/* From nothing to the first byte, in milliseconds. */
static int connect_once(const char *uri, double *elapsed_ms)
{
	struct scene scene = {0};
	uint64_t begin = clock_ns();
	int ret = scene_open(&scene, uri, 0);
	ssize_t length;
	char byte;

	if (!ret)
		ret = scene_open_region(&scene);
	if (!ret) {
		length = afar_region_pread(scene.region, &byte, 1, 0);
		*elapsed_ms = (double)(clock_ns() - begin) / 1e6;
		if (length != 1)
			ret = scene_fail("read a byte", (int)length);
	}
	scene_close(&scene);
	return ret;
}

static int fresh_main(int channel, void *argument)
{
	double elapsed_ms;
	int ret = connect_once(argument, &elapsed_ms);

	return ret ? 1 : tell(channel, elapsed_ms);
}

static int start_client(struct child *child, int (*main)(int channel, void *argument),
			const struct cluster *cluster, double *value)
{
	int ret = child_start(child, main, (void *)(uintptr_t)cluster_uri(cluster));

	if (!ret) {
		ret = child_receive(child, value, sizeof(*value));
		if (ret)
			bench_fail(ret, "a client ended early");
	}
	return ret;
}

/* ---- A cluster and a client that holds a region of it */

struct household {
	struct cluster *cluster;
	struct child holder;
};

static void close_household(struct household *household)
{
	child_stop(&household->holder);
	cluster_stop(household->cluster);
	household->cluster = NULL;
}

static int open_household(struct household *household)
{
	double dropped;
	int ret = cluster_start(1, SERVER_BYTES, &household->cluster);

	if (ret)
		return ret;
	ret = start_client(&household->holder, holder_main, household->cluster, &dropped);
	if (ret)
		close_household(household);
	return ret;
}

/* ---- First connect to first byte */

static int run_client(const struct household *household, int (*main)(int channel, void *argument),
		      double *value)
{
	struct child child = {0};
	int ret = start_client(&child, main, household->cluster, value);

	child_stop(&child);
	return ret;
}

static int run_fresh(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)row;
	(void)repetition;
	return run_client(stage, fresh_main, value);
}

static int run_connect_bar(void *stage, const struct bench_row *row, unsigned repetition,
			   double *value)
{
	(void)stage;
	(void)row;
	(void)repetition;
	*value = CONNECT_BAR_MS;
	return 0;
}

static void teardown_connect(void *stage)
{
	close_household(stage);
	free(stage);
}

static int setup_connect(void **stage)
{
	struct household *household = calloc(1, sizeof(*household));
	int ret;

	if (!household)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = open_household(household);
	if (ret)
		free(household);
	else
		*stage = household;
	return ret;
}

static const struct bench_row connect_rows[] = {
	{"first connect to first byte", "ms", BENCH_LOWER, "the bar of 10 ms", 1.0, NULL, run_fresh,
	 run_connect_bar},
};

const struct bench_stage region_connect_stage = {setup_connect, teardown_connect, connect_rows,
						 NR_ROWS(connect_rows)};

/* ---- CPU of idle processes: all three are watched at once, in as many windows as repetitions */

enum idler {
	IDLE_MANAGER,
	IDLE_SERVER,
	IDLE_CLIENT,
	NR_IDLERS,
};

struct idle_stage {
	struct household household;
	double (*percent)[NR_IDLERS]; /* of a core, per window */
};

static void watch_window(struct idle_stage *state, double percent[NR_IDLERS])
{
	const pid_t pids[NR_IDLERS] = {
		[IDLE_MANAGER] = cluster_manager(state->household.cluster),
		[IDLE_SERVER] = cluster_server(state->household.cluster, 0),
		[IDLE_CLIENT] = state->household.holder.pid,
	};
	const struct timespec window = {
		.tv_sec = (time_t)(IDLE_SPAN_NS / bench_repetitions() / 1000000000U),
		.tv_nsec = (long)(IDLE_SPAN_NS / bench_repetitions() % 1000000000U),
	};
	uint64_t used[NR_IDLERS];
	uint64_t begin = clock_ns();
	double elapsed;

	for (unsigned i = 0; i < NR_IDLERS; i++)
		used[i] = process_cpu_ns(pids[i]);
	nanosleep(&window, NULL);
	elapsed = (double)(clock_ns() - begin);
	for (unsigned i = 0; i < NR_IDLERS; i++)
		percent[i] = 100 * (double)(process_cpu_ns(pids[i]) - used[i]) / elapsed;
}

static void teardown_idle(void *stage)
{
	struct idle_stage *state = stage;

	close_household(&state->household);
	free(state->percent);
	free(state);
}

static int setup_idle(void **stage)
{
	const struct timespec settle = {.tv_nsec = (long)IDLE_SETTLE_NS};
	struct idle_stage *state = calloc(1, sizeof(*state));
	int ret = 0;

	if (!state)
		return bench_fail(-ENOMEM, "no memory for the suite");
	state->percent = calloc(bench_repetitions(), sizeof(*state->percent));
	if (!state->percent)
		ret = bench_fail(-ENOMEM, "no memory for the suite");
	if (!ret)
		ret = open_household(&state->household);
	if (ret) {
		free(state->percent);
		free(state);
		return ret;
	}
	nanosleep(&settle, NULL);
	for (unsigned i = 0; i < bench_repetitions() && !bench_is_interrupted(); i++)
		watch_window(state, state->percent[i]);
	*stage = state;
	return 0;
}

static int run_idle(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct idle_stage *state = stage;

	*value = state->percent[repetition][*(const enum idler *)row->parameters];
	return 0;
}

static int run_idle_bar(void *stage, const struct bench_row *row, unsigned repetition,
			double *value)
{
	(void)stage;
	(void)row;
	(void)repetition;
	*value = IDLE_BAR_PERCENT;
	return 0;
}

#define IDLER(which) (&(const enum idler){which})
#define IDLE_BAR_IS  "the bar of 1 % of a core"

static const struct bench_row idle_rows[] = {
	{"CPU of an idle manager", "%", BENCH_LOWER, IDLE_BAR_IS, 1.0, IDLER(IDLE_MANAGER),
	 run_idle, run_idle_bar},
	{"CPU of an idle server", "%", BENCH_LOWER, IDLE_BAR_IS, 1.0, IDLER(IDLE_SERVER), run_idle,
	 run_idle_bar},
	{"CPU of an idle client", "%", BENCH_LOWER, IDLE_BAR_IS, 1.0, IDLER(IDLE_CLIENT), run_idle,
	 run_idle_bar},
};

const struct bench_stage region_idle_stage = {setup_idle, teardown_idle, idle_rows,
					      NR_ROWS(idle_rows)};

/* ---- Memory: one sample per repetition has all four rows; each is of fresh processes, because what an
 *      allocator once had it keeps */

enum memory_kind {
	MEMORY_SERVER,
	MEMORY_CLIENT,
	MEMORY_CONNECTION_SERVER,
	MEMORY_CONNECTION_CLIENT,
	NR_MEMORY_KINDS,
};

struct memory_sample {
	bool is_taken;
	double bytes[NR_MEMORY_KINDS];
};

/* With one connection of a queue and one of the mapping's; then with NR_MORE_QUEUES more. */
static int take_sample(struct memory_sample *sample)
{
	struct household household;
	double server, client, dropped;
	int ret = open_household(&household);

	if (ret)
		return ret;
	server = (double)process_resident_bytes(cluster_server(household.cluster, 0));
	client = (double)process_resident_bytes(household.holder.pid);
	sample->bytes[MEMORY_SERVER] = server - (double)REGION_BYTES;
	sample->bytes[MEMORY_CLIENT] = client - (double)REGION_BYTES;
	ret = child_send(&household.holder, "", 1);
	if (!ret)
		ret = child_receive(&household.holder, &dropped, sizeof(dropped));
	if (ret) {
		close_household(&household);
		return bench_fail(ret, "the client that opens more queues ended early");
	}
	server = (double)process_resident_bytes(cluster_server(household.cluster, 0)) - server;
	client = (double)process_resident_bytes(household.holder.pid) - client;
	sample->bytes[MEMORY_CONNECTION_SERVER] = server / NR_MORE_QUEUES;
	sample->bytes[MEMORY_CONNECTION_CLIENT] = client / NR_MORE_QUEUES;
	sample->is_taken = true;
	close_household(&household);
	return 0;
}

static int setup_memory(void **stage)
{
	*stage = calloc(bench_repetitions(), sizeof(struct memory_sample));
	return *stage ? 0 : bench_fail(-ENOMEM, "no memory for the suite");
}

static int run_memory(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct memory_sample *sample = (struct memory_sample *)stage + repetition;
	int ret = sample->is_taken ? 0 : take_sample(sample);

	*value = sample->bytes[*(const enum memory_kind *)row->parameters] / 1024;
	return ret;
}

#define MEMORY(which) (&(const enum memory_kind){which})

static const struct bench_row memory_rows[] = {
	{"memory of a server beside its extents", "KiB", BENCH_LOWER, NULL, BENCH_REPORTED,
	 MEMORY(MEMORY_SERVER), run_memory, NULL},
	{"memory of a client beside its mapping", "KiB", BENCH_LOWER, NULL, BENCH_REPORTED,
	 MEMORY(MEMORY_CLIENT), run_memory, NULL},
	{"memory per connection, at the server", "KiB", BENCH_LOWER, NULL, BENCH_REPORTED,
	 MEMORY(MEMORY_CONNECTION_SERVER), run_memory, NULL},
	{"memory per connection, at the client", "KiB", BENCH_LOWER, NULL, BENCH_REPORTED,
	 MEMORY(MEMORY_CONNECTION_CLIENT), run_memory, NULL},
};

const struct bench_stage region_memory_stage = {setup_memory, free, memory_rows,
						NR_ROWS(memory_rows)};
