/* SPDX-License-Identifier: BSD-3-Clause */
/* Suite `queue`: its stages, and the scene that both start from. */
#ifndef BENCH_QUEUE_H
#define BENCH_QUEUE_H

#include <stdint.h>

#include <afar/afar.h>

#include "harness/cluster.h"
#include "harness/harness.h"
#include "harness/scene.h"

#define QUEUE_SLOTS	 32U   /* operations in flight at most, of all queues of a row */
#define QUEUE_SLOT_BYTES 4096U /* bytes of the buffer for each of them */
#define QUEUE_WINDOW	 (UINT64_C(1) << 20) /* bytes of the region, read round and round */
#define NR_ROWS(rows)	 (sizeof(rows) / sizeof((rows)[0]))

/* A region on a cluster of one server, and memory to read it into. */
struct queue_scene {
	struct cluster *cluster;
	struct scene scene;
	struct afar_buffer *buffer;
};

/* Each step says what failed. The close function ends what there is. */
int queue_scene_open(struct queue_scene *scene);
void queue_scene_close(struct queue_scene *scene);
/* Opens a queue of `depth` that is connected to the server. */
int queue_scene_connect(struct queue_scene *scene, uint32_t depth, struct afar_queue **out);

/* Makes a read of `size` bytes into slot `slot`, which is its user_data too. `iov` must stay with
 * the operation. */
struct afar_op queue_read(const struct queue_scene *scene, unsigned slot, size_t size,
			  struct afar_iov *iov);
/* Returns where in the region operation number `sequence` reads. */
uint64_t queue_offset(uint64_t sequence, size_t size);
/* Submits `nr` operations, all of them. */
int queue_submit_all(struct afar_queue *queue, const struct afar_op *ops, unsigned nr);
/* Call it after a failure: reaps and drops what is in flight, so that the next row does not find
 * it. */
void queue_drain(struct afar_queue *queue);

extern const struct bench_stage queue_batches_stage;	 /* queue_batches.c     */
extern const struct bench_stage queue_completions_stage; /* queue_completions.c */

#endif
