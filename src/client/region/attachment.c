/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes an attachment: reserves address space, connects to the servers, and maps each piece of the
 * layout at its place. Ends it, too. attach.c calls this, and keeps the threads in order.
 */
#include "client/region/attachment.h"
#include "client/namespace/region.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/error.h"
#include "fabric/mapped.h"

#define QUEUE_DEPTH  1	 /* nothing is transferred */
#define LOOK_MS	     100 /* the longest sleep while it is made */
#define ATTEMPTS_MAX 64	 /* servers may close connections to take memory away or to seal */
#define ATTACH_AGAIN 1	 /* from make_once(): something has changed meanwhile */

/* ---- Connections */

static void end_links(struct attachment *attachment)
{
	for (uint32_t i = 0; i < attachment->nr_links; i++) {
		struct attachment_link *link = &attachment->links[i];

		if (link->endpoint)
			fabric_endpoint_close(link->endpoint);
		*link = (struct attachment_link){.lane = link->lane};
	}
}

/* Handles what has arrived. */
static void look(struct attachment *attachment)
{
	struct fabric_completion completion;
	struct fabric_event event;

	while (fabric_queue_poll(attachment->queue, &completion, 1) > 0)
		;
	while (fabric_queue_event(attachment->queue, &event) == 1) {
		struct attachment_link *link = event.endpoint->owner;

		link->state = event.kind == FABRIC_CONNECTED ? LINK_UP : LINK_ENDED;
	}
}

static bool has_ended_link(const struct attachment *attachment)
{
	for (uint32_t i = 0; i < attachment->nr_links; i++) {
		if (attachment->links[i].state == LINK_ENDED)
			return true;
	}
	return false;
}

/* Sleeps until more may have arrived. */
static void doze(struct attachment *attachment, uint64_t deadline)
{
	struct pollfd ready = {.fd = fabric_queue_fd(attachment->queue), .events = POLLIN};
	int left_ms = clock_remaining_ms(deadline);

	if (fabric_queue_arm(attachment->queue) == 0)
		poll(&ready, 1, left_ms < LOOK_MS ? left_ms : LOOK_MS);
}

static int fail_late(const struct attachment *attachment, uint32_t server)
{
	return error_fail(-ETIMEDOUT,
			  "attach the region at %#llx: server %s does not answer in time",
			  (unsigned long long)attachment->region->target.address,
			  attachment->binding->servers[server].peer->name);
}

static int fail_unreachable(const struct afar_target *target, const struct peer *peer,
			    const char *why)
{
	return error_fail(
		-EOPNOTSUPP,
		"attach the region at %#llx: server %s, which holds part of it, %s; read and "
		"write it, or map it (afar_region_map)",
		(unsigned long long)target->address, peer->name, why);
}

/* Returns whether the server has a lane that can attach. If one leads there, puts it into the
 * link. */
static bool look_for_lane(struct attachment *attachment, uint32_t server)
{
	struct fabrics *fabrics = &attachment->region->target.session->fabrics;
	const struct peer *peer = attachment->binding->servers[server].peer;
	bool has_lane = false;
	unsigned number;

	for (unsigned i = 0; i < peer->nr_lanes; i++) {
		const struct peer_lane *lane = &peer->lanes[i];
		struct fabric *fabric;

		if (fabrics_get(fabrics, lane->transport, lane->address, &number) != 0)
			continue;
		fabric = fabrics_at(fabrics, number);
		if (!fabric->mapped)
			continue;
		has_lane = true;
		if (!fabric_is_same_host(fabric, lane->address) ||
		    (attachment->fabric && attachment->fabric != fabric))
			continue;
		attachment->fabric = fabric;
		attachment->links[server].lane = lane;
		break;
	}
	return has_lane;
}

/* Fails because no lane leads to the server. First asks over the control channel whether it is
 * gone. */
static int fail_far(struct binding *binding, uint32_t server, uint64_t deadline)
{
	struct afar_target *target = binding->target;
	struct peer_ticket ticket = {.attaches = target->generation};
	int ret = target_get_keys(target, deadline);

	if (!ret)
		ret = binding_get_ticket(binding, server, deadline, &ticket);
	return ret ? ret
		   : fail_unreachable(target, binding->servers[server].peer,
				      "is on another machine, or not to be seen from here");
}

/* Finds the lane over which the server lends its memory itself. */
static int find_lane(struct attachment *attachment, uint32_t server, uint64_t deadline)
{
	struct afar_target *target = &attachment->region->target;
	bool has_lane = look_for_lane(attachment, server);

	if (attachment->links[server].lane)
		return 0;
	if (has_lane)
		return fail_far(attachment->binding, server, deadline);
	return fail_unreachable(
		target, attachment->binding->servers[server].peer,
		target->session->path[0]
			? "gives memory itself by no lane of the one transport that the session "
			  "was told to use"
			: "has no lane by which it gives memory itself, as local does");
}

static int find_lane_of(struct attachment *attachment, const struct layout_piece *at, size_t place,
			uint64_t deadline)
{
	(void)place;
	return attachment->links[at->copy->home].lane
		       ? 0
		       : find_lane(attachment, at->copy->home, deadline);
}

static int start_link(struct attachment *attachment, uint32_t server, uint64_t deadline)
{
	struct afar_target *target = &attachment->region->target;
	struct attachment_link *link = &attachment->links[server];
	struct peer_ticket ticket = {.attaches = target->generation};
	int ret = binding_get_ticket(attachment->binding, server, deadline, &ticket);

	if (ret)
		return ret;
	ret = fabric_connect(attachment->queue, link->lane->address, &ticket.ticket,
			     sizeof(ticket.ticket), link, &link->endpoint);
	if (ret)
		return error_fail(-AFAR_ESERVER, "connect to server %s at %s: %s",
				  attachment->binding->servers[server].peer->name,
				  link->lane->address, afar_strerror(ret));
	link->state = LINK_CONNECTING;
	return 0;
}

/* Connects to a server, unless that is done, and waits until the connection is up. */
static int use_link(struct attachment *attachment, uint32_t server, uint64_t deadline)
{
	struct attachment_link *link = &attachment->links[server];
	int ret = link->state == LINK_NONE ? start_link(attachment, server, deadline) : 0;

	while (!ret && link->state == LINK_CONNECTING) {
		look(attachment);
		if (link->state != LINK_CONNECTING)
			break;
		if (clock_ns() >= deadline)
			return fail_late(attachment, server);
		doze(attachment, deadline);
	}
	return ret ? ret : link->state == LINK_UP ? 0 : ATTACH_AGAIN;
}

/* ---- Pieces */

static int get_memory(struct attachment *attachment, uint32_t server, uint64_t key,
		      uint64_t deadline)
{
	struct attachment_link *link = &attachment->links[server];
	int ret;

	while ((ret = fabric_prepare(link->endpoint, key)) == -EAGAIN) {
		if (clock_ns() >= deadline)
			return fail_late(attachment, server);
		doze(attachment, deadline);
		look(attachment);
		if (link->state != LINK_UP)
			return ATTACH_AGAIN;
	}
	return ret ? ATTACH_AGAIN : 0;
}

static int fail_piece(const struct attachment *attachment, int status)
{
	unsigned long long address = attachment->region->target.address;

	switch (status) {
	case 0:
		return 0;
	case -ENOENT:
		return ATTACH_AGAIN;
	case -ENOMEM:
		return error_fail(
			status,
			"attach the region at %#llx: the kernel allows this process no more "
			"mappings, of which each stripe unit is one; attach less, raise "
			"vm.max_map_count, or use larger stripe units",
			address);
	case -EINVAL:
		return error_fail(
			-EOPNOTSUPP,
			"attach the region at %#llx: its chunks or stripe units are no whole "
			"pages of this machine, which have %zu bytes",
			address, attachment_page_bytes());
	default:
		return error_fail(status, "attach the region at %#llx: %s", address,
				  afar_strerror(status));
	}
}

/* Maps a piece of the layout at `place` of the range. */
static int attach_piece(struct attachment *attachment, const struct layout_piece *at, size_t place,
			uint64_t deadline)
{
	const uint32_t server = at->copy->home;
	struct attachment_link *link = &attachment->links[server];
	const size_t page = attachment_page_bytes();
	const struct copy_key *key;
	int ret = find_lane_of(attachment, at, place, deadline);

	if (!ret)
		ret = use_link(attachment, server, deadline);
	if (ret)
		return ret;
	key = binding_key(attachment->binding, at->copy, link->lane->number);
	ret = get_memory(attachment, server, key->key, deadline);
	if (ret)
		return ret;
	/* Maps the last page whole, though the region may end in it: all of the page is the
	 * region's. */
	ret = fabric_attach(link->endpoint, key->key, key->remote + at->offset,
			    (at->length + page - 1) / page * page, attachment->may_write,
			    (char *)attachment->addr + place);
	return fail_piece(attachment, ret);
}

/* Calls `act` for each piece of the range, with the piece's place in it, until one does not return
 * 0. The range is not empty. */
static int for_each_piece(struct attachment *attachment, const struct layout *layout,
			  int (*act)(struct attachment *attachment, const struct layout_piece *at,
				     size_t place, uint64_t deadline),
			  uint64_t deadline)
{
	const uint64_t left = layout->length - attachment->offset;
	const size_t end = left < attachment->length ? (size_t)left : attachment->length;
	struct layout_piece at;
	int ret = -EINVAL;

	for (size_t place = 0; place < end; place += at.length) {
		at = layout_piece_at(layout, attachment->offset + place, end - place);
		if (!at.copy)
			return error_fail(-EOPNOTSUPP,
					  "attach a region: it has no memory yet at %llu; read it",
					  (unsigned long long)(attachment->offset + place));
		ret = act(attachment, &at, place, deadline);
		if (ret)
			break;
	}
	return ret;
}

/* ---- Making one */

void attachment_blank(struct attachment *attachment)
{
	end_links(attachment);
	attachment->has_ended = true;
}

/* Takes the target's present binding. Nothing is connected. */
static int take_binding(struct attachment *attachment)
{
	struct binding *binding = target_binding(&attachment->region->target);
	const uint32_t nr_links = binding->layout->nr_homes;
	struct attachment_link *links;

	if (binding == attachment->binding) {
		binding_unref(binding);
		return 0;
	}
	links = calloc((size_t)nr_links + 1, sizeof(*links));
	if (!links) {
		binding_unref(binding);
		return error_code(-ENOMEM);
	}
	free(attachment->links);
	binding_unref(attachment->binding);
	attachment->binding = binding;
	attachment->links = links;
	attachment->nr_links = nr_links;
	return 0;
}

/* Makes the attachment by the present layout. ATTACH_AGAIN: the layout was replaced meanwhile, or a
 * server closed a connection. */
static int make_once(struct attachment *attachment, uint64_t deadline)
{
	struct afar_target *target = &attachment->region->target;
	const struct binding *binding;
	int ret = target_get_keys(target, deadline);

	if (!ret)
		ret = take_binding(attachment);
	if (ret)
		return ret;
	binding = attachment->binding;
	if (attachment->may_write && binding->layout->is_sealed)
		return target_fail_read_only(target);
	if (!binding->is_ready)
		return ATTACH_AGAIN;
	/* The rest of the range then stays without memory. */
	if (attachment->offset >= binding->layout->length)
		return error_fail(-ERANGE,
				  "attach %zu bytes at %llu of a region: it has become shorter "
				  "meanwhile, and has %llu",
				  attachment->length, (unsigned long long)attachment->offset,
				  (unsigned long long)binding->layout->length);
	ret = for_each_piece(attachment, binding->layout, attach_piece, deadline);
	look(attachment);
	/* A ticket may have told of a change, or was refused for one. The next attempt finds out about it. */
	if (ret ? ret == -ESTALE && !binding->is_ready
		: has_ended_link(attachment) || !binding->is_ready)
		ret = ATTACH_AGAIN;
	return ret;
}

static int make(struct attachment *attachment, uint64_t deadline)
{
	int ret = ATTACH_AGAIN;

	for (int i = 0; i < ATTEMPTS_MAX && ret == ATTACH_AGAIN && clock_ns() < deadline; i++) {
		ret = make_once(attachment, deadline);
		if (ret)
			end_links(attachment);
	}
	if (ret != ATTACH_AGAIN)
		return ret;
	return error_fail(-AFAR_ESERVER,
			  "attach the region at %#llx: its servers take connections away again and "
			  "again; try again",
			  (unsigned long long)attachment->region->target.address);
}

static int reserve(struct attachment *attachment)
{
	void *addr = mmap(NULL, attachment->length, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (addr == MAP_FAILED)
		return error_fail(-ENOMEM,
				  "attach %zu bytes of a region: there is not so much "
				  "address space left",
				  attachment->length);
	attachment->addr = addr;
	return 0;
}

void attachment_free(struct attachment *attachment)
{
	end_links(attachment);
	if (attachment->queue)
		fabric_queue_close(attachment->queue);
	if (attachment->addr)
		munmap(attachment->addr, attachment->length);
	binding_unref(attachment->binding);
	free(attachment->links);
	free(attachment);
}

static int attachment_new(struct afar_region *region, uint64_t offset, size_t length,
			  bool may_write, uint64_t deadline, struct attachment **out)
{
	const size_t page = attachment_page_bytes();
	struct attachment *attachment = calloc(1, sizeof(*attachment));
	int ret;

	if (!attachment)
		return error_code(-ENOMEM);
	attachment->region = region;
	attachment->offset = offset;
	attachment->length = (length + page - 1) / page * page;
	attachment->may_write = may_write;
	ret = take_binding(attachment);
	if (!ret)
		ret = for_each_piece(attachment, attachment->binding->layout, find_lane_of,
				     deadline);
	if (!ret)
		ret = reserve(attachment);
	if (!ret)
		ret = fabric_queue_open(attachment->fabric, QUEUE_DEPTH, &attachment->queue);
	if (ret) {
		attachment_free(attachment);
		return ret;
	}
	*out = attachment;
	return 0;
}

int attachment_make(struct afar_region *region, uint64_t offset, size_t length, bool may_write,
		    uint64_t deadline, struct attachment **out)
{
	int ret = attachment_new(region, offset, length, may_write, deadline, out);

	if (ret)
		return ret;
	ret = make(*out, deadline);
	if (ret)
		attachment_free(*out);
	return ret;
}

void attachment_attend(struct attachment *attachment)
{
	if (attachment->has_ended)
		return;
	do {
		look(attachment);
		if (has_ended_link(attachment)) {
			attachment_blank(attachment);
			return;
		}
	} while (fabric_queue_arm(attachment->queue) != 0);
}
