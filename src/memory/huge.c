/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads what the kernel sums up of this process's mappings. Owns the last measurement. Called for reports and by afar_session_stat(). */
#include "memory/huge.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define GOOD_FOR_NS ((uint64_t)1000000000)
#define GOOD_FOR    100U /* times as long as it took */

uint64_t memory_huge_measure(void)
{
	static const char *const kinds[] = {"AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:",
					    "Shared_Hugetlb:", "Private_Hugetlb:"};
	FILE *file = fopen("/proc/self/smaps_rollup", "re");
	unsigned long long kib;
	uint64_t bytes = 0;
	char line[256], name[64];

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%63s %llu kB", name, &kib) != 2)
			continue;
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			if (strcmp(name, kinds[i]) == 0)
				bytes += (uint64_t)kib << 10;
	}
	fclose(file);
	return bytes;
}

uint64_t memory_huge_bytes(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static uint64_t bytes, good_until;
	uint64_t began, took, answer;

	pthread_mutex_lock(&lock);
	began = clock_ns();
	if (began >= good_until) {
		bytes = memory_huge_measure();
		took = clock_ns() - began;
		good_until = began + took +
			     (took * GOOD_FOR > GOOD_FOR_NS ? took * GOOD_FOR : GOOD_FOR_NS);
	}
	answer = bytes;
	pthread_mutex_unlock(&lock);
	return answer;
}
