/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes to a flash layer until it is killed, and knows afterwards what must be there.
 *
 *	flash_writer PATH write         puts 0, 1, 2 … each to block N % 2000. Prints the number of the last one that a
 *	                                sync has made durable, line by line. Closes the layer and ends on end of input.
 *
 *	flash_writer PATH verify N      checks that all up to N are there, or what was put later in their place
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "flash/device/uring.h"
#include "flash/ftl.h"

#define NR_BLOCKS 2000U
#define BATCH	  16U
#define NR_WORDS  (FTL_BLOCK / sizeof(uint64_t))

struct put {
	struct ftl_put put;
	struct iovec iov;
	_Alignas(4096) uint64_t words[NR_WORDS];
};

static struct ftl *ftl;
static unsigned nr_under_way;
static struct put puts_[BATCH];

static void die(const char *what, int code)
{
	fprintf(stderr, "flash_writer: %s: %d: %s\n", what, code, error_last_line());
	exit(1);
}

static void wait_for_all(void)
{
	while (nr_under_way) {
		int rc = ftl_poll(ftl, -1);

		if (rc < 0)
			die("poll", rc);
	}
}

static void on_put(struct ftl_put *put)
{
	nr_under_way--;
	if (put->result)
		die("put", put->result);
}

static void on_sync(struct ftl_sync *sync)
{
	nr_under_way--;
	if (sync->result)
		die("sync", sync->result);
}

static void on_get(struct ftl_get *get)
{
	nr_under_way--;
	if (get->result)
		die("get", get->result);
}

static void write_batch(uint64_t first)
{
	struct ftl_sync sync = {.count = FTL_ALL, .done = on_sync};

	for (unsigned i = 0; i < BATCH; i++) {
		struct put *put = &puts_[i];

		for (size_t word = 0; word < NR_WORDS; word++)
			put->words[word] = first + i + 1;
		put->iov = (struct iovec){put->words, FTL_BLOCK};
		put->put = (struct ftl_put){.lba = (first + i) % NR_BLOCKS,
					    .length = FTL_BLOCK,
					    .iov = &put->iov,
					    .nr_iov = 1,
					    .done = on_put};
		nr_under_way++;
		ftl_put(ftl, &put->put);
	}
	nr_under_way++;
	ftl_sync(ftl, &sync);
	wait_for_all();
}

static bool is_told_to_end(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, 0) > 0;
}

static void write_on(void)
{
	for (uint64_t next = 0; !is_told_to_end(); next += BATCH) {
		write_batch(next);
		printf("%" PRIu64 "\n", next + BATCH - 1);
		fflush(stdout);
	}
}

static void verify_block(uint64_t block, uint64_t last)
{
	struct iovec iov = {puts_[0].words, FTL_BLOCK};
	struct ftl_get get = {
		.lba = block, .length = FTL_BLOCK, .iov = &iov, .nr_iov = 1, .done = on_get};
	uint64_t least = block > last ? 0 : last - (last - block) % NR_BLOCKS + 1;
	uint64_t word = 0;

	nr_under_way++;
	ftl_get(ftl, &get);
	wait_for_all();
	for (size_t i = 0; i < NR_WORDS; i++) {
		word = puts_[0].words[i];
		if (word != puts_[0].words[0])
			die("a block is torn", (int)block);
	}
	if (word < least || (word && (word - 1) % NR_BLOCKS != block))
		die("a block is lost, or another's", (int)block);
}

int main(int argc, char **argv)
{
	struct flash_device *device;
	int rc;

	if (argc < 3)
		return 2;
	rc = flash_device_open_path(argv[1], 0, &device);
	if (!rc)
		rc = ftl_open(device, 0, &ftl);
	if (rc)
		die("open", rc);
	if (argc > 3) {
		for (uint64_t block = 0; block < NR_BLOCKS; block++)
			verify_block(block, strtoull(argv[3], NULL, 10));
	} else {
		write_on();
	}
	rc = ftl_close(ftl);
	flash_device_close(device);
	if (rc)
		die("close", rc);
	return 0;
}
