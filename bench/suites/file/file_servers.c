/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `file` on several servers and clients. Each client, a process of its own, reads or writes a
 * large file of its own over tcp, striped over all servers. The rate is that of all together. The reference is
 * one server with as many clients. PVFS over InfiniBand, Figures 7 and 8.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "file.h"
#include "harness/process.h"

#define NR_CLIENTS  4U		/* divides what they move */
#define BYTES	    (128 * MIB) /* of a client's file */
#define CALL_BYTES  (4 * MIB)
#define ALL_BYTES   (NR_CLIENTS * BYTES)
#define ROUND_BYTES (512 * MIB) /* that all clients of a measurement move together */

/* ---- A client */

struct stream_order {
	uint64_t bytes;
	bool is_write;
};

struct client_start {
	const char *uri;
	unsigned i;
};

struct streamer {
	struct afar_session *session;
	struct afar_fs *fs;
	struct afar_file *file;
	char *memory;
};

static int stream(const struct streamer *streamer, const struct stream_order *order)
{
	for (uint64_t done = 0; done < order->bytes; done += CALL_BYTES) {
		uint64_t offset = done % BYTES;
		ssize_t nr = order->is_write ? afar_file_pwrite(streamer->file, streamer->memory,
								CALL_BYTES, offset)
					     : afar_file_pread(streamer->file, streamer->memory,
							       CALL_BYTES, offset);

		if (nr != (ssize_t)CALL_BYTES)
			return scene_fail("stream a file", nr < 0 ? (int)nr : -EIO);
	}
	return 0;
}

static int open_streamer(struct streamer *streamer, const struct client_start *start)
{
	const struct stream_order fill = {.bytes = BYTES, .is_write = true};
	char name[16];
	int ret;

	streamer->memory = malloc(CALL_BYTES);
	if (!streamer->memory)
		return bench_fail(-ENOMEM, "no memory for the suite");
	memset(streamer->memory, 0x5A, CALL_BYTES);
	ret = afar_session_open(start->uri, NULL, &streamer->session);
	if (ret)
		return scene_fail("open a session", ret);
	snprintf(name, sizeof(name), "stream-%u", start->i);
	ret = file_fs_join(streamer->session, &streamer->fs);
	if (!ret)
		ret = file_make(streamer->fs, name, &streamer->file);
	return ret ? ret : stream(streamer, &fill);
}

/* Says 0 when it is ready, and after each order; its end is that it is killed. */
static int client_main(int channel, void *argument)
{
	const struct child self = {.channel = channel};
	struct streamer streamer = {0};
	struct stream_order order;
	int ret = open_streamer(&streamer, argument);

	while (child_send(&self, &ret, sizeof(ret)) == 0 && !ret &&
	       child_receive(&self, &order, sizeof(order)) == 0)
		ret = stream(&streamer, &order);
	return 0;
}

/* ---- A cluster with its clients */

struct crowd {
	struct cluster *cluster;
	unsigned nr_servers;
	struct child clients[NR_CLIENTS];
};

static int await(const struct child *client)
{
	int status;
	int ret = child_receive(client, &status, sizeof(status));

	return ret ? bench_fail(ret, "a client has gone") : status;
}

static int open_crowd(struct crowd *crowd, unsigned nr_servers)
{
	int ret =
		cluster_start_over("tcp", nr_servers, 2 * ALL_BYTES / nr_servers, &crowd->cluster);

	crowd->nr_servers = nr_servers;
	if (!ret)
		ret = file_fs_make(cluster_uri(crowd->cluster), AFAR_TIER_DRAM);
	for (unsigned i = 0; i < NR_CLIENTS && !ret; i++) {
		struct client_start start = {cluster_uri(crowd->cluster), i};

		ret = child_start(&crowd->clients[i], client_main, &start);
		if (!ret)
			ret = await(&crowd->clients[i]);
	}
	return ret;
}

static void close_crowd(struct crowd *crowd)
{
	for (unsigned i = 0; i < NR_CLIENTS; i++)
		child_stop(&crowd->clients[i]);
	cluster_stop(crowd->cluster);
}

/* `*value`: GB/s of the first `nr` clients together. */
static int run_crowd(const struct crowd *crowd, unsigned nr, bool is_write, double *value)
{
	const uint64_t bytes = bench_bytes(ROUND_BYTES, NR_CLIENTS * CALL_BYTES);
	const struct stream_order order = {.bytes = bytes / nr, .is_write = is_write};
	uint64_t begin = clock_ns();
	int ret = 0;

	for (unsigned i = 0; i < nr && !ret; i++)
		ret = child_send(&crowd->clients[i], &order, sizeof(order));
	if (ret)
		return bench_fail(ret, "a client has gone");
	for (unsigned i = 0; i < nr; i++) {
		int status = await(&crowd->clients[i]);

		ret = ret ? ret : status;
	}
	*value = (double)bytes / (double)(clock_ns() - begin);
	return ret;
}

/* ---- The stages */

struct crowd_row {
	unsigned nr_clients;
	bool is_write;
};

struct servers_stage {
	struct crowd one, several;
};

struct spent {
	uint64_t now, clients, servers; /* nanoseconds */
};

static struct spent look_at(const struct crowd *crowd)
{
	struct spent spent = {.now = clock_ns()};

	for (unsigned i = 0; i < NR_CLIENTS; i++)
		spent.clients += process_cpu_ns(crowd->clients[i].pid);
	for (unsigned i = 0; i < crowd->nr_servers; i++)
		spent.servers += process_cpu_ns(cluster_server(crowd->cluster, i));
	return spent;
}

/* Says how many cores a run of ours kept busy: when that is all of them, more servers are no help. */
static int run_noted(const struct crowd *crowd, const struct crowd_row *row, double *value)
{
	const struct spent before = look_at(crowd);
	int ret = run_crowd(crowd, row->nr_clients, row->is_write, value);
	const struct spent after = look_at(crowd);
	const double span = (double)(after.now - before.now);

	bench_note("of %ld cores the clients kept %.2f busy, and the servers %.2f",
		   sysconf(_SC_NPROCESSORS_ONLN), (double)(after.clients - before.clients) / span,
		   (double)(after.servers - before.servers) / span);
	return ret;
}

static int run_several(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct servers_stage *stage = state;

	(void)repetition;
	return run_noted(&stage->several, row->parameters, value);
}

static int run_single(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct servers_stage *stage = state;

	(void)repetition;
	return run_noted(&stage->one, row->parameters, value);
}

static int run_one(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct crowd_row *crowd = row->parameters;
	const struct servers_stage *stage = state;

	(void)repetition;
	return run_crowd(&stage->one, crowd->nr_clients, crowd->is_write, value);
}

/* For the rows on one server: one client of it. */
static int run_alone(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct crowd_row *crowd = row->parameters;
	const struct servers_stage *stage = state;

	(void)repetition;
	return run_crowd(&stage->one, 1, crowd->is_write, value);
}

static void teardown(void *state)
{
	struct servers_stage *stage = state;

	close_crowd(&stage->one);
	close_crowd(&stage->several);
	free(stage);
}

static int setup(unsigned nr_servers, void **state)
{
	struct servers_stage *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = open_crowd(&stage->one, 1);
	if (!ret && nr_servers > 1)
		ret = open_crowd(&stage->several, nr_servers);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

static int setup_1(void **state)
{
	return setup(1, state);
}

static int setup_2(void **state)
{
	return setup(2, state);
}

static int setup_4(void **state)
{
	return setup(4, state);
}

#define STREAMS(name, reference, nr, write, ours, theirs)                              \
	{                                                                              \
		name, "GB/s", BENCH_HIGHER, reference, BENCH_REPORTED,                 \
			&(const struct crowd_row){nr, write}, run_##ours, run_##theirs \
	}
#define ALONE "one client of one server"
#define SAME  "one server, as many clients"
#define SEVERAL(servers)                                                                       \
	STREAMS("read, " servers " servers, 1 client", SAME, 1, false, several, one),          \
		STREAMS("read, " servers " servers, 2 clients", SAME, 2, false, several, one), \
		STREAMS("read, " servers " servers, 4 clients", SAME, 4, false, several, one), \
		STREAMS("write, " servers " servers, 1 client", SAME, 1, true, several, one),  \
		STREAMS("write, " servers " servers, 2 clients", SAME, 2, true, several, one), \
		STREAMS("write, " servers " servers, 4 clients", SAME, 4, true, several, one)

static const struct bench_row rows_1[] = {
	STREAMS("read, 1 server, 2 clients", ALONE, 2, false, single, alone),
	STREAMS("read, 1 server, 4 clients", ALONE, 4, false, single, alone),
	STREAMS("write, 1 server, 2 clients", ALONE, 2, true, single, alone),
	STREAMS("write, 1 server, 4 clients", ALONE, 4, true, single, alone),
};
static const struct bench_row rows_2[] = {SEVERAL("2")};
static const struct bench_row rows_4[] = {SEVERAL("4")};

const struct bench_stage file_servers_1_stage = {setup_1, teardown, rows_1, NR_ROWS(rows_1)};
const struct bench_stage file_servers_2_stage = {setup_2, teardown, rows_2, NR_ROWS(rows_2)};
const struct bench_stage file_servers_4_stage = {setup_4, teardown, rows_4, NR_ROWS(rows_4)};
