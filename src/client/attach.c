/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attaching: a region's memory itself in the caller's address space. Address space is reserved, and each piece of
 * the layout is put where it belongs in it, over connections that are for this alone: one to each server of the
 * range, which that closes, and waits for, when the session ends or the region is sealed.
 *
 * An attachment owns its address space, a fabric queue and these connections, which stand and end together: when one
 * has ended, nothing of the range can be touched any more. Nobody polls it, so the control thread watches the
 * descriptors of all, and lets go at once (DESIGN: "fencing"). The session's attach_lock is held by whoever is at the
 * queue of one that is in the session's list.
 */
#include "client/attach.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "client/region.h"

#define QUEUE_DEPTH  1	 /* nothing is transferred */
#define LOOK_MS	     100 /* while it is made: longest sleep */
#define EVENTS_MAX   16
#define ATTEMPTS_MAX 64 /* a server may take connections away, with memory or for a sealing */
#define ATTACH_AGAIN 1	/* of make_once(): something has changed meanwhile */

enum link_state { LINK_NONE, LINK_CONNECTING, LINK_UP, LINK_ENDED };

/* The connection to one server of the layout. */
struct link {
	struct fabric_endpoint *endpoint; /* NULL: none */
	const struct peer_lane *lane;
	enum link_state state;
};

struct attachment {
	struct cds_list_head node; /* in the session's list */
	struct afar_region *region;
	void *addr;
	size_t length; /* whole pages */
	uint64_t offset;
	bool may_write;
	bool has_ended; /* nothing can be touched any more */
	struct fabric *fabric;
	struct fabric_queue *queue;
	uint32_t nr_links;
	struct link links[]; /* by the layout's servers */
};

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- Connections */

static void end_links(struct attachment *attachment)
{
	for (uint32_t i = 0; i < attachment->nr_links; i++) {
		struct link *link = &attachment->links[i];

		if (link->endpoint)
			fabric_endpoint_close(link->endpoint);
		*link = (struct link){.lane = link->lane};
	}
}

/* Takes in what has come. */
static void look(struct attachment *attachment)
{
	struct fabric_completion completion;
	struct fabric_event event;

	while (fabric_queue_poll(attachment->queue, &completion, 1) > 0)
		;
	while (fabric_queue_event(attachment->queue, &event) == 1) {
		struct link *link = event.endpoint->owner;

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

/* Sleeps until there may be more. */
static void doze(struct attachment *attachment, uint64_t deadline)
{
	struct pollfd ready = {.fd = fabric_queue_fd(attachment->queue), .events = POLLIN};
	int left_ms = clock_remaining_ms(deadline);

	if (fabric_queue_arm(attachment->queue) == 0)
		poll(&ready, 1, left_ms < LOOK_MS ? left_ms : LOOK_MS);
}

static int fail_late(const struct attachment *attachment, uint32_t server)
{
	const struct afar_target *target = &attachment->region->target;

	return error_fail(-ETIMEDOUT,
			  "attach the region at %#llx: server %s does not answer in time",
			  (unsigned long long)target->address, target->peers[server]->name);
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

/* Whether the server has such a lane; one that leads there goes to the link. */
static bool look_for_lane(struct attachment *attachment, uint32_t server)
{
	struct afar_target *target = &attachment->region->target;
	struct fabrics *fabrics = &target->session->fabrics;
	const struct peer *peer = target->peers[server];
	bool has_lane = false;
	unsigned number;

	for (unsigned i = 0; i < peer->nr_lanes; i++) {
		const struct peer_lane *lane = &peer->lanes[i];
		struct fabric *fabric;

		if (fabrics_get(fabrics, lane->transport, lane->address, &number) != 0)
			continue;
		fabric = fabrics_at(fabrics, number);
		if (!fabric_can_attach(fabric))
			continue;
		has_lane = true;
		if (!fabric_is_near(fabric, lane->address) ||
		    (attachment->fabric && attachment->fabric != fabric))
			continue;
		attachment->fabric = fabric;
		attachment->links[server].lane = lane;
		break;
	}
	return has_lane;
}

/* The server may be gone, which its control channel knows. */
static int fail_far(struct afar_target *target, uint32_t server, uint64_t deadline)
{
	struct peer_ticket ticket = {.attaches = target->generation};
	int ret = target_get_keys(target, deadline);

	if (!ret)
		ret = target_get_ticket(target, server, deadline, &ticket);
	return ret ? ret
		   : fail_unreachable(target, target->peers[server],
				      "is on another machine, or not to be seen from here");
}

/* The lane by which the server gives its memory itself. */
static int find_lane(struct attachment *attachment, uint32_t server, uint64_t deadline)
{
	struct afar_target *target = &attachment->region->target;
	bool has_lane = look_for_lane(attachment, server);

	if (attachment->links[server].lane)
		return 0;
	if (has_lane)
		return fail_far(target, server, deadline);
	return fail_unreachable(
		target, target->peers[server],
		target->session->path[0]
			? "gives memory itself by no lane of the one transport that the session "
			  "was told to use"
			: "has no lane by which it gives memory itself, as local does");
}

static int find_lane_of(struct attachment *attachment, const struct layout_piece *at, size_t place,
			uint64_t deadline)
{
	(void)place;
	return attachment->links[at->chunk->server].lane
		       ? 0
		       : find_lane(attachment, at->chunk->server, deadline);
}

static int start_link(struct attachment *attachment, uint32_t server, uint64_t deadline)
{
	struct afar_target *target = &attachment->region->target;
	struct link *link = &attachment->links[server];
	struct peer_ticket ticket = {.attaches = target->generation};
	int ret = target_get_ticket(target, server, deadline, &ticket);

	if (ret)
		return ret;
	ret = fabric_connect(attachment->queue, link->lane->address, &ticket.ticket,
			     sizeof(ticket.ticket), link, &link->endpoint);
	if (ret)
		return error_fail(-AFAR_ESERVER, "connect to server %s at %s: %s",
				  target->peers[server]->name, link->lane->address,
				  afar_strerror(ret));
	link->state = LINK_CONNECTING;
	return 0;
}

/* The connection to a server, up. */
static int use_link(struct attachment *attachment, uint32_t server, uint64_t deadline)
{
	struct link *link = &attachment->links[server];
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
	struct link *link = &attachment->links[server];
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
			address, page_bytes());
	default:
		return error_fail(status, "attach the region at %#llx: %s", address,
				  afar_strerror(status));
	}
}

/* `at` lies at `place` of the range. */
static int attach_piece(struct attachment *attachment, const struct layout_piece *at, size_t place,
			uint64_t deadline)
{
	const uint32_t server = at->chunk->server;
	struct link *link = &attachment->links[server];
	const size_t page = page_bytes();
	const struct layout_key *key;
	int ret = find_lane_of(attachment, at, place, deadline);

	if (!ret)
		ret = use_link(attachment, server, deadline);
	if (ret)
		return ret;
	key = &at->chunk->on[link->lane->number];
	ret = get_memory(attachment, server, key->key, deadline);
	if (ret)
		return ret;
	/* The last page is whole, though the region may end in it: it is the region's. */
	ret = fabric_attach(link->endpoint, key->key, key->remote + at->offset,
			    (at->length + page - 1) / page * page, attachment->may_write,
			    (char *)attachment->addr + place);
	return fail_piece(attachment, ret);
}

/* Runs `act` for each piece of the range, with where in it that lies, while it returns 0. */
static int for_each_piece(struct attachment *attachment, const struct layout *layout,
			  int (*act)(struct attachment *attachment, const struct layout_piece *at,
				     size_t place, uint64_t deadline),
			  uint64_t deadline)
{
	const uint64_t left = layout->length - attachment->offset;
	const size_t end = left < attachment->length ? (size_t)left : attachment->length;
	struct layout_piece at;
	int ret = 0;

	for (size_t place = 0; place < end && !ret; place += at.length) {
		at = layout_piece_at(layout, attachment->offset + place, end - place);
		ret = act(attachment, &at, place, deadline);
	}
	return ret;
}

/* ---- Making one */

static void blank(struct attachment *attachment)
{
	end_links(attachment);
	attachment->has_ended = true;
}

/* By the layout as it is just now. ATTACH_AGAIN: it was replaced meanwhile, or a server took a connection away. */
static int make_once(struct attachment *attachment, uint64_t deadline)
{
	struct afar_target *target = &attachment->region->target;
	const struct layout *layout;
	int ret = target_get_keys(target, deadline);

	if (ret)
		return ret;
	layout = target->layout;
	if (attachment->may_write && layout->is_sealed)
		return target_fail_read_only(target);
	if (!layout->has_keys)
		return ATTACH_AGAIN;
	ret = for_each_piece(attachment, layout, attach_piece, deadline);
	look(attachment);
	/* Tickets tell of sealings: what they tell of is found out next time. */
	if (!ret && (has_ended_link(attachment) || !layout->has_keys))
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

static int attachment_new(struct afar_region *region, uint64_t offset, size_t length,
			  bool may_write, uint64_t deadline, struct attachment **out)
{
	const uint32_t nr_links = region->target.layout->nr_servers;
	const size_t page = page_bytes();
	struct attachment *attachment =
		calloc(1, sizeof(*attachment) + nr_links * sizeof(attachment->links[0]));
	int ret;

	if (!attachment)
		return error_code(-ENOMEM);
	attachment->region = region;
	attachment->offset = offset;
	attachment->length = (length + page - 1) / page * page;
	attachment->may_write = may_write;
	attachment->nr_links = nr_links;
	ret = for_each_piece(attachment, region->target.layout, find_lane_of, deadline);
	if (!ret)
		ret = reserve(attachment);
	if (ret) {
		free(attachment);
		return ret;
	}
	ret = fabric_queue_open(attachment->fabric, QUEUE_DEPTH, &attachment->queue);
	if (ret) {
		munmap(attachment->addr, attachment->length);
		free(attachment);
		return ret;
	}
	*out = attachment;
	return 0;
}

static void attachment_free(struct attachment *attachment)
{
	end_links(attachment);
	fabric_queue_close(attachment->queue);
	munmap(attachment->addr, attachment->length);
	free(attachment);
}

/* ---- What the control thread does */

/* Lets go as soon as a server wants it, or has died. */
static void attend(struct attachment *attachment)
{
	if (attachment->has_ended)
		return;
	do {
		look(attachment);
		if (has_ended_link(attachment)) {
			blank(attachment);
			return;
		}
	} while (fabric_queue_arm(attachment->queue) != 0);
}

static void on_ready(void *argument)
{
	struct afar_session *session = argument;
	struct epoll_event events[EVENTS_MAX];
	int nr;

	pthread_mutex_lock(&session->attach_lock);
	nr = epoll_wait(session->attach_fd, events, EVENTS_MAX, 0);
	for (int i = 0; i < nr; i++)
		attend(events[i].data.ptr);
	pthread_mutex_unlock(&session->attach_lock);
}

void attachments_let_go(struct afar_session *session)
{
	struct attachment *attachment;

	pthread_mutex_lock(&session->attach_lock);
	cds_list_for_each_entry (attachment, &session->attachments, node)
		blank(attachment);
	pthread_mutex_unlock(&session->attach_lock);
}

void attachments_close(struct afar_session *session)
{
	if (session->attach_fd >= 0)
		close(session->attach_fd);
}

/* With the lock held. */
static int open_watch(struct afar_session *session)
{
	int ret;

	if (session->attach_fd >= 0)
		return 0;
	session->attach_fd = epoll_create1(EPOLL_CLOEXEC);
	if (session->attach_fd < 0)
		return error_code(-errno);
	ret = rpc_loop_watch(session->loop, session->attach_fd, on_ready, session);
	if (ret) {
		close(session->attach_fd);
		session->attach_fd = -1;
	}
	return ret;
}

/* From now on it is the control thread's to look after. */
static int watch(struct afar_session *session, struct attachment *attachment)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = attachment};
	int ret;

	pthread_mutex_lock(&session->attach_lock);
	ret = open_watch(session);
	if (!ret && epoll_ctl(session->attach_fd, EPOLL_CTL_ADD, fabric_queue_fd(attachment->queue),
			      &event) != 0)
		ret = error_code(-errno);
	if (!ret) {
		cds_list_add(&attachment->node, &session->attachments);
		attend(attachment);
		/* It has ended before anybody told the control thread of it. */
		if (session_has_ended(session))
			blank(attachment);
	}
	pthread_mutex_unlock(&session->attach_lock);
	return ret;
}

/* ---- What users call */

static int check_attach(const struct afar_region *region, uint64_t offset, size_t length,
			unsigned prot, void *const *addr)
{
	const struct afar_target *target = &region->target;

	if (!addr || length == 0 || (prot != PROT_READ && prot != (PROT_READ | PROT_WRITE)))
		return error_fail(-EINVAL, "attach a region: addr is null, length is 0, or prot is "
					   "neither PROT_READ nor PROT_READ | PROT_WRITE");
	if (!range_is_inside(offset, length, target->length))
		return error_fail(-ERANGE, "attach %zu bytes at %llu of a region: it has %llu",
				  length, (unsigned long long)offset,
				  (unsigned long long)target->length);
	if (offset % page_bytes() != 0)
		return error_fail(
			-EINVAL,
			"attach a region at %llu: whole pages are attached; use a multiple "
			"of %zu",
			(unsigned long long)offset, page_bytes());
	if ((prot & PROT_WRITE) && !target_may(target, AFAR_OP_WRITE))
		return target_fail_read_only(target);
	return 0;
}

int afar_region_attach(struct afar_region *region, uint64_t offset, size_t length, unsigned prot,
		       void **addr)
{
	struct attachment *attachment;
	struct afar_session *session;
	uint64_t deadline;
	int ret = region_check(region);

	if (!ret)
		ret = check_attach(region, offset, length, prot, addr);
	if (ret)
		return ret;
	session = region->target.session;
	if (!handle_enter(&region->target.handle))
		return error_fail(-EINVAL, "attach a region: it is being closed");
	deadline = session_deadline(session);
	ret = attachment_new(region, offset, length, (prot & PROT_WRITE) != 0, deadline,
			     &attachment);
	if (ret)
		goto out_unuse;
	ret = make(attachment, deadline);
	if (!ret)
		ret = watch(session, attachment);
	if (ret)
		goto out_free;
	*addr = attachment->addr;
	return 0;

out_free:
	attachment_free(attachment);
out_unuse:
	handle_unuse(&region->target.handle);
	return ret;
}

/* Takes it out of the session's list; NULL: it is not there. */
static struct attachment *take(struct afar_session *session, const struct afar_region *region,
			       const void *addr)
{
	struct attachment *attachment, *found = NULL;

	pthread_mutex_lock(&session->attach_lock);
	cds_list_for_each_entry (attachment, &session->attachments, node) {
		if (attachment->addr == addr && attachment->region == region)
			found = attachment;
	}
	if (found) {
		cds_list_del(&found->node);
		epoll_ctl(session->attach_fd, EPOLL_CTL_DEL, fabric_queue_fd(found->queue), NULL);
	}
	pthread_mutex_unlock(&session->attach_lock);
	return found;
}

int afar_region_detach(struct afar_region *region, void *addr)
{
	struct attachment *attachment;
	int ret = region_check(region);

	if (ret)
		return ret;
	attachment = take(region->target.session, region, addr);
	if (!attachment)
		return error_fail(
			-EINVAL,
			"detach a region: it is not attached at %p, or was detached before", addr);
	attachment_free(attachment);
	handle_unuse(&region->target.handle);
	return 0;
}
