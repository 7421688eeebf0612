/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barriers: the format in the region, and the parts that rendezvous.c (all meet) and barrier.c
 * (phases) share.
 *
 * Each member has a slot of three lines. Only one side writes a line, and no two sides' bytes are
 * in the same line. So neither a cache line nor the unit of a transfer is contended:
 *
 *	slot 0   state                     by the coordinator: the phase that has begun
 *	slot i   state, hello              by member i: its last report; that it is there
 *	         answer                    by the coordinator, to the hello
 *	work     work_bytes per member     by the coordinator, before it begins a phase
 *
 * Only single bytes are atomic, and the bytes of one read or write come in any order. So the reader
 * compares a longer value as a whole with the 64 random bits that it expects. All others the writer
 * writes before the byte or number that announces them, and the reader reads them after having seen
 * that.
 *
 * The memory may hold anything at the beginning, most likely an old barrier. Two random numbers
 * tell what is valid: the coordinator's, and one of each member. The coordinator's names the
 * instance of the barrier, and is in every state line. Neither can be in memory that was written
 * before.
 */
#ifndef CLIENT_BARRIER_H
#define CLIENT_BARRIER_H

#include <afar/barrier.h>

#include "base/spin.h"
#include "client/namespace/region.h"

#define BARRIER_VERSION 1U /* of the format in the region */

struct barrier_state {
	uint64_t instance; /* the barrier's; a random number, its bytes in the writer's order */
	uint8_t status;	   /* enum barrier_status and the phase */
	uint8_t reserved[3];
	uint32_t error; /* little-endian: the code of STATUS_FAILED */
} __attribute__((aligned(64)));

struct barrier_hello {
	uint64_t nonce;	   /* the member's, new in every opening */
	uint64_t instance; /* the coordinator's, from its answer; 0: none yet */
} __attribute__((aligned(64)));

struct barrier_answer {
	uint64_t nonce; /* of the hello; written when the others have been */
	uint64_t instance;
	uint32_t version; /* these little-endian */
	uint32_t nr_members;
	uint64_t work_bytes;
} __attribute__((aligned(64)));

struct barrier_slot {
	struct barrier_state state;
	struct barrier_hello hello;
	struct barrier_answer answer;
};
_Static_assert(sizeof(struct barrier_slot) == 192, "AFAR_BARRIER_BYTES() and others' slots");

/*
 * A byte holds phases modulo 32, because no member can be further than one from the coordinator.
 * For the last two, the phase is the last one that was finished or failed.
 */
enum barrier_status {
	STATUS_JOINED = 0, /* a member's: has reported nothing yet */
	STATUS_FINISHED,   /* a member's: has finished the phase */
	STATUS_FAILED,	   /* a member's: it failed; `error` says how */
	STATUS_BEGUN,	   /* the coordinator's: has begun the phase */
	STATUS_ENDED,	   /* the coordinator's: it has closed; this phase was the last */
	STATUS_LEFT,	   /* a member's: it has closed; it had finished the phase */
	STATUS_LEFT_FAILED,
};
#define PHASE_MASK 31U

/* A member, as the coordinator knows it. */
struct barrier_member {
	bool has_reported; /* the phase */
	bool has_left;
	int status; /* 0 or its error, when it has reported */
};

struct afar_barrier {
	struct handle handle;
	struct afar_region *region;
	struct afar_mapping *mapping; /* of the slots */
	struct afar_queue *queue;     /* for writes, which are to be visible when they are done */
	struct afar_buffer *work;     /* the coordinator's, of all members; NULL: there is none */
	struct barrier_slot *slots;   /* its memory: a copy of what was last read or written */
	uint64_t offset;	      /* into the region */
	uint64_t work_bytes;
	uint32_t nr_members;
	uint32_t member;
	struct spin spin;
	uint64_t spin_ns;
	uint64_t pause_ns_max;
	uint64_t instance;
	uint64_t phase;
	bool has_reported;		/* a member: the phase. The coordinator: has collected it */
	struct barrier_member *members; /* the coordinator's */
};

/* A wait: its beginning and its end. */
struct barrier_wait {
	uint64_t begun;
	uint64_t deadline;
};

struct barrier_wait barrier_wait_begin(struct afar_barrier *barrier, int timeout_ms);
/* Pauses between two looks: does nothing, yields, or sleeps. -ETIMEDOUT, without a line, when the
 * time is up. */
int barrier_wait_pause(struct afar_barrier *barrier, const struct barrier_wait *wait);

/* barrier_read() copies a part of the slots from the region; barrier_write() copies it to the
 * region, where all members then see it. `part` points into the slots. */
int barrier_read(struct afar_barrier *barrier, const void *part, size_t length);
int barrier_write(struct afar_barrier *barrier, const void *part, size_t length);

/* Writes the caller's state line: its instance and status. */
int barrier_tell(struct afar_barrier *barrier, enum barrier_status status, uint64_t phase);

/* Waits for all members; the barrier is in phase 0 then. */
int barrier_meet(struct afar_barrier *barrier, int timeout_ms);

/* Writes the numbers of the members for which `is_named(i)` into a line, "3, 7, …"; for
 * sentences. */
#define BARRIER_NAMES_MAX 96
void barrier_name(const struct afar_barrier *barrier,
		  bool (*is_named)(const struct afar_barrier *barrier, uint32_t i),
		  char names[BARRIER_NAMES_MAX]);

#endif
