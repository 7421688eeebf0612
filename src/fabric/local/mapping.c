/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory that a connection's peer has lent. It is mapped when it comes, found again for each
 * transfer, and copied from and to. It is mapped once more where somebody wants it. Called by the
 * endpoint's thread; an endpoint owns its mappings, and a mapping its pieces, but not the address
 * space that they are in. Other threads may have windows on mappings, all with one gate, which is
 * shut before any of the memory is unmapped.
 */
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/copy.h"
#include "base/epoch.h"
#include "fabric/local/references.h"

#define HUGE_PAGE ((size_t)2 << 20) /* as segments ask for them (memory/segment.c) */

static int compare_keys(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

struct local_mapping *local_mapping_find(struct local_endpoint *endpoint, uint64_t key)
{
	struct local_mapping **known = &endpoint->known[key % LOCAL_KNOWN];
	struct local_mapping *const *found;

	if (*known && (*known)->key == key)
		return *known;
	found = tfind(&key, &endpoint->mappings, compare_keys);
	if (!found)
		return NULL;
	*known = *found;
	return *found;
}

/* Memory that nobody can make shorter: we never touch a page that is not there. */
static bool is_good(const struct local_message *lent, int fd)
{
	struct stat file;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(fd, &file) == 0 &&
	       file.st_size > 0 && (uint64_t)file.st_size == lent->length;
}

/* Addresses for a file's mapping, at which the huge pages that it may be made of can be mapped as such. */
static void *reserve_addresses(size_t length)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE),
		     spare = length < HUGE_PAGE ? 0 : HUGE_PAGE;
	size_t ahead;
	uint8_t *space;

	if (length > SIZE_MAX - HUGE_PAGE - page)
		return MAP_FAILED;
	length = (length + page - 1) / page * page;
	space = mmap(NULL, length + spare, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		     -1, 0);
	if (space == MAP_FAILED || spare == 0)
		return space;
	ahead = (HUGE_PAGE - (uintptr_t)space % HUGE_PAGE) % HUGE_PAGE;
	if (ahead > 0)
		munmap(space, ahead);
	munmap(space + ahead + length, spare - ahead); /* ahead is less than that */
	return space + ahead;
}

static bool map(struct local_mapping *mapping, int fd)
{
	const int protection =
		PROT_READ | ((mapping->access & FABRIC_REMOTE_WRITE) != 0 ? PROT_WRITE : 0);
	void *addr = reserve_addresses(mapping->length);

	if (addr == MAP_FAILED)
		return false;
	if (mmap(addr, mapping->length, protection, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
		munmap(addr, mapping->length);
		return false;
	}
	/* A child would keep it for longer than we have it. */
	madvise(addr, mapping->length, MADV_DONTFORK);
	madvise(addr, mapping->length, MADV_DONTDUMP);
	mapping->addr = addr;
	return true;
}

bool local_mapping_add(struct local_endpoint *endpoint, const struct local_message *lent, int fd)
{
	struct local_mapping *mapping;

	if (!is_good(lent, fd))
		return false;
	mapping = malloc(sizeof(*mapping));
	if (!mapping)
		return false;
	*mapping = (struct local_mapping){
		.key = lent->key, .length = lent->length, .access = lent->access};
	CDS_INIT_LIST_HEAD(&mapping->pieces);
	if (!map(mapping, fd))
		goto out_free;
	if (!tsearch(mapping, &endpoint->mappings, compare_keys))
		goto out_unmap;
	return true;

out_unmap:
	munmap(mapping->addr, mapping->length);
out_free:
	free(mapping);
	return false;
}

bool local_mapping_add_paged(struct local_endpoint *endpoint, const struct local_message *told)
{
	struct local_mapping *mapping = malloc(sizeof(*mapping));

	if (!mapping)
		return false;
	*mapping = (struct local_mapping){
		.key = told->key, .is_paged = true, .length = told->length, .access = told->access};
	CDS_INIT_LIST_HEAD(&mapping->pieces);
	if (tsearch(mapping, &endpoint->mappings, compare_keys))
		return true;
	free(mapping);
	return false;
}

/* ---- Windows */

/* A gate, and what the last thread to leave a window needs to hang up a connection that has
 * ended. */
struct local_gate {
	struct fabric_gate base;
	const struct local_side *mine, *theirs;
	int fd;
};

static const atomic_uint shut = LOCAL_ENDED;

/* Shuts the gate. When it returns, no thread is at a window, and none comes any more. */
static void shut_gate(struct local_endpoint *endpoint)
{
	struct fabric_gate *gate = endpoint->gate;

	if (!gate)
		return;
	endpoint->gate = NULL;
	atomic_store(&gate->word, &shut);
	epoch_wait();
	fabric_gate_drop(gate);
}

/* A peer that has ended the connection while somebody was at a window waits for us to hang up. If the endpoint's thread
 * is at the memory, it will. The socket is open: whoever closes it has shut the gate, and waits for epoch sections. */
static void hang_up_ended(const struct fabric_gate *base)
{
	const struct local_gate *gate = local_container(base, struct local_gate);

	if (atomic_load(&gate->theirs->nr_revoked) == LOCAL_ENDED &&
	    atomic_load(&gate->mine->nr_touching) == 0)
		shutdown(gate->fd, SHUT_RDWR);
}

static struct fabric_gate *open_gate(const struct local_endpoint *endpoint)
{
	struct local_gate *gate = malloc(sizeof(*gate));

	if (!gate)
		return NULL;
	*gate = (struct local_gate){.base = {.open = endpoint->nr_revoked_heard,
					     .inside = endpoint->mine->at_windows,
					     .is_reached = endpoint->is_reached,
					     .left = hang_up_ended},
				    .mine = endpoint->mine,
				    .theirs = endpoint->theirs,
				    .fd = endpoint->fd};
	atomic_init(&gate->base.word, &endpoint->theirs->nr_revoked);
	atomic_init(&gate->base.nr_users, 1);
	return &gate->base;
}

int local_mapping_window(struct local_endpoint *endpoint, uint64_t key, struct fabric_window *out)
{
	const struct local_mapping *mapping = local_mapping_find(endpoint, key);

	if (!mapping)
		return -EAGAIN;
	if (!endpoint->gate)
		endpoint->gate = open_gate(endpoint);
	if (!endpoint->gate)
		return -ENOMEM;
	atomic_fetch_add(&endpoint->gate->nr_users, 1);
	*out = (struct fabric_window){
		.addr = mapping->addr,
		.pages = mapping->is_paged ? local_references_pages(endpoint->references) : NULL,
		.length = mapping->length,
		.access = mapping->access,
		.gate = endpoint->gate};
	return 0;
}

/* ---- Taking back */

/* Replaces the memory by inaccessible pages. Later accesses raise SIGSEGV, and never find somebody
 * else's bytes. */
static void make_blank(void *addr, size_t length)
{
	void *blank = mmap(addr, length, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

	/* Without memory for the kernel's books: that needs none. */
	if (blank == MAP_FAILED)
		mprotect(addr, length, PROT_NONE);
}

static void end_piece(struct local_endpoint *endpoint, struct local_piece *piece)
{
	make_blank(piece->addr, piece->length);
	cds_list_del(&piece->node);
	free(piece);
	local_touch_end(endpoint);
}

static void end(struct local_endpoint *endpoint, struct local_mapping *mapping)
{
	struct local_piece *piece, *next;

	cds_list_for_each_entry_safe (piece, next, &mapping->pieces, node)
		end_piece(endpoint, piece);
	if (!mapping->is_paged)
		munmap(mapping->addr, mapping->length);
	free(mapping);
}

void local_mapping_remove(struct local_endpoint *endpoint, uint64_t key)
{
	struct local_mapping *mapping = local_mapping_find(endpoint, key);

	/* Whatever was revoked: what the peer has counted is not what the gate knows. */
	shut_gate(endpoint);
	if (!mapping)
		return;
	endpoint->known[key % LOCAL_KNOWN] = NULL;
	tdelete(mapping, &endpoint->mappings, compare_keys);
	end(endpoint, mapping);
}

void local_mapping_remove_all(struct local_endpoint *endpoint)
{
	shut_gate(endpoint);
	memset(endpoint->known, 0, sizeof(endpoint->known));
	while (endpoint->mappings) {
		struct local_mapping *first = *(struct local_mapping **)endpoint->mappings;

		tdelete(first, &endpoint->mappings, compare_keys);
		end(endpoint, first);
	}
}

/* ---- Attaching */

static bool is_whole_pages(const struct local_mapping *mapping, uint64_t remote, size_t length,
			   const void *addr)
{
	const uint64_t in_page = (uint64_t)sysconf(_SC_PAGESIZE) - 1;

	return ((remote | length | (uintptr_t)addr | mapping->length) & in_page) == 0 && length > 0;
}

/* A shared mapping of which nothing is moved is mapped once more: no descriptor has to be kept for that. */
static int map_again(const struct local_mapping *mapping, uint64_t remote, size_t length,
		     bool may_write, void *addr)
{
	void *found =
		mremap(mapping->addr + remote, 0, length, MREMAP_MAYMOVE | MREMAP_FIXED, addr);

	if (found == MAP_FAILED)
		return -errno;
	if (may_write || mprotect(addr, length, PROT_READ) == 0)
		return 0;
	make_blank(addr, length);
	return -ENOMEM;
}

/* The touch is the piece's from then on. */
static int add_piece(struct local_mapping *mapping, uint64_t remote, size_t length, bool may_write,
		     void *addr)
{
	struct local_piece *piece;
	int ret;

	if (may_write && (mapping->access & FABRIC_REMOTE_WRITE) == 0)
		return -EACCES;
	if (remote > mapping->length || length > mapping->length - remote)
		return -ERANGE;
	if (mapping->is_paged || !is_whole_pages(mapping, remote, length, addr))
		return -EINVAL;
	piece = malloc(sizeof(*piece));
	if (!piece)
		return -ENOMEM;
	ret = map_again(mapping, remote, length, may_write, addr);
	if (ret != 0) {
		free(piece);
		return ret;
	}
	*piece = (struct local_piece){.addr = addr, .length = length};
	cds_list_add(&piece->node, &mapping->pieces);
	return 0;
}

int local_attach(struct fabric_endpoint *base, uint64_t key, uint64_t remote, size_t length,
		 bool may_write, void *addr)
{
	struct local_endpoint *endpoint = local_container(base, struct local_endpoint);
	struct local_mapping *mapping = NULL;
	int ret;

	if (endpoint->state != LOCAL_IS_CONNECTED)
		return -ENOENT;
	/* In this order: what has not ended then is waited for until the piece is given up. */
	local_touch_begin(endpoint);
	if (local_endpoint_catch_up(endpoint))
		mapping = local_mapping_find(endpoint, key);
	ret = mapping ? add_piece(mapping, remote, length, may_write, addr) : -ENOENT;
	if (ret != 0) {
		local_touch_end(endpoint);
		if (endpoint->state == LOCAL_IS_CONNECTED)
			local_endpoint_catch_up(endpoint);
	}
	return ret;
}

/* ---- Copying, and atomics */

static bool is_allowed(const struct local_mapping *mapping, const struct local_transfer *transfer,
		       uint64_t length)
{
	const unsigned access =
		transfer->opcode == LOCAL_READ ? FABRIC_REMOTE_READ : FABRIC_REMOTE_WRITE;
	uint64_t end;

	return (mapping->access & access) != 0 &&
	       !__builtin_add_overflow(transfer->remote, length, &end) && end <= mapping->length;
}

static void copy(const struct local_transfer *transfer, uint8_t *lent)
{
	for (unsigned i = 0; i < transfer->nr_pieces; i++) {
		const struct fabric_piece *piece = &transfer->pieces[i];

		if (piece->length == 0)
			continue;
		if (transfer->opcode == LOCAL_WRITE)
			copy_memory(lent, piece->addr, piece->length);
		else
			copy_memory(piece->addr, lent, piece->length);
		lent += piece->length;
	}
}

static void do_atomic(const struct local_transfer *transfer, uint64_t *word)
{
	uint64_t before = transfer->compare;

	if (transfer->opcode == LOCAL_FETCH_ADD)
		before = __atomic_fetch_add(word, transfer->operand, __ATOMIC_SEQ_CST);
	else
		__atomic_compare_exchange_n(word, &before, transfer->operand, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	memcpy(transfer->pieces[0].addr, &before, sizeof(before));
}

bool local_mapping_do(const struct local_mapping *mapping, const struct local_transfer *transfer)
{
	bool is_atomic =
		transfer->opcode == LOCAL_FETCH_ADD || transfer->opcode == LOCAL_COMPARE_SWAP;
	uint64_t length = 0;
	uint8_t *lent;

	for (unsigned i = 0; i < transfer->nr_pieces; i++)
		length += transfer->pieces[i].length; /* at most LOCAL_TRANSFER_MAX in all */
	if (!is_allowed(mapping, transfer, length))
		return false;
	lent = mapping->addr + transfer->remote;
	if (!is_atomic)
		copy(transfer, lent);
	else if (length == sizeof(uint64_t) && transfer->remote % sizeof(uint64_t) == 0)
		do_atomic(transfer, (uint64_t *)(void *)lent);
	else
		return false;
	return true;
}
