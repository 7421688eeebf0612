/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Suite `limit`: what this machine can do at best, in less than three seconds, to be printed beside
 * what Afar does with it. Nothing here is Afar's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/congestion.h"
#include "harness/harness.h"
#include "harness/process.h"
#include "peers/raw_fabric.h"

#define COPY_BYTES   ((size_t)64 << 20) /* larger than what most caches hold */
#define STREAM_CHUNK ((size_t)1 << 20)
#define STREAM_BYTES ((size_t)128 << 20)
#define RAW_BYTES    ((size_t)64 << 20)

struct limit {
	struct raw_fabric *raw;
	struct child source; /* streams STREAM_BYTES over `socket` for each byte asked for */
	int socket;
	char *from;
	char *to;
};

static double gigabytes_per_second(uint64_t bytes, uint64_t elapsed_ns)
{
	return (double)bytes / (double)elapsed_ns;
}

/* ---- One TCP socket */

static int listen_on_loopback(struct sockaddr_in *address)
{
	socklen_t length = sizeof(*address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*address =
		(struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	if (listener < 0)
		return -errno;
	congestion_apply(listener);
	if (bind(listener, (struct sockaddr *)address, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)address, &length)) {
		int ret = -errno;

		close(listener);
		return ret;
	}
	return listener;
}

static int send_stream(int stream, const char *data)
{
	for (size_t sent = 0; sent < STREAM_BYTES;) {
		ssize_t length = send(stream, data, STREAM_CHUNK, MSG_NOSIGNAL);

		if (length < 0)
			return -errno;
		sent += (size_t)length;
	}
	return 0;
}

static int source_main(int channel, void *argument)
{
	const struct sockaddr_in *address = argument;
	int stream = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char *data = bench_memory_map(STREAM_CHUNK);
	char wish;

	if (stream < 0 || !data)
		return 1;
	congestion_apply(stream);
	if (connect(stream, (const struct sockaddr *)address, sizeof(*address)))
		return 1;
	while (recv(channel, &wish, 1, 0) == 1) {
		if (send_stream(stream, data))
			return 1;
	}
	return 0;
}

static int start_source(struct limit *limit)
{
	struct sockaddr_in address;
	int listener = listen_on_loopback(&address);
	int ret;

	if (listener < 0)
		return bench_fail(listener, "a TCP socket on loopback: %s", strerror(-listener));
	ret = child_start(&limit->source, source_main, &address);
	if (!ret) {
		limit->socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		ret = limit->socket < 0 ? -errno : 0;
	}
	close(listener);
	return ret;
}

static int run_stream(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct limit *limit = stage;
	uint64_t begin = clock_ns();
	size_t received = 0;
	int ret = child_send(&limit->source, "", 1);

	(void)row;
	(void)repetition;
	if (ret)
		return bench_fail(ret, "the sender of the TCP stream is gone");
	/* Whole megabytes each time: a sender's last piece may reach into the next run. */
	while (received < STREAM_BYTES) {
		ssize_t length = recv(limit->socket, limit->to, STREAM_CHUNK, 0);

		if (length <= 0)
			return bench_fail(-EPIPE, "the TCP stream ended early");
		received += (size_t)length;
	}
	*value = gigabytes_per_second(received, clock_ns() - begin);
	return 0;
}

/* ---- Memory and raw fabric */

static int run_copy(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct limit *limit = stage;
	uint64_t begin = clock_ns();

	(void)row;
	(void)repetition;
	memcpy(limit->to, limit->from, COPY_BYTES);
	memcpy(limit->from, limit->to, COPY_BYTES);
	*value = gigabytes_per_second(2 * COPY_BYTES, clock_ns() - begin);
	return 0;
}

static int run_raw(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct limit *limit = stage;
	const struct transfer *transfer = row->parameters;
	uint64_t elapsed_ns;
	int ret = raw_fabric_run(limit->raw, transfer, &elapsed_ns);

	(void)repetition;
	if (ret)
		return ret;
	*value = gigabytes_per_second(transfer->nr * transfer->size, elapsed_ns);
	return 0;
}

static void teardown(void *stage)
{
	struct limit *limit = stage;

	raw_fabric_close(limit->raw);
	if (limit->socket >= 0)
		close(limit->socket);
	child_stop(&limit->source);
	bench_memory_unmap(limit->from, COPY_BYTES);
	bench_memory_unmap(limit->to, COPY_BYTES);
	free(limit);
}

static int setup(void **stage)
{
	struct limit *limit = calloc(1, sizeof(*limit));
	int ret;

	if (!limit)
		return bench_fail(-ENOMEM, "no memory for the suite");
	limit->socket = -1;
	ret = raw_fabric_open(RAW_BYTES, &limit->raw);
	if (!ret)
		ret = start_source(limit);
	if (!ret) {
		limit->from = bench_memory_map(COPY_BYTES);
		limit->to = bench_memory_map(COPY_BYTES);
		if (!limit->from || !limit->to)
			ret = bench_fail(-ENOMEM, "no memory to copy");
	}
	if (ret) {
		teardown(limit);
		return ret;
	}
	*stage = limit;
	return 0;
}

static const struct bench_row rows[] = {
	{"memory copy, one thread", "GB/s", BENCH_HIGHER, NULL, BENCH_REPORTED, NULL, run_copy,
	 NULL},
	{"TCP stream over loopback, one socket", "GB/s", BENCH_HIGHER, NULL, BENCH_REPORTED, NULL,
	 run_stream, NULL},
	{"raw libfabric read, 1 MiB, depth 16", "GB/s", BENCH_HIGHER, NULL, BENCH_REPORTED,
	 &(const struct transfer){
		 .size = 1 << 20, .depth = 16, .window_bytes = RAW_BYTES, .nr = 128},
	 run_raw, NULL},
	{"raw libfabric write, 1 MiB, depth 16", "GB/s", BENCH_HIGHER, NULL, BENCH_REPORTED,
	 &(const struct transfer){.is_write = true,
				  .size = 1 << 20,
				  .depth = 16,
				  .window_bytes = RAW_BYTES,
				  .nr = 128},
	 run_raw, NULL},
};

static const struct bench_stage stage_limit = {setup, teardown, rows,
					       sizeof(rows) / sizeof(rows[0])};

const struct bench_suite bench_suite_limit = {
	.name = "limit",
	.summary = "what this machine can do at best: memory copy, TCP stream, raw libfabric",
	.stages = (const struct bench_stage *const[]){&stage_limit},
	.nr_stages = 1,
};
