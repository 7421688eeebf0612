/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All that a manager's core keeps, as text, so that a test can compare it with a copy made before:
 * every table with every field and the order of its lists, what its trees find, the free space of
 * extents, the keyring, and what is in memory alone.
 *
 * What connections decide and no batch is left out: whether a server has been told of something,
 * and when a lease ends.
 */
#ifndef TESTS_MANAGER_TABLES_H
#define TESTS_MANAGER_TABLES_H

#include "lib/manager/manager_fixture.h"

/* The caller frees it. */
char *tables_text(const struct fixture *fixture);
/* Fails with the first line that differs. Frees `before`. */
void expect_tables(const struct fixture *fixture, char *before);

#endif
