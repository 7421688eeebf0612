/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stream of a part's items; see input.h. Called by worker.c and verify.c.
 *
 * A line belongs to the part that it begins in. So a part is read from the byte before it, to see whether a line begins
 * with it. Reading goes on behind its end until its last line ends. An item that is cut by the end of a piece is put
 * together in memory of its own.
 */
#include "input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sort.h"
#include "tools/copy/failure.h"

#define PIECES	    16U
#define PIECE_BYTES ((size_t)250000) /* whole records, so that none is cut */

struct piece {
	struct io_request request;
	struct afar_buffer *buffer;
	size_t length;
};

struct reader {
	struct input *input;
	struct piece pieces[PIECES];
	bool is_ahead; /* it reads as many pieces ahead as there are; else one is in use */
	uint64_t nr_started, nr_taken;
	uint64_t next;	 /* where the next piece begins */
	uint64_t at;	 /* where the piece that is looked at begins */
	bool is_in_item; /* what was read of the part so far belongs to a line that began before it */
	bool is_over;
	uint8_t *cut; /* the beginning of an item, from pieces before */
	size_t cut_length, cut_room;
};

uint64_t input_share(uint64_t length, bool is_lines, unsigned worker, unsigned nr_workers)
{
	uint64_t unit = is_lines ? 1 : SORT_RECORD_BYTES, units = length / unit;

	return (units / nr_workers * worker + units % nr_workers * worker / nr_workers) * unit;
}

/* ---- Pieces */

static int open_pieces(struct afar_session *session, struct reader *reader)
{
	int ret = 0;

	for (unsigned i = 0; i < PIECES && !ret; i++)
		ret = afar_buffer_alloc(session, PIECE_BYTES, &reader->pieces[i].buffer);
	return ret ? app_fail_last(ret, reader->input->place->end.text) : 0;
}

static void close_pieces(struct reader *reader)
{
	io_drain(reader->input->io);
	for (unsigned i = 0; i < PIECES && reader->pieces[i].buffer; i++)
		afar_buffer_unregister(reader->pieces[i].buffer);
}

static struct piece *piece_at(struct reader *reader, uint64_t number)
{
	return &reader->pieces[reader->is_ahead ? number % PIECES : 0];
}

static int start_piece(struct reader *reader, uint64_t end)
{
	struct piece *piece = piece_at(reader, reader->nr_started);
	uint64_t left = end - reader->next;
	uint64_t start = reader->next;
	int ret;

	piece->length = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
	reader->next += piece->length;
	reader->nr_started++;
	ret = io_read(reader->input->io, &piece->request, &reader->input->place->end, start,
		      piece->buffer, afar_buffer_data(piece->buffer), piece->length);
	/* Not on `local`, where it is read already: it is in the cache now, and would not be when its turn comes. */
	if (reader->nr_started == 1 && piece->request.is_busy)
		reader->is_ahead = true;
	return ret;
}

/* Has reads in flight up to the end of the part. Behind that, reads on only when the last line is not over yet. */
static int read_ahead(struct reader *reader)
{
	int ret = 0;

	while (!ret && reader->nr_started < reader->nr_taken + (reader->is_ahead ? PIECES : 1) &&
	       reader->next < reader->input->end)
		ret = start_piece(reader, reader->input->end);
	if (!ret && reader->nr_started == reader->nr_taken &&
	    reader->next < reader->input->place->length)
		ret = start_piece(reader, reader->input->place->length);
	return ret;
}

/* Gets the next piece. NULL: the place has ended. */
static int next_piece(struct reader *reader, struct piece **out)
{
	struct piece *piece;
	uint64_t before_ns = clock_ns();
	int ret = read_ahead(reader);

	*out = NULL;
	if (!ret && reader->nr_started > reader->nr_taken) {
		piece = piece_at(reader, reader->nr_taken);
		ret = io_wait(reader->input->io, &piece->request);
		*out = ret ? NULL : piece;
	}
	reader->input->wait_ns += clock_ns() - before_ns;
	return ret;
}

/* ---- Items */

static int hand_out(struct reader *reader, const uint8_t *item, size_t length, uint64_t position)
{
	if (position >= reader->input->end) {
		reader->is_over = true;
		return 0;
	}
	return reader->input->take(reader->input->context, item, length, position);
}

/* Keeps the beginning of an item, whose rest is in the next piece. */
static int keep_cut(struct reader *reader, const uint8_t *data, size_t length)
{
	size_t needed = reader->cut_length + length;
	uint8_t *longer;

	if (needed > reader->cut_room) {
		longer = realloc(reader->cut, 2 * needed);
		if (!longer)
			return app_fail(-ENOMEM,
					"sort %s: out of memory for an item of more than %zu bytes",
					reader->input->place->end.text, needed);
		reader->cut = longer;
		reader->cut_room = 2 * needed;
	}
	if (length)
		memcpy(reader->cut + reader->cut_length, data, length);
	reader->cut_length = needed;
	return 0;
}

/* Ends the item of which there is a beginning, with `length` bytes more that end before `behind`. */
static int end_cut(struct reader *reader, const uint8_t *data, size_t length, uint64_t behind)
{
	int ret = keep_cut(reader, data, length);

	if (!ret)
		ret = hand_out(reader, reader->cut, reader->cut_length,
			       behind - reader->cut_length);
	reader->cut_length = 0;
	return ret;
}

static int take_lines(struct reader *reader, const uint8_t *data, size_t length)
{
	const uint8_t *at = data, *end = data + length, *newline;
	int ret = 0;

	while (!ret && !reader->is_over && at < end &&
	       (newline = memchr(at, '\n', (size_t)(end - at)))) {
		uint64_t behind = reader->at + (uint64_t)(newline - data);

		if (reader->is_in_item)
			reader->is_in_item = false;
		else if (reader->cut_length)
			ret = end_cut(reader, at, (size_t)(newline - at), behind);
		else
			ret = hand_out(reader, at, (size_t)(newline - at),
				       reader->at + (uint64_t)(at - data));
		at = newline + 1;
	}
	/* An item that begins behind the part is another's. */
	if (!ret && at < end && !reader->cut_length &&
	    reader->at + (uint64_t)(at - data) >= reader->input->end)
		reader->is_over = true;
	if (!ret && !reader->is_over && !reader->is_in_item && at < end)
		ret = keep_cut(reader, at, (size_t)(end - at));
	return ret;
}

static int take_records(struct reader *reader, const uint8_t *data, size_t length)
{
	int ret = 0;

	for (size_t at = 0; at < length && !ret; at += SORT_RECORD_BYTES)
		ret = hand_out(reader, data + at, SORT_RECORD_BYTES, reader->at + at);
	return ret;
}

static int take_piece(struct reader *reader, const struct piece *piece)
{
	const uint8_t *data = afar_buffer_data(piece->buffer);
	int ret = reader->input->is_lines ? take_lines(reader, data, piece->length)
					  : take_records(reader, data, piece->length);

	reader->nr_taken++;
	reader->at += piece->length;
	if (reader->at >= reader->input->end && !reader->cut_length)
		reader->is_over = true;
	return ret;
}

static int read_all(struct reader *reader)
{
	struct input *input = reader->input;
	struct piece *piece;
	uint64_t done;
	int ret;

	while (!reader->is_over) {
		ret = next_piece(reader, &piece);
		if (ret)
			return ret;
		if (!piece)
			break;
		ret = take_piece(reader, piece);
		if (ret)
			return ret;
		done = (reader->at < input->end ? reader->at : input->end) - input->begin;
		ret = input->note ? input->note(input->context, done) : 0;
		if (ret)
			return ret;
	}
	/* The last line of the place may lack its end. */
	return reader->cut_length && !reader->is_over ? end_cut(reader, NULL, 0, reader->at) : 0;
}

int input_read(struct afar_session *session, struct input *input)
{
	struct reader reader = {.input = input, .next = input->begin};
	int ret;

	if (input->begin >= input->end)
		return 0;
	if (input->is_lines && input->begin) {
		reader.next--;
		reader.is_in_item = true;
	}
	reader.at = reader.next;
	ret = open_pieces(session, &reader);
	if (!ret)
		ret = read_all(&reader);
	close_pieces(&reader);
	free(reader.cut);
	return ret;
}
