/* SPDX-License-Identifier: BSD-3-Clause */
/* Encoding and decoding messages of driven connections. Called by the other files of this folder. */
#include "fabric/driven/wire.h"

#include <endian.h>
#include <string.h>

#define CODES	  4095U	 /* of errno */
#define OWN_CODES 10000U /* before those of afar/error.h */

uint32_t driven_kind_of(const struct driven_message *message)
{
	return le32toh(message->head.kind);
}

static size_t finish(struct driven_message *out, enum driven_kind kind, size_t length)
{
	out->head = (struct driven_head){htole32(kind), htole32((uint32_t)length)};
	return length;
}

/* Returns the bytes behind the first `least`; -1: the message is no such message. */
static long rest_of(const struct driven_message *message, enum driven_kind kind, size_t least)
{
	const size_t length = le32toh(message->head.length);

	if (driven_kind_of(message) != kind || length < least || length > sizeof(*message))
		return -1;
	return (long)(length - least);
}

static size_t put_sums(uint8_t *to, const uint32_t *sums, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		const uint32_t sum = htole32(sums[i]);

		memcpy(to + i * sizeof(sum), &sum, sizeof(sum));
	}
	return nr * sizeof(uint32_t);
}

static void get_sums(uint32_t *sums, const uint8_t *from, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		uint32_t sum;

		memcpy(&sum, from + i * sizeof(sum), sizeof(sum));
		sums[i] = le32toh(sum);
	}
}

/* ---- Notes */

size_t driven_encode_note(struct driven_message *out, const void *bytes, size_t length)
{
	memcpy(out->bytes + sizeof(out->head), bytes, length);
	return finish(out, DRIVEN_NOTE, sizeof(out->head) + length);
}

const char *driven_decode_note(const struct driven_message *message, const void **bytes,
			       size_t *length)
{
	const long rest = rest_of(message, DRIVEN_NOTE, sizeof(message->head));

	if (rest < 0)
		return "a message that is none";
	*bytes = message->bytes + sizeof(message->head);
	*length = (size_t)rest;
	return NULL;
}

/* ---- Asks */

size_t driven_encode_ask(struct driven_message *out, const struct driven_ask *ask,
			 const uint32_t *sums)
{
	const uint32_t nr_sums = sums ? driven_nr_sums(ask->length) : 0;

	out->ask = (struct driven_ask){
		.number = htole32(ask->number),
		.flags = htole32(ask->flags),
		.key = htole64(ask->key),
		.offset = htole64(ask->offset),
		.length = htole32(ask->length),
		.nr_pieces = htole32(ask->nr_pieces),
	};
	for (uint32_t i = 0; i < ask->nr_pieces; i++) {
		out->ask.pieces[i] = (struct driven_piece){
			.addr = htole64(ask->pieces[i].addr),
			.key = htole64(ask->pieces[i].key),
			.length = htole32(ask->pieces[i].length),
		};
	}
	return finish(out, DRIVEN_ASK,
		      sizeof(out->ask) + put_sums(out->bytes + sizeof(out->ask), sums, nr_sums));
}

static bool are_flags_good(uint32_t flags)
{
	return (flags & ~DRIVEN_FLAGS) == 0 &&
	       ((flags & DRIVEN_DURABLE) == 0 || (flags & DRIVEN_WRITE) != 0);
}

/* The pieces have as many bytes as the transfer. */
static bool are_pieces_good(const struct driven_ask *ask)
{
	uint64_t length = 0;

	if (ask->nr_pieces > FABRIC_IOV_MAX)
		return false;
	for (uint32_t i = 0; i < ask->nr_pieces; i++) {
		uint64_t end;

		length += ask->pieces[i].length;
		if (ask->pieces[i].length == 0 ||
		    __builtin_add_overflow(ask->pieces[i].addr, ask->pieces[i].length, &end))
			return false;
	}
	return length == ask->length;
}

static uint32_t nr_sums_of(const struct driven_ask *ask)
{
	const uint32_t wanted = DRIVEN_WRITE | DRIVEN_CHECKED;

	return (ask->flags & wanted) == wanted ? driven_nr_sums(ask->length) : 0;
}

void driven_take_sums(const struct driven_message *message, const struct driven_ask *ask,
		      uint32_t *sums)
{
	get_sums(sums, message->bytes + sizeof(message->ask), nr_sums_of(ask));
}

const char *driven_decode_ask(const struct driven_message *message, struct driven_ask *out)
{
	const struct driven_ask *in = &message->ask;
	const long rest = rest_of(message, DRIVEN_ASK, sizeof(*in));

	if (rest < 0)
		return "a message that is none";
	*out = (struct driven_ask){
		.number = le32toh(in->number),
		.flags = le32toh(in->flags),
		.key = le64toh(in->key),
		.offset = le64toh(in->offset),
		.length = le32toh(in->length),
		.nr_pieces = le32toh(in->nr_pieces),
	};
	for (uint32_t i = 0; i < FABRIC_IOV_MAX; i++) {
		out->pieces[i] = (struct driven_piece){
			.addr = le64toh(in->pieces[i].addr),
			.key = le64toh(in->pieces[i].key),
			.length = le32toh(in->pieces[i].length),
		};
	}
	if (!are_flags_good(out->flags) || out->number >= DRIVEN_DEPTH)
		return "a transfer of a kind that there is not";
	if (out->length > FABRIC_PAGED_MAX)
		return "too many bytes at once";
	if (!are_pieces_good(out))
		return "pieces that are not as long as the transfer";
	if ((out->flags & DRIVEN_CHECKED) != 0 && out->offset % CHECKSUM_BLOCK != 0)
		return "a checked transfer that begins inside of a block";
	if ((size_t)rest != nr_sums_of(out) * sizeof(uint32_t))
		return "a transfer with too many or too few sums";
	return NULL;
}

/* ---- Answers */

/* Codes of errno and of Afar alone. */
static bool is_status(int status)
{
	const unsigned code = 0U - (unsigned)status;

	return status == 0 || (code >= 1 && code <= CODES) ||
	       (code > OWN_CODES && code <= OWN_CODES + CODES);
}

size_t driven_encode_answer(struct driven_message *out, uint32_t number, int status,
			    const uint32_t *sums, uint32_t nr_sums)
{
	out->answer = (struct driven_answer){
		.number = htole32(number),
		.status = (int32_t)htole32((uint32_t)(is_status(status) ? status : -EIO)),
	};
	return finish(out, DRIVEN_ANSWER,
		      sizeof(out->answer) +
			      put_sums(out->bytes + sizeof(out->answer), sums, nr_sums));
}

const char *driven_decode_answer(const struct driven_message *message, uint32_t *number,
				 int *status, uint32_t *sums, uint32_t *nr_sums)
{
	const struct driven_answer *in = &message->answer;
	const long rest = rest_of(message, DRIVEN_ANSWER, sizeof(*in));

	if (rest < 0 || rest % (long)sizeof(uint32_t) != 0 ||
	    (size_t)rest > DRIVEN_SUMS_MAX * sizeof(uint32_t))
		return "a message that is none";
	*number = le32toh(in->number);
	*status = (int)le32toh((uint32_t)in->status);
	*nr_sums = (uint32_t)((size_t)rest / sizeof(uint32_t));
	if (*number >= DRIVEN_DEPTH || !is_status(*status))
		return "an answer to what nobody asked";
	get_sums(sums, message->bytes + sizeof(*in), *nr_sums);
	return NULL;
}
