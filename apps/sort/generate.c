/* SPDX-License-Identifier: BSD-3-Clause */
/* Making records; see sort.h. Each is computed from the seed and its number alone. */
#include <errno.h>
#include <string.h>

#include "place.h"
#include "random.h"
#include "room.h"
#include "sort.h"
#include "tools/copy/failure.h"
#include "tools/copy/io.h"

#define PIECES	      4U
#define PIECE_RECORDS 10000U
#define PIECE_BYTES   ((size_t)PIECE_RECORDS * SORT_RECORD_BYTES)
#define PRINTABLE     95U /* bytes from ' ' to '~' */
#define PREFIXES      128U
#define PREFIX_BYTES  6U
#define JOB_NAME      "generate"

struct generator {
	const struct sort_made *made;
	struct place place;
	struct room room;
	struct io io;
	struct afar_buffer *buffer;
	struct io_request requests[PIECES];
};

/* ---- Records */

/* Puts `nr` printable bytes, at most 9: so many are in 64 bits. */
static void put_printable(uint8_t *out, unsigned nr, uint64_t bits)
{
	for (unsigned i = 0; i < nr; i++) {
		out[i] = (uint8_t)(' ' + bits % PRINTABLE);
		bits /= PRINTABLE;
	}
}

/* Half of the keys get a prefix, by the number of 0 bits at the low end of `bits`. So prefix 0 comes in a half of
 * these, 1 in a quarter, and so on; 7 and all above share the rest. */
static void skew(uint8_t *key, uint64_t seed, uint64_t bits)
{
	uint64_t prefix = (uint64_t)__builtin_ctzll(bits | (1U << 7));

	if (bits >> 63)
		return;
	if (prefix == 7)
		prefix += (bits >> 8) % (PREFIXES - 7);
	put_printable(key, PREFIX_BYTES, random_at(~seed, prefix));
}

static void put_hex(uint8_t *out, unsigned digits, uint64_t number)
{
	static const char hex[] = "0123456789ABCDEF";

	for (; digits; number /= 16)
		out[--digits] = (uint8_t)hex[number % 16];
}

static void make_record(const struct sort_made *made, uint64_t number,
			uint8_t out[SORT_RECORD_BYTES])
{
	uint64_t bits = random_at(made->seed, 2 * number),
		 more = random_at(made->seed, 2 * number + 1);

	put_printable(out, 5, bits);
	put_printable(out + 5, 5, more);
	if (made->is_skewed)
		skew(out, made->seed, random_mix(bits ^ more));
	memset(out + 10, ' ', 2);
	put_hex(out + 12, 16, 0);
	put_hex(out + 28, 16, number);
	memset(out + 44, ' ', 2);
	for (unsigned i = 0; i < 13; i++)
		memset(out + 46 + 4 * i, 'A' + (int)((bits >> (4 * i)) % 16), 4);
	out[98] = '\r';
	out[99] = '\n';
}

/* ---- Writing them */

static int begin(struct afar_session *session, const char *output, struct generator *generator)
{
	const struct sort_made *made = generator->made;
	uint64_t bytes = made->nr_records * SORT_RECORD_BYTES;
	char ns[AFAR_NAME_MAX + 1];
	int ret = 0;

	if (place_is_region(output)) {
		ret = place_namespace(output, ns);
		if (!ret)
			ret = room_get(session, ns, bytes, &generator->room);
	}
	if (!ret)
		ret = place_create(session, output, bytes, JOB_NAME, made->may_replace,
				   &generator->place);
	if (ret == -AFAR_ERESERVE) {
		ret = room_get_whole(session, bytes, &generator->room);
		if (!ret)
			ret = place_create(session, output, bytes, JOB_NAME, made->may_replace,
					   &generator->place);
	}
	return ret;
}

static int put_piece(struct generator *generator, uint64_t first)
{
	const struct sort_made *made = generator->made;
	uint64_t left = made->nr_records - first, nr = left < PIECE_RECORDS ? left : PIECE_RECORDS;
	unsigned slot = (unsigned)(first / PIECE_RECORDS % PIECES);
	uint8_t *data = (uint8_t *)afar_buffer_data(generator->buffer) + slot * PIECE_BYTES;
	int ret = io_wait(&generator->io, &generator->requests[slot]);

	if (ret)
		return ret;
	for (uint64_t i = 0; i < nr; i++)
		make_record(made, first + i, data + i * SORT_RECORD_BYTES);
	return io_write(&generator->io, &generator->requests[slot], &generator->place.end,
			first * SORT_RECORD_BYTES, generator->buffer, data, nr * SORT_RECORD_BYTES);
}

static int put_all(struct generator *generator)
{
	const struct sort_made *made = generator->made;
	int ret = 0;

	for (uint64_t first = 0; first < made->nr_records && !ret; first += PIECE_RECORDS) {
		if (made->is_ended && made->is_ended(made->context))
			return -ECANCELED;
		if (made->show)
			made->show(made->context, "generating",
				   (double)first / (double)made->nr_records);
		ret = put_piece(generator, first);
	}
	for (unsigned i = 0; i < PIECES && !ret; i++)
		ret = io_wait(&generator->io, &generator->requests[i]);
	return ret ? ret : io_flush(&generator->io, &generator->place.end);
}

static int generate(struct afar_session *session, const char *output, struct generator *generator)
{
	const struct sort_made *made = generator->made;
	int ret = begin(session, output, generator);

	if (!ret)
		ret = io_open(&generator->io, session, made->is_ended, made->context);
	if (!ret)
		ret = io_connect(&generator->io, &generator->place.end);
	if (!ret && afar_buffer_alloc(session, PIECES * PIECE_BYTES, &generator->buffer))
		ret = app_fail(-ENOMEM, "generate %s: out of memory", output);
	if (!ret)
		ret = put_all(generator);
	return ret ? ret : place_finish(&generator->place);
}

int sort_generate(struct afar_session *session, const char *output, const struct sort_made *made)
{
	struct generator generator = {.made = made, .place = {.end = {.text = output, .fd = -1}}};
	int ret;

	if (!made->nr_records || made->nr_records > INT64_MAX / SORT_RECORD_BYTES)
		return app_fail(-EINVAL, "generate %s: %llu records cannot be; give from 1 on",
				output, (unsigned long long)made->nr_records);
	ret = generate(session, output, &generator);
	io_close(&generator.io);
	if (generator.buffer)
		afar_buffer_unregister(generator.buffer);
	if (ret)
		place_discard(&generator.place);
	place_close(&generator.place);
	if (ret)
		room_give_back(session, &generator.room, 0);
	return ret;
}
