/* SPDX-License-Identifier: BSD-3-Clause */
/* Looking at a sorted place: order, count and sum; see sort.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "random.h"
#include "sort.h"
#include "tools/copy/failure.h"
#include "word.h"

struct verifier {
	const struct sort_options *options;
	struct sort_found *found;
	uint64_t length; /* of the place */
	uint8_t *last;	 /* the item before */
	size_t last_length, last_room;
};

static uint64_t hash(const uint8_t *item, size_t length)
{
	uint64_t sum = random_mix(length + 1);

	for (size_t at = 0; at < length; at += sizeof(sum))
		sum = random_mix(sum + word_at(item + at, length - at));
	return sum;
}

static void compare(struct verifier *verifier, const uint8_t *item, size_t length)
{
	size_t common = length < verifier->last_length ? length : verifier->last_length;
	int order = common ? memcmp(verifier->last, item, common) : 0;
	struct sort_found *found = verifier->found;

	if (!order && verifier->last_length != length)
		order = verifier->last_length < length ? -1 : 1;
	found->nr_equal += order == 0;
	if (order > 0 && !found->nr_unsorted++)
		found->first_unsorted = found->nr_items;
}

static int keep(struct verifier *verifier, const uint8_t *item, size_t length)
{
	if (length > verifier->last_room) {
		free(verifier->last);
		verifier->last_room = 2 * length;
		verifier->last = malloc(verifier->last_room);
		if (!verifier->last)
			return app_fail(-ENOMEM,
					"verify %s: out of memory for an item of %zu bytes",
					verifier->options->input, length);
	}
	if (length)
		memcpy(verifier->last, item, length);
	verifier->last_length = length;
	return 0;
}

static int take(void *context, const uint8_t *item, size_t length, uint64_t position)
{
	struct verifier *verifier = context;

	(void)position;
	if (verifier->found->nr_items)
		compare(verifier, item, length);
	verifier->found->nr_items++;
	verifier->found->sum += hash(item, length);
	return keep(verifier, item, length);
}

static int note(void *context, uint64_t done)
{
	const struct verifier *verifier = context;
	const struct sort_options *options = verifier->options;

	if (options->is_ended && options->is_ended(options->context))
		return -ECANCELED;
	if (options->show)
		options->show(options->context, "verifying",
			      (double)done / (double)verifier->length);
	return 0;
}

static int check_length(const struct sort_options *options, const struct place *place)
{
	uint64_t rest = place->length % SORT_RECORD_BYTES;

	if (options->is_lines || !rest)
		return 0;
	return app_fail(-EINVAL,
			"verify %s: it has %llu bytes, which are no whole records of %u: %llu are "
			"left over; give --lines if it is lines",
			options->input, (unsigned long long)place->length, SORT_RECORD_BYTES,
			(unsigned long long)rest);
}

static int read_items(struct afar_session *session, const struct sort_options *options,
		      const struct place *place, struct sort_found *out)
{
	struct verifier verifier = {.options = options, .found = out, .length = place->length};
	struct io io;
	struct input input = {
		.io = &io,
		.place = place,
		.is_lines = options->is_lines,
		.end = place->length,
		.take = take,
		.note = note,
		.context = &verifier,
	};
	int ret = io_open(&io, session, options->is_ended, options->context);

	if (!ret)
		ret = io_connect(&io, &place->end);
	if (!ret)
		ret = input_read(session, &input);
	io_close(&io);
	free(verifier.last);
	return ret;
}

int sort_verify(struct afar_session *session, const struct sort_options *options,
		struct sort_found *out)
{
	struct place place;
	int ret = place_open(session, options->input, &place);

	*out = (struct sort_found){0};
	if (ret)
		return ret;
	ret = check_length(options, &place);
	if (!ret)
		ret = read_items(session, options, &place, out);
	place_close(&place);
	return ret;
}
