/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a session does, counted where it is done: operations by the queue that they are submitted to, bytes by the
 * path that they go over. On transports whose targets are passive nobody else can tell. The thread of the queue adds;
 * the control thread sums up when the manager asks (docs/protocol.md, "Look").
 *
 * On the data path that is a few additions to memory of the thread's own. Clocks are not read for it but for a
 * sample: an operation's time begins where its deadline was reckoned from, and only one in a few is looked at when
 * it ends, as long as they are quick; it stands for those before it.
 */
#ifndef CLIENT_COUNTS_H
#define CLIENT_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include <urcu/list.h>

#include <afar/afar.h>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/hold.h"
#include "client/fabrics.h"
#include "rpc/rpc.h"

struct afar_session;

/* By opcode: a power of two, so that any index can be made one. */
#define COUNT_OPCODES 8U

struct count {
	struct counter nr;
	struct counter bytes;
	struct counter nr_failed; /* of nr */
};

#define COUNT_GAP_MASK 127U  /* of quick operations every 64th is looked at, on average */
#define COUNT_SLOW_NS  8000U /* with slower ones the clock does not count               */
#define COUNT_NEAR_LOG 6U    /* of near operations, whatever they take, one in 1 << 6     */

/* Of a queue. Its thread alone changes it, but for the node. Or a sum of such. */
struct counts {
	struct cds_list_head node; /* in the session's list */
	uint32_t until_sample;	   /* operations            */
	uint32_t gap;		   /* that began it         */
	uint32_t random;
	bool is_slow; /* as the last sample was */
	struct count of[COUNT_OPCODES];
	struct histogram spans[COUNT_OPCODES];
};

/* Of a path, likewise; or of those that are gone. */
struct path_count {
	struct cds_list_head node; /* in one of the session's lists */
	uint64_t server;
	char transport[FABRIC_TRANSPORT_MAX];
	struct counter bytes[2]; /* read, written */
	char congestion
		[FABRIC_CONGESTIONS_MAX]; /* of its connections; empty: none, or it is gone */
};

/*
 * Of windows on a region. All threads count, and meet nobody: each in a column of its own, by its number (base/hold.h), with
 * what is done by opcode, then the bytes read from and written to each server.
 */
struct near_counts {
	struct cds_list_head node; /* in the session's list */
	struct counter *columns;   /* HOLD_NUMBERS, of `height` each, on cache lines of their own */
	uint32_t height;
	uint32_t nr_paths;
	struct path_count *paths; /* as of the last gathering */
	struct histogram spans[COUNT_OPCODES];
};

/* Guarded by the session's lock. */
struct session_counts {
	struct cds_list_head queues; /* of struct counts     */
	struct cds_list_head paths;  /* of struct path_count */
	struct cds_list_head ended_paths;
	struct cds_list_head nears; /* of struct near_counts */
	struct counts ended;	    /* of queues that are closed */
};

void session_counts_init(struct session_counts *counts);
void session_counts_free(struct session_counts *counts);

void counts_open(struct afar_session *session, struct counts *counts);
/* What was counted stays the session's. If it was opened. */
void counts_close(struct afar_session *session, struct counts *counts);

/* From now on the path is one to this server over this transport. */
void path_count_open(struct afar_session *session, struct path_count *count, uint64_t server,
		     const char *transport);
void path_count_close(struct afar_session *session, struct path_count *count);
/* Its connections use these, several with commas between them. */
void path_count_congestion(struct afar_session *session, struct path_count *count,
			   const char *congestion);

/* False: there is no memory. */
bool near_counts_open(struct afar_session *session, struct near_counts *counts, uint32_t nr_paths);
/* There are windows to this server over this transport; else no bytes are counted for the path. Is no connection, and none
 * of the session's paths. */
void near_counts_path(struct afar_session *session, struct near_counts *counts, uint32_t path,
		      uint64_t server, const char *transport);
/* What was counted stays the session's. */
void near_counts_close(struct afar_session *session, struct near_counts *counts);

/* Answers the manager, who asks for all of it. On the control thread. */
void counts_answer(struct afar_session *session, struct rpc_call *call);

/* Chooses the next sample. How many operations the present one stands for. */
uint32_t counts_draw(struct counts *counts);
/* A sample has ended that began then. */
void counts_sample(struct counts *counts, uint16_t opcode, uint64_t began, uint32_t stands_for);
void near_counts_sample(struct near_counts *counts, uint16_t opcode, uint64_t began);

/* ---- On the data path */

/* An operation begins. For how many it stands when it ends; 0: it is not looked at. */
static inline uint32_t counts_begin(struct counts *counts)
{
	return --counts->until_sample ? 0 : counts_draw(counts);
}

/* It has ended, and has moved so many bytes. */
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

static inline struct counter *near_column(const struct near_counts *counts, unsigned number)
{
	return &counts->columns[(size_t)number * counts->height];
}

static inline void near_count(const struct near_counts *counts, uint32_t index, uint64_t more)
{
	unsigned number = hold_number();
	struct counter *counter = &near_column(counts, number)[index];

	if (number == HOLD_SHARED)
		counter_add_shared(counter, more);
	else
		counter_add(counter, more);
}

/* When it begins; 0: it is not looked at. Those that are come at random, and a thread's first is one. Within a hold, as are
 * the next two. */
static inline uint64_t near_counts_begin(const struct near_counts *counts, uint16_t opcode)
{
	uint64_t nr = counter_get(&near_column(counts, hold_number())[opcode % COUNT_OPCODES]);

	/* Fibonacci hashing: the high bits of the product are evenly spread. */
	return nr * UINT64_C(0x9e3779b97f4a7c15) >> (64 - COUNT_NEAR_LOG) ? 0 : clock_ns();
}

static inline void near_counts_end(struct near_counts *counts, uint16_t opcode, uint64_t began)
{
	near_count(counts, opcode % COUNT_OPCODES, 1);
	if (began)
		near_counts_sample(counts, opcode, began);
}

static inline void near_counts_transfer(const struct near_counts *counts, uint32_t path,
					bool is_write, uint64_t bytes)
{
	near_count(counts, COUNT_OPCODES + 2 * path + is_write, bytes);
}

#endif
