/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts of a session: operations by the queue that they are submitted to, bytes by the path that
 * they go over. On transports whose targets are passive nobody else can count them. The queue's
 * thread adds; the control thread sums up when the manager asks (docs/protocol.md, "Look").
 *
 * On the data path this costs a few additions to the thread's own memory. It reads the clock only
 * for samples: an operation's time begins at the clock reading for its deadline. While operations
 * are quick, only one in a few is timed; it stands for those before it.
 */
#ifndef CLIENT_COUNTS_H
#define CLIENT_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include <urcu/list.h>

#include <afar/afar.h>

#include "base/clock.h"
#include "base/epoch.h"
#include "base/histogram.h"
#include "client/session/fabrics.h"
#include "rpc/rpc.h"

struct afar_session;

/* Counts are by opcode: a power of two, so that a mask makes any opcode an index. */
#define COUNT_OPCODES 16U

struct count {
	struct counter nr;
	struct counter bytes;
	struct counter nr_failed; /* of nr */
};

#define COUNT_GAP_MASK	    127U  /* of quick operations, every 64th is a sample, on average */
#define COUNT_SLOW_NS	    8000U /* above this, reading the clock costs relatively nothing */
#define COUNT_SAME_HOST_LOG 6U	  /* of same-host operations, one in 1 << 6 is always a sample */

/* The counts of a queue, or a sum of such. Only the queue's thread changes them, except for the
 * node. */
struct counts {
	struct cds_list_head node; /* in the session's list */
	uint32_t until_sample;	   /* operations            */
	uint32_t gap;		   /* the value that until_sample began with */
	uint32_t random;
	bool is_slow; /* as the last sample was */
	struct count of[COUNT_OPCODES];
	struct histogram spans[COUNT_OPCODES];
};

/* The counts of a path, likewise; or of paths that are gone. */
struct path_count {
	struct cds_list_head node; /* in one of the session's lists */
	uint64_t server;
	char transport[FABRIC_TRANSPORT_MAX];
	struct counter bytes[2]; /* read, written */
	char congestion
		[FABRIC_CONGESTIONS_MAX]; /* of its connections; empty: none, or it is gone */
};

/*
 * The counts of windows on a region. Each thread counts in a column of its own, by its number
 * (base/epoch.h), so threads do not contend. A column counts operations by opcode, then the bytes
 * read from and written to each server.
 */
struct same_host_counts {
	struct cds_list_head node; /* in the session's list */
	struct counter *columns; /* EPOCH_NUMBERS, of `height` each, on cache lines of their own */
	uint32_t height;
	uint32_t nr_paths;
	struct path_count *paths; /* as of the last sum */
	struct histogram spans[COUNT_OPCODES];
};

/* Guarded by the session's lock. */
struct session_counts {
	struct cds_list_head queues; /* of struct counts     */
	struct cds_list_head paths;  /* of struct path_count */
	struct cds_list_head ended_paths;
	struct cds_list_head same_hosts; /* of struct same_host_counts */
	struct counts ended;		 /* sum over the queues that are closed */
};

void session_counts_init(struct session_counts *counts);
void session_counts_free(struct session_counts *counts);

void counts_open(struct afar_session *session, struct counts *counts);
/* Ends a queue's counting, if it was opened. The session keeps what was counted. */
void counts_close(struct afar_session *session, struct counts *counts);

/* Begins counting for a path to this server over this transport. */
void path_count_open(struct afar_session *session, struct path_count *count, uint64_t server,
		     const char *transport);
void path_count_close(struct afar_session *session, struct path_count *count);
/* Notes the congestion control of the path's connections; several are separated by commas. */
void path_count_congestion(struct afar_session *session, struct path_count *count,
			   const char *congestion);

/* Begins counting. False: there is no memory. */
bool same_host_counts_open(struct afar_session *session, struct same_host_counts *counts,
			   uint32_t nr_paths);
/* Notes that there are windows to this server over this transport; without that, no bytes are
 * counted for the path. It counts as no connection, and not among the session's paths. */
void same_host_counts_path(struct afar_session *session, struct same_host_counts *counts,
			   uint32_t path, uint64_t server, const char *transport);
/* Ends counting. The session keeps what was counted. */
void same_host_counts_close(struct afar_session *session, struct same_host_counts *counts);

/* Answers the manager's request for all counts. Call it on the control thread. */
void counts_answer(struct afar_session *session, struct rpc_call *call);

/* Chooses the next sample. Returns how many operations the present one stands for. */
uint32_t counts_draw(struct counts *counts);
/* Counts a sample that has ended. `began`: when it began. */
void counts_sample(struct counts *counts, uint16_t opcode, uint64_t began, uint32_t stands_for);
void same_host_counts_sample(struct same_host_counts *counts, uint16_t opcode, uint64_t began);

/* ---- On the data path */

/* Counts the beginning of an operation. Returns for how many it stands when it ends; 0: it is no
 * sample. */
static inline uint32_t counts_begin(struct counts *counts)
{
	return --counts->until_sample ? 0 : counts_draw(counts);
}

/* Counts an operation that has ended and has moved so many bytes. */
static inline void counts_end(struct counts *counts, uint16_t opcode, uint64_t bytes,
			      bool has_failed)
{
	struct count *count = &counts->of[opcode % COUNT_OPCODES];

	counter_add(&count->nr, 1);
	if (has_failed)
		counter_add(&count->nr_failed, 1);
	else
		counter_add(&count->bytes, bytes);
}

static inline void path_count_transfer(struct path_count *count, bool is_write, uint64_t bytes)
{
	counter_add(&count->bytes[is_write], bytes);
}

static inline struct counter *same_host_column(const struct same_host_counts *counts,
					       unsigned number)
{
	return &counts->columns[(size_t)number * counts->height];
}

static inline void same_host_count(const struct same_host_counts *counts, uint32_t index,
				   uint64_t more)
{
	unsigned number = epoch_number();
	struct counter *counter = &same_host_column(counts, number)[index];

	if (number == EPOCH_SHARED)
		counter_add_shared(counter, more);
	else
		counter_add(counter, more);
}

/* Returns when an operation begins; 0: it is no sample. Samples are random, and a thread's first
 * operation is one. Call this and the next two within an epoch section. */
static inline uint64_t same_host_counts_begin(const struct same_host_counts *counts,
					      uint16_t opcode)
{
	uint64_t nr =
		counter_get(&same_host_column(counts, epoch_number())[opcode % COUNT_OPCODES]);

	/* Fibonacci hashing: the high bits of the product are evenly spread. */
	return nr * UINT64_C(0x9e3779b97f4a7c15) >> (64 - COUNT_SAME_HOST_LOG) ? 0 : clock_ns();
}

static inline void same_host_counts_end(struct same_host_counts *counts, uint16_t opcode,
					uint64_t began)
{
	same_host_count(counts, opcode % COUNT_OPCODES, 1);
	if (began)
		same_host_counts_sample(counts, opcode, began);
}

static inline void same_host_counts_transfer(const struct same_host_counts *counts, uint32_t path,
					     bool is_write, uint64_t bytes)
{
	same_host_count(counts, COUNT_OPCODES + 2 * path + is_write, bytes);
}

#endif
