/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks and keeps values of settings, of all kinds that several have. On -EINVAL `problem` says what is wrong and what to
 * write instead. Called by config.c.
 */
#ifndef TOOLS_CONFIG_VALUES_H
#define TOOLS_CONFIG_VALUES_H

#include <stddef.h>
#include <stdint.h>

#define PROBLEM_MAX 256

/* Returns -EINVAL. */
__attribute__((format(printf, 2, 3))) int refuse(char problem[PROBLEM_MAX], const char *format,
						 ...);
int keep_text(char *out, size_t size, const char *value, char problem[PROBLEM_MAX]);
int keep_size(uint64_t *out, const char *value, char problem[PROBLEM_MAX]);
int keep_number(uint32_t *out, const char *value, uint32_t min, uint32_t max,
		char problem[PROBLEM_MAX]);
/* HOST:PORT, where HOST may be in brackets. */
int keep_address(char *out, size_t size, const char *value, char problem[PROBLEM_MAX]);

#endif
