/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Targets: the things that operations read and write. A target is of a kind, and begins the public
 * struct of that kind. A volume is a region in a namespace of its own. Queues, blocking calls, windows and attachments know
 * only targets. A file's target is for queues alone, and is a part of the file (file_queue.c).
 *
 * A target reaches its bytes through its binding (binding.h), which is replaced when its layout
 * changes.
 */
#ifndef CLIENT_TARGET_H
#define CLIENT_TARGET_H

#include <pthread.h>

#include "base/epoch.h"
#include "client/target/binding.h"

struct afar_queue;
struct same_host;
struct operation;

/*
 * A kind of target has this if operations of queues on it do not always go directly. Its bytes may be in runs of its carrier.
 * An operation may have to wait, or a thread carries it out (away.h). The queue's thread calls all of it.
 */
struct target_ops {
	/* Check an operation, beyond what is checked of all: its flags, if it has any; then the rest. */
	int (*check_flags)(const struct afar_op *op);
	int (*check)(const struct afar_op *op, uint64_t length);
	/* Connects a queue to its servers, for a caller who is counted in, and counts it out. */
	int (*connect)(struct afar_queue *queue, struct afar_target *target);
	/* Counts a caller out who was counted in. The target may be closed then. */
	void (*leave)(struct afar_target *target);
	/* An operation, which is counted in, begins with waiting for others. */
	void (*hold)(struct operation *operation);
	/* Starts an operation that may start now. 0: it goes on directly; -EAGAIN: a thread has it. Other errors: it has
	 * failed. Called again, it changes nothing. */
	int (*start)(struct afar_queue *queue, struct operation *operation);
	/* Finds the next run of one that goes directly: its shift and run_end. */
	void (*next_run)(struct operation *operation);
	/* An operation has no transfers in flight and nothing left. Returns whether a thread does it again. */
	bool (*finish)(struct afar_queue *queue, struct operation *operation);
	/* Counts one out that has ended. */
	void (*let_go)(const struct operation *operation);
	/* Takes one back that is away, to end it. False: a thread has begun it. */
	bool (*take_back)(struct afar_queue *queue, struct operation *operation);
};

/* Static, one for each kind of target: namespace/region_open.c has that of regions, files/io/file_queue.c that of files. */
struct target_kind {
	const char *noun;   /* for error lines */
	const char *called; /* by programs, if that is another word */
	bool is_named;	    /* its namespace's name is its own */
	bool is_numbered;   /* its address is a number, for people */
	bool outlives_servers; /* it goes on without what a server had in memory that has ended, or a store that was forgotten */
	bool may_shrink;	      /* others may make it shorter while it is open */
	enum handle_kind handle;      /* of the public struct */
	uint32_t opcodes;	      /* the opcodes it takes: a bit (1 << AFAR_OP_…) for each */
	const struct target_ops *ops; /* NULL: an operation goes its way directly, as on a region */
};

struct afar_target {
	struct handle handle; /* in use while operations on it are in flight */
	const struct target_kind *kind;
	struct afar_session *session;
	/* Has the binding by which its bytes are reached: it does itself, or a file's pool does. A file's own
	 * target has no more than what stands up to `is_flash`. */
	struct afar_target *carrier;
	uint64_t ns;	     /* the number of its namespace */
	const char *ns_name; /* lives as long as the target */
	uint64_t address;    /* in the namespace */
	uint64_t generation; /* of the address: another target may have had it before */
	uint64_t
		family; /* of a copy-on-write region: the generation of its first version; else 0 */
	uint32_t rights;      /* RIGHT_… */
	bool has_nic_atomics; /* servers' NICs carry out its atomics; false: their processors do */
	bool is_without_atomics; /* has_nic_atomics, but our transport has none */
	bool is_fixed;		 /* its layout is its own, not the manager's: nobody replaces it */
	bool is_flash;		 /* it is in stores: transfers and syncs alone */
	/* A sync that tells of lost writes does not move the handle on: the next one tells, too. Set
	 * and cleared while no sync is under way. */
	bool keeps_opening;
	/* Both follow the binding, and are written just after it. */
	_Atomic uint64_t length;  /* bytes; only that of a kind that may_shrink becomes less */
	atomic_bool is_sealed;	  /* read it only while counted in */
	atomic_bool is_published; /* a version that nobody writes any more: versions.c */
	atomic_bool
		is_used; /* a version that was read or written since the manager was told so: versions_use.c */
	struct binding *_Atomic binding; /* target_binding(), or within an epoch section */
	atomic_bool is_lost;		 /* for good: one of its servers has restarted */
	atomic_bool had_keys;		 /* connections were made for it at least once */
	pthread_mutex_t lock;		 /* held over calls for layouts, accesses or keys */
	struct cds_list_head node;	 /* in the session's list; guarded by its lock */
	/* A connection has ended under a write of ours, which the server may still carry out. The
	 * memory must not become another region's before the server has closed the connection
	 * (target_is_in_doubt()), which it does at the latest when the session ends. */
	atomic_bool has_writes_in_doubt;
	/* Windows on the part of it that is on this machine; NULL: none are taken. Use them only
	 * within an epoch section, or with the lock held (same_host.c). same_host_queue is the session's own queue
	 * whose connections they depend on. */
	struct same_host *_Atomic same_host;
	struct afar_queue *_Atomic same_host_queue;
};

#define TARGET_TEXT_MAX 352

/* Describes a target for people: by its name, or by its namespace's and its address. */
void target_describe(const struct target_kind *kind, const char *ns_name, uint64_t address,
		     char out[TARGET_TEXT_MAX]);

/* ---- Opening and closing */

/* The manager's description of a target. */
struct target_description {
	struct afar_session *session;
	uint64_t ns;
	const char *ns_name; /* must live as long as the target */
	uint64_t address;
	uint64_t generation;
	uint64_t family;
	uint32_t rights; /* RIGHT_…; without RIGHT_READ the manager is at fault */
	bool has_nic_atomics;
	struct layout_description layout;
};

/*
 * Makes a target of a zeroed struct whose handle is open. The target hears of changes of its layout
 * until it is destroyed. This asks no server: keys come with the first connection. Errors, with a
 * sentence: those of binding_new(); then there is nothing to destroy.
 */
int target_init(struct afar_target *target, const struct target_kind *kind,
		const struct target_description *from);
/* Makes a target that has `of`'s rights and servers, and a layout of its own. Takes the layout
 * over, also if it fails. `of` must stay open. If the layout of something in the namespace has
 * changed, this may answer -ESTALE: then make another. -ENOMEM; then there is nothing to
 * destroy. */
int target_init_beside(struct afar_target *target, const struct target_kind *kind,
		       struct afar_target *of, struct layout *layout);
/* Ends a target whose handle has been closed. */
void target_destroy(struct afar_target *target);

/* Returns whether `target` is an open target of any kind. */
static inline bool target_is_open(const struct afar_target *target)
{
	return handle_is_target(target);
}

static inline bool target_takes(const struct afar_target *target, uint16_t opcode)
{
	return target->kind->opcodes & 1U << opcode;
}

/* Returns whether it waits for earlier writes to the target, and goes to each of its homes. */
static inline bool opcode_is_flush(uint16_t opcode)
{
	return opcode == AFAR_OP_FLUSH || opcode == AFAR_OP_SYNC;
}

static inline bool opcode_is_atomic(uint16_t opcode)
{
	return opcode == AFAR_OP_FETCH_ADD || opcode == AFAR_OP_COMPARE_SWAP;
}

/* Returns whether it zeros `operand` bytes. */
static inline bool opcode_is_zero(uint16_t opcode)
{
	return opcode == AFAR_OP_ZERO || opcode == AFAR_OP_TRIM;
}

/* Returns whether it is about `operand` bytes, and moves none. */
static inline bool opcode_moves_none(uint16_t opcode)
{
	return opcode_is_zero(opcode) || opcode == AFAR_OP_WILL_NEED;
}

static inline bool opcode_writes(uint16_t opcode)
{
	return opcode == AFAR_OP_WRITE || opcode_is_atomic(opcode) || opcode_is_zero(opcode);
}

static inline bool target_may(const struct afar_target *target, uint16_t opcode)
{
	return !opcode_writes(opcode) ||
	       ((target->rights & RIGHT_WRITE) && !target->is_sealed && !target->is_published);
}

/* A read or write of a version that is being written uses it. */
static inline void target_note_use(struct afar_target *target)
{
	if (target->family && !atomic_load_explicit(&target->is_used, memory_order_relaxed))
		atomic_store_explicit(&target->is_used, true, memory_order_relaxed);
}

/* Returns whether the manager tells of this target, or of the newest version of it. */
static inline bool target_is_of(const struct afar_target *target, const Afar__RegionInfo *info)
{
	return info->generation == target->generation ||
	       (target->family && info->family == target->family);
}

/* Returns whether [offset, offset + length) lies in a target of `size` bytes. */
static inline bool range_is_inside(uint64_t offset, uint64_t length, uint64_t size)
{
	return offset <= size && length <= size - offset;
}

/* ---- Its binding */

/* Returns the target's binding, with a reference for the caller. */
struct binding *target_binding(struct afar_target *target);
/* Returns whether operations may begin, as far as is known. */
bool target_is_ready(struct afar_target *target);
/* Replaces the binding by a newer one, and takes over its reference. Operations in flight go on.
 * The caller holds the target's lock. Waits for epoch sections. */
void target_bind(struct afar_target *target, struct binding *binding);

/* ---- Keys and tickets: target.c. All block, until `deadline`. */

/* Gets the keys of the binding's extents if it has none, after asking the manager about changes. On
 * 0 the binding was ready. */
int target_get_keys(struct afar_target *target, uint64_t deadline);
/* For targets whose homes are used apart (apart.h): gives the binding, with a reference, after asking the
 * manager about changes. It is ready, unless there is another change; its homes may be without keys. */
int target_prepare(struct afar_target *target, uint64_t deadline, struct binding **out);
/* Gets the keys of a home of it. One thread at a time does that. -ESTALE: there is another binding, or
 * target_rebind() is due. */
int binding_get_keys(struct binding *binding, uint32_t index, uint64_t deadline);
/* Gets a ticket for a connection to a server of the layout. The connection replaces the one
 * numbered in `out`. */
int binding_get_ticket(struct binding *binding, uint32_t index, uint64_t deadline,
		       struct peer_ticket *out);
/* Has a server of the layout close the connections that ended under writes. None of those writes
 * can land afterwards. */
int binding_settle(struct binding *binding, uint32_t index, uint64_t deadline);
/* Returns whether a server may still carry out a write of ours whose connection has ended. Does not
 * block. */
bool target_is_in_doubt(struct afar_target *target);
/* Has all servers close the connections that put the target in doubt. Ask target_is_in_doubt() whether
 * that has worked. */
void target_settle_all(struct afar_target *target, uint64_t deadline);

/* ---- Changes of the layout: changes.c */

/* Makes the target hear of changes, until target_unlist(). */
void target_list(struct afar_target *target);
void target_unlist(struct afar_target *target);
/* Asks the manager for the layout if a server has told of a change that the binding may not
 * include. The caller holds the target's lock. Blocks, until `deadline`. */
int target_heed_changes(struct afar_target *target, uint64_t deadline);
/* Asks the manager for the layout, and takes it if it is newer than the binding's. The caller holds the
 * target's lock. Blocks, until `deadline`. */
int target_refresh(struct afar_target *target, uint64_t deadline);
/* Asks the manager for the layout in any case. Call it without the lock. Blocks. */
int target_look(struct afar_target *target);
/* Makes a new binding of what the manager tells now, because a store's server has restarted or
 * another one has it. Does nothing if `old` is not the target's binding any more. Takes the lock.
 * Blocks, until `deadline`. */
int target_rebind(struct afar_target *target, const struct binding *old, uint64_t deadline);
/* Asks the manager for the layout, and makes a new binding of it in any case. The caller holds the
 * target's lock. Blocks, until `deadline`. */
int target_look_anew(struct afar_target *target, uint64_t deadline);
/* Returns whether the manager tells of a newer layout than the target has. */
bool target_is_older(struct afar_target *target, const Afar__RegionInfo *info);
/* Sends a request that has the manager replace the layout, and takes the layout that it answers. The caller does not hold
 * the target's lock. */
int target_change(struct afar_target *target, Afar__Request *request);
/* Marks the binding as ready once all keys are there: operations may begin, unless there was
 * another change. The caller holds the target's lock. */
void target_set_ready(struct afar_target *target);
/* Calls the manager for a RegionInfo; on 0 `*reply` is the caller's. */
int target_call(struct afar_target *target, uint64_t deadline, Afar__Request *request,
		Afar__Frame **reply);

/* ---- Atomics */

/* Checks that the session can do atomics on the target: 0, or -EOPNOTSUPP with the sentence. */
int target_check_atomics(const struct afar_target *target);
/* Returns that error for a target whose connections turned out to use a transport without
 * atomics. */
int target_fail_unfit(const struct afar_target *target);
/* Returns whether the NICs at both ends of a lane have atomics, as far as is known here. May block
 * for a moment. */
bool lane_has_atomics(struct fabrics *fabrics, const struct peer_lane *lane);
/* Finds out whether a target with has_nic_atomics can have them. May block for a moment. */
void target_look_for_atomics(struct afar_target *target);

/* Returns -EOPNOTSUPP with the sentence, for what is asked of a target in stores that cannot do
 * it. */
int target_fail_flash(const struct afar_target *target, const char *asked);
/* Returns -EROFS or -EACCES, with the sentence. */
int target_fail_read_only(const struct afar_target *target);

/* ---- Blocking calls: blocking.c */

/*
 * Moves bytes between `iov` and the target at `offset`, through windows or on one of the session's
 * own queues, and waits. `flags` is 0 or, of a write to a target on flash, AFAR_OP_DURABLE. The
 * caller has checked the range, and need count nothing in. Returns 0 or the error.
 */
int target_transfer(struct afar_target *target, uint16_t opcode, uint32_t flags,
		    const struct afar_iov *iov, uint32_t nr_iov, uint64_t offset, uint64_t length);
/* pieces.c: a range of the target, and the memory that it is read into or written from. */
struct target_piece {
	struct afar_iov memory;
	uint64_t offset; /* in the target */
	/* A read may take all bytes of the target up to here, and drop those that it does not want. 0: only its own. */
	uint64_t reach;
	int status; /* set: 0, or its failure */
};
/* Moves several pieces likewise, as many together as there is room for, in no order. The writes are then
 * visible on all paths. Returns 0 or a failure; some may have been done then. */
int target_transfer_pieces(struct afar_target *target, uint16_t opcode, uint32_t flags,
			   struct target_piece *pieces, unsigned nr);
/* Carries out an operation once, without windows. Does not go on over another connection if one ends,
 * nor with another binding than the one with this serial: -ESTALE then. */
int target_try(const struct afar_op *op, uint64_t length, uint64_t serial, uint64_t deadline);
/* Makes the connections of a queue for blocking calls anew, and gives the serial of the binding that
 * they are for. Blocks, until `deadline`. */
int target_reconnect(struct afar_target *target, uint64_t deadline, uint64_t *serial);
/* Carries out an AFAR_OP_ZERO or AFAR_OP_TRIM of `length` bytes likewise. `flags` as above. */
int target_zero(struct afar_target *target, uint16_t opcode, uint32_t flags, uint64_t offset,
		uint64_t length);
/* Carries out an atomic once, in the same ways. The caller has checked that the word is inside the
 * target. */
int target_atomic(const struct afar_op *op);
/* Has the stores of the target make durable what has completed on it, by anybody. */
int target_sync(struct afar_target *target);
/* Makes visible, on all paths, what blocking calls have written to it, as far as connections
 * stand. */
void target_flush(struct afar_target *target);
/* Makes the connections for blocking calls in advance. Blocks. */
int target_connect(struct afar_target *target);

#endif
