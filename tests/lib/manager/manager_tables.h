/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All that a manager's core keeps, as text, so that a test can compare it with a copy made before.
 * It has every table with every field and the order of its lists, and what its trees find. It also
 * has the free space of extents, the keyring, and what is in memory alone.
 *
 * It leaves out what connections decide and no batch: whether a server has been told of
 * something, and when a lease ends.
 */
#ifndef TESTS_MANAGER_TABLES_H
#define TESTS_MANAGER_TABLES_H

#include "lib/manager/manager_fixture.h"

/* The caller frees it. */
char *tables_text(const struct fixture *fixture);
/* Fails with the first line that differs. Frees `before`. */
void expect_tables(const struct fixture *fixture, char *before);

#endif
