/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A daemon that loses its power. A program that is linked with --wrap=flash_device_open_path and
 * with flash_power.c has its devices in its memory, as flash_fake.h's. They reorder what they are
 * given, and forget what was not flushed. The file at the path is what survives. The program reads
 * it when it opens the device. It writes it when it closes the device or when the power goes, and
 * in the second case it ends at once, by SIGKILL.
 *
 * The test shares this struct with the daemon, and says when the power goes. The environment
 * variable FLASH_POWER names a file to map it from. One device is open at a time.
 */
#ifndef TESTS_FLASH_POWER_H
#define TESTS_FLASH_POWER_H

#include <stdatomic.h>
#include <stdint.h>

#define FLASH_POWER "AFAR_TEST_POWER"
/* A value of `cut_at`: the power stays. */
#define FLASH_POWER_STAYS (UINT64_MAX / 2)

struct flash_power {
	_Atomic uint64_t nr_events; /* of the devices, ever: those of flash_fake.h */
	/* The power goes behind that many. If there were as many already, it goes when the device
	 * is used next. */
	_Atomic uint64_t cut_at;
	_Atomic uint64_t nr_cuts; /* that have come; the file is what survived */
	_Atomic uint64_t seed;	  /* of what survives, and of the order of operations */
};

#endif
