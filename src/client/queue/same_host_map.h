/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes windows on same-host memory (same_host_map.c). */
#ifndef CLIENT_NEAR_LOOK_H
#define CLIENT_NEAR_LOOK_H

#include "client/target/same_host.h"

struct afar_queue;

/* Takes windows over the connections of `queue`, unless the target has as many already. The caller
 * owns the queue, which is connected to the target's servers. From then on blocking calls on the
 * target prefer that queue and so refresh its connections (afar_target.same_host_queue). */
void same_host_map(struct afar_target *target, struct afar_queue *queue);

#endif
