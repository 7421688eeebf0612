/* SPDX-License-Identifier: BSD-3-Clause */
/* Gets, and the reads of the device that they are made of. */
#ifndef FLASH_GET_H
#define FLASH_GET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include <urcu/list.h>

#include "flash/device/device.h"
#include "flash/write/put.h"

#define NR_READS 256U

struct bounce;

/* One read of the device for a get: blocks whose places follow one another. */
struct read {
	struct cds_list_head node;
	struct ftl *ftl;
	struct ftl_get *get;
	struct segment *segment;
	size_t at; /* byte of the get   */
	uint64_t lba;
	uint32_t nr_blocks;
	uint32_t skip; /* of a part of a block */
	uint32_t bytes;
	unsigned iov_index; /* where its part of the get's memory begins */
	size_t iov_offset;
	struct bounce *bounce;
	struct flash_io io;
	struct iovec iov[PIECE_BLOCKS];
	uint32_t crcs[PIECE_BLOCKS];
};

/* Begins the reads that can begin. */
void gets_progress(struct ftl *ftl);

#endif
