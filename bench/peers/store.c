/* SPDX-License-Identifier: BSD-3-Clause */
/* Redis and memcached for suite `peers`: starts their servers, and is their client. */
#include "store.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/congestion.h"
#include "harness/harness.h"
#include "peer.h"

#define START_TIMEOUT_MS 10000
#define REPLY_TIMEOUT_S	 10
#define TEXT_MAX	 128U

struct store {
	enum store_kind kind;
	struct peer peer;
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_un un;
	} address;
	socklen_t address_length;
	int channel;
	uint64_t window_bytes;
	unsigned char *memory;
};

/* The texts that go over the socket for one value, besides the value. */
struct texts {
	char request[TEXT_MAX]; /* of a put: what comes before the value */
	char before[TEXT_MAX];	/* of the reply: what comes before the value, or all of it */
	const char *after;	/* likewise behind it */
};

const char *store_program(enum store_kind kind)
{
	return kind == STORE_REDIS ? "redis-server" : "memcached";
}

/* ---- The protocols: redis.io's RESP, and memcached's doc/protocol.txt */

static void write_put(const struct store *store, uint64_t size, uint64_t number, struct texts *out)
{
	unsigned long long value_bytes = size;
	char key[TEXT_MAX / 2];
	int key_bytes =
		snprintf(key, sizeof(key), "%llu:%llu", value_bytes, (unsigned long long)number);

	out->after = "";
	if (store->kind == STORE_REDIS) {
		snprintf(out->request, TEXT_MAX, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%llu\r\n",
			 key_bytes, key, value_bytes);
		snprintf(out->before, TEXT_MAX, "+OK\r\n");
	} else {
		snprintf(out->request, TEXT_MAX, "set %s 0 0 %llu\r\n", key, value_bytes);
		snprintf(out->before, TEXT_MAX, "STORED\r\n");
	}
}

static void write_get(const struct store *store, uint64_t size, uint64_t number, struct texts *out)
{
	unsigned long long value_bytes = size;
	char key[TEXT_MAX / 2];
	int key_bytes =
		snprintf(key, sizeof(key), "%llu:%llu", value_bytes, (unsigned long long)number);

	if (store->kind == STORE_REDIS) {
		snprintf(out->request, TEXT_MAX, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", key_bytes,
			 key);
		snprintf(out->before, TEXT_MAX, "$%llu\r\n", value_bytes);
		out->after = "\r\n";
	} else {
		snprintf(out->request, TEXT_MAX, "get %s\r\n", key);
		snprintf(out->before, TEXT_MAX, "VALUE %s 0 %llu\r\n", key, value_bytes);
		out->after = "\r\nEND\r\n";
	}
}

/* ---- One request and its reply */

/* Moves all of the pieces, out or in. */
static int move_all(int channel, struct iovec *pieces, int nr, bool is_write)
{
	while (nr > 0) {
		ssize_t moved = is_write ? writev(channel, pieces, nr) : readv(channel, pieces, nr);

		if (moved < 0 && errno == EINTR && !bench_is_interrupted())
			continue;
		if (moved <= 0)
			return moved < 0 ? -errno : -EPIPE;
		while (nr > 0 && (size_t)moved >= pieces->iov_len) {
			moved -= (ssize_t)pieces->iov_len;
			pieces++;
			nr--;
		}
		if (nr > 0) {
			pieces->iov_base = (char *)pieces->iov_base + moved;
			pieces->iov_len -= (size_t)moved;
		}
	}
	return 0;
}

/* `out` goes behind the request, `in` is what the reply carries; as long as they are. */
static int ask(const struct store *store, const struct texts *texts, struct iovec out,
	       struct iovec in)
{
	char line_end[] = "\r\n";
	char before[TEXT_MAX], after[TEXT_MAX];
	size_t before_bytes = strlen(texts->before);
	size_t after_bytes = strlen(texts->after);
	struct iovec request[] = {
		{(char *)(uintptr_t)texts->request, strlen(texts->request)},
		out,
		{line_end, 2},
	};
	struct iovec reply[] = {{before, before_bytes}, in, {after, after_bytes}};
	int ret = move_all(store->channel, request, out.iov_len ? 3 : 1, true);

	if (!ret)
		ret = move_all(store->channel, reply, in.iov_len ? 3 : 1, false);
	if (ret)
		return bench_fail(ret, "%s: %s", store_program(store->kind), strerror(-ret));
	if (memcmp(before, texts->before, before_bytes) ||
	    (in.iov_len && memcmp(after, texts->after, after_bytes)))
		return bench_fail(-EPROTO, "%s answers otherwise than it should",
				  store_program(store->kind));
	return 0;
}

static int get(const struct store *store, uint64_t size, uint64_t offset)
{
	const struct iovec nothing = {0};
	struct iovec value = {store->memory + offset, size};
	struct texts texts;

	write_get(store, size, offset / size, &texts);
	return ask(store, &texts, nothing, value);
}

static int put(const struct store *store, uint64_t size, uint64_t offset)
{
	const struct iovec nothing = {0};
	struct iovec value = {store->memory + offset, size};
	struct texts texts;

	write_put(store, size, offset / size, &texts);
	return ask(store, &texts, value, nothing);
}

static unsigned char pattern(uint64_t offset)
{
	return (unsigned char)(offset * 31 + offset / 4096 + 1);
}

int store_fill(struct store *store, uint64_t size)
{
	int ret = 0;

	for (uint64_t i = 0; i < store->window_bytes; i++)
		store->memory[i] = pattern(i);
	for (uint64_t i = 0; i < store->window_bytes && !ret; i += size)
		ret = put(store, size, i);
	memset(store->memory, 0, store->window_bytes);
	for (uint64_t i = 0; i < store->window_bytes && !ret; i += size)
		ret = get(store, size, i);
	for (uint64_t i = 0; i < store->window_bytes && !ret; i++) {
		if (store->memory[i] != pattern(i))
			ret = bench_fail(-EIO, "%s: a value got is not the one put",
					 store_program(store->kind));
	}
	return ret;
}

int store_run(struct store *store, const struct transfer *transfer, uint64_t *elapsed_ns)
{
	uint64_t begin = clock_ns();

	for (uint64_t i = 0; i < transfer->nr; i++) {
		int ret = get(store, transfer->size, i * transfer->size % store->window_bytes);

		if (ret)
			return ret;
	}
	*elapsed_ns = clock_ns() - begin;
	return 0;
}

/* ---- The server */

static int choose_address(struct store *store, bool is_unix)
{
	uint16_t port;
	int ret;

	if (!is_unix) {
		ret = peer_find_port(&port);
		store->address.in = (struct sockaddr_in){.sin_family = AF_INET,
							 .sin_port = htons(port),
							 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		store->address_length = sizeof(store->address.in);
		return ret;
	}
	store->address.un.sun_family = AF_UNIX;
	snprintf(store->address.un.sun_path, sizeof(store->address.un.sun_path), "%s/socket",
		 store->peer.folder);
	store->address_length = sizeof(store->address.un);
	return 0;
}

/* Nothing is written to disk, and values of 1 MiB are allowed. */
static int run_server(struct store *store, bool is_unix)
{
	static const char *const no_environment[] = {NULL};
	const char *path = store->address.un.sun_path;
	char port[16];
	const char *const redis_unix[] = {
		"redis-server", "--port", "0",	   "--unixsocket",     path,
		"--save",	"",	  "--dir", store->peer.folder, NULL};
	const char *const redis_tcp[] = {"redis-server",     "--port", port, "--bind",
					 "127.0.0.1",	     "--save", "",   "--dir",
					 store->peer.folder, NULL};
	const char *const memcached_unix[] = {"memcached", "-u", "root", "-I",
					      "2m",	   "-s", path,	 NULL};
	const char *const memcached_tcp[] = {"memcached", "-u", "root", "-I", "2m",	   "-U",
					     "0",	  "-p", port,	"-l", "127.0.0.1", NULL};

	snprintf(port, sizeof(port), "%u", is_unix ? 0U : ntohs(store->address.in.sin_port));
	if (store->kind == STORE_REDIS)
		return peer_run(&store->peer, is_unix ? redis_unix : redis_tcp, no_environment);
	return peer_run(&store->peer, is_unix ? memcached_unix : memcached_tcp, no_environment);
}

static int connect_once(struct store *store)
{
	const struct timeval timeout = {.tv_sec = REPLY_TIMEOUT_S};
	const int one = 1;
	int family = store->address.any.sa_family;

	store->channel = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (store->channel < 0)
		return bench_fail(-errno, "socket: %s", strerror(errno));
	setsockopt(store->channel, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	if (family == AF_INET) {
		setsockopt(store->channel, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		congestion_apply(store->channel);
	}
	if (connect(store->channel, &store->address.any, store->address_length) == 0)
		return 0;
	close(store->channel);
	store->channel = -1;
	return -EAGAIN;
}

static int connect_to_server(struct store *store)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	uint64_t deadline = clock_deadline_ms(START_TIMEOUT_MS);
	int ret;

	while ((ret = connect_once(store)) == -EAGAIN) {
		if (bench_is_interrupted())
			return -EINTR;
		if (!peer_is_alive(&store->peer) || !clock_remaining_ms(deadline))
			return peer_fail(&store->peer, "a peer did not start", -ETIMEDOUT);
		nanosleep(&pause, NULL);
	}
	return ret;
}

int store_open(enum store_kind kind, bool is_unix, uint64_t window_bytes, struct store **out)
{
	struct store *store = calloc(1, sizeof(*store));
	int ret;

	if (!store)
		return bench_fail(-ENOMEM, "no memory for a peer");
	store->kind = kind;
	store->channel = -1;
	store->window_bytes = window_bytes;
	store->memory = bench_memory_map(window_bytes);
	ret = store->memory ? 0 : bench_fail(-ENOMEM, "no memory for a peer");
	if (!ret)
		ret = peer_open(&store->peer);
	if (!ret)
		ret = choose_address(store, is_unix);
	if (!ret)
		ret = run_server(store, is_unix);
	if (!ret)
		ret = connect_to_server(store);
	if (ret) {
		store_close(store);
		return ret;
	}
	*out = store;
	return 0;
}

void store_close(struct store *store)
{
	if (!store)
		return;
	if (store->channel >= 0)
		close(store->channel);
	peer_close(&store->peer);
	bench_memory_unmap(store->memory, store->window_bytes);
	free(store);
}
