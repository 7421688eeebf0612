/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks what must hold of a manager's tables, whatever was done. */
#ifndef TESTS_MANAGER_CHECKS_H
#define TESTS_MANAGER_CHECKS_H

#include "lib/manager/manager_fixture.h"

/* The tables are those that a manager would read from the store now. */
void check_store(struct fixture *fixture);
/*
 * No two chunks overlap; free space and accounting are exact; servers that are up hold what the
 * tables say. And check_store().
 */
void check_all(struct fixture *fixture);
/* Nothing is left: no namespaces, extents, regions, references; servers hold nothing. */
void check_empty(struct fixture *fixture);

#endif
