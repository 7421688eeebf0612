/* SPDX-License-Identifier: BSD-3-Clause */
/* Counting, and putting out. Called by stream.c when it keeps or drops bytes, by connection.c for connections that come and go. */
#include "rpc/hoard.h"

#include <errno.h>

#include "base/error.h"
#include "rpc/connection.h"

static struct hoard_part *find_largest(struct hoard *hoard)
{
	struct hoard_part *part, *largest = NULL;
	size_t most = 0;

	cds_list_for_each_entry (part, &hoard->parts, node) {
		size_t bytes = atomic_load(&part->bytes);

		if (bytes > most) {
			most = bytes;
			largest = part;
		}
	}
	return largest;
}

static void put_out(struct hoard_part *part)
{
	struct rpc_connection *connection =
		caa_container_of(part, struct rpc_connection, hoard_part);

	error_fail(
		-ENOBUFS,
		"%zu MiB of unfinished or unread messages, the most of all, and no room for more",
		atomic_load(&part->bytes) >> 20);
	listener_complain(connection, connection->identity, -ENOBUFS);
	connection_finish(connection, -ENOBUFS);
}

static void relieve(struct loop_task *task)
{
	struct hoard *hoard = caa_container_of(task, struct hoard, relief);
	struct hoard_part *largest;

	while (atomic_load(&hoard->bytes) > HOARD_BYTES_MAX) {
		largest = find_largest(hoard);
		if (!largest)
			return;
		put_out(largest);
	}
}

void hoard_init(struct hoard *hoard)
{
	atomic_init(&hoard->bytes, 0);
	CDS_INIT_LIST_HEAD(&hoard->parts);
	hoard->relief.run = relieve;
}

void hoard_enter(struct hoard *hoard, struct hoard_part *part)
{
	part->hoard = hoard;
	cds_list_add_tail(&part->node, &hoard->parts);
}

void hoard_leave(struct hoard_part *part)
{
	if (!part->hoard)
		return;
	atomic_fetch_sub(&part->hoard->bytes, atomic_exchange(&part->bytes, 0));
	cds_list_del(&part->node);
	part->hoard = NULL;
}

void hoard_add(struct rpc_loop *loop, struct hoard_part *part, size_t bytes)
{
	if (!part->hoard)
		return;
	atomic_fetch_add(&part->bytes, bytes);
	if (atomic_fetch_add(&part->hoard->bytes, bytes) + bytes > HOARD_BYTES_MAX)
		loop_task_queue(loop, &part->hoard->relief);
}

void hoard_take(struct hoard_part *part, size_t bytes)
{
	if (!part->hoard)
		return;
	atomic_fetch_sub(&part->bytes, bytes);
	atomic_fetch_sub(&part->hoard->bytes, bytes);
}
