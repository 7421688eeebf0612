/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of the translation layer, shared by its rooms: ftl.c (opening, polling), put.c and append.c (the way of a write),
 * get.c, sync.c, sweep.c (trim, clone), apply.c (what records do to map and segments), checkpoint.c, recover.c, cleaner.c.
 *
 * A put is cut into pieces: blocks of one window of 256, or a part of one block. Pieces of the same blocks go one after the
 * other, in the order they came; otherwise in any. A piece is made ready (its map pages are there, room in the journal is
 * reserved, what it keeps of an old block is read), staged at the appender of its stream, gets its places in the stream's
 * open segment and is written there together with what else is staged. When that write has ended its records are appended and
 * the map is changed at once, in one function (ftl_record_put()): so the map in memory is always what the journal says.
 * (Where a sync waits, the records go ahead of the write: ahead.c.)
 */
#ifndef FLASH_FTL_PRIVATE_H
#define FLASH_FTL_PRIVATE_H

#include "base/checksum.h"
#include "flash/checkpoint.h"
#include "flash/format.h"
#include "flash/ftl.h"
#include "flash/journal.h"
#include "flash/map.h"
#include "flash/segments.h"
#include "flash/streams.h"

#define WINDOW_BITS	 8U
#define PIECE_BLOCKS	 (1U << WINDOW_BITS)
#define NR_PIECES	 512U /* for puts                            */
#define SPLIT_PIECES	 8U   /* more, for parts that go on by themselves; see piece_take() */
#define NR_BUCKETS	 256U
#define BOUNCE_BLOCKS	 16U
#define NR_BOUNCES	 64U
#define BOUNCES_FOR_GETS 16U /* which do not wait for puts that wait */
#define NR_SUMMARIES	 8U  /* a stream closes segments quicker than the device answers */
#define NR_WRITES	 32U
#define NR_READS	 256U
#define NR_STREAMS	 FTL_STREAMS_MAX
#define CLEANER_BLOCKS	 64U /* moved at a time                    */
#define CLEANER_GAP	 2U /* blocks at most that are read, and not wanted, rather than read twice */
#define CLEANER_RESERVE	 3U   /* free segments that are the cleaner's alone; see appender_for() */
#define CLEANER_LAST	 2U   /* of them, what it takes only if it must     */
#define CLEANER_RECORDS	 128U /* room in the journal that a batch needs at most */
#define WRITE_ATTEMPTS	 8U
/* A piece's of the journal beside those of its blocks: a segment is opened for it, another when it is split, and one wears out. */
#define RECORDS_MORE 3U
#define FLUSH_EVERY  256U /* blocks of the journal: what recovery has to verify is bounded by it */

_Static_assert(CLEANER_RECORDS >= CLEANER_BLOCKS + RECORDS_MORE * NR_STREAMS,
	       "a batch of the cleaner");

struct bounce {
	struct cds_list_head node;
	char *bytes;
	unsigned users; /* pieces and reads */
};

/* Blocks on their way to the device. */
struct piece {
	struct cds_list_head node;   /* of the list that its stage is           */
	struct cds_list_head bucket; /* of those in its window, as they came    */
	struct ftl *ftl;
	bool is_pooled;	     /* of ftl->pieces, and given back there */
	struct ftl_put *put; /* NULL: the cleaner's                     */
	uint64_t ticket;
	uint64_t lba;
	const uint64_t *lbas; /* the cleaner's: whose each block is; NULL: lba, lba + 1 …      */
	const uint32_t *from; /* the cleaner's: the place each block is moved away from        */
	uint32_t nr_blocks;
	uint32_t place;
	uint32_t at;	/* of a part of a block: the first byte, */
	uint32_t bytes; /* and how many; of whole blocks all      */
	char *memory;	/* NULL: the put's own                   */
	struct bounce *bounce;
	unsigned iov_index; /* where its part of the put's memory begins */
	size_t iov_offset;
	unsigned stream; /* of all its blocks, when it is staged */
	uint64_t pace;	 /* of the sequence that it is part of, as victim.h says; or 0 */
	unsigned attempts;
	uint32_t reserved;	     /* records of the journal                */
	struct journal_block *ahead; /* holds that its records are from; NULL: it has none yet    */
	uint64_t void_at;	     /* the journal's block of those that are void; 0: none are   */
	int failure;	 /* that it will end with when they are past                   */
	uint32_t growth; /* blocks that will be in use when it is done */
	struct map_page *pages[2];
	uint64_t pages_lba; /* the first block of pages[0] that is meant */
	bool is_blocked;    /* by another piece or a sweep           */
	bool is_direct;	    /* whole blocks of aligned memory        */
	bool is_counted;
	bool is_read;  /* the rest of its block is there        */
	bool is_ready; /* its sums and streams are known       */
	struct segment *reading;
	uint32_t reading_crc;
	struct ftl_waiter waiter;
	struct flash_io io;
	struct iovec iov;
	uint32_t crcs[PIECE_BLOCKS];
	uint8_t streams[PIECE_BLOCKS]; /* that its blocks are to go to */
};

/* One write of the device: pieces whose places follow one another. */
struct write {
	struct cds_list_head node;
	struct cds_list_head pieces;
	struct ftl *ftl;
	struct segment *segment;
	unsigned stream;
	struct flash_io io;
	struct iovec iov[PIECE_BLOCKS];
};

/* A summary on its way to the device. */
struct summary {
	struct cds_list_head node;
	struct ftl *ftl;
	struct segment *segment;
	char *bytes;
	struct flash_io io;
	struct iovec iov;
};

struct appender {
	struct segment *open;
	struct cds_list_head staged; /* users' pieces                      */
	struct cds_list_head moved;  /* the cleaner's, which come first    */
	unsigned nr_writing;
};

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

enum cleaner_stage {
	CLEANER_IDLE,
	CLEANER_SUMMARY, /* is being read                     */
	CLEANER_GATHER,	 /* pages of the map are being loaded */
	CLEANER_READ,
	CLEANER_CHECKED, /* waits for room in the journal */
	CLEANER_WRITE,
};

struct cleaner {
	struct ftl *ftl;
	enum cleaner_stage stage;
	struct segment *victim;
	uint32_t index;	       /* of the victim: where the next batch begins */
	uint32_t nr;	       /* blocks in this batch                       */
	uint32_t nr_left;      /* of them, not written yet                   */
	uint32_t next_read;    /* of them: the first that no read was begun for */
	unsigned nr_in_flight; /* reads                                 */
	bool has_failed;       /* a block of the victim cannot be read, or is nobody's */
	bool is_waiting;
	struct map_page *page; /* that it waits for */
	int64_t credit;	       /* blocks it may move beside users' I/O        */
	uint64_t seen_blocks;  /* users' that it has got credit for     */
	uint64_t *summary;
	char *memory;
	/* the batch, as its blocks lie in the victim */
	struct cleaner_block {
		uint64_t lba;
		uint32_t from;
		uint32_t crc;
		uint8_t stream;
		uint8_t slot;	 /* where it is in the arrays below */
		bool is_unknown; /* whose it may be does not know its place: it is moved as it is */
	} blocks[CLEANER_BLOCKS];
	/* the same by streams: for pieces, in the order of `memory` */
	uint64_t lbas[CLEANER_BLOCKS];
	uint32_t from[CLEANER_BLOCKS];
	uint32_t crcs[CLEANER_BLOCKS];
	bool has_crc[CLEANER_BLOCKS];
	uint32_t nr_of_stream[NR_STREAMS];
	struct piece pieces[NR_STREAMS];
	struct ftl_waiter waiter;
	struct cleaner_read {
		struct flash_io io;
		struct cleaner *cleaner;
		uint32_t nr;
	} reads[CLEANER_BLOCKS];	       /* of the blocks from the same index on */
	struct iovec iovs[2 * CLEANER_BLOCKS]; /* of the same blocks, and the gaps behind them */
	struct flash_io io;		       /* the summary */
	struct iovec iov;
};

/* Looks for blocks that are nobody's; see reclaim.c. */
struct reclaim {
	bool is_under_way;
	bool is_reading;
	bool is_waiting;  /* for a page of the map */
	bool is_thorough; /* pages are read for it */
	bool has_been_thorough;
	bool is_complete; /* nothing was passed over yet                      */
	bool has_believed; /* that who a block may be of refers to it, since his page is not in memory */
	uint32_t at;	   /* the segment that is looked at                    */
	uint32_t index;		 /* and its block                                    */
	struct segment *segment; /* that one, taken, with its summary; NULL: not yet */
	uint64_t nr_let_go;	 /* when it began                                    */
	uint64_t nr_before;	 /* may have leaked before the layer was opened      */
	uint64_t nr_unknown;	 /* how often somebody did not know whether a block is his */
	uint64_t *summary;
	struct ftl_waiter waiter;
	struct flash_io io;
	struct iovec iov;
};

struct ftl {
	struct flash_device *device;
	struct format_superblock layout;
	int failed; /* negative: nothing can be changed any more     */
	bool is_read_only;
	bool is_abandoned; /* nobody is called any more                     */
	bool is_unblocked; /* something ended that may have blocked a piece */
	bool is_starved;   /* users wait for a free segment                 */
	bool is_mixing;	   /* the cleaner can make none free: they go to what is open */
	unsigned nr_spare_pieces;
	unsigned nr_spare_bounces;
	struct segments segments;
	struct map map;
	struct journal journal;
	struct checkpoint checkpoint;
	struct cleaner cleaner;
	struct reclaim reclaim;
	struct records *records;
	struct streams streams;

	/* requests */
	uint64_t ticket;
	struct cds_list_head order; /* all that change something, by ticket */
	struct cds_list_head gets;  /* not started to the end               */
	struct cds_list_head puts;
	struct cds_list_head sweeps;
	struct cds_list_head syncs;
	struct cds_list_head ended_gets, ended_puts, ended_sweeps, ended_syncs;
	uint64_t nr_requests; /* not ended */

	/* pieces by stage */
	struct cds_list_head spare_pieces;
	struct cds_list_head blocked;
	struct cds_list_head stalled; /* wait for a bounce or the journal      */
	struct cds_list_head lost;    /* failed; they wait for a checkpoint    */
	struct cds_list_head buckets[NR_BUCKETS];
	uint64_t growth; /* blocks that pieces on their way will bring into use */

	struct appender appenders[NR_STREAMS];
	struct cds_list_head spare_writes;
	struct cds_list_head spare_reads;
	struct cds_list_head spare_bounces;

	struct cds_list_head closing; /* segments that wait for a summary */
	struct cds_list_head spare_summaries;

	struct flash_io discard;
	struct segment *discarding;

	struct ftl_stat counts;

	/* of all pools, for freeing */
	struct piece *pieces;
	struct write *writes;
	struct read *reads;
	struct bounce *bounces;
	char *bounce_memory;
	struct summary *summaries;
	char *summary_memory; /* theirs; recovery has it to itself */
};

/* The sum that the map keeps of a block: of its address and its data. */
static inline uint32_t block_crc(uint64_t lba, const void *data)
{
	return checksum_crc32c_seeded(checksum_crc32c(&lba, sizeof(lba)), data, FTL_BLOCK);
}

/* ---- ftl.c ---- */

/* Memory and tables of a layer laid out like that, empty. */
int ftl_new(struct flash_device *device, const struct format_superblock *layout, struct ftl **out);
void ftl_free(struct ftl *ftl);
/* Moves on what can be, without waiting. */
void ftl_progress(struct ftl *ftl);
/* Nothing can be changed from now on. */
void ftl_fail(struct ftl *ftl, int code);
/* Why nothing can be changed; 0: it can. */
int ftl_refusal(const struct ftl *ftl);

/* ---- ftl.c: who comes before whom ---- */

void order_begin(struct ftl *ftl, struct ftl_order *order);
void order_end(struct ftl *ftl, struct ftl_order *order);
bool order_overlaps(const struct ftl_order *order, uint64_t lba, uint64_t count);
/* Whether one that began before `ticket` and has not ended has blocks in common with that. */
bool order_has_earlier(struct ftl *ftl, uint64_t ticket, uint64_t lba, uint64_t count);
/* Whether all of those are puts whose records are in the journal. */
bool order_is_recorded(struct ftl *ftl, uint64_t ticket, uint64_t lba, uint64_t count);
/* A sync with the next ticket waits for all that began and have those blocks. */
void order_await(struct ftl *ftl, uint64_t lba, uint64_t count);
/* Whether blocks lie in one range. */
bool ftl_is_range(uint64_t lba, uint64_t count);

/* ---- memory.c: what callers gave ---- */

/* Moves the cursor on by `bytes`, which are there. */
void memory_skip(const struct iovec *iov, unsigned *index, size_t *offset, size_t bytes);
/* Copies between the caller's memory from the cursor on and `block`. */
void memory_gather(const struct iovec *iov, unsigned index, size_t offset, void *to, size_t bytes);
void memory_scatter(const struct iovec *iov, unsigned index, size_t offset, const void *from,
		    size_t bytes);
void memory_zero(const struct iovec *iov, unsigned index, size_t offset, size_t bytes);
/* How many of `nr_max` whole blocks from the cursor on lie each in one piece and aligned to `alignment`. */
uint32_t memory_direct_blocks(const struct iovec *iov, unsigned nr_iov, unsigned index,
			      size_t offset, uint32_t alignment, uint32_t nr_max);
/* Their iovecs behind out[nr]; those that touch are made one. How many there are then: at most one a block more. */
unsigned memory_iovecs(const struct iovec *iov, unsigned index, size_t offset, size_t bytes,
		       struct iovec *out, unsigned nr);
unsigned memory_add(struct iovec *out, unsigned nr, void *base, size_t length);
/* Whether the lengths add up to `length`. */
bool memory_is_whole(const struct iovec *iov, unsigned nr_iov, size_t length);

/* NULL: no more than `kept` are left. */
struct bounce *bounce_take(struct ftl *ftl, unsigned kept);
void bounce_give(struct ftl *ftl, struct bounce *bounce);

/* ---- put.c ---- */

void puts_progress(struct ftl *ftl);
/* The piece has been written, or failed. */
void piece_written(struct piece *piece, int result);
/* One of those that are left but for `kept`; or NULL. */
struct piece *piece_take(struct ftl *ftl, unsigned kept);
void piece_give(struct ftl *ftl, struct piece *piece);
/* What follows its first `nr` blocks as a piece that is in no stage yet; NULL: there is none to be had, with `kept` as above. */
struct piece *piece_split(struct ftl *ftl, struct piece *piece, uint32_t nr, unsigned kept);
/* Counts anew how many more blocks will be in use when it is done. */
void piece_count(struct piece *piece);

/* ---- ahead.c: records in the journal before their data is written ---- */

/* The piece has its place and is about to be written: appends its records, if that is of use. */
void ahead_place(struct piece *piece);
/* It could not be written, and goes elsewhere, or fails: records that it has are void. */
void ahead_void(struct piece *piece);
/* It has been written, and had its records: the caller applies them. */
void ahead_settle(struct piece *piece);
/* Says whether all records of the put are in the journal; to be called when its pieces are other ones. */
void ahead_note(struct ftl_put *put);
/* A crash could still find it done: recovery would read its void records. */
bool ahead_is_in_doubt(const struct piece *piece);
/* Whether a write of the block is in flight that has its record. */
bool ahead_has(struct ftl *ftl, uint64_t lba);

/* ---- get.c, sync.c, sweep.c ---- */

void gets_progress(struct ftl *ftl);
void syncs_progress(struct ftl *ftl);
void sweeps_progress(struct ftl *ftl);

/* ---- append.c ---- */

/* Takes it; piece_written() follows. */
void append_stage(struct ftl *ftl, struct piece *piece);
void append_progress(struct ftl *ftl);
/* Whether blocks can be written somewhere, now or when what is under way has ended. */
bool append_has_place(const struct ftl *ftl);
/* No segment will ever be free for what is staged. */
void append_refuse(struct ftl *ftl, int code);
/* Something is on its way to a segment: it may leave other places free. */
bool append_is_writing(const struct ftl *ftl);
/* A summary as it is written, of `size` bytes. */
void summary_encode(const struct segments *segments, const struct segment *segment, void *out,
		    size_t size);
/* Makes of a segment's summary, as it was read, the lbas alone. False: it is not that. */
bool summary_decode(const struct segments *segments, const struct segment *segment, void *bytes);
/* The operation that reads it; `done` is the caller's to say. */
void summary_read_io(const struct ftl *ftl, const struct segment *segment, struct flash_io *io,
		     struct iovec *iov, void *bytes);
/* Frees segments that wait no longer. */
void release_progress(struct ftl *ftl);

static inline uint64_t piece_lba(const struct piece *piece, uint32_t i)
{
	return piece->lbas ? piece->lbas[i] : piece->lba + i;
}

/* What the map will say of its block `i`. */
static inline struct format_entry piece_entry(const struct piece *piece, uint32_t i)
{
	return (struct format_entry){piece->place + i, piece->crcs[i]};
}

/* Where all pieces are that have blocks in common with one of that address. */
static inline struct cds_list_head *piece_bucket(struct ftl *ftl, uint64_t lba)
{
	uint64_t hash = (lba >> WINDOW_BITS) * 0x9e3779b97f4a7c15U;

	return &ftl->buckets[hash >> 32 & (NR_BUCKETS - 1)];
}

/* The page of one of its blocks, which are of a put. */
static inline struct map_page *piece_page(const struct piece *piece, uint64_t lba)
{
	return piece->pages[lba >= map_page_end(piece->pages_lba)];
}

/* ---- apply.c: what records do. Pages are loaded. ---- */

/* Appends the record, which the caller reserved, and applies it. `pace` is struct loss's. */
void ftl_record_put(struct ftl *ftl, uint64_t lba, struct format_entry entry, uint64_t pace);
/* The same in two steps. */
void ftl_record_ahead(struct ftl *ftl, uint64_t lba, struct format_entry entry);
void ftl_apply_ahead(struct ftl *ftl, uint64_t lba, struct format_entry entry, uint64_t pace);
void ftl_record_move(struct ftl *ftl, uint64_t lba, struct format_entry entry);
/* The block at `from`, which may be that of `lba`, of which nobody knows where it lies, is moved. */
void ftl_record_carry(struct ftl *ftl, uint64_t lba, uint32_t from, uint32_t to);
/* The block at `place` was that of `lba`, and has not been since that was not known. */
void ftl_record_release(struct ftl *ftl, uint64_t lba, uint32_t place);
void ftl_record_trim(struct ftl *ftl, uint64_t lba, uint32_t count);
void ftl_record_clone(struct ftl *ftl, uint64_t source, uint64_t target, uint32_t count);
void ftl_record_change(struct ftl *ftl, const struct ftl_record_change *change);

/* Apply alone, as replay does. 0 or -ENOMEM, -ENOSPC. */
int apply_put(struct ftl *ftl, uint64_t lba, struct format_entry entry);
int apply_carry(struct ftl *ftl, uint64_t lba, uint32_t from, uint32_t to);
void apply_release(struct ftl *ftl, uint64_t lba, uint32_t place);
void apply_trim(struct ftl *ftl, uint64_t lba, uint32_t count);
int apply_clone(struct ftl *ftl, uint64_t source, uint64_t target, uint32_t count);

/* ---- records.c: the callers' ---- */

struct records;
struct records *records_open(uint32_t nr_max);
void records_close(struct records *records);
uint32_t records_nr(const struct records *records);
/* The `n`-th, in order of their ids. */
void records_at(const struct records *records, uint32_t n, struct format_table_record *out);
/* -ENOSPC: there are as many as can be. */
int records_check(const struct records *records, const struct ftl_record_change *change);
int records_apply(struct records *records, const struct ftl_record_change *change);
const void *records_find(const struct records *records, uint32_t id);
uint32_t records_next(const struct records *records, uint32_t id);

/* ---- recover.c, replay.c ---- */

int ftl_recover(struct ftl *ftl);
/* What the journal says since the checkpoint; its end. */
int recover_replay(struct ftl *ftl, uint64_t *end);
/* Nothing in the segment is valid: from whatever state it was in it goes as far as waiting to be free; and further, to be it. */
void recover_retire(struct ftl *ftl, struct segment *segment);
void recover_set_free(struct ftl *ftl, struct segment *segment);

/* ---- cleaner.c, policy.c ---- */

int cleaner_open(struct cleaner *cleaner, struct ftl *ftl);
void cleaner_close(struct cleaner *cleaner);
void cleaner_progress(struct ftl *ftl);
void cleaner_written(struct piece *piece, int result);

/* ---- reclaim.c ---- */

int reclaim_open(struct reclaim *reclaim, struct ftl *ftl);
void reclaim_close(struct reclaim *reclaim);
void reclaim_progress(struct ftl *ftl);
/* There is no room: whether it is worth waiting for what is found. */
bool reclaim_may_help(struct ftl *ftl);
/* The block may be that of `lba`, and is not. False: the journal has no room now. */
bool reclaim_release(struct ftl *ftl, uint32_t place, uint64_t lba);

/* With `nr_streams`; 0: as many as pay. */
void policy_open(struct ftl *ftl, unsigned nr_streams);
/* Chooses the streams of all blocks of the piece, whose pages are loaded. */
void policy_put(struct ftl *ftl, struct piece *piece);
/* The stream of a block that is moved out of the victim; its page is loaded. */
unsigned policy_move(struct ftl *ftl, const struct segment *victim, struct map_page *page,
		     uint64_t lba);
/* The segment to be cleaned next; NULL: none has anything to give. */
struct segment *policy_victim(struct ftl *ftl);

#endif
