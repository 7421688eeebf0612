/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A moment between two steps of a server, in which a test does what may happen there. A function of
 * the server's that the linker replaces (--wrap) calls moment_pass() first, which waits once a test
 * wants that.
 */
#ifndef TESTS_MOMENT_H
#define TESTS_MOMENT_H

/* Waits here until the test has done what it wants, if it wants anything. */
void moment_pass(void);

/* Wants the next moment. */
void moment_open(void);
/* Waits until it has come. It lasts until it is closed. */
void moment_await(void);
void moment_close(void);

#endif
