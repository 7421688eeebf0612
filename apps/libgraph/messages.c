/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages, combined as they come; see messages.h. Called by run.c and mail.c. */
#include "messages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t nr_words(const struct messages *messages)
{
	return messages->nr_vertices / 64 + 1;
}

static int open_set(const struct messages *messages, struct message_set *set)
{
	set->items = calloc(messages->nr_vertices, messages->bytes);
	set->bits = calloc(nr_words(messages), sizeof(*set->bits));
	return set->items && set->bits ? 0 : -ENOMEM;
}

int messages_open(struct messages *messages)
{
	int ret;

	if (!messages->bytes)
		return 0;
	ret = open_set(messages, &messages->out);
	return ret ? ret : open_set(messages, &messages->in);
}

void messages_free(struct messages *messages)
{
	free(messages->out.items);
	free(messages->out.bits);
	free(messages->in.items);
	free(messages->in.bits);
}

/* Returns whether it is the first to the vertex. */
static bool put(const struct messages *messages, struct message_set *set, uint32_t vertex,
		const void *message)
{
	const uint64_t bit = UINT64_C(1) << vertex % 64;
	char *item = &set->items[(uint64_t)messages->bytes * vertex];

	if (set->bits[vertex / 64] & bit) {
		messages->combine(item, message);
		return false;
	}
	set->bits[vertex / 64] |= bit;
	memcpy(item, message, messages->bytes);
	return true;
}

void messages_send(struct messages *messages, uint32_t vertex, const void *message)
{
	messages->nr_out += put(messages, &messages->out, vertex, message);
}

void messages_add(struct messages *messages, uint32_t vertex, const void *message)
{
	put(messages, &messages->in, vertex, message);
}

void messages_turn(struct messages *messages, uint64_t first)
{
	struct message_set out = messages->in;

	if (!messages->bytes)
		return;
	messages->in = messages->out;
	messages->out = out;
	memset(out.bits, 0, nr_words(messages) * sizeof(*out.bits));
	messages->nr_out = 0;
	messages->at = first;
}

bool messages_find(const struct message_set *set, uint64_t *at, uint64_t end)
{
	for (uint64_t vertex = *at; vertex < end; vertex = (vertex / 64 + 1) * 64) {
		uint64_t bits = set->bits[vertex / 64] >> vertex % 64;

		if (!bits)
			continue;
		*at = vertex + (unsigned)__builtin_ctzll(bits);
		return *at < end;
	}
	*at = end;
	return false;
}
