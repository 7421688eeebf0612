/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages to vertices, in this process's memory: one for each, because they are combined. */
#ifndef LIBGRAPH_MESSAGES_H
#define LIBGRAPH_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Messages to all vertices, and a bit for each that has one. */
struct message_set {
	char *items;
	uint64_t *bits;
};

struct messages {
	uint32_t bytes; /* of a message; 0: there are none */
	uint64_t nr_vertices;
	void (*combine)(void *message, const void *other);
	struct message_set out, in; /* what is sent in this step, and what was in the one before */
	uint64_t nr_out;
	uint64_t at; /* the vertex from which on messages were not received yet */
};

/* -ENOMEM without a line. It is to be freed, whatever this returns. */
int messages_open(struct messages *messages);
void messages_free(struct messages *messages);
void messages_send(struct messages *messages, uint32_t vertex, const void *message);
/* Begins the next step: what was sent has come. */
void messages_turn(struct messages *messages, uint64_t first);
/* Adds what another worker has sent, after messages_turn(). */
void messages_add(struct messages *messages, uint32_t vertex, const void *message);
/* Finds the first vertex of those from `*at` to `end` - 1 that has a message in the set. False: there is none. */
bool messages_find(const struct message_set *set, uint64_t *at, uint64_t end);

/* The message to the vertex in the set; NULL: there is none. */
static inline void *messages_at(const struct messages *messages, const struct message_set *set,
				uint64_t vertex)
{
	return set->bits[vertex / 64] >> vertex % 64 & 1 ? set->items + messages->bytes * vertex
							 : NULL;
}

#endif
