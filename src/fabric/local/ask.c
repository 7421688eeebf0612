/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The asking end of an exchange: transfers to a peer's paged memory. Called by endpoint.c, hear.c,
 * ring.c and queue.c. An endpoint owns its part here, from the first paged key on.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/copy.h"
#include "fabric/local/exchange.h"
#include "fabric/local/references.h"
#include "fabric/sums.h"

#define WORD_PAGES 64U

/* A transfer that was asked for. */
struct local_asked {
	struct fabric_piece pieces[FABRIC_IOV_MAX];
	uint64_t context, key, page; /* page: of what is behind the key, the first */
	uint32_t length, flags;
	uint32_t place, nr_pages;
	uint32_t nr_pieces;
	bool is_under_way;
};

struct local_asking {
	struct local_exchange *exchange;
	uint32_t nr_asked, nr_answered;
	uint32_t nr_free; /* of `free`: numbers of places in `asked` */
	uint8_t free[LOCAL_DEPTH_MAX];
	uint64_t taken[LOCAL_EXCHANGE_PAGES / WORD_PAGES]; /* bits: pages in use */
	struct local_asked asked[LOCAL_DEPTH_MAX];
};
_Static_assert(LOCAL_DEPTH_MAX <= UINT8_MAX + 1U, "a byte is a number");

/* ---- Opening and closing */

static struct local_asking *asking_new(int fd)
{
	struct local_asking *asking = calloc(1, sizeof(*asking));

	if (!asking)
		return NULL;
	asking->exchange = local_exchange_map(fd);
	if (!asking->exchange) {
		free(asking);
		return NULL;
	}
	asking->nr_free = LOCAL_DEPTH_MAX;
	for (unsigned i = 0; i < LOCAL_DEPTH_MAX; i++)
		asking->free[i] = (uint8_t)(LOCAL_DEPTH_MAX - 1 - i);
	return asking;
}

bool local_ask_take_paged(struct local_endpoint *endpoint, const struct local_message *message,
			  int fd)
{
	if (!endpoint->asking) {
		endpoint->asking = asking_new(fd);
		if (!endpoint->asking)
			return false;
		/* Without it all is asked for. */
		endpoint->references = local_references_open(endpoint->asking->exchange);
	}
	return local_mapping_add_paged(endpoint, message);
}

void local_ask_close(struct local_endpoint *endpoint)
{
	struct local_asking *asking = endpoint->asking;

	if (!asking)
		return;
	endpoint->asking = NULL;
	for (unsigned i = 0; i < LOCAL_DEPTH_MAX; i++) {
		if (asking->asked[i].is_under_way)
			local_endpoint_finish(endpoint, asking->asked[i].context, -ECONNRESET,
					      false);
	}
	local_exchange_unmap(asking->exchange);
	free(asking);
}

/* ---- Pages */

static bool is_taken(const struct local_asking *asking, uint32_t page)
{
	return asking->taken[page / WORD_PAGES] >> page % WORD_PAGES & 1;
}

/* The lowest that are free, so that those above may never be touched. */
static bool find_pages(const struct local_asking *asking, uint32_t nr, uint32_t *out)
{
	uint32_t nr_found = 0;

	for (uint32_t page = 0; page < LOCAL_EXCHANGE_PAGES; page++) {
		if (page % WORD_PAGES == 0 && asking->taken[page / WORD_PAGES] == UINT64_MAX) {
			nr_found = 0;
			page += WORD_PAGES - 1;
			continue;
		}
		nr_found = is_taken(asking, page) ? 0 : nr_found + 1;
		if (nr_found == nr) {
			*out = page + 1 - nr;
			return true;
		}
	}
	return false;
}

static void mark_pages(struct local_asking *asking, uint32_t page, uint32_t nr)
{
	for (uint32_t end = page + nr; page < end; page++)
		asking->taken[page / WORD_PAGES] ^= UINT64_C(1) << page % WORD_PAGES;
}

/* ---- Asking */

static uint64_t length_of(const struct local_transfer *transfer)
{
	uint64_t length = 0;

	for (unsigned i = 0; i < transfer->nr_pieces; i++)
		length += transfer->pieces[i].length;
	return length;
}

static uint32_t flags_of(const struct local_transfer *transfer)
{
	return (transfer->opcode == LOCAL_WRITE ? FABRIC_PAGED_WRITE : 0) | transfer->paged;
}

static uint32_t pages_of(const struct local_transfer *transfer)
{
	const uint64_t bytes = local_ask_bytes(length_of(transfer), flags_of(transfer));

	return (uint32_t)((bytes + LOCAL_PAGE - 1) / LOCAL_PAGE);
}

static bool is_possible(const struct local_transfer *transfer)
{
	return (transfer->opcode == LOCAL_READ || transfer->opcode == LOCAL_WRITE) &&
	       length_of(transfer) <= FABRIC_PAGED_MAX;
}

bool local_ask_has_room(const struct local_endpoint *endpoint,
			const struct local_transfer *transfer)
{
	const uint32_t nr_pages = is_possible(transfer) ? pages_of(transfer) : 0;
	uint32_t page;

	return nr_pages == 0 || find_pages(endpoint->asking, nr_pages, &page);
}

static void make_sums(const struct fabric_piece *pieces, unsigned nr_pieces, uint64_t length,
		      uint32_t *sums)
{
	struct iovec iov[FABRIC_IOV_MAX];

	for (unsigned i = 0; i < nr_pieces; i++)
		iov[i] = (struct iovec){pieces[i].addr, pieces[i].length};
	fabric_sums_make(iov, length, sums);
}

static void put_bytes(const struct local_asked *asked, uint8_t *to)
{
	uint32_t sums[FABRIC_PAGED_MAX / CHECKSUM_BLOCK];
	uint8_t *at = to;

	for (unsigned i = 0; i < asked->nr_pieces; i++) {
		if (asked->pieces[i].length > 0)
			copy_memory(at, asked->pieces[i].addr, asked->pieces[i].length);
		at += asked->pieces[i].length;
	}
	if ((asked->flags & FABRIC_PAGED_CHECKED) == 0)
		return;
	make_sums(asked->pieces, asked->nr_pieces, asked->length, sums);
	memcpy(to + local_ask_sums_at(asked->length), sums, local_ask_sums_bytes(asked->length));
}

static uint8_t *bytes_of(const struct local_asking *asking, const struct local_asked *asked)
{
	return asking->exchange->bytes + (size_t)asked->place * LOCAL_PAGE;
}

/* Puts the request into the ring. There is a place: as many as the ring has are under way at
 * most. */
static void push(struct local_endpoint *endpoint, const struct local_transfer *transfer,
		 uint32_t number)
{
	struct local_asking *asking = endpoint->asking;
	const struct local_asked *asked = &asking->asked[number];

	asking->exchange->asks[asking->nr_asked++ % LOCAL_DEPTH_MAX] = (struct local_page_ask){
		.key = transfer->key,
		.offset = transfer->remote,
		.length = asked->length,
		.page = asked->place,
		.number = number,
		.flags = asked->flags,
	};
	atomic_store_explicit(&asking->exchange->asked, asking->nr_asked, memory_order_release);
	local_queue_warm(local_queue_of(endpoint), endpoint);
	local_talk_wake(endpoint, &endpoint->theirs->is_asleep);
}

bool local_ask_begin(struct local_endpoint *endpoint, const struct local_transfer *transfer)
{
	struct local_asking *asking = endpoint->asking;
	struct local_asked *asked;
	uint32_t number, page = 0;

	if (!is_possible(transfer) || asking->nr_free == 0)
		return false;
	if (pages_of(transfer) > 0 && !find_pages(asking, pages_of(transfer), &page))
		return false;
	number = asking->free[--asking->nr_free];
	asked = &asking->asked[number];
	*asked = (struct local_asked){
		.context = transfer->context,
		.length = (uint32_t)length_of(transfer),
		.flags = flags_of(transfer),
		.key = transfer->key,
		.page = transfer->remote / FABRIC_PAGE,
		.place = page,
		.nr_pages = pages_of(transfer),
		.nr_pieces = transfer->nr_pieces,
		.is_under_way = true,
	};
	memcpy(asked->pieces, transfer->pieces, sizeof(asked->pieces));
	mark_pages(asking, asked->place, asked->nr_pages);
	if ((asked->flags & FABRIC_PAGED_WRITE) != 0)
		put_bytes(asked, bytes_of(asking, asked));
	push(endpoint, transfer, number);
	return true;
}

bool local_ask_find(struct local_endpoint *endpoint, const struct local_transfer *transfer)
{
	uint64_t at = transfer->remote;

	if (!endpoint->references || transfer->opcode != LOCAL_READ || transfer->paged != 0)
		return false;
	for (unsigned i = 0; i < transfer->nr_pieces; i++) {
		const struct fabric_piece *piece = &transfer->pieces[i];

		if (!local_references_read(endpoint->references, transfer->key, at, piece->addr,
					   piece->length))
			return false;
		at += piece->length;
	}
	return true;
}

int local_paged_transfer(struct fabric_endpoint *endpoint, unsigned flags,
			 const struct fabric_piece *pieces, unsigned nr_pieces, uint64_t remote,
			 uint64_t key, uint64_t context)
{
	struct local_transfer new = {.opcode =
					     flags & FABRIC_PAGED_WRITE ? LOCAL_WRITE : LOCAL_READ,
				     .remote = remote,
				     .key = key,
				     .context = context,
				     .paged = flags & ~(unsigned)FABRIC_PAGED_WRITE};

	return local_transfer_post(endpoint, &new, pieces, nr_pieces);
}

/* ---- Answers */

/* Takes the bytes of a read. False: they are not those whose sums have come. */
static bool take_bytes(const struct local_asked *asked, const uint8_t *from)
{
	uint32_t sums[FABRIC_PAGED_MAX / CHECKSUM_BLOCK], theirs[FABRIC_PAGED_MAX / CHECKSUM_BLOCK];
	const uint8_t *at = from;

	for (unsigned i = 0; i < asked->nr_pieces; i++) {
		if (asked->pieces[i].length > 0)
			copy_memory(asked->pieces[i].addr, at, asked->pieces[i].length);
		at += asked->pieces[i].length;
	}
	if ((asked->flags & FABRIC_PAGED_CHECKED) == 0)
		return true;
	memcpy(theirs, from + local_ask_sums_at(asked->length),
	       local_ask_sums_bytes(asked->length));
	make_sums(asked->pieces, asked->nr_pieces, asked->length, sums);
	return memcmp(sums, theirs, local_ask_sums_bytes(asked->length)) == 0;
}

static void finish(struct local_endpoint *endpoint, uint32_t number, int status)
{
	struct local_asking *asking = endpoint->asking;
	struct local_asked *asked = &asking->asked[number];
	struct fabric_completion completion = {.context = asked->context, .status = status};

	if (status == 0 && (asked->flags & FABRIC_PAGED_WRITE) == 0 &&
	    !take_bytes(asked, bytes_of(asking, asked))) {
		completion.status = -EBADMSG;
		completion.is_altered = true;
	}
	completion.is_alone = completion.status != 0;
	asked->is_under_way = false;
	mark_pages(asking, asked->place, asked->nr_pages);
	asking->free[asking->nr_free++] = (uint8_t)number;
	local_endpoint_finish_with(endpoint, &completion);
}

/* False: the peer says what cannot be. */
static bool take_reference(const struct local_endpoint *endpoint, const struct local_asked *asked)
{
	const struct local_asking *asking = endpoint->asking;
	struct local_page_reference reference;

	if (!endpoint->references || (asked->flags & FABRIC_PAGED_WRITE) != 0)
		return true;
	local_exchange_copy(&reference,
			    &asking->exchange->references[asking->nr_answered % LOCAL_DEPTH_MAX],
			    sizeof(reference) / sizeof(uint64_t));
	return local_references_note(endpoint->references, asked->key, asked->page, &reference);
}

/* False: the peer has answered what nobody asked. */
static bool take_answer(struct local_endpoint *endpoint)
{
	struct local_asking *asking = endpoint->asking;
	struct local_page_answer answer;

	local_exchange_copy(&answer,
			    &asking->exchange->answers[asking->nr_answered % LOCAL_DEPTH_MAX],
			    sizeof(answer) / sizeof(uint64_t));
	if (answer.number >= LOCAL_DEPTH_MAX || !asking->asked[answer.number].is_under_way ||
	    !local_status_is_good(answer.status) ||
	    !take_reference(endpoint, &asking->asked[answer.number]))
		return false;
	asking->nr_answered++;
	finish(endpoint, answer.number, answer.status);
	return true;
}

static uint32_t nr_news(const struct local_asking *asking)
{
	return atomic_load_explicit(&asking->exchange->answered, memory_order_acquire) -
	       asking->nr_answered;
}

bool local_ask_has_news(const struct local_endpoint *endpoint)
{
	return endpoint->asking && nr_news(endpoint->asking) != 0;
}

bool local_ask_progress(struct local_endpoint *endpoint)
{
	struct local_asking *asking = endpoint->asking;
	uint32_t nr = asking ? nr_news(asking) : 0;
	bool is_good = !asking || nr <= LOCAL_DEPTH_MAX - asking->nr_free;

	if (nr == 0)
		return false;
	for (; nr > 0 && is_good; nr--)
		is_good = take_answer(endpoint);
	if (!is_good)
		local_endpoint_break(endpoint);
	else if (endpoint->nr_waiting > 0)
		local_endpoint_resume(endpoint);
	return true;
}
