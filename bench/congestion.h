/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion control over loopback: whatever Afar's own connections use, those that it is compared with are to use, too.
 * Other people's programs cannot be told, so root has everything run in a network of its own whose routes say so. Else
 * what is of the bench itself is told, and the head of the table says that the rest was not.
 */
#ifndef BENCH_CONGESTION_H
#define BENCH_CONGESTION_H

#include <stddef.h>

/* Before anything is started, and before there are threads. Never fails: at worst programs differ. */
void congestion_prepare(void);

/* A socket of the bench's, before it connects or listens on loopback. */
void congestion_apply(int fd);

/* For the head of the table. */
void congestion_describe(char *out, size_t size);

#endif
