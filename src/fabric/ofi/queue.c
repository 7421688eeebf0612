/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue: a growing group of CQs and one EQ, with one epoll descriptor over all of theirs. Polling is
 * the hot path: with a single CQ it is one fi_cq_read(). With several, only those are read that may
 * have work (ofi_queue in ofi.h says how).
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/error.h"
#include "fabric/ofi/ofi.h"

#define READ_BATCH   64	  /* completions of one fi_cq_read()                         */
#define PATIENCE     64	  /* empty reads before a CQ is left to its descriptor…      */
#define IDLE_COST    16	  /* … of which one counts so many when nothing is in flight */
#define LOOK_POLLS   16	  /* polls between looks for cold CQs that have become ready */
#define EVENT_POLLS  1024 /* empty polls between looks for events of the dead       */
#define READY_EVENTS 32
#define CQ_SIZE_MIN  64

/* From <infiniband/verbs.h>, which is not needed otherwise. */
#define IBV_WC_RETRY_EXC_ERR	 12
#define IBV_WC_RNR_RETRY_EXC_ERR 13

#define is_unlikely(condition) __builtin_expect(!!(condition), 0)

/* ---- Warm and cold CQs */

void ofi_queue_warm(struct ofi_queue *queue, struct ofi_cq *cq)
{
	if (cq->patience == 0)
		cds_list_add_tail(&cq->warm, &queue->warm);
	cq->patience = PATIENCE;
	cq->is_drained = false;
}

/* Arms a CQ's descriptor. False: it has work. */
static bool arm_cq(struct ofi_queue *queue, struct ofi_cq *cq)
{
	struct ofi_fabric *fabric = ofi_container(queue->base.fabric, struct ofi_fabric);
	struct fid *fid = &cq->cq->fid;

	return cq->is_drained && fi_trywait(fabric->fabric, &fid, 1) == 0;
}

static void cool(struct ofi_cq *cq)
{
	cq->patience = 0;
	cds_list_del(&cq->warm);
}

static void warm_the_ready(struct ofi_queue *queue)
{
	struct epoll_event events[READY_EVENTS];
	int nr = epoll_wait(queue->epoll_fd, events, READY_EVENTS, 0);

	for (int i = 0; i < nr; i++) {
		if (events[i].data.ptr)
			ofi_queue_warm(queue, events[i].data.ptr);
	}
}

/* ---- Endpoints' states: CONNECTING -> CONNECTED -> CLOSED, or CONNECTING -> CLOSED */

static void become_eventful(struct ofi_queue *queue, struct ofi_endpoint *endpoint)
{
	cds_list_del(&endpoint->eventful);
	cds_list_add_tail(&endpoint->eventful, &queue->eventful);
}

static void note_connected(struct ofi_queue *queue, struct ofi_endpoint *endpoint)
{
	if (endpoint->state != OFI_CONNECTING)
		return;
	endpoint->state = OFI_CONNECTED;
	become_eventful(queue, endpoint);
}

static void note_closed(struct ofi_queue *queue, struct ofi_endpoint *endpoint)
{
	if (endpoint->state == OFI_CLOSED)
		return;
	endpoint->was_connected = endpoint->state == OFI_CONNECTED;
	endpoint->state = OFI_CLOSED;
	/* Ends what is in flight, and tells the peer. */
	if (endpoint->was_connected)
		fi_shutdown(endpoint->ep, 0);
	become_eventful(queue, endpoint);
}

/* ---- Polling */

/* A CQ that cannot be read any more takes its connections with it. */
static void fail_endpoints(struct ofi_queue *queue, const struct ofi_cq *cq)
{
	struct ofi_endpoint *endpoint;

	cds_list_for_each_entry (endpoint, &queue->live, node) {
		if (endpoint->cq == cq)
			note_closed(queue, endpoint);
	}
}

/* Takes the error that fi_cq_read() ran into. */
__attribute__((cold, noinline)) static int take_error(struct ofi_queue *queue, struct ofi_cq *cq,
						      struct fabric_completion *out)
{
	struct fi_cq_err_entry entry = {0};

	if (fi_cq_readerr(cq->cq, &entry, 0) != 1)
		return 0;
	/* The connection has ended, and nothing more may be started on it: know it before the caller. */
	ofi_queue_drain_events(queue);
	if (cq->is_private)
		fail_endpoints(queue, cq);
	if (cq->nr_in_flight > 0)
		cq->nr_in_flight--;
	*out = (struct fabric_completion){.context = (uint64_t)(uintptr_t)entry.op_context,
					  .status = ofi_errno(entry.err)};
	/* The peer was silent for too long: what it has done, or does yet, is not known. */
	if (entry.prov_errno == IBV_WC_RETRY_EXC_ERR ||
	    entry.prov_errno == IBV_WC_RNR_RETRY_EXC_ERR)
		out->status = -ETIMEDOUT;
	return 1;
}

/* Reads one CQ; `max` is at least 1. */
static inline int read_cq(struct ofi_queue *queue, struct ofi_cq *cq, struct fabric_completion *out,
			  unsigned max)
{
	struct fi_cq_entry entries[READ_BATCH];
	size_t room = max < READ_BATCH ? max : READ_BATCH;
	ssize_t nr = fi_cq_read(cq->cq, entries, room);

	if (nr == -FI_EAGAIN) {
		cq->is_drained = true;
		return 0;
	}
	cq->is_drained = false;
	if (is_unlikely(nr < 0)) {
		if (nr == -FI_EAVAIL)
			return take_error(queue, cq, out);
		if (nr != -FI_EINTR)
			fail_endpoints(queue, cq);
		return 0;
	}
	cq->nr_in_flight -= (unsigned)nr < cq->nr_in_flight ? (unsigned)nr : cq->nr_in_flight;
	for (ssize_t i = 0; i < nr; i++) {
		out[i] = (struct fabric_completion){
			.context = (uint64_t)(uintptr_t)entries[i].op_context};
	}
	return (int)nr;
}

static int poll_several(struct ofi_queue *queue, struct fabric_completion *out, unsigned max)
{
	struct ofi_cq *cq;
	struct ofi_cq *next;
	unsigned nr = 0;

	if (cds_list_empty(&queue->warm) || --queue->polls_until_look == 0) {
		queue->polls_until_look = LOOK_POLLS;
		warm_the_ready(queue);
	}
	cds_list_for_each_entry_safe (cq, next, &queue->warm, warm) {
		unsigned cost = cq->nr_in_flight > 0 ? 1 : IDLE_COST;
		int taken;

		/* The CQs that were left out are first next time. */
		if (nr == max)
			break;
		taken = read_cq(queue, cq, out + nr, max - nr);
		nr += (unsigned)taken;
		if (taken > 0)
			cq->patience = PATIENCE;
		else if (cq->patience > cost)
			cq->patience -= cost;
		else if (arm_cq(queue, cq))
			cool(cq);
	}
	if (nr == max && &cq->warm != &queue->warm) {
		cds_list_del(&queue->warm);
		cds_list_add_tail(&queue->warm, &cq->warm);
	}
	return (int)nr;
}

/* Looks for events of dead peers, because their transfers complete only after a long time. */
__attribute__((cold, noinline)) static void look_for_the_dead(struct ofi_queue *queue)
{
	queue->polls_until_events = EVENT_POLLS;
	ofi_queue_drain_events(queue);
}

int ofi_queue_poll(struct fabric_queue *base, struct fabric_completion *out, unsigned max)
{
	struct ofi_queue *queue = ofi_container(base, struct ofi_queue);
	int nr;

	if (is_unlikely(max == 0))
		return 0;
	nr = queue->only ? read_cq(queue, queue->only, out, max) : poll_several(queue, out, max);
	if (nr == 0 && is_unlikely(--queue->polls_until_events == 0))
		look_for_the_dead(queue);
	return nr;
}

/* ---- Connection events */

/* Endpoints are found by value: the EQ may name one that is gone. */
static struct ofi_endpoint *find_endpoint(struct ofi_queue *queue, const struct fid *fid)
{
	struct ofi_endpoint *endpoint;

	cds_list_for_each_entry (endpoint, &queue->live, node) {
		if (&endpoint->ep->fid == fid)
			return endpoint;
	}
	return NULL;
}

void ofi_queue_drain_events(struct ofi_queue *queue)
{
	union {
		struct fi_eq_cm_entry entry;
		uint8_t bytes[sizeof(struct fi_eq_cm_entry) + OFI_EVENT_DATA_MAX];
	} event;
	struct ofi_endpoint *endpoint;
	uint32_t kind;
	ssize_t ret;

	for (;;) {
		ret = fi_eq_read(queue->eq, &kind, &event, sizeof(event), 0);
		if (ret == -FI_EAVAIL) {
			struct fi_eq_err_entry error = {0};

			if (fi_eq_readerr(queue->eq, &error, 0) < 0)
				return;
			endpoint = find_endpoint(queue, error.fid);
			if (endpoint)
				note_closed(queue, endpoint);
			continue;
		}
		if (ret < 0)
			return;
		endpoint = find_endpoint(queue, event.entry.fid);
		if (endpoint && kind == FI_CONNECTED)
			note_connected(queue, endpoint);
		else if (endpoint && kind == FI_SHUTDOWN)
			note_closed(queue, endpoint);
	}
}

int ofi_queue_event(struct fabric_queue *base, struct fabric_event *out)
{
	struct ofi_queue *queue = ofi_container(base, struct ofi_queue);
	struct ofi_endpoint *endpoint;

	ofi_queue_drain_events(queue);
	if (cds_list_empty(&queue->eventful))
		return 0;
	endpoint = cds_list_first_entry(&queue->eventful, struct ofi_endpoint, eventful);

	out->endpoint = &endpoint->base;
	out->status = 0;
	if (endpoint->told == OFI_CONNECTING &&
	    (endpoint->state == OFI_CONNECTED || endpoint->was_connected)) {
		out->kind = FABRIC_CONNECTED;
		endpoint->told = OFI_CONNECTED;
	} else {
		out->kind = FABRIC_CLOSED;
		out->status = endpoint->was_connected ? -ECONNRESET : -ECONNREFUSED;
		endpoint->told = OFI_CLOSED;
	}
	if (endpoint->told == endpoint->state) {
		cds_list_del(&endpoint->eventful);
		CDS_INIT_LIST_HEAD(&endpoint->eventful);
	}
	return 1;
}

/* ---- Sleeping */

int ofi_queue_fd(struct fabric_queue *base)
{
	return ofi_container(base, struct ofi_queue)->epoll_fd;
}

int ofi_queue_arm(struct fabric_queue *base)
{
	struct ofi_queue *queue = ofi_container(base, struct ofi_queue);
	struct ofi_fabric *fabric = ofi_container(base->fabric, struct ofi_fabric);
	struct fid *eq = &queue->eq->fid;
	struct ofi_cq *cq;
	struct ofi_cq *next;

	if (!cds_list_empty(&queue->eventful) || fi_trywait(fabric->fabric, &eq, 1) != 0)
		return -EAGAIN;
	cds_list_for_each_entry_safe (cq, next, &queue->warm, warm) {
		if (!arm_cq(queue, cq))
			return -EAGAIN;
		if (!queue->only)
			cool(cq);
	}
	return 0;
}

/* ---- CQs */

static int watch(struct ofi_queue *queue, int fd, struct ofi_cq *cq)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = cq};

	return epoll_ctl(queue->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

static int open_cq(struct ofi_queue *queue, struct ofi_cq *cq)
{
	/* Room for all that can be in flight: on verbs an overrun CQ is dead. */
	struct fi_cq_attr attributes = {
		.size = (size_t)(cq->is_private ? 1 : OFI_SHARERS_MAX) *
			(queue->depth + queue->base.fabric->nr_receives),
		.format = FI_CQ_FORMAT_CONTEXT,
		.wait_obj = FI_WAIT_FD,
	};
	int ret = fi_cq_open(cq->domain->domain, &attributes, &cq->cq, NULL);

	/* Devices have a limit. Where there is less room than transfers, those that find none wait. */
	while (ret != 0 && attributes.size > CQ_SIZE_MIN) {
		attributes.size /= 2;
		ret = fi_cq_open(cq->domain->domain, &attributes, &cq->cq, NULL);
	}
	if (ret != 0)
		return ofi_errno(ret);
	ret = fi_control(&cq->cq->fid, FI_GETWAIT, &cq->fd);
	if (ret == 0)
		ret = watch(queue, cq->fd, cq);
	if (ret != 0) {
		fi_close(&cq->cq->fid);
		return ofi_errno(ret);
	}
	return 0;
}

/* Keeps ofi_queue.only true to its word. */
static void note_only(struct ofi_queue *queue)
{
	struct ofi_cq *first = cds_list_first_entry(&queue->cqs, struct ofi_cq, node);

	queue->only =
		!cds_list_empty(&queue->cqs) && first->node.next == &queue->cqs ? first : NULL;
	if (queue->only)
		ofi_queue_warm(queue, queue->only);
}

static int add_cq(struct ofi_queue *queue, struct ofi_domain *domain, bool is_private,
		  struct ofi_cq **out)
{
	struct ofi_cq *cq = calloc(1, sizeof(*cq));
	int ret;

	if (!cq)
		return -ENOMEM;
	cq->domain = domain;
	cq->is_private = is_private;
	ret = open_cq(queue, cq);
	if (ret != 0) {
		free(cq);
		return ret;
	}
	cds_list_add_tail(&cq->node, &queue->cqs);
	note_only(queue);
	*out = cq;
	return 0;
}

static void remove_cq(struct ofi_queue *queue, struct ofi_cq *cq)
{
	/* Closing it is not enough: a forked child may have it open too. */
	epoll_ctl(queue->epoll_fd, EPOLL_CTL_DEL, cq->fd, NULL);
	if (cq->patience > 0)
		cool(cq);
	cds_list_del(&cq->node);
	note_only(queue);
	fi_close(&cq->cq->fid);
	free(cq);
}

int ofi_queue_take_place(struct ofi_queue *queue, struct ofi_domain *domain, bool is_private,
			 struct ofi_cq **out)
{
	struct ofi_cq *cq;
	int ret;

	cds_list_for_each_entry (cq, &queue->cqs, node) {
		if (!is_private && !cq->is_private && cq->domain == domain &&
		    cq->nr_endpoints < OFI_SHARERS_MAX)
			goto out_found;
	}
	ret = add_cq(queue, domain, is_private, &cq);
	if (ret != 0)
		return ret;
out_found:
	cq->nr_endpoints++;
	ofi_queue_warm(queue, cq);
	*out = cq;
	return 0;
}

/* An empty shared CQ of the fabric's own domain is kept: it may have completions of the closed, and the next
 * connection wants it. Another domain may be closed when it has no endpoints any more. */
void ofi_queue_give_place(struct ofi_queue *queue, struct ofi_cq *cq)
{
	cq->nr_endpoints--;
	if (cq->nr_endpoints == 0 &&
	    (cq->is_private || &cq->domain->base != queue->base.fabric->domain))
		remove_cq(queue, cq);
	else
		ofi_queue_warm(queue, cq);
}

/* ---- Opening and closing */

int ofi_eq_open(struct ofi_fabric *fabric, struct fid_eq **eq, int *fd)
{
	struct fi_eq_attr attributes = {.wait_obj = FI_WAIT_FD};
	int ret = fi_eq_open(fabric->fabric, &attributes, eq, NULL);

	if (ret != 0)
		return ofi_errno(ret);
	ret = fi_control(&(*eq)->fid, FI_GETWAIT, fd);
	if (ret != 0) {
		fi_close(&(*eq)->fid);
		return ofi_errno(ret);
	}
	return 0;
}

int ofi_queue_open(struct fabric *fabric, uint32_t depth, struct fabric_queue **out)
{
	struct ofi_queue *queue = calloc(1, sizeof(*queue));
	int eq_fd = -1;
	int ret;

	if (!queue)
		return error_code(-ENOMEM);
	queue->base.fabric = fabric;
	queue->depth = depth > 0 ? depth : 1;
	queue->polls_until_look = LOOK_POLLS;
	queue->polls_until_events = EVENT_POLLS;
	CDS_INIT_LIST_HEAD(&queue->cqs);
	CDS_INIT_LIST_HEAD(&queue->warm);
	CDS_INIT_LIST_HEAD(&queue->live);
	CDS_INIT_LIST_HEAD(&queue->eventful);
	queue->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (queue->epoll_fd < 0) {
		ret = -errno;
		goto out_free;
	}
	ret = ofi_eq_open(ofi_container(fabric, struct ofi_fabric), &queue->eq, &eq_fd);
	if (ret != 0)
		goto out_epoll;
	ret = watch(queue, eq_fd, NULL);
	if (ret != 0)
		goto out_eq;
	*out = &queue->base;
	return 0;

out_eq:
	fi_close(&queue->eq->fid);
out_epoll:
	close(queue->epoll_fd);
out_free:
	free(queue);
	return error_code(ret);
}

void ofi_queue_close(struct fabric_queue *base)
{
	struct ofi_queue *queue = ofi_container(base, struct ofi_queue);
	struct ofi_cq *cq;
	struct ofi_cq *next;

	cds_list_for_each_entry_safe (cq, next, &queue->cqs, node)
		remove_cq(queue, cq);
	fi_close(&queue->eq->fid);
	close(queue->epoll_fd);
	free(queue);
}
