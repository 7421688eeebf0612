/* SPDX-License-Identifier: BSD-3-Clause */
/* See fs_drop.h. Each drop that the program is told of outlives the file system, because the program may answer late. */
#include "client/files/inode/fs_drop.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"

/* A call of the manager's, until all that it asks for is dropped. */
struct drop_call {
	struct rpc_call *call;
	struct fs_drops *drops;
	struct afar_drop *first; /* until the program is told */
	size_t nr;		 /* that are not dropped */
};

struct afar_drop {
	struct cds_list_head node; /* of the fs */
	struct afar_drop *next;	   /* of the call */
	struct drop_call *of;	   /* NULL: the fs was closed, and the call is answered */
	uint64_t ino;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;

void drops_init(struct fs_drops *drops, const struct afar_fs_options *options)
{
	*drops = (struct fs_drops){.tell = options->drop, .argument = options->argument};
	CDS_INIT_LIST_HEAD(&drops->list);
}

static void free_drops(struct afar_drop *drop)
{
	while (drop) {
		struct afar_drop *next = drop->next;

		free(drop);
		drop = next;
	}
}

/* In their order. Returns false where there is no memory. */
static bool add_drops(struct drop_call *of, const uint64_t *inos, size_t nr)
{
	while (nr-- > 0) {
		struct afar_drop *drop = malloc(sizeof(*drop));

		if (!drop)
			return false;
		*drop = (struct afar_drop){.next = of->first, .of = of, .ino = inos[nr]};
		of->first = drop;
		of->nr++;
	}
	return true;
}

struct drop_call *drop_call_new(struct fs_drops *drops, const uint64_t *inos, size_t nr,
				struct rpc_call *call)
{
	struct drop_call *of = drops->tell && nr != 0 ? malloc(sizeof(*of)) : NULL;

	if (!of)
		return NULL;
	*of = (struct drop_call){.call = call, .drops = drops};
	if (!add_drops(of, inos, nr)) {
		free_drops(of->first);
		free(of);
		return NULL;
	}
	pthread_mutex_lock(&mutex);
	for (struct afar_drop *drop = of->first; drop; drop = drop->next)
		cds_list_add_tail(&drop->node, &drops->list);
	drops->nr_telling++;
	pthread_mutex_unlock(&mutex);
	return of;
}

/* Each drop is the program's once it is told, and the call goes with the last of them. */
void drop_call_tell(struct drop_call *call)
{
	struct fs_drops *drops = call->drops;
	struct afar_drop *drop = call->first, *next;

	for (; drop; drop = next) {
		next = drop->next;
		drops->tell(drops->argument, drop->ino, drop);
	}
	pthread_mutex_lock(&mutex);
	drops->nr_telling--;
	pthread_cond_broadcast(&told);
	pthread_mutex_unlock(&mutex);
}

/* A drop is done. Returns the call if it was the last of it, else NULL. The mutex is held. */
static struct rpc_call *take_call(struct afar_drop *drop)
{
	struct drop_call *of = drop->of;
	struct rpc_call *call = NULL;

	if (!of)
		return NULL;
	cds_list_del(&drop->node);
	drop->of = NULL;
	if (--of->nr != 0)
		return NULL;
	call = of->call;
	free(of);
	return call;
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
		if (!call)
			continue;
		pthread_mutex_unlock(&mutex);
		rpc_reply_status(call, 0, 0);
		pthread_mutex_lock(&mutex);
	}
	pthread_mutex_unlock(&mutex);
}
