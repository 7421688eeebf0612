/* SPDX-License-Identifier: BSD-3-Clause */
/* Has fio do a load to a file, or to an NBD server, and reads what it measured. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "flash.h"
#include "peers/peer.h"

#define ARGUMENT_SIZE 384
#define RESULT_SIZE   65536

const char *flash_fio_missing(void)
{
	return peer_is_installed("fio") ? NULL : "not installed: apt install fio";
}

/* The words of a command line that depend on the load. */
struct words {
	char pattern[32], block[32], depth[32], output[ARGUMENT_SIZE];
};

static void fill_words(const struct peer *peer, const struct flash_load *load, struct words *out)
{
	snprintf(out->pattern, sizeof(out->pattern), "--rw=%s%s", load->is_random ? "rand" : "",
		 load->is_write ? "write" : "read");
	snprintf(out->block, sizeof(out->block), "--bs=%llu", (unsigned long long)load->block);
	snprintf(out->depth, sizeof(out->depth), "--iodepth=%u", load->depth);
	snprintf(out->output, sizeof(out->output), "--output=%s/result", peer->folder);
}

#define COMMON \
	"fio", "--name=afar", "--norandommap", "--randrepeat=0", "--thread", "--output-format=json"

/* Its descriptor registered, as ours is; other than that what it does by itself. */
static int start_on_file(struct peer *peer, const char *path, const struct flash_load *load)
{
	static const char *const none[] = {NULL};
	char file[ARGUMENT_SIZE];
	struct words words;
	const char *const arguments[] = {COMMON,
					 "--ioengine=io_uring",
					 "--direct=1",
					 "--registerfiles=1",
					 "--time_based",
					 "--runtime=1",
					 words.pattern,
					 words.block,
					 words.depth,
					 words.output,
					 file,
					 load->is_durable ? "--sync=dsync" : NULL,
					 NULL};

	fill_words(peer, load, &words);
	snprintf(file, sizeof(file), "--filename=%s", path);
	return peer_run(peer, arguments, none);
}

/* Flushes after each write if they are to be durable, else once at the end. The last flush counts,
 * because a server that keeps writes for later has to pay for them. */
static int start_on_nbd(struct peer *peer, const char *socket, const struct flash_load *load)
{
	static const char *const none[] = {NULL};
	char uri[ARGUMENT_SIZE], span[32];
	struct words words;
	const char *const arguments[] = {COMMON,
					 "--ioengine=nbd",
					 words.pattern,
					 words.block,
					 words.depth,
					 words.output,
					 uri,
					 span,
					 load->is_durable ? "--fsync=1" : "--end_fsync=1",
					 load->span_ns > 0 ? "--time_based" : NULL,
					 NULL};

	fill_words(peer, load, &words);
	snprintf(uri, sizeof(uri), "--uri=nbd+unix:///?socket=%s", socket);
	snprintf(span, sizeof(span), "--runtime=%llums",
		 (unsigned long long)load->span_ns / 1000000);
	return peer_run(peer, arguments, none);
}

static void wait_for(struct peer *peer)
{
	const struct timespec pause = {.tv_nsec = 5000000};

	while (peer_is_alive(peer) && !bench_is_interrupted())
		nanosleep(&pause, NULL);
}

/* Its engines may have said something before the result. */
static json_t *load_result(const char *path)
{
	char text[RESULT_SIZE];
	const char *begin;
	size_t length;
	FILE *file = fopen(path, "re");

	if (!file)
		return NULL;
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = '\0';
	begin = strchr(text, '{');
	return begin ? json_loads(begin, 0, NULL) : NULL;
}

static int read_result(const struct peer *peer, const struct flash_load *load,
		       struct flash_figures *out)
{
	char path[ARGUMENT_SIZE];
	double user = 0, kernel = 0;
	int error = 0, ret;
	json_t *result;

	snprintf(path, sizeof(path), "%s/result", peer->folder);
	result = load_result(path);
	ret = result ? json_unpack(result, "{s:[{s:i, s:F, s:F, s:{s:F}}]}", "jobs", "error",
				   &error, "usr_cpu", &user, "sys_cpu", &kernel,
				   load->is_write ? "write" : "read", "iops", &out->per_second)
		     : -1;
	json_decref(result);
	if (ret || error || out->per_second <= 0)
		return peer_fail(peer, "fio measured nothing", -EIO);
	out->cpu_ns = (user + kernel) / 100 * 1e9 / out->per_second;
	return 0;
}

static int run(int (*start)(struct peer *peer, const char *where, const struct flash_load *load),
	       const char *where, const struct flash_load *load, struct flash_figures *out)
{
	struct peer peer;
	int ret = peer_open(&peer);

	if (!ret)
		ret = start(&peer, where, load);
	if (!ret) {
		wait_for(&peer);
		ret = bench_is_interrupted() ? -EINTR : read_result(&peer, load, out);
	}
	peer_close(&peer);
	return ret;
}

int flash_fio_run(const char *path, const struct flash_load *load, struct flash_figures *out)
{
	return run(start_on_file, path, load, out);
}

int flash_fio_run_nbd(const char *socket, const struct flash_load *load, struct flash_figures *out)
{
	return run(start_on_nbd, socket, load, out);
}
