/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the kernel's accounts of memory: /proc/meminfo, the control groups that this process is in,
 * and the pool of huge pages. Called before populating, which is slow anyway; owns nothing.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory/available.h"

#define HUGE_PAGE_FOLDER "/sys/kernel/mm/hugepages/hugepages-2048kB"
#define HUGE_PAGE_BYTES	 ((uint64_t)2 << 20)
#define FOLDER_MAX	 1024 /* longer control group paths than this are not looked at */

/* Reads a small file of the kernel's, cut to `size - 1` bytes. */
static int read_file(const char *path, char *out, size_t size)
{
	ssize_t length;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	length = read(fd, out, size - 1);
	close(fd);
	if (length < 0)
		return -1;
	out[length] = '\0';
	return 0;
}

/* The number behind `label` at the start of a line of `text`; `otherwise` when there is none. */
static uint64_t labelled(const char *text, const char *label, uint64_t otherwise)
{
	size_t length = strlen(label);
	const char *line;

	for (line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, label, length) == 0)
			return strtoull(line + length, NULL, 10);
	}
	return otherwise;
}

/* The number that is all of folder/name; `otherwise` when there is none ("max", no such file). */
static uint64_t number_in(const char *folder, const char *name, uint64_t otherwise)
{
	char path[FOLDER_MAX + 64], text[64], *end;
	uint64_t value;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (read_file(path, text, sizeof(text)) != 0)
		return otherwise;
	value = strtoull(text, &end, 10);
	return end == text ? otherwise : value;
}

/* The limit of one level of control groups, and the memory that is left of it. */
struct group_account {
	uint64_t limit;
	uint64_t available;
};

/* The files of the two versions of control groups that say the same. */
struct group_files {
	const char *mount;
	const char *limit;
	const char *usage;
	const char *cache; /* page cache that would give way, in memory.stat */
};

static const struct group_files group_v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
					    "memory.usage_in_bytes", "total_inactive_file "};
static const struct group_files group_v2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
					    "inactive_file "};

static void account_level(const struct group_files *files, const char *folder,
			  struct group_account *account)
{
	char path[FOLDER_MAX + 64], text[4096];
	uint64_t limit, usage, cache = 0, left;

	limit = number_in(folder, files->limit, UINT64_MAX);
	if (limit == UINT64_MAX)
		return;
	usage = number_in(folder, files->usage, 0);
	snprintf(path, sizeof(path), "%s/memory.stat", folder);
	if (read_file(path, text, sizeof(text)) == 0)
		cache = labelled(text, files->cache, 0);
	left = limit > usage ? limit - usage : 0;
	left = left > UINT64_MAX - cache ? UINT64_MAX : left + cache;
	if (limit < account->limit)
		account->limit = limit;
	if (left < account->available)
		account->available = left;
}

/* Every level counts: from the process's own group, named in /proc/self/cgroup, up to the mount's
 * root (all there is to see inside a container). */
static void account_groups(struct group_account *account)
{
	char text[4096], folder[FOLDER_MAX], *line, *next, *group, *slash;
	const struct group_files *files;
	size_t root;

	account->limit = account->available = UINT64_MAX;
	if (read_file("/proc/self/cgroup", text, sizeof(text)) != 0)
		return;
	for (line = text; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (strncmp(line, "0::", 3) == 0) {
			files = &group_v2;
			group = line + 3;
		} else {
			files = &group_v1;
			group = strstr(line, ":memory:");
			if (!group)
				continue;
			group += strlen(":memory:");
		}
		root = strlen(files->mount);
		if ((size_t)snprintf(folder, sizeof(folder), "%s%s", files->mount, group) >=
		    sizeof(folder))
			continue;
		while (strlen(folder) > root) {
			account_level(files, folder, account);
			slash = strrchr(folder, '/');
			*slash = '\0';
		}
		account_level(files, folder, account);
	}
}

uint64_t memory_available(void)
{
	struct group_account account;
	uint64_t available;
	char text[4096];

	account_groups(&account);
	if (read_file("/proc/meminfo", text, sizeof(text)) != 0)
		return account.available;
	available = labelled(text, "MemAvailable:", UINT64_MAX >> 10) << 10;
	return available < account.available ? available : account.available;
}

uint64_t memory_limit(void)
{
	uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	struct group_account account;

	account_groups(&account);
	return machine < account.limit ? machine : account.limit;
}

uint64_t memory_available_huge(void)
{
	uint64_t nr_free = number_in(HUGE_PAGE_FOLDER, "free_hugepages", 0);
	uint64_t nr_promised = number_in(HUGE_PAGE_FOLDER, "resv_hugepages", 0);

	return nr_free > nr_promised ? (nr_free - nr_promised) * HUGE_PAGE_BYTES : 0;
}
