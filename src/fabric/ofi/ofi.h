/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric over libfabric's connected endpoints (FI_EP_MSG): declarations that the files of this
 * folder share.
 *
 *   library.c   libfabric itself, loaded late
 *   ofi.c       the transport: fabric, its attributes, the operations table
 *   domain.c    protection domains, and memory registered in them
 *   queue.c     completion queues, connection events, sleeping
 *   endpoint.c  connecting, accepting, closing, reading, writing
 *   atomics.c   atomics, and whether they work
 *   listener.c  connection requests
 *
 * Ownership: a fabric owns libfabric's fabric and its first domain. A queue owns its event queue
 * (EQ), its completion queues (CQs) and the epoll descriptor over them. An endpoint belongs to its
 * opener, and its queue lists it until it is closed.
 */
#ifndef FABRIC_OFI_OFI_H
#define FABRIC_OFI_OFI_H

#include <errno.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sys/socket.h>
#include <urcu/list.h>

#include "fabric/address.h"
#include "fabric/atomics.h"
#include "fabric/fabric.h"
#include "fabric/listener.h"

#define OFI_SHARERS_MAX 64

/* The most private data that any provider passes. An event that does not fit its buffer would block
 * the EQ for ever. */
#define OFI_EVENT_DATA_MAX 512

enum ofi_atomics { OFI_ATOMICS_UNTRIED, OFI_ATOMICS_NONE, OFI_ATOMICS_WORK };

struct ofi_fabric {
	struct fabric base;
	struct fi_info *info; /* the provider's capabilities; a template for endpoints */
	struct fid_fabric *fabric;
	bool is_virtual_addressed;
	bool picks_keys; /* the provider chooses keys, so we need not */
	bool is_only_device;
	pthread_mutex_t atomics_lock;
	enum ofi_atomics atomics; /* written once, under the lock */
};

struct ofi_domain {
	struct fabric_domain base;
	struct fid_domain *domain;
};

struct ofi_listener {
	struct fabric_listener base;
	struct fid_pep *pep;
	struct fid_eq *eq;
	int fd;
};

struct ofi_cq {
	struct cds_list_head node; /* in ofi_queue.cqs  */
	struct cds_list_head warm; /* in ofi_queue.warm */
	struct ofi_domain *domain; /* the domain of all its endpoints */
	struct fid_cq *cq;
	int fd;
	bool is_private; /* belongs to one endpoint, and ends with it */
	bool is_drained; /* the last read found nothing */
	unsigned nr_endpoints;
	/* Roughly: transfers of closed endpoints leave no completion, and receives are not
	 * counted. */
	unsigned nr_in_flight;
	unsigned patience; /* empty reads before it goes cold; 0: it is cold */
};

/*
 * An endpoint that connects has a CQ of its own, which is closed with it. The reason is that verbs
 * does not say on which endpoint a transfer has failed. Neither a failed transfer nor a dead peer
 * ends the connection or its other transfers; we do.
 *
 * CQs are warm or cold. Each poll reads the warm ones. A cold one has been armed with fi_trywait()
 * since it was last touched, so the epoll descriptor reports when it has work again. With a single
 * CQ (`only`) none of this happens: it stays warm.
 */
struct ofi_queue {
	struct fabric_queue base;
	uint32_t depth;
	int epoll_fd;
	struct fid_eq *eq;
	struct ofi_cq *only;	       /* the CQ, while there is exactly one              */
	unsigned polls_until_look;     /* until cold CQs are asked for again */
	unsigned polls_until_events;   /* until the EQ is asked, which alone tells of dead peers */
	struct cds_list_head cqs;      /* of ofi_cq.node                                  */
	struct cds_list_head warm;     /* of ofi_cq.warm                                  */
	struct cds_list_head live;     /* of ofi_endpoint.node                            */
	struct cds_list_head eventful; /* of ofi_endpoint.eventful: have an event */
};

enum ofi_endpoint_state { OFI_CONNECTING, OFI_CONNECTED, OFI_CLOSED };

struct ofi_endpoint {
	struct fabric_endpoint base;
	struct fid_ep *ep;
	struct ofi_cq *cq;
	enum ofi_endpoint_state state;
	enum ofi_endpoint_state told;  /* the state that queue_event() last told */
	bool was_connected;	       /* valid in OFI_CLOSED */
	struct cds_list_head node;     /* in ofi_queue.live                      */
	struct cds_list_head eventful; /* in ofi_queue.eventful, or empty        */
};

#define ofi_container(pointer, type) caa_container_of(pointer, type, base)

/* Returns a negative errno for libfabric's `error`, of either sign; never 0. */
static inline int ofi_errno(int64_t error)
{
	int code = (int)(error < 0 ? -error : error);

	/* From FI_EOTHER on libfabric has codes of its own. */
	return code > 0 && code < FI_EOTHER ? -code : -EIO;
}

/* Returns libfabric's name for the address family. */
static inline uint32_t ofi_address_format(const struct fabric_address *address)
{
	return address->storage.ss_family == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
}

/* ofi.c */
extern const struct fabric_ops ofi_verbs_ops;

/* domain.c */
int ofi_domain_open(struct fabric *fabric, struct fabric_domain **out);
void ofi_domain_close(struct fabric_domain *domain);
int ofi_memory_register(struct fabric_domain *domain, void *addr, size_t length, unsigned access,
			struct fabric_memory *out);
bool ofi_memory_deregister(struct fabric_memory *memory);

/* queue.c */
/* Opens an EQ, and gets the descriptor to sleep on it. */
int ofi_eq_open(struct ofi_fabric *fabric, struct fid_eq **eq, int *fd);
int ofi_queue_open(struct fabric *fabric, uint32_t depth, struct fabric_queue **out);
void ofi_queue_close(struct fabric_queue *queue);
int ofi_queue_fd(struct fabric_queue *queue);
int ofi_queue_arm(struct fabric_queue *queue);
int ofi_queue_poll(struct fabric_queue *queue, struct fabric_completion *out, unsigned max);
int ofi_queue_event(struct fabric_queue *queue, struct fabric_event *out);
/* Finds a place on a CQ for one more endpoint of the domain: on a CQ of its own, or among
 * others. */
int ofi_queue_take_place(struct ofi_queue *queue, struct ofi_domain *domain, bool is_private,
			 struct ofi_cq **out);
void ofi_queue_give_place(struct ofi_queue *queue, struct ofi_cq *cq);
/* Takes the events of the EQ, and notes them in their endpoints. */
void ofi_queue_drain_events(struct ofi_queue *queue);
/* Has the next polls read this CQ. Call it after anything that may bring a completion. */
void ofi_queue_warm(struct ofi_queue *queue, struct ofi_cq *cq);

/* Turns libfabric's answer to a posted transfer into the fabric's, and counts the transfer if it
 * was taken. */
static inline int ofi_posted(struct ofi_endpoint *endpoint, ssize_t rc)
{
	/* Warms it also for a refused transfer, because polling makes room. */
	ofi_queue_warm(ofi_container(endpoint->base.queue, struct ofi_queue), endpoint->cq);
	if (rc == 0) {
		endpoint->cq->nr_in_flight++;
		return 0;
	}
	return rc == -FI_EAGAIN ? -EAGAIN : ofi_errno(rc);
}

/* endpoint.c */
int ofi_connect(struct fabric_queue *queue, const char *address, const void *private_data,
		size_t private_length, void *owner, struct fabric_endpoint **out);
int ofi_accept(struct fabric_request *request, struct fabric_queue *queue,
	       struct fabric_domain *domain, void *owner, struct fabric_endpoint **out);
void ofi_endpoint_close(struct fabric_endpoint *endpoint);
int ofi_read(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
	     unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context);
int ofi_write(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
	      unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context);
int ofi_receive(struct fabric_endpoint *endpoint, const struct fabric_piece *piece,
		uint64_t context);
int ofi_send(struct fabric_endpoint *endpoint, const struct fabric_piece *piece, uint64_t context);

/* atomics.c */
bool ofi_has_atomics(struct fabric *fabric);
int ofi_fetch_add(struct fabric_endpoint *endpoint, const struct fabric_piece *result,
		  uint64_t remote, uint64_t key, uint64_t operand, uint64_t context);
int ofi_compare_swap(struct fabric_endpoint *endpoint, const struct fabric_piece *result,
		     uint64_t remote, uint64_t key, uint64_t compare, uint64_t operand,
		     uint64_t context);

/* listener.c */
int ofi_listen(struct fabric *fabric, const char *address, struct fabric_listener **out);
void ofi_listener_close(struct fabric_listener *listener);
int ofi_listener_fd(struct fabric_listener *listener);
int ofi_listener_next(struct fabric_listener *listener, struct fabric_request *out);
void ofi_reject(struct fabric_listener *listener, struct fabric_request *request);

#endif
