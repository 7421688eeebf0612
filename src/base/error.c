/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codes to sentences. Called by everyone. The line is apart, in error_line.c. So programs that use both the
 * library and parts of it have one set of the functions that the library exports: the library's.
 */
#include "base/error.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

struct error_entry {
	int code;
	const char *name;
	const char *sentence;
};

static const struct error_entry table[] = {
#define ERROR_ENTRY(code, value, sentence) {code, #code, sentence},
	AFAR_ERROR_TABLE(ERROR_ENTRY)
#undef ERROR_ENTRY
};

/* A sentence of errno's that leaves open what to do, which a user can. */
#define TOO_MANY_FILES "Too many open files; raise the limit of open files (ulimit -n)"

static const struct error_entry *find(int code)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (table[i].code == code)
			return &table[i];
	}
	return NULL;
}

/* INT_MIN has no positive counterpart and stays as it is: no code is negative, so nothing has it. */
static int positive(int error)
{
	return error < 0 && error != INT_MIN ? -error : error;
}

const char *afar_strerror(int error)
{
	static _Thread_local char unknown[40];
	const struct error_entry *entry = find(positive(error));
	const char *sentence = entry ? entry->sentence : strerrordesc_np(positive(error));

	if (positive(error) == EMFILE)
		return TOO_MANY_FILES;
	if (sentence)
		return sentence;
	snprintf(unknown, sizeof(unknown), "unknown error %d", error);
	return unknown;
}

const char *afar_error_name(int error)
{
	const struct error_entry *entry = find(positive(error));
	const char *name = entry ? entry->name : strerrorname_np(positive(error));

	return name ? name : "unknown";
}

/* For programs without public calls. The library has its own: client/base/call.c. */
__attribute__((weak)) const char *afar_last_error(void)
{
	return error_last_line();
}
