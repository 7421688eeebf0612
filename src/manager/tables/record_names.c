/* SPDX-License-Identifier: BSD-3-Clause */
#include "manager/tables/record_names.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

/* A kind's keys: the letter and some numbers (store.h), here in words. $1 is the first number, $t the text behind them. */
static const struct kind {
	char letter;
	unsigned nr_numbers;
	const char *words;
} kinds[] = {
	{'c', 0, "the cluster's own record"},
	{'h', 0, "how the manager's earlier starts ended"},
	{'k', 1, "key $1"},
	{'n', 1, "namespace $1"},
	{'g', 1, "the grants of namespace $1"},
	{'s', 1, "server $1"},
	{'x', 2, "the removal of server $1"},
	{'t', 1, "the store with number $1"},
	{'e', 3, "extent $3 of server $1 (life $2)"},
	{'r', 1, "the region with generation $1"},
	{'u', 1, "session $1"},
	{'f', 2, "the region with generation $2 that session $1 has open"},
	{'o', 2, "reply $2 to session $1"},
	{'F', 1, "file system $1"},
	{'I', 2, "inode $2 of file system $1"},
	{'D', 2, "the name '$t' in directory $2 of file system $1"},
	{'L', 3, "the run from unit $3 of inode $2 of file system $1"},
	{'X', 2, "the attribute '$t' of inode $2 of file system $1"},
	{'O', 2, "the open inode $2 without a name of file system $1"},
	{'A', 2, "the open inode $2 with room ahead of file system $1"},
	{'Q', 2, "runs to be zeroed, $2, of file system $1"},
	{'S', 2, "what is taken in segment $2 of file system $1"},
	{'Z', 1, "the deleted file system $1"},
};

static uint64_t number_at(struct meta_bytes key, unsigned i)
{
	uint64_t number;

	memcpy(&number, (const uint8_t *)key.data + 1 + i * sizeof(number), sizeof(number));
	return be64toh(number);
}

/* Writes the words, with what they stand for. A name may have any bytes. */
static void fill_in(const struct kind *kind, struct meta_bytes key, char out[RECORD_NAME_MAX])
{
	const size_t numbers = 1 + kind->nr_numbers * sizeof(uint64_t);
	size_t length = 0;

	for (const char *word = kind->words; *word && length < RECORD_NAME_MAX; word++) {
		char *end = out + length;
		const size_t left = RECORD_NAME_MAX - length;

		if (*word != '$')
			length += (size_t)snprintf(end, left, "%c", *word);
		else if (*++word == 't')
			length += (size_t)snprintf(end, left, "%.*s", (int)(key.length - numbers),
						   (const char *)key.data + numbers);
		else
			length += (size_t)snprintf(
				end, left, "%llu",
				(unsigned long long)number_at(key, (unsigned)(*word - '1')));
	}
}

void record_name(struct meta_bytes key, char out[RECORD_NAME_MAX])
{
	char letter = 0;

	if (key.length != 0)
		memcpy(&letter, key.data, 1);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (kinds[i].letter != letter ||
		    key.length < 1 + kinds[i].nr_numbers * sizeof(uint64_t))
			continue;
		fill_in(&kinds[i], key, out);
		for (char *byte = out; *byte; byte++)
			if ((unsigned char)*byte < ' ' || *byte == 0x7f)
				*byte = '?';
		return;
	}
	snprintf(out, RECORD_NAME_MAX, "a record of an unknown kind, with a key of %zu bytes",
		 key.length);
}
