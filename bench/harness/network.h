/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Network namespaces. One by itself has routes that say which congestion control connections have.
 * Two with wires between them are for suite `peers`. Wires are pairs of virtual devices with a
 * limited rate, so that they and not the machine's cores are scarce. The namespaces have no names.
 * They end with the last process that is in them, however that ends.
 */
#ifndef BENCH_NETWORK_H
#define BENCH_NETWORK_H

#define NETWORK_WIRES	 2
#define NETWORK_RATE	 "1gbit"
#define NETWORK_SERVER_1 "10.77.1.1" /* the server's end of the first wire */
#define NETWORK_SERVER_2 "10.77.2.1" /* the server's end of the second wire */

enum network_side {
	NETWORK_SERVER,
	NETWORK_CLIENT,
	NETWORK_SIDES,
};

struct network;

/* Returns NULL if the two can be made here, otherwise why not. */
const char *network_obstacle(void);

/* Moves this thread, and what it starts from then on, for good to a namespace with nothing but
 * loopback. Connections there have this congestion control unless they are told another. -EPERM,
 * -EIO: the thread stays where it is. */
int network_be_alone(const char *congestion);

/* Makes the two namespaces and the wires, and moves this thread to the client's side. */
int network_open(struct network **out);
/* Moves this thread, and what it starts from then on, to a side. */
int network_enter(const struct network *network, enum network_side side);
/* Moves this thread back to where it was before. NULL is allowed. */
void network_close(struct network *network);

#endif
