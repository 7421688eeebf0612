/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store: one device of flash with the translation layer (src/flash) on it, lent out as extents
 * that survive this server. It has a lane of its own over tcp. Perhaps it has one over which it moves
 * the bytes itself, and one for clients of this machine. Its one thread owns device, layer and extents, and serves the lanes. Other threads leave
 * orders with it. DESIGN: "store".
 *
 * An extent is a range of the layer's address space (flash/space/space.h). Its owner field has namespace
 * and number. Where it lies tells what it is: below STORE_CONFIRMED it is provisional. Nobody has
 * been granted a key of it then, so it may be released when the manager does not know it. It is
 * confirmed, durably, before the first key is granted. A confirmed one that the manager does not
 * know is an orphan, which an operator alone may free.
 *
 * Openings are counted on the device, and so is whether each ended clean. Writes that a server
 * acknowledged and did not sync are lost with an unclean end; a later sync says so (store_sync in
 * pager.h).
 */
#ifndef SERVER_STORE_H
#define SERVER_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/latency.h"
#include "server/data/progress.h"
#include "server/memory/extent.h"

#define STORES_MAX	    16U
#define STORE_UUID_BYTES    16U
#define STORE_CLUSTER_BYTES 32U /* of the cluster's identity on the device */

struct store;

struct store_options {
	const char *path;      /* of a file or block device */
	uint64_t create_bytes; /* make a file of this size, if nothing is there; 0: do not */
	const char *address;   /* HOST:PORT that its lane listens on */
	/* A lane over which the server moves the bytes, and HOST:PORT where it listens; NULL: none. */
	const char *driven_transport, *driven_address;
	const char *near_transport; /* of a lane to clients of this machine; NULL: none */
	const char *congestion;	    /* as fabric.congestion; must outlive the store */
	uint32_t spin_us;	    /* as for progress_start() */
	uint64_t scrub_bytes_per_s; /* read so fast in the background, to find bad blocks; 0: not */
	uint64_t cache_bytes;	    /* of memory for pages that were read; 0: none are kept */
	uint32_t nr_descriptors_max;
	int (*admit)(void *context, const void *shown, size_t length, struct admission *out);
	/* Its numbers have changed. Runs on its thread. */
	void (*changed)(void *context);
	void *context;
};

/*
 * Opens the device, recovers what a crash left, and serves. Blocks; for up to 5 s while another has
 * the device open, because the kernel takes a moment to release a killed process's. Errors, with a
 * sentence: those of flash_device_open_path(), flash_file_create(), ftl_create(), ftl_open(),
 * fabric_open() and progress_start(). -ENOMEM: its map does not fit into the machine's memory.
 */
int store_start(const struct store_options *options, struct store **out);
/* Ends its connections, makes everything durable, notes the clean end. No order may be under way.
 * NULL is allowed. */
void store_stop(struct store *store);

/* Constant while it is open. */
uint64_t store_number(const struct store *store); /* the first 8 bytes of the UUID */
const uint8_t *store_uuid(const struct store *store);
const char *store_path(const struct store *store);
struct progress *store_progress(const struct store *store);
/* Its lanes, in the order of their numbers: the nearest to its clients comes last. Their keys are by
 * the numbers of their fabrics. */
unsigned store_nr_lanes(const struct store *store);
const char *store_lane_transport(const struct store *store, unsigned i);
const char *store_lane_address(const struct store *store, unsigned i);
/* True: it is for clients of this machine alone. */
bool store_lane_is_near(const struct store *store, unsigned i);
unsigned store_lane_fabric(const struct store *store, unsigned i);

/* A join: an opening and a random number. */
struct store_join {
	uint64_t opening;
	uint64_t random;
};

/* A manager's term: Term in rpc/afar.proto. */
struct store_term {
	uint64_t number;
	uint64_t random;
};

/* The kinds of requests whose spans a store counts. A durable write is no plain one. */
enum store_request { STORE_READ, STORE_WRITE, STORE_WRITE_DURABLE, STORE_SYNC, STORE_REQUESTS };

/* Counts since it was opened. Blocks are of 4 KiB. */
struct store_work_stat {
	uint64_t nr_hits, nr_misses, nr_shared, nr_past, nr_ahead; /* of the cache: see cache.h */
	uint64_t cache_bytes, cached_bytes;			   /* all of it, and what is used */
	uint64_t nr_merged;	 /* writes of parts of blocks that went along with another one's */
	uint64_t device_reads;	 /* for reads of clients, and the scrub's */
	uint64_t user_blocks;	 /* written for clients */
	uint64_t moved_blocks;	 /* written by the cleaner */
	uint64_t written_blocks; /* to the device, all that it writes included */
	uint64_t nr_flushes;
	uint64_t nr_cleaned; /* segments */
};

struct store_stat {
	char cluster[STORE_CLUSTER_BYTES + 1]; /* that it belongs to; empty: none yet */
	uint64_t opening;
	struct store_join accepted, present;
	struct store_term term; /* the last that it was told */
	uint64_t capacity_bytes;
	uint64_t granted_bytes;
	uint64_t used_bytes;
	uint64_t map_bytes;
	uint64_t nr_errors;
	uint64_t nr_syncs;
	struct store_work_stat work;
	uint64_t scrub_passes; /* that ended, ever */
	uint64_t nr_bad;       /* blocks: found by the last pass that ended, or by this one */
	int failure;	       /* the device is beyond use since; 0: it works */
	/* The layer refuses every change since `refused_at`, on clock_ns(), while reads go on; 0: it
	 * does not. */
	int refusal;
	uint64_t refused_at;
	uint64_t
		slow_ms; /* the oldest operation at the device takes so long by now; less than a second is 0 */
};
void store_stat(struct store *store, struct store_stat *out);
/* How long requests took, each from when its bytes were there, or memory for them, until its answer could go. By kind.
 * Its thread goes on counting. */
const struct latency *store_latencies(const struct store *store);

/* ---- For the membership's thread. Listing and store_joined() block until the store's thread has done it. */

struct store_extent_info {
	uint64_t extent, namespace, length;
	bool is_provisional;
};

/* Waits for trims that are under way, and lists the extents, those that are being removed included.
 * `*out` is the caller's to free(). -ENOMEM, -ECANCELED: the store is closing. */
int store_list(struct store *store, struct store_extent_info **out, size_t *nr_out);
/* The manager of `cluster` has accepted the store's present join: notes that on the device. Errors
 * are the device's; the next join brings it about then. */
int store_joined(struct store *store, const char *cluster);
/* Has a manager's term noted on the device, and waits for nothing: what goes wrong there is logged. -ENOMEM. */
int store_note_term(struct store *store, struct store_term term);
/* How a reservation ended. On the store's thread. `made` with status 0; else error_last_line() says why. */
typedef void store_reserved(void *argument, int status, const struct store_extent_info *made);
/*
 * Makes an extent of `bytes`, a multiple of SEGMENT_MIN, all zeros, provisional. On the device when `done` says so. If that takes so
 * long that `deadline` (on clock_ns()) is near, the answer is -ETIMEDOUT, and the extent is removed once it is made. Returns 0, or with a
 * sentence, and `done` is not called: -EINVAL, -EIO, -ENOMEM. `status` may be -ENOSPC, -ENOMEM, -ECANCELED; the device's own.
 */
int store_reserve(struct store *store, uint64_t namespace, uint64_t bytes, uint64_t deadline,
		  store_reserved *done, void *argument);

/* ---- From any thread. `done` runs on the store's thread. */

/* An extent, and the namespace that it must be of. */
struct store_name {
	uint64_t extent, namespace;
	bool is_unknown; /* to the manager: it is left alone unless it is provisional still */
};
typedef void store_done(void *argument, int status);

/*
 * Ends the extents' keys, and closes the data connections of their namespaces to this store if
 * there have been any keys. Waits until nothing of those is under way. Then removes the extents: on
 * the device when `done` runs. Extents that are not there, or are another namespace's, count as
 * removed. Its status is 0, the device's own error, or -ECANCELED: the store is closing, or its
 * device is gone. -ENOMEM: nothing was done, and `done` will not run.
 */
int store_release(struct store *store, const struct store_name *names, size_t nr_names,
		  store_done *done, void *argument);

/* Has the ranges read as zeros from now on: on the device when `done` runs. Extents that are not
 * there are left out. -EINVAL, with a sentence: a range is not inside its extent; -ENOMEM. */
int store_trim(struct store *store, uint64_t namespace, const struct extent_range *ranges,
	       size_t nr_ranges, store_done *done, void *argument);

typedef void store_was_read(void *argument, int status, const char *bytes, size_t length);
/* Reads bytes of one block. -AFAR_ELOST: the namespace has no such extent there; -ERANGE; the device's own. -ENOMEM: `done` will not
 * run. */
int store_read(struct store *store, uint64_t namespace, const struct extent_range *range,
	       store_was_read *done, void *argument);
/* Likewise writes zeros there, and gives these. */
int store_clear(struct store *store, uint64_t namespace, const struct extent_range *range,
		store_was_read *done, void *argument);

/* A client's request for keys. */
struct store_keys {
	struct reach reach;
	const uint64_t *extents;
	size_t nr_extents;
	struct extent_key *keys; /* out: one for each extent, of fabric number 0 */
	/* Runs on the store's thread. An error is the thread's last sentence. -AFAR_ELOST: an extent
	 * is not there or is another namespace's; the device's own. */
	void (*done)(struct store_keys *keys, int status);
	/* the store's until done */
	struct store *store;
	size_t nr_done;
	struct cds_list_head node;
};
/* Confirms the extents and gives their keys. All that `keys` names must stay until `done`. -ENOMEM:
 * `done` will not run. */
int store_get_keys(struct store *store, struct store_keys *keys);

/* The machine is short of memory: the store keeps fewer pages, soon. -ENOMEM. */
int store_press(struct store *store);

/* Returns whether a namespace has an extent there that is not being removed. */
bool store_has(struct store *store, uint64_t namespace);
/* Returns how many extents there are. */
size_t store_nr_extents(struct store *store);

#endif
