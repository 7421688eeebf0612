/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps the server's number and cluster over restarts. Called by membership; owns the file. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "server/control/identity.h"

#define IDENTITY_FILE "server.id"

/* Parses "NUMBER CLUSTER\n". */
static int parse(const char *text, struct server_identity *out)
{
	size_t length;
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	out->number = strtoull(text, &end, 10);
	if (errno != 0 || out->number == 0 || *end++ != ' ')
		return -EINVAL;
	length = strcspn(end, "\n");
	if (length == 0 || length > IDENTITY_CLUSTER_MAX || strcmp(end + length, "\n") != 0)
		return -EINVAL;
	memcpy(out->cluster, end, length);
	return 0;
}

int identity_load(const char *folder, struct server_identity *out)
{
	char path[PATH_MAX], text[128];
	ssize_t length;
	int fd;

	*out = (struct server_identity){0};
	snprintf(path, sizeof(path), "%s/" IDENTITY_FILE, folder);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return error_fail(-errno, "read %s: %s", path, afar_strerror(errno));
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[length > 0 ? length : 0] = '\0';
	if (parse(text, out) != 0) {
		*out = (struct server_identity){0};
		return error_fail(-EINVAL,
				  "read %s: that is not a server's number and cluster; remove the "
				  "file to join "
				  "as a new server",
				  path);
	}
	return 0;
}

static int write_synced(const char *path, const char *text, size_t length)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), ret = 0;

	if (fd < 0)
		return -errno;
	errno = EIO;
	if (write(fd, text, length) != (ssize_t)length || fsync(fd) != 0)
		ret = -errno;
	close(fd);
	return ret;
}

static int sync_folder(const char *folder)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), ret = 0;

	if (fd < 0)
		return -errno;
	if (fsync(fd) != 0)
		ret = -errno;
	close(fd);
	return ret;
}

int identity_save(const char *folder, const struct server_identity *identity)
{
	char path[PATH_MAX], aside[PATH_MAX + 8], text[128];
	int length, ret;

	length = snprintf(text, sizeof(text), "%llu %s\n", (unsigned long long)identity->number,
			  identity->cluster);
	snprintf(path, sizeof(path), "%s/" IDENTITY_FILE, folder);
	snprintf(aside, sizeof(aside), "%s.new", path);
	ret = write_synced(aside, text, (size_t)length);
	if (ret == 0 && rename(aside, path) != 0)
		ret = -errno;
	if (ret == 0)
		ret = sync_folder(folder);
	if (ret != 0)
		return error_fail(ret,
				  "keep the server's number in %s: %s; after a restart it may join "
				  "as a new server",
				  path, afar_strerror(ret));
	return 0;
}
