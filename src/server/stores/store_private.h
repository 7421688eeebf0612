/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations that the files of a store share. Each uses those behind it:
 *
 *   store.c             the thread, and the store's life
 *   store_scrub.c       reading what is at rest
 *   store_zero.c        ranges of zeros
 *   store_extents.c     what is asked of its extents
 *   store_table.c       which extents there are, and their changes
 *   store_trims.c       what is given back
 *   pager.c             the transfers of clients; pager_cached.c: reads through the cache;
 *                       pager_slabs.c: its memory; pager_merged.c: writes of parts of blocks
 *   cache.c             which blocks are in memory
 *   store_records.c     what it writes about itself
 *   store_device.c      the device and its layer, made and opened
 *   store_work.c        what is under way, and calls that wait
 */
#ifndef SERVER_STORE_PRIVATE_H
#define SERVER_STORE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <urcu/list.h>

#include "base/log.h"
#include "fabric/fabric.h"
#include "fabric/paged.h"
#include "flash/space/space.h"
#include "server/stores/pager.h"
#include "server/stores/store.h"

/* Extents from this address of the space on are confirmed; each has its place there by the number of
 * its range. All below are provisional. */
#define STORE_CONFIRMED (UINT64_C(1) << 62)

static inline uint64_t store_confirmed_at(uint32_t range)
{
	return STORE_CONFIRMED + ((uint64_t)range << 33);
}
_Static_assert(SPACE_LENGTH_MAX <= UINT64_C(1) << 33, "each range has a place");

/*
 * Something that the layer has been given. Once the device is beyond use the layer ends nothing any
 * more. Then `give_up` tells whoever waits, and `forget` frees the memory when the layer has gone,
 * which may write there until then.
 */
struct store_work {
	struct cds_list_head node; /* in the store's list */
	void (*give_up)(struct store_work *work);
	void (*forget)(struct store_work *work); /* NULL: there is nothing to free */
};

enum store_extent_state {
	EXTENT_IS_PROVISIONAL,
	EXTENT_IS_CONFIRMED,
	EXTENT_IS_LEAVING, /* its keys have ended; connections are being closed, or it is removed */
	EXTENT_IS_STUCK,   /* it could not be removed: the next release tries again */
};

/* An extent of a store. On the thread's lists alone; namespace, number and state change under the
 * store's lock. */
struct store_extent {
	struct cds_list_head node; /* in the store's list */
	struct store *store;
	struct fabric_pager pager; /* of its bytes */
	struct page_share *share;  /* NULL: nothing of it is kept */
	uint64_t number;
	uint64_t namespace;
	uint64_t length; /* bytes */
	uint32_t range;
	uint64_t life; /* in the store's cache: another extent had its range's number before */
	enum store_extent_state state;
	bool is_confirmed;     /* on the device */
	bool is_moving;	       /* it is being confirmed */
	bool is_to_be_removed; /* as soon as it has moved */
	bool was_reached;      /* a message was about it: its release waits for connections */
	struct store_work work;
	struct space_request request;
	struct cache_change change;	 /* around its removal */
	bool is_being_made;		 /* it is in no list till then, … */
	struct reservation *reservation; /* … but for this one's */
	struct cds_list_head releases;	 /* struct release_wait: they wait until it is removed */
	struct {
		struct domain *domain; /* NULL: there is no key for this reach yet */
		struct fabric_memory on[DOMAIN_FABRICS_MAX];
	} keys[2];
};

#define STORE_LANES_MAX 3U

struct store {
	struct store_options options;
	char path[4096];
	char address[FABRIC_ADDRESS_MAX];
	uint8_t uuid[STORE_UUID_BYTES];
	uint64_t number;

	struct fabric *fabrics[STORE_LANES_MAX]; /* tcp, and those beside it */
	unsigned nr_fabrics;
	char driven_address[FABRIC_ADDRESS_MAX];
	struct domains *domains;
	struct progress *progress;
	struct progress_engine engine;

	/* The thread's. */
	struct flash_device *device;
	struct ftl *ftl;
	struct space *space;
	struct pages pages;
	uint64_t whole_since; /* the first opening since which all ends were clean */
	struct scrub *scrub;  /* NULL: it does not scrub */
	uint64_t scrub_due;   /* on clock_ns() */
	bool is_closed;
	bool is_gone; /* the device is beyond use */
	unsigned nr_trims;
	uint64_t nr_lives;		/* of extents that it has had */
	struct cds_list_head under_way; /* struct store_work */
	struct cds_list_head given_up;	/* those that the layer did not end */
	struct {			/* write_record()'s */
		struct ftl_record_change change;
		struct ftl_trim trim;
		struct ftl_sync sync;
	} record;
	struct cds_list_head listings; /* calls that wait for trims and reservations */
	struct cds_list_head reservations;
	struct { /* the record of the manager's term */
		struct store_work work;
		struct ftl_record_change change;
		struct ftl_trim trim;
		struct ftl_sync sync;
		bool is_being_written, is_due;
	} term;
	struct cds_list_head asking; /* struct store_keys that wait for extents to be confirmed */
	uint64_t counted_at;	     /* on clock_ns(): when the numbers were */
	struct log_limit errors;     /* of the device */
	struct latency latencies[STORE_REQUESTS]; /* others read them, too */
	bool has_ended;				  /* the last poll told of something */
	bool is_count_due;			  /* something has ended since */

	pthread_mutex_t lock; /* guards what follows, which the thread alone changes */
	struct cds_list_head extents;
	size_t nr_extents;
	struct store_stat stat;
};

/* ---- store_work.c */

/* Takes the layer's numbers for store_stat(). On the thread. While the layer works, its polls do so
 * now and then; call it after a change that nothing may follow for long. */
void store_count(struct store *store);
/* The device is beyond use. The next poll gives up what is under way. */
void store_fail(struct store *store, int code);
/* Returns what others hear of a result of the layer. A device's own error is -EIO to them, with a line in the log: its code would be
 * taken for the transport's or the cluster's, as -ETIMEDOUT, -ENOTCONN, -EAGAIN and -ENOSPC are. On the thread. */
int store_answer(struct store *store, int result, bool is_change);
/* Around a request to the layer. Not once the device is beyond use. */
void store_work_begin(struct store *store, struct store_work *work);
/* Also from `give_up`, and then it does nothing. */
void store_work_end(struct store *store, struct store_work *work);
/* The device is beyond use. True: something was under way. */
bool store_give_up_work(struct store *store);
/* The layer has gone: frees what it was given. */
void store_forget_work(struct store *store);

/* Runs a call on the store's thread, and waits for it. */
struct store_call {
	struct cds_list_head node;
	struct store *store;
	void (*run)(struct store_call *call);
	int ret;
	char sentence[512];
	struct store_waiter *waiter;
};
int store_wait(struct store *store, struct store_call *call);
/* Ends a call with `ret` and, if that is an error, the thread's last sentence. */
void store_call_end(struct store_call *call, int ret);

/* ---- store_device.c, with sentences */

/* Opens the device. A file that is to be made and is not there is made. -EBUSY, -EACCES, -ENOENT, … */
int store_open_device(struct store *store);
/* Opens the layer in it. */
int store_open_layer(struct store *store);

/* ---- store_records.c, on the thread */

/* Begins the next opening, on the device. A join that no manager is known to have accepted is
 * proposed again, because one may have. */
int store_begin_opening(struct store *store);
/* Makes everything durable, and writes that this was a clean end. */
int store_end_opening(struct store *store);

/* ---- store_scrub.c, on the thread */

/* Starts to scrub, if it shall. -ENOMEM. */
int store_scrub_open(struct store *store);
/* Reads what is due. */
void store_scrub_go_on(struct store *store);
/* Stops, keeps the position, and waits for that; or, if the layer was abandoned, just ends. */
void store_scrub_close(struct store *store);

/* ---- store_zero.c, on the thread */

/* Carries out MESSAGE_ZERO, for a connection with this reach. False: the reply comes later. Its
 * status: those of zero_check(), -AFAR_ELOST (no such extent for it), -ERANGE, the layer's. */
bool store_zero(struct store *store, struct reach reach, const struct message_request *request,
		struct message_reply *reply, const struct progress_message *message);

/* ---- store_table.c, on the thread */

/* Finds an extent. NULL: it is not there, or is another namespace's. */
struct store_extent *store_extent_named(const struct store *store, uint64_t number,
					uint64_t namespace);
/* Finds the confirmed extent that a message is about. -AFAR_ELOST: there is none for this reach. -ERANGE: the message's bytes are not in it. */
int store_extent_reached(struct store *store, struct reach reach,
			 const struct message_request *request, struct store_extent **out);
/* True: it is being removed, or could not be. */
static inline bool store_extent_is_leaving(const struct store_extent *extent)
{
	return extent->state == EXTENT_IS_LEAVING || extent->state == EXTENT_IS_STUCK;
}
/* Names its blocks to the store's cache. */
static inline uint64_t store_extent_cached(const struct store_extent *extent)
{
	return cache_range(extent->range, extent->life);
}
/* Finds the extent that has a block of the layer. NULL: none has. */
const struct store_extent *store_extent_at(const struct store *store, uint64_t lba);
/* Finds the extents of the space. -ENOMEM; -EBADMSG, with a sentence. */
int store_find_extents(struct store *store);
/* Makes an extent that is in no table yet. NULL: there is no memory. */
struct store_extent *store_extent_new(struct store *store, uint64_t namespace, uint64_t number,
				      uint64_t length);
void store_extent_free(struct store_extent *extent);
void store_extent_enter(struct store_extent *extent);
void store_extent_leave(struct store_extent *extent);
void store_extent_set_state(struct store_extent *extent, enum store_extent_state state);
void store_extent_end_keys(struct store_extent *extent);
/* Returns what the layer notes of an extent's owner. */
struct space_owner store_extent_owner(uint64_t namespace, uint64_t number);
/* Begins the extent's request by a function of the space. */
int store_extent_change(struct store_extent *extent,
			int (*begin)(struct space *space, struct space_request *request));

/* ---- store_extents.c, on the thread */

/* Lists the extents for those that wait, if nothing is left to wait for. */
void store_listings_go_on(struct store *store);
/* Returns when a reservation that is under way is to be answered, on clock_ns(); and answers those that are due. */
uint64_t store_reservations_due(const struct store *store);
void store_reservations_answer(struct store *store);

/* Frees what is known of extents, and ends their keys. */
void store_drop_extents(struct store *store);

#endif
