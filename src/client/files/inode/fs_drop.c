/* SPDX-License-Identifier: BSD-3-Clause */
/* See fs_drop.h. Each drop that the program is told of outlives the file system, because the program may answer late. */
#include "client/files/inode/fs_drop.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"

struct afar_drop {
	struct cds_list_head node; /* of the fs */
	struct fs_drops *drops;	   /* NULL: that was closed, and the call is answered */
	struct rpc_call *call;
	uint64_t ino;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;

void drops_init(struct fs_drops *drops, const struct afar_fs_options *options)
{
	*drops = (struct fs_drops){.tell = options->drop, .argument = options->argument};
	CDS_INIT_LIST_HEAD(&drops->list);
}

struct afar_drop *drop_new(struct fs_drops *drops, uint64_t ino, struct rpc_call *call)
{
	struct afar_drop *drop = drops->tell ? malloc(sizeof(*drop)) : NULL;

	if (!drop)
		return NULL;
	*drop = (struct afar_drop){.drops = drops, .call = call, .ino = ino};
	pthread_mutex_lock(&mutex);
	cds_list_add_tail(&drop->node, &drops->list);
	drops->nr_telling++;
	pthread_mutex_unlock(&mutex);
	return drop;
}

void drop_tell(struct afar_drop *drop)
{
	struct fs_drops *drops = drop->drops;

	drops->tell(drops->argument, drop->ino, drop);
	pthread_mutex_lock(&mutex);
	drops->nr_telling--;
	pthread_cond_broadcast(&told);
	pthread_mutex_unlock(&mutex);
}

/* Takes the call away from a drop. NULL: it was answered. The mutex is held. */
static struct rpc_call *take_call(struct afar_drop *drop)
{
	if (!drop->drops)
		return NULL;
	cds_list_del(&drop->node);
	drop->drops = NULL;
	return drop->call;
}

void afar_fs_dropped(struct afar_drop *drop)
{
	struct rpc_call *call;

	if (!drop)
		return;
	pthread_mutex_lock(&mutex);
	call = take_call(drop);
	pthread_mutex_unlock(&mutex);
	if (call)
		rpc_reply_status(call, 0, 0);
	free(drop);
}

void drops_end(struct fs_drops *drops)
{
	struct rpc_call *call;

	pthread_mutex_lock(&mutex);
	while (drops->nr_telling != 0)
		pthread_cond_wait(&told, &mutex);
	while (!cds_list_empty(&drops->list)) {
		call = take_call(cds_list_first_entry(&drops->list, struct afar_drop, node));
		pthread_mutex_unlock(&mutex);
		rpc_reply_status(call, 0, 0);
		pthread_mutex_lock(&mutex);
	}
	pthread_mutex_unlock(&mutex);
}
