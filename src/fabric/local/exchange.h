/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paged memory between processes of one machine (fabric/paged.h): its format, and the functions of
 * exchange.c. Those of ask.c are for the end that asks, those of serve.c for the end that has the
 * pager.
 *
 * Memory behind a key is lent as it is, unless a pager has it. A peer that asks for such a key is
 * told so (LOCAL_PAGED). The connection then gets an exchange, which is memory of a fixed, sealed
 * length that both ends map. It has two rings and a bounce space. The asking end puts a request into one ring,
 * and the bytes of a write into pages of the space that it has chosen itself. The serving end copies
 * bytes between these pages and the pager's memory, and puts the answer into the other ring. So a
 * transfer has one copy at each end. The server never works on shared memory itself: its sums, its
 * device and its cache see bytes that nobody can change any more.
 *
 * The doorbell is the link's: an end that sleeps has said so there, and is sent LOCAL_WAKE (ring.c).
 * Keys are looked up in the connection's domain for each request, so that rights, fences and the
 * ends of keys hold as on any transport. A connection that is closed takes its transfers away from
 * the pager, which keeps their memory until its device is done.
 *
 * The peer can change all of the exchange at any moment. Each end counts for itself, copies an
 * entry before it checks it, masks indices, and ends the connection if anything is wrong.
 */
#ifndef FABRIC_LOCAL_EXCHANGE_H
#define FABRIC_LOCAL_EXCHANGE_H

#include "base/checksum.h"
#include "fabric/local/local.h"
#include "fabric/paged.h"

#define LOCAL_PAGE	     4096U
#define LOCAL_EXCHANGE_PAGES 1024U
#define LOCAL_EXCHANGE_BYTES (LOCAL_EXCHANGE_PAGES * LOCAL_PAGE)

struct local_page_ask {
	uint64_t key, offset;
	uint32_t length;
	uint32_t page;	 /* of the bounce space, the first of as many as local_ask_bytes() need */
	uint32_t number; /* comes back with the answer */
	uint32_t flags;	 /* FABRIC_PAGED_… */
};

struct local_page_answer {
	uint32_t number;
	int32_t status; /* 0, or a negative code: the transfer has failed alone */
};
_Static_assert(sizeof(struct local_page_ask) % sizeof(uint64_t) == 0 &&
		       sizeof(struct local_page_answer) == sizeof(uint64_t),
	       "entries are copied word by word");

/* Beside the answer to a read of one page (references.h). */
struct local_page_reference {
	uint64_t generation; /* 0: there is none */
	uint32_t place;
	uint32_t reserved;
};
#define LOCAL_USED_MAX 64U

/* Each counter has one writer, and only grows. An entry is written before its counter. References
 * take room that earlier versions left empty. */
struct local_exchange {
	_Alignas(64) atomic_uint asked;	   /* by the asking end  */
	_Alignas(64) atomic_uint answered; /* by the serving end */
	_Alignas(64) struct local_page_ask asks[LOCAL_DEPTH_MAX];
	struct local_page_answer answers[LOCAL_DEPTH_MAX];
	struct local_page_reference references[LOCAL_DEPTH_MAX]; /* of the answers */
	_Alignas(64) atomic_uint
		nr_used; /* by the asking end: reads by reference, and the last of them */
	_Atomic uint64_t
		used[LOCAL_USED_MAX]; /* place << 32, and the lower bits of the generation */
	_Alignas(4096) uint8_t bytes[LOCAL_EXCHANGE_BYTES];
};
_Static_assert(sizeof(struct local_exchange) == 2U * 4096 + LOCAL_EXCHANGE_BYTES,
	       "its length is always the same");

/* Returns the bytes of a transfer up to where its sums begin. */
static inline uint64_t local_ask_sums_at(uint64_t length)
{
	return (length + LOCAL_PAGE - 1) / LOCAL_PAGE * LOCAL_PAGE;
}

static inline uint64_t local_ask_sums_bytes(uint64_t length)
{
	return (length + CHECKSUM_BLOCK - 1) / CHECKSUM_BLOCK * sizeof(uint32_t);
}

/* Returns what a transfer takes of the bounce space. */
static inline uint64_t local_ask_bytes(uint64_t length, uint32_t flags)
{
	return (flags & FABRIC_PAGED_CHECKED) == 0
		       ? length
		       : local_ask_sums_at(length) + local_ask_sums_bytes(length);
}

/* ---- exchange.c */

/* Makes an exchange of a length that nobody can change. Returns its descriptor, or -errno. */
int local_exchange_make(void);
/* Maps an exchange. NULL: it is none, or somebody could make it shorter. */
struct local_exchange *local_exchange_map(int fd);
void local_exchange_unmap(struct local_exchange *exchange);
/* Copies an entry of so many words, each of which is read once. */
void local_exchange_copy(void *to, const void *from, size_t nr_words);
/* Returns whether a transfer may end with this status: codes of errno and of Afar alone. */
bool local_status_is_good(int status);

/* ---- Calls */

/* Those who carry a connection know paged memory by this alone. queue.c has it. */
struct local_paged_calls {
	/* ask.c */
	bool (*take_paged)(struct local_endpoint *endpoint, const struct local_message *message,
			   int fd);
	bool (*has_room)(const struct local_endpoint *endpoint,
			 const struct local_transfer *transfer);
	bool (*begin)(struct local_endpoint *endpoint, const struct local_transfer *transfer);
	bool (*find)(struct local_endpoint *endpoint, const struct local_transfer *transfer);
	/* serve.c */
	bool (*hand_over)(struct local_endpoint *endpoint, const struct local_message *message);
	/* Both. */
	bool (*has_news)(const struct local_endpoint *endpoint);
	void (*close)(struct local_endpoint *endpoint);
};

/* ---- ask.c */

/* The peer has told that a pager has the memory behind a key; `fd` comes with the first. It stays
 * the caller's. False: the message is wrong. */
bool local_ask_take_paged(struct local_endpoint *endpoint, const struct local_message *message,
			  int fd);
/* Finds room for a transfer. False: there is none until others have ended. */
bool local_ask_has_room(const struct local_endpoint *endpoint,
			const struct local_transfer *transfer);
/* Asks for a transfer for which there is room. False: it is none for paged memory. */
bool local_ask_begin(struct local_endpoint *endpoint, const struct local_transfer *transfer);
/* Reads by reference. False: ask for it. */
bool local_ask_find(struct local_endpoint *endpoint, const struct local_transfer *transfer);
/* Takes answers. True: there were some. */
bool local_ask_progress(struct local_endpoint *endpoint);
bool local_ask_has_news(const struct local_endpoint *endpoint);
/* All that was asked ends with -ECONNRESET. */
void local_ask_close(struct local_endpoint *endpoint);

int local_paged_transfer(struct fabric_endpoint *endpoint, unsigned flags,
			 const struct fabric_piece *pieces, unsigned nr_pieces, uint64_t remote,
			 uint64_t key, uint64_t context);

/* ---- serve.c */

/* Tells the endpoint's peer that a pager has the memory behind a key. With the domain's lock held.
 * False: it cannot be told. */
bool local_serve_hand_over(struct local_endpoint *endpoint, const struct local_message *message);
/* Takes requests. True: there were some. */
bool local_serve_progress(struct local_endpoint *endpoint);
bool local_serve_has_news(const struct local_endpoint *endpoint);
/* Copies bytes of all the queue's transfers, up to a limit of each, and takes requests that have waited
 * for memory. True: there were some. */
bool local_serve_poll(struct local_queue *queue);
void local_serve_close(struct local_endpoint *endpoint);

#endif
