/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layer as a whole: memory, opening and closing, polling. Each room has a progress function
 * that does what can be done now and never waits. They are called by ftl_progress(), in the order
 * in which one's work makes another's.
 */

#include "flash/ftl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "flash/device/memory.h"
#include "flash/device/superblock.h"
#include "flash/ftl_private.h"
#include "flash/log/checkpoint.h"
#include "flash/log/journal.h"
#include "flash/map/map.h"
#include "flash/map/records.h"
#include "flash/map/segments.h"
#include "flash/write/append.h"
#include "flash/write/cleaner.h"
#include "flash/write/get.h"
#include "flash/write/policy.h"
#include "flash/write/put.h"
#include "flash/write/reclaim.h"
#include "flash/write/recover.h"
#include "flash/write/sweep.h"
#include "flash/write/sync.h"

#define FLUSH_EVERY 256U /* blocks of the journal: what recovery has to verify is bounded by it */

/* ---- memory ---- */

static int make_pools(struct ftl *ftl)
{
	size_t nr_pieces = NR_PIECES + 2 * SPLIT_PIECES;
	size_t summary = summary_blocks_for(ftl->layout.segment_blocks) * FTL_BLOCK;

	ftl->pieces = calloc(nr_pieces, sizeof(*ftl->pieces));
	ftl->writes = calloc(NR_WRITES, sizeof(*ftl->writes));
	ftl->reads = calloc(NR_READS, sizeof(*ftl->reads));
	ftl->bounces = calloc(NR_BOUNCES, sizeof(*ftl->bounces));
	ftl->bounce_memory =
		aligned_alloc(FTL_BLOCK, (size_t)NR_BOUNCES * BOUNCE_BLOCKS * FTL_BLOCK);
	ftl->summaries = calloc(NR_SUMMARIES, sizeof(*ftl->summaries));
	ftl->summary_memory = aligned_alloc(FTL_BLOCK, NR_SUMMARIES * summary);
	ftl->records = records_open(ftl->layout.nr_records);
	if (!ftl->pieces || !ftl->writes || !ftl->reads || !ftl->bounces || !ftl->bounce_memory ||
	    !ftl->summaries || !ftl->summary_memory || !ftl->records)
		return error_code(-ENOMEM);
	for (size_t i = 0; i < nr_pieces; i++) {
		ftl->pieces[i].ftl = ftl;
		ftl->pieces[i].is_pooled = true;
		piece_give(ftl, &ftl->pieces[i]);
	}
	for (unsigned i = 0; i < NR_WRITES; i++) {
		ftl->writes[i].ftl = ftl;
		CDS_INIT_LIST_HEAD(&ftl->writes[i].pieces);
		cds_list_add(&ftl->writes[i].node, &ftl->spare_writes);
	}
	for (unsigned i = 0; i < NR_READS; i++) {
		ftl->reads[i].ftl = ftl;
		cds_list_add(&ftl->reads[i].node, &ftl->spare_reads);
	}
	for (unsigned i = 0; i < NR_BOUNCES; i++) {
		ftl->bounces[i].bytes = ftl->bounce_memory + (size_t)i * BOUNCE_BLOCKS * FTL_BLOCK;
		cds_list_add(&ftl->bounces[i].node, &ftl->spare_bounces);
	}
	ftl->nr_spare_bounces = NR_BOUNCES;
	for (unsigned i = 0; i < NR_SUMMARIES; i++) {
		ftl->summaries[i].ftl = ftl;
		ftl->summaries[i].bytes = ftl->summary_memory + i * summary;
		cds_list_add(&ftl->summaries[i].node, &ftl->spare_summaries);
	}
	return 0;
}

static void init_lists(struct ftl *ftl)
{
	struct cds_list_head *const lists[] = {
		&ftl->order,	     &ftl->gets,	 &ftl->puts,
		&ftl->sweeps,	     &ftl->syncs,	 &ftl->ended_gets,
		&ftl->ended_puts,    &ftl->ended_sweeps, &ftl->ended_syncs,
		&ftl->spare_pieces,  &ftl->blocked,	 &ftl->stalled,
		&ftl->lost,	     &ftl->spare_writes, &ftl->spare_reads,
		&ftl->spare_bounces, &ftl->closing,	 &ftl->spare_summaries,
	};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		CDS_INIT_LIST_HEAD(lists[i]);
	for (unsigned i = 0; i < NR_BUCKETS; i++)
		CDS_INIT_LIST_HEAD(&ftl->buckets[i]);
	for (unsigned i = 0; i < FTL_STREAMS_MAX; i++) {
		CDS_INIT_LIST_HEAD(&ftl->appenders[i].staged);
		CDS_INIT_LIST_HEAD(&ftl->appenders[i].moved);
	}
}

static void ftl_free(struct ftl *ftl)
{
	reclaim_close(&ftl->reclaim);
	cleaner_close(&ftl->cleaner);
	checkpoint_close(ftl);
	journal_close(&ftl->journal);
	map_close(&ftl->map);
	segments_close(&ftl->segments);
	records_close(ftl->records);
	free(ftl->pieces);
	free(ftl->writes);
	free(ftl->reads);
	free(ftl->bounces);
	free(ftl->bounce_memory);
	free(ftl->summaries);
	free(ftl->summary_memory);
	free(ftl);
}

/* Makes an empty layer in memory, with that layout. */
static int ftl_new(struct flash_device *device, const struct format_superblock *layout,
		   struct ftl **out)
{
	struct ftl *ftl = calloc(1, sizeof(*ftl));
	int ret;

	if (!ftl)
		return error_code(-ENOMEM);
	ftl->device = device;
	ftl->layout = *layout;
	init_lists(ftl);
	ret = make_pools(ftl);
	if (!ret)
		ret = segments_open(&ftl->segments, layout);
	if (!ret)
		ret = map_open(&ftl->map, device, &ftl->segments, layout);
	if (!ret)
		ret = journal_open(&ftl->journal, device, layout);
	if (!ret)
		ret = checkpoint_open(ftl);
	if (!ret)
		ret = cleaner_open(&ftl->cleaner, ftl);
	if (!ret)
		ret = reclaim_open(&ftl->reclaim, ftl);
	if (ret) {
		ftl_free(ftl);
		return ret;
	}
	*out = ftl;
	return 0;
}

/* ---- opening and closing ---- */

int ftl_create(struct flash_device *device, const struct ftl_options *options)
{
	static const struct ftl_options usual;
	struct format_superblock layout;
	struct ftl *ftl;
	int ret;

	if (!options)
		options = &usual;
	ret = superblock_plan(device, options, &layout);
	if (!ret && !options->is_forced)
		ret = superblock_check_empty(device);
	if (ret)
		return ret;
	ret = ftl_new(device, &layout, &ftl);
	if (ret)
		return ret;
	ret = superblock_erase(device);
	journal_begin(&ftl->journal, 0, 1);
	if (!ret)
		ret = checkpoint_write_now(ftl);
	if (!ret)
		ret = superblock_write(device, &layout);
	ftl_free(ftl);
	return ret ? error_fail(ret, "make a flash layer: the device cannot be written: %s",
				afar_strerror(ret))
		   : 0;
}

int ftl_open(struct flash_device *device, unsigned flags, struct ftl **out)
{
	struct format_superblock layout, first;
	struct ftl *ftl;
	int ret;

	if (flags / FTL_STREAMS(1) > FTL_STREAMS_MAX)
		return error_fail(-EINVAL, "open a flash layer: %u streams are too many",
				  flags / FTL_STREAMS(1));
	ret = superblock_read(device, &layout);
	if (ret)
		return ret;
	if (superblock_read_at(device, 0, &first))
		log_warn("flash: the superblock is damaged; its copy serves, and 'afar flash "
			 "repair' "
			 "writes it anew");
	ret = ftl_new(device, &layout, &ftl);
	if (ret)
		return ret;
	ftl->is_read_only = flags & FTL_READ_ONLY;
	ftl->is_lossy = flags & FTL_LOSSY;
	policy_open(ftl, flags / FTL_STREAMS(1));
	ret = ftl_recover(ftl);
	if (ret) {
		ftl_abandon(ftl);
		return ret;
	}
	*out = ftl;
	return 0;
}

void ftl_abandon(struct ftl *ftl)
{
	ftl->is_abandoned = true;
	if (!ftl->failed)
		ftl->failed = -ECANCELED;
	if (!ftl->journal.failed)
		ftl->journal.failed = -ECANCELED;
	/* Operations in flight use the layer's memory, so wait for them. */
	while (flash_device_poll(ftl->device, -1) > 0)
		;
	ftl_free(ftl);
}

int ftl_close(struct ftl *ftl)
{
	int ret = ftl->is_read_only ? 0 : ftl->failed;

	if (!ftl->is_read_only && !ret)
		ret = checkpoint_write_now(ftl);
	ftl_abandon(ftl);
	return ret;
}

/* ---- moving on ---- */

/* Does all that can be done without waiting. */
static void ftl_progress(struct ftl *ftl)
{
	if (ftl->segments.is_damaged)
		ftl_fail(ftl, -EBADMSG);
	gets_progress(ftl);
	sweeps_progress(ftl);
	puts_progress(ftl);
	append_progress(ftl);
	cleaner_progress(ftl);
	reclaim_progress(ftl);
	if (!ftl->is_read_only) {
		syncs_progress(ftl);
		release_progress(ftl);
		if (ftl->journal.sequence - ftl->journal.flushed >= FLUSH_EVERY)
			journal_want(&ftl->journal, ftl->journal.sequence);
		checkpoint_progress(ftl);
		journal_progress(&ftl->journal);
	}
	syncs_progress(ftl);
}

/* Calls `done` of the requests in the list. Requests that end meanwhile are not called yet. */
#define deliver(ftl, list, type)                                                       \
	({                                                                             \
		struct cds_list_head deliver_now;                                      \
		int deliver_nr = 0;                                                    \
                                                                                       \
		CDS_INIT_LIST_HEAD(&deliver_now);                                      \
		cds_list_splice(list, &deliver_now);                                   \
		CDS_INIT_LIST_HEAD(list);                                              \
		while (!cds_list_empty(&deliver_now)) {                                \
			struct type *deliver_one =                                     \
				cds_list_first_entry(&deliver_now, struct type, node); \
                                                                                       \
			cds_list_del(&deliver_one->node);                              \
			deliver_nr++;                                                  \
			deliver_one->done(deliver_one);                                \
		}                                                                      \
		deliver_nr;                                                            \
	})

static int deliver_sweeps(struct ftl *ftl)
{
	int nr = 0;
	struct cds_list_head now;

	CDS_INIT_LIST_HEAD(&now);
	cds_list_splice(&ftl->ended_sweeps, &now);
	CDS_INIT_LIST_HEAD(&ftl->ended_sweeps);
	while (!cds_list_empty(&now)) {
		struct ftl_sweep *sweep = cds_list_first_entry(&now, struct ftl_sweep, node);
		struct ftl_trim *trim = caa_container_of(sweep, struct ftl_trim, sweep);
		struct ftl_clone *clone = caa_container_of(sweep, struct ftl_clone, sweep);

		cds_list_del(&sweep->node);
		nr++;
		if (sweep->is_clone) {
			clone->result = sweep->result;
			clone->done(clone);
		} else {
			trim->result = sweep->result;
			trim->done(trim);
		}
	}
	return nr;
}

static int deliver_all(struct ftl *ftl)
{
	int nr = deliver(ftl, &ftl->ended_gets, ftl_get);

	nr += deliver(ftl, &ftl->ended_puts, ftl_put);
	nr += deliver(ftl, &ftl->ended_syncs, ftl_sync);
	nr += deliver_sweeps(ftl);
	ftl->nr_requests -= (uint64_t)nr;
	return nr;
}

int ftl_poll(struct ftl *ftl, int timeout_ms)
{
	uint64_t deadline = clock_deadline_ms(timeout_ms);

	for (;;) {
		int nr, ret;

		ftl_progress(ftl);
		nr = deliver_all(ftl);
		ret = flash_device_poll(ftl->device,
					nr || ftl->has_steps ? 0 : clock_remaining_ms(deadline));
		if (ret < 0)
			return ret;
		ftl->has_moved = ret > 0 || ftl->has_steps;
		if (ret > 0) {
			ftl_progress(ftl);
			nr += deliver_all(ftl);
		}
		if (nr || (ret == 0 && !ftl->nr_requests))
			return nr;
		/* Operations that ended may have submitted others, which only another poll of the
		 * device starts. A caller that got no completion may sleep until one comes. */
		if (ret == 0 && deadline != CLOCK_NEVER && clock_ns() >= deadline)
			return 0;
	}
}

bool ftl_has_moved(const struct ftl *ftl)
{
	return ftl->has_moved;
}

bool ftl_tell_synced(struct ftl *ftl)
{
	return !ftl_refusal(ftl) && ftl->nr_requests == 0 &&
	       ftl->checkpoint.stage == CHECKPOINT_IDLE && journal_tell(&ftl->journal);
}

int ftl_fd(struct ftl *ftl)
{
	return flash_device_fd(ftl->device);
}

/* ---- telling ---- */

void ftl_stat(const struct ftl *ftl, struct ftl_stat *stat)
{
	const struct segments *segments = &ftl->segments;
	uint64_t capacity = segments_capacity(segments);
	uint64_t taken = segments->used + ftl->growth;

	*stat = ftl->counts;
	stat->capacity_blocks = capacity;
	stat->nr_segments = segments->nr;
	stat->segment_blocks = segments->data_blocks;
	stat->journal_blocks = ftl->journal.nr_blocks;
	stat->map_slots = ftl->map.nr_slots;
	stat->used_blocks = segments->used;
	stat->free_blocks = taken < capacity ? capacity - taken : 0;
	memcpy(stat->nr_by_state, segments->nr_by_state, sizeof(stat->nr_by_state));
	stat->map_slots_used = ftl->map.nr_slots_used;
	stat->map_bytes = ftl->map.bytes;
	stat->shares = segments->nr_shares;
	stat->shares_max = ftl->layout.nr_shares;
	stat->journal_used = journal_used(&ftl->journal);
	stat->journal_written = ftl->journal.nr_written;
	stat->flushes += ftl->journal.nr_flushes;
	stat->damaged_pages = ftl->map.nr_damaged;
	stat->leaked_blocks = segments->nr_leaked;
}
