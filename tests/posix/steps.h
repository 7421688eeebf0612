/* SPDX-License-Identifier: BSD-3-Clause */
/* What the steps of scripts share: what their words mean, and how results are noted. */
#ifndef POSIX_STEPS_H
#define POSIX_STEPS_H

#include <stddef.h>
#include <sys/types.h>

#include "posix.h"

#define DATA_MAX (8U << 20)

/* With K, M, G or T behind it. */
long word_number(const char *word);
/* In octal. */
mode_t word_mode(const char *word);
/* Where the file of that number has its descriptor, and the descriptor. */
int *word_slot(struct posix_run *run, const char *word);
int word_fd(struct posix_run *run, const char *word);

struct bit {
	const char *name;
	int value;
};

/* The bits of names between commas. `bits` ends with a NULL name. */
int word_bits(const struct bit *bits, const char *word);

/* Of errno. */
const char *error_name(void);
/* Notes a call's result: its error, or the number. */
void note_result(long ret);
/* Notes what `length` bytes look like, shortly. */
void note_data(const unsigned char *data, size_t length);

#endif
