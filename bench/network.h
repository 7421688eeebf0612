/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network namespace by itself, whose routes say which congestion control connections have; and two
 * with wires between them, for suite `peers`: pairs of virtual devices whose rate is limited,
 * so that they and not the machine's cores are what is short. The namespaces have no names: they end with the last
 * process that is in them, however that ends.
 */
#ifndef BENCH_NETWORK_H
#define BENCH_NETWORK_H

#define NETWORK_WIRES	 2
#define NETWORK_RATE	 "1gbit"
#define NETWORK_SERVER_1 "10.77.1.1" /* the server's end of the first wire */
#define NETWORK_SERVER_2 "10.77.2.1" /* and of the second                  */

enum network_side {
	NETWORK_SERVER,
	NETWORK_CLIENT,
	NETWORK_SIDES,
};

struct network;

/* NULL when it can be made here, else why not. */
const char *network_obstacle(void);

/* Moves this thread, and what it starts from then on, to a namespace with nothing but loopback, whose connections have this
 * congestion control unless they are told another; for good. -EPERM, -EIO: it stays where it is. */
int network_be_alone(const char *congestion);

/* This thread is on the client's side afterwards. */
int network_open(struct network **out);
/* Moves this thread, and what it starts from then on, to a side. */
int network_enter(const struct network *network, enum network_side side);
/* This thread is back where it was before. NULL is allowed. */
void network_close(struct network *network);

#endif
