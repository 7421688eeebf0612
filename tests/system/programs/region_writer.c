/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes to a region until its server is gone, and knows afterwards what must be there. Each write
 * is of 1 to 16 blocks at a random place. Each block says where it is and which write it is of, and
 * has a checksum.
 *
 *	region_writer NAMESPACE NAME write     makes the region and writes 0, 1, 2 … to it. Prints the
 *	                                       number of the last one that a sync has made durable,
 *	                                       line by line. Ends well when the server is gone.
 *
 *	region_writer NAMESPACE NAME verify N  checks that all up to N are there, or later ones in their
 *	                                       place
 *
 * The cluster is that of $AFAR_CLUSTER.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <afar/afar.h>

#include "base/checksum.h"

#define BLOCK	   4096U
#define NR_BLOCKS  2048U
#define BLOCKS_MAX 16U
#define DEPTH	   16U
#define NR_WORDS   (BLOCK / sizeof(uint64_t))

struct header {
	uint64_t block;	 /* in the region */
	uint64_t number; /* of the write, from 1; 0: never written */
	uint32_t length; /* of the write, in blocks */
	uint32_t crc;	 /* of all that follows */
};

static struct afar_session *session;
static struct afar_namespace *ns;
static struct afar_region *region;
static struct afar_buffer *buffer; /* of `memory`, because some transports want one */
static uint8_t memory[DEPTH][BLOCKS_MAX * BLOCK];

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "region_writer: %s: %s\n", what, afar_last_error());
	exit(1);
}

/* ---- The pattern: a function of a write's number */

static uint64_t mix(uint64_t number)
{
	number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9ULL;
	number = (number ^ (number >> 27)) * 0x94d049bb133111ebULL;
	return number ^ (number >> 31);
}

static unsigned first_of(uint64_t number)
{
	return (unsigned)(mix(number) % (NR_BLOCKS - BLOCKS_MAX));
}

static unsigned length_of(uint64_t number)
{
	return 1 + (unsigned)(mix(number + 77) % BLOCKS_MAX);
}

static void fill_block(uint64_t number, unsigned block, uint8_t *out)
{
	const struct header start = {block, number, length_of(number), 0};
	uint32_t crc;

	for (size_t i = sizeof(start) / sizeof(uint64_t); i < NR_WORDS; i++) {
		uint64_t word = mix(number * NR_WORDS + block * NR_BLOCKS + i);

		memcpy(out + i * sizeof(word), &word, sizeof(word));
	}
	memcpy(out, &start, sizeof(start));
	crc = checksum_crc32c(out + sizeof(start), BLOCK - sizeof(start));
	memcpy(out + offsetof(struct header, crc), &crc, sizeof(crc));
}

/* ---- Writing */

/* Submits a batch of writes and a sync behind them. False: the server is gone. */
static bool write_batch(struct afar_queue *queue, uint64_t number)
{
	struct afar_target *target = afar_region_target(region);
	struct afar_op ops[DEPTH + 1] = {0};
	struct afar_iov iov[DEPTH];
	struct afar_completion done[DEPTH + 1];

	for (unsigned i = 0; i < DEPTH; i++, number++) {
		unsigned first = first_of(number), length = length_of(number);

		for (unsigned j = 0; j < length; j++)
			fill_block(number, first + j, memory[i] + (size_t)j * BLOCK);
		iov[i] = (struct afar_iov){buffer, memory[i], (size_t)length * BLOCK};
		/* In order, because some write the same blocks. */
		ops[i] = (struct afar_op){.opcode = AFAR_OP_WRITE,
					  .flags = AFAR_OP_AFTER,
					  .target = target,
					  .offset = (uint64_t)first * BLOCK,
					  .iov = &iov[i],
					  .nr_iov = 1};
	}
	ops[DEPTH] = (struct afar_op){.opcode = AFAR_OP_SYNC, .target = target};
	if (afar_queue_submit(queue, ops, DEPTH + 1) != DEPTH + 1 ||
	    afar_queue_wait(queue, done, DEPTH + 1, DEPTH + 1, -1) != DEPTH + 1)
		die("submit");
	for (unsigned i = 0; i <= DEPTH; i++) {
		if (done[i].result >= 0)
			continue;
		if (done[i].result != -AFAR_ESERVER && done[i].result != -ECANCELED)
			die("write");
		return false;
	}
	return true;
}

static int write_all(void)
{
	const struct afar_memory own = {
		.size = sizeof(own), .addr = memory, .length = sizeof(memory)};
	struct afar_queue *queue;
	uint64_t number = 1;

	if (afar_buffer_register(session, &own, AFAR_ACCESS_READ, &buffer))
		die("register the memory");
	if (afar_queue_open(session, NULL, &queue) ||
	    afar_queue_connect(queue, afar_region_target(region)))
		die("connect");
	while (write_batch(queue, number)) {
		number += DEPTH;
		printf("%" PRIu64 "\n", number - 1);
		fflush(stdout);
	}
	return afar_queue_close(queue) || afar_buffer_unregister(buffer);
}

/* ---- Verifying */

static int verify_block(unsigned block, uint64_t least, const uint8_t *data)
{
	uint8_t wanted[BLOCK];
	struct header header;
	unsigned first;

	memcpy(&header, data, sizeof(header));
	if (header.number < least) {
		fprintf(stderr, "block %u is of write %" PRIu64 ", but %" PRIu64 " was durable\n",
			block, header.number, least);
		return 1;
	}
	if (header.number == 0) {
		memset(wanted, 0, BLOCK);
		return memcmp(wanted, data, BLOCK) != 0;
	}
	first = first_of(header.number);
	fill_block(header.number, block, wanted);
	if (block >= first && block < first + length_of(header.number) &&
	    memcmp(wanted, data, BLOCK) == 0)
		return 0;
	fprintf(stderr, "block %u is not as write %" PRIu64 " left it\n", block, header.number);
	return 1;
}

static int verify_all(uint64_t last)
{
	static uint64_t least[NR_BLOCKS];
	static uint8_t all[NR_BLOCKS][BLOCK];
	int status = 0;

	for (uint64_t number = 1; number <= last; number++) {
		for (unsigned j = 0; j < length_of(number); j++)
			least[first_of(number) + j] = number;
	}
	if (afar_region_pread(region, all, sizeof(all), 0) != sizeof(all))
		die("read");
	for (unsigned block = 0; block < NR_BLOCKS; block++)
		status |= verify_block(block, least[block], all[block]);
	return status;
}

int main(int argc, char **argv)
{
	const bool is_write = argc == 4 && strcmp(argv[3], "write") == 0;
	const char *uri = getenv("AFAR_CLUSTER");
	int status;

	if (!uri || (!is_write && (argc != 5 || strcmp(argv[3], "verify") != 0)))
		return 2;
	if (afar_session_open(uri, NULL, &session) || afar_namespace_open(session, argv[1], &ns))
		die("open the namespace");
	if (is_write ? afar_region_create(ns, argv[2], (uint64_t)NR_BLOCKS * BLOCK, 0, &region)
		     : afar_region_open(ns, argv[2], &region))
		die("open the region");
	status = is_write ? write_all() : verify_all(strtoull(argv[4], NULL, 10));
	if (afar_region_close(region) || afar_namespace_close(ns) || afar_session_close(session))
		die("close");
	return status;
}
