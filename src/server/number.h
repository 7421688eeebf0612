/* SPDX-License-Identifier: BSD-3-Clause */
/* The file "server.id" in the server's folder: the number that the cluster's manager gave it. */
#ifndef SERVER_NUMBER_H
#define SERVER_NUMBER_H

#include <stdint.h>

/* The number, 0 when there is no file yet. With a sentence: -EINVAL (damaged), those of reading. */
int number_load(const char *folder, uint64_t *out);
/* Writes it aside, syncs, renames: after a crash it is the old one or the new one. With a sentence. */
int number_save(const char *folder, uint64_t number);

#endif
