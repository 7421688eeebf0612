/* SPDX-License-Identifier: BSD-3-Clause */
/* How much a test does; see effort.h. */
#include "lib/base/effort.h"

#include <stdlib.h>
#include <time.h>

uint64_t test_effort(uint64_t quick, uint64_t thorough, uint64_t longest)
{
	if (getenv("AFAR_LONG"))
		return longest;
	return getenv("AFAR_THOROUGH") ? thorough : quick;
}

void test_pause(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	nanosleep(&pause, NULL);
}
