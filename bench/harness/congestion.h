/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion control over loopback. Programs that Afar is compared with should use the same as
 * Afar's own connections. Other people's programs cannot be told. So root has everything run in a
 * network of its own, whose routes say which to use. Without root only the bench's own sockets are
 * told, and the head of the table says that the others were not.
 */
#ifndef BENCH_CONGESTION_H
#define BENCH_CONGESTION_H

#include <stddef.h>

/* Call it before anything is started, and before there are threads. It never fails; at worst
 * programs differ. */
void congestion_prepare(void);

/* Sets a socket of the bench's, before it connects or listens on loopback. */
void congestion_apply(int fd);

/* Describes what was so, for the head of the table. */
void congestion_describe(char *out, size_t size);

#endif
