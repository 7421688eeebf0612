/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asks libblkid, which knows the signatures and where they lie; see foreign.h. uring.c calls this.
 */
#include "flash/device/foreign.h"

#include <blkid.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

#define NAME_MAX_SHOWN 64

/* Results of blkid_do_safeprobe(). */
enum { FOUND = 0, NOTHING = 1, FAILED = -1, AMBIVALENT = -2 };

static const char *value_of(blkid_probe probe, const char *name)
{
	const char *value;

	return blkid_probe_lookup_value(probe, name, &value, NULL) ? NULL : value;
}

static const char *article(const char *noun)
{
	return strchr("aeioux", noun[0]) ? "an" : "a";
}

static void describe(blkid_probe probe, char *what, size_t size)
{
	const char *type = value_of(probe, "TYPE"), *usage = value_of(probe, "USAGE");
	const char *label = value_of(probe, "LABEL"), *table = value_of(probe, "PTTYPE");
	size_t length;

	if (!type)
		snprintf(what, size, "a partition table (%s)", table ? table : "unknown");
	else if (usage && strcmp(usage, "raid") == 0)
		snprintf(what, size, "a part of an array or volume group (%s)", type);
	else if (usage && strcmp(usage, "crypto") == 0)
		snprintf(what, size, "an encrypted volume (%s)", type);
	else if (usage && strcmp(usage, "filesystem") == 0)
		snprintf(what, size, "%s %s file system", article(type), type);
	else
		snprintf(what, size, "%s %s area", article(type), type);
	if (type && label) {
		length = strlen(what);
		snprintf(what + length, size - length, " named \"%.*s\"", NAME_MAX_SHOWN, label);
	}
}

static int probe_all(blkid_probe probe, char *what, size_t size)
{
	int ret;

	blkid_probe_enable_superblocks(probe, 1);
	blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_USAGE |
							 BLKID_SUBLKS_LABEL);
	blkid_probe_enable_partitions(probe, 1);
	/* A partition table also counts if only its copy at the end is left. */
	blkid_probe_set_partitions_flags(probe, BLKID_PARTS_FORCE_GPT);
	errno = 0;
	ret = blkid_do_safeprobe(probe);
	if (ret == NOTHING)
		return 0;
	if (ret == FOUND)
		describe(probe, what, size);
	/* libblkid 2.41 reports an ambivalent result as a failure that leaves errno 0. */
	else if (ret == AMBIVALENT || (ret == FAILED && errno == 0))
		snprintf(what, size, "more than one thing that libblkid knows");
	else
		return errno ? -errno : -EIO;
	return 1;
}

int foreign_find(int fd, char *what, size_t size)
{
	char path[32];
	blkid_probe probe;
	int buffered, ret;

	/* `fd` has O_DIRECT, which allows no small reads. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	buffered = open(path, O_RDONLY | O_CLOEXEC);
	if (buffered < 0)
		return -errno;
	probe = blkid_new_probe();
	if (!probe)
		ret = error_code(-ENOMEM);
	else if (blkid_probe_set_device(probe, buffered, 0, 0))
		ret = errno ? -errno : -EIO;
	else
		ret = probe_all(probe, what, size);
	blkid_free_probe(probe);
	close(buffered);
	return ret;
}
