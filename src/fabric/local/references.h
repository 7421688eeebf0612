/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages that a pager keeps where its peers can find them again (fabric/paged.h). Functions of references.c, for the end
 * that asks, and of refer.c, for the end that has the pager.
 *
 * A peer that asks for a key says whether it takes references. Before the first one it is given a page with a
 * lock, which the pager's thread holds while it lives. Before the first one into a slab it is given that. An answer to a
 * read has a reference beside it (exchange.h). In return the peer writes down which pages it has read by reference.
 */
#ifndef FABRIC_LOCAL_REFERENCES_H
#define FABRIC_LOCAL_REFERENCES_H

#include "fabric/local/local.h"
#include "fabric/paged.h"

#define LOCAL_LIFE_BYTES 4096U

struct local_exchange;
struct local_given;
struct local_page_reference;

/* ---- references.c. NULL: there is no memory. */
struct local_references *local_references_open(struct local_exchange *exchange);
/* No thread is at a window of the endpoint any more. NULL is allowed. */
void local_references_close(struct local_references *references);
/* For windows (mapped.h). NULL: there is none. */
struct fabric_pages *local_references_pages(struct local_references *references);
/* The descriptor stays the caller's. False: the peer has shown what it may not. */
bool local_references_take_life(struct local_references *references, int fd);
bool local_references_take_slab(struct local_references *references,
				const struct local_message *message, int fd);
/* Takes the reference of an answer in. False: there is no such place. */
bool local_references_note(struct local_references *references, uint64_t key, uint64_t page,
			   const struct local_page_reference *from);
/* Copies bytes behind a key. They count if the connection and the key still stand afterwards. False: read
 * them by a request. */
bool local_references_read(struct local_references *references, uint64_t key, uint64_t offset,
			   uint8_t *to, uint64_t length);

/* ---- refer.c */

/* Returns what the peer is told of a page that it has read. */
struct local_page_reference local_refer(struct local_endpoint *endpoint, struct local_given **given,
					const struct fabric_reference *reference);
void local_given_free(struct local_given *given);
void local_life_close(struct local_queue *queue);

#endif
