/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A gate before the device of a store. Operations pass, wait until the test lets them, or fail; or
 * the device is beyond use. A program that is linked with --wrap=flash_device_open_path has it
 * before all devices that are opened by path. There is one gate. The test's thread sets it, and the
 * store's thread goes through it.
 */
#ifndef TESTS_FLASH_GATE_H
#define TESTS_FLASH_GATE_H

#include <stdbool.h>

#include "flash/device/device.h"

/* Everything passes from now on; call it when no device is open. */
void flash_gate_reset(void);

/* Operations of this kind wait from now on. */
void flash_gate_hold(enum flash_io_opcode opcode);
/* Waits until so many of the kind do. */
void flash_gate_await(enum flash_io_opcode opcode, unsigned nr_held);
/* Returns how many of the kind do. */
unsigned flash_gate_nr_held(enum flash_io_opcode opcode);
/* Lets those of the kind pass again, and those of it that wait. */
void flash_gate_let(enum flash_io_opcode opcode);
/* Lets all pass again, and those that wait. */
void flash_gate_release(void);
bool flash_gate_is_holding(void);
/* Returns whether two operations that wait share memory. */
bool flash_gate_has_shared_memory(void);

/* From now on operations of this kind end with an error; 0: no more. */
void flash_gate_fail(enum flash_io_opcode opcode, int error);
/* From now on each poll fails: the device is beyond use. Those that wait never end. */
void flash_gate_break(int error);

/* Has `seen` run before each write, flush and discard goes to the device, on the device's thread.
 * NULL: no more. */
void flash_gate_watch(void (*seen)(void *argument), void *argument);
/* Has it run before each read, too. */
void flash_gate_watch_all(void (*seen)(void *argument), void *argument);

#endif
