/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two processes of a litmus test meet here between rounds: on a page that they share. So neither the
 * network nor a third process makes one of them late, and rounds cost little beside what they try.
 */
#ifndef TESTS_MEETING_H
#define TESTS_MEETING_H

#include <stdatomic.h>
#include <stdint.h>

#define MEETING_SAW_MAX 8U

struct meeting {
	_Atomic uint32_t nr_come;	 /* both parties, ever */
	uint8_t saw[2][MEETING_SAW_MAX]; /* what each read; for both, once they have met */
};

/* A descriptor of a new one, which children inherit; fails the test when that cannot be had. */
int meeting_new(void);
/* In a child; ends it when that cannot be done. It stays until the process ends. */
struct meeting *meeting_join(int fd);
/* Returns when both have come as often. */
void meeting_wait(struct meeting *meeting);

#endif
