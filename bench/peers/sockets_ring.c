/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server with an io_uring, for reads. For each request it submits the read of the block, the
 * send behind it and the next receive behind that. They are linked: the kernel goes from one to the
 * next by itself. One system call submits for all clients that have asked meanwhile, and waits.
 */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "sockets_server.h"

#define ENTRIES	   1024U
#define REAP_MAX   128U
#define FILE_INDEX 0 /* among the registered descriptors; the clients follow */

enum part { PART_RECEIVE, PART_READ, PART_SEND };

struct asker {
	struct sockets_request request;
	char *block;
	unsigned index; /* of its registered descriptor */
};

static void add(struct io_uring *ring, struct asker *asker, enum part part)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	switch (part) {
	case PART_RECEIVE:
		io_uring_prep_recv(sqe, (int)asker->index, &asker->request, sizeof(asker->request),
				   MSG_WAITALL);
		break;
	case PART_READ:
		io_uring_prep_read(sqe, FILE_INDEX, asker->block, SOCKETS_BLOCK,
				   asker->request.offset);
		break;
	default:
		io_uring_prep_send(sqe, (int)asker->index, asker->block, SOCKETS_BLOCK,
				   MSG_NOSIGNAL | MSG_WAITALL);
		break;
	}
	sqe->flags |= IOSQE_FIXED_FILE;
	if (part != PART_RECEIVE)
		sqe->flags |= IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS;
	io_uring_sqe_set_data(sqe, asker);
}

static void answer(struct io_uring *ring, struct asker *asker)
{
	add(ring, asker, PART_READ);
	add(ring, asker, PART_SEND);
	add(ring, asker, PART_RECEIVE);
}

static int open_ring(struct io_uring *ring, int file, const int *clients, unsigned nr_clients)
{
	int *files = calloc(nr_clients + 1, sizeof(*files));
	int ret =
		files ? io_uring_queue_init(ENTRIES, ring,
					    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN)
		      : -ENOMEM;

	if (ret) {
		free(files);
		return ret;
	}
	files[FILE_INDEX] = file;
	for (unsigned i = 0; i < nr_clients; i++)
		files[i + 1] = clients[i];
	ret = io_uring_register_files(ring, files, nr_clients + 1);
	free(files);
	return ret;
}

static int open_askers(struct io_uring *ring, struct asker *askers, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		askers[i].index = i + 1;
		askers[i].block = aligned_alloc(SOCKETS_BLOCK, SOCKETS_BLOCK);
		if (!askers[i].block)
			return -ENOMEM;
		add(ring, &askers[i], PART_RECEIVE);
	}
	return 0;
}

/* Only receives that are done, and what has failed, complete. */
static int serve(struct io_uring *ring)
{
	struct io_uring_cqe *cqes[REAP_MAX];
	int ret = io_uring_submit_and_wait(ring, 1);
	unsigned nr = io_uring_peek_batch_cqe(ring, cqes, REAP_MAX);

	for (unsigned i = 0; i < nr; i++) {
		if (cqes[i]->res != sizeof(struct sockets_request))
			return -EIO;
		answer(ring, io_uring_cqe_get_data(cqes[i]));
	}
	io_uring_cq_advance(ring, nr);
	return ret < 0 && ret != -EINTR ? ret : 0;
}

int sockets_ring_serve(int file, const int *clients, unsigned nr_clients)
{
	struct asker *askers = calloc(nr_clients, sizeof(*askers));
	struct io_uring ring;
	int ret = askers ? open_ring(&ring, file, clients, nr_clients) : -ENOMEM;

	if (!ret)
		ret = open_askers(&ring, askers, nr_clients);
	while (!ret)
		ret = serve(&ring);
	return ret; /* the process ends, and all of it */
}
