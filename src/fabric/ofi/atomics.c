/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics, by NICs. Some NICs bring the word back in the other byte order and do not say so, and
 * libfabric has had them wrong for long. So they are tried once, on a word of our own over a
 * connection to ourselves, before anybody relies on them. Called through the fabric seam, the trial
 * from any thread.
 */
#include <errno.h>
#include <rdma/fi_atomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/error.h"
#include "fabric/ofi/ofi.h"

#define PATIENCE_MS    3000
#define PASSPAGE_BYTES 16U
#define PAGE_BYTES     4096U /* a page, of which two words count */

/* The value of an operand in place of the pointer to it, where libfabric's verbs mistakes the one for the
 * other: before 2.2. */
static const void *operand_of(const uint64_t *value)
{
	return FI_VERSION_LT(fi_version(), FI_VERSION(2, 2)) ? (const void *)(uintptr_t)*value
							     : value;
}

/* The operands are taken before these return. */
static int fetch_add(struct ofi_endpoint *endpoint, const struct fabric_piece *result,
		     uint64_t remote, uint64_t key, uint64_t operand, uint64_t context)
{
	return ofi_posted(endpoint,
			  fi_fetch_atomic(endpoint->ep, operand_of(&operand), 1, NULL, result->addr,
					  result->descriptor, 0, remote, key, FI_UINT64, FI_SUM,
					  (void *)(uintptr_t)context));
}

static int compare_swap(struct ofi_endpoint *endpoint, const struct fabric_piece *result,
			uint64_t remote, uint64_t key, uint64_t compare, uint64_t operand,
			uint64_t context)
{
	return ofi_posted(endpoint, fi_compare_atomic(endpoint->ep, operand_of(&operand), 1, NULL,
						      operand_of(&compare), NULL, result->addr,
						      result->descriptor, 0, remote, key, FI_UINT64,
						      FI_CSWAP, (void *)(uintptr_t)context));
}

/* ---- Trying them */

/* Both ends of a connection of this thread. */
struct trial {
	struct fabric *fabric;
	uint64_t deadline;
	uint8_t password[PASSPAGE_BYTES]; /* strangers may come to the listener, too */
	struct fabric_listener *listener;
	struct fabric_queue *queues[2];
	struct fabric_endpoint *endpoints[2]; /* connecting, accepting */
	bool is_up[2];
	bool is_broken;
	uint64_t *words; /* the one it is done on, and the one for what that was */
	struct fabric_memory memory;
};

static void take_request(struct trial *trial)
{
	struct fabric_request request;

	if (ofi_listener_next(trial->listener, &request) != 0)
		return;
	if (trial->endpoints[1] || request.private_length < PASSPAGE_BYTES ||
	    memcmp(request.private_data, trial->password, PASSPAGE_BYTES) != 0 ||
	    ofi_accept(&request, trial->queues[1], trial->fabric->domain, NULL,
		       &trial->endpoints[1]) != 0)
		ofi_reject(trial->listener, &request);
}

/* Lets both ends go on a bit; true with a completion. */
static bool step(struct trial *trial, struct fabric_completion *completion)
{
	struct fabric_completion ignored;
	struct fabric_event event;

	take_request(trial);
	for (unsigned i = 0; i < 2; i++) {
		if (ofi_queue_event(trial->queues[i], &event) != 1)
			continue;
		trial->is_up[i] = event.kind == FABRIC_CONNECTED;
		trial->is_broken = trial->is_broken || event.kind == FABRIC_CLOSED;
	}
	ofi_queue_poll(trial->queues[1], &ignored, 1);
	return ofi_queue_poll(trial->queues[0], completion, 1) == 1;
}

static bool has_time(const struct trial *trial)
{
	return !trial->is_broken && clock_ns() < trial->deadline;
}

static bool connect_self(struct trial *trial)
{
	struct fabric_completion completion;

	if (ofi_connect(trial->queues[0], trial->listener->address, trial->password, PASSPAGE_BYTES,
			NULL, &trial->endpoints[0]) != 0)
		return false;
	while (!(trial->is_up[0] && trial->is_up[1])) {
		if (!has_time(trial))
			return false;
		step(trial, &completion);
	}
	return true;
}

static bool await(struct trial *trial)
{
	struct fabric_completion completion = {0};

	while (!step(trial, &completion)) {
		if (!has_time(trial))
			return false;
	}
	return completion.status == 0;
}

/* True: they do what they should, in one of two byte orders. */
static bool try_them(struct trial *trial)
{
	struct ofi_endpoint *endpoint = ofi_container(trial->endpoints[0], struct ofi_endpoint);
	const struct fabric_piece result = {&trial->words[1], sizeof(uint64_t),
					    trial->memory.descriptor};
	const uint64_t first = UINT64_C(0x0102030405060708), second = first + 0x1111,
		       third = UINT64_C(0xfedcba9876543210);
	bool is_swapped;

	trial->words[0] = first;
	if (fetch_add(endpoint, &result, trial->memory.base, trial->memory.key, second - first,
		      1) != 0 ||
	    !await(trial) || trial->words[0] != second)
		return false;
	is_swapped = trial->words[1] == __builtin_bswap64(first);
	if (!is_swapped && trial->words[1] != first)
		return false;
	if (compare_swap(endpoint, &result, trial->memory.base, trial->memory.key, second, third,
			 2) != 0 ||
	    !await(trial) || trial->words[0] != third)
		return false;
	trial->fabric->attributes.has_swapped_results = is_swapped;
	return trial->words[1] == (is_swapped ? __builtin_bswap64(second) : second);
}

/* Any port of the device. */
static bool find_address(const struct ofi_fabric *fabric, char address[static FABRIC_ADDRESS_MAX])
{
	char *port;

	if (!fabric->info->src_addr)
		return false;
	fabric_address_print(fabric->info->src_addr, address);
	port = strrchr(address, ':');
	if (!port)
		return false;
	strcpy(port, ":0"); /* no port is shorter */
	return true;
}

static bool open_ends(struct trial *trial)
{
	char address[FABRIC_ADDRESS_MAX];

	trial->words = aligned_alloc(PAGE_BYTES, PAGE_BYTES);
	return trial->words &&
	       find_address(ofi_container(trial->fabric, struct ofi_fabric), address) &&
	       getrandom(trial->password, PASSPAGE_BYTES, 0) == PASSPAGE_BYTES &&
	       ofi_listen(trial->fabric, address, &trial->listener) == 0 &&
	       ofi_queue_open(trial->fabric, 1, &trial->queues[0]) == 0 &&
	       ofi_queue_open(trial->fabric, 1, &trial->queues[1]) == 0 &&
	       ofi_memory_register(trial->fabric->domain, trial->words, PAGE_BYTES,
				   FABRIC_LOCAL | FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE,
				   &trial->memory) == 0;
}

static void close_ends(struct trial *trial)
{
	for (unsigned i = 0; i < 2; i++) {
		if (trial->endpoints[i])
			ofi_endpoint_close(trial->endpoints[i]);
	}
	if (trial->memory.domain)
		ofi_memory_deregister(&trial->memory);
	for (unsigned i = 0; i < 2; i++) {
		if (trial->queues[i])
			ofi_queue_close(trial->queues[i]);
	}
	if (trial->listener)
		ofi_listener_close(trial->listener);
	free(trial->words);
}

bool ofi_has_atomics(struct fabric *base)
{
	struct ofi_fabric *fabric = ofi_container(base, struct ofi_fabric);
	struct trial trial = {.fabric = base};
	bool do_work;

	pthread_mutex_lock(&fabric->atomics_lock);
	if (fabric->atomics == OFI_ATOMICS_UNTRIED) {
		trial.deadline = clock_deadline_ms(PATIENCE_MS);
		do_work = open_ends(&trial) && connect_self(&trial) && try_them(&trial);
		close_ends(&trial);
		__atomic_store_n(&fabric->atomics, do_work ? OFI_ATOMICS_WORK : OFI_ATOMICS_NONE,
				 __ATOMIC_RELEASE);
	}
	do_work = fabric->atomics == OFI_ATOMICS_WORK;
	pthread_mutex_unlock(&fabric->atomics_lock);
	return do_work;
}

/* ---- Through the seam */

static int check(struct ofi_endpoint *endpoint, const struct fabric_piece *result, uint64_t remote,
		 uint64_t context)
{
	const struct ofi_fabric *fabric =
		ofi_container(endpoint->base.queue->fabric, struct ofi_fabric);

	if (endpoint->state != OFI_CONNECTED)
		return -ENOTCONN;
	if (__atomic_load_n(&fabric->atomics, __ATOMIC_ACQUIRE) != OFI_ATOMICS_WORK)
		return -EOPNOTSUPP;
	if (result->length != sizeof(uint64_t) || remote % sizeof(uint64_t) != 0 ||
	    context > FABRIC_CONTEXT_MAX ||
	    (fabric->base.attributes.needs_local_registration && !result->descriptor))
		return -EINVAL;
	return 0;
}

int ofi_fetch_add(struct fabric_endpoint *base, const struct fabric_piece *result, uint64_t remote,
		  uint64_t key, uint64_t operand, uint64_t context)
{
	struct ofi_endpoint *endpoint = ofi_container(base, struct ofi_endpoint);
	int ret = check(endpoint, result, remote, context);

	return ret != 0 ? ret : fetch_add(endpoint, result, remote, key, operand, context);
}

int ofi_compare_swap(struct fabric_endpoint *base, const struct fabric_piece *result,
		     uint64_t remote, uint64_t key, uint64_t compare, uint64_t operand,
		     uint64_t context)
{
	struct ofi_endpoint *endpoint = ofi_container(base, struct ofi_endpoint);
	int ret = check(endpoint, result, remote, context);

	return ret != 0 ? ret
			: compare_swap(endpoint, result, remote, key, compare, operand, context);
}
