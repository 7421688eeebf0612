/* SPDX-License-Identifier: BSD-3-Clause */
/* See ends.h. Called by copy.c and files_large.c, and by commands for a part of a local file. */
#include "ends.h"

#include <errno.h>
#include <unistd.h>

#include "tools/cli/interrupts.h"

/* ---- Of this machine */

static ssize_t read_local(const struct end *end, char *buffer, size_t length, uint64_t offset)
{
	const bool is_stream = end->kind == &end_stream;
	size_t done = 0;
	ssize_t n;

	while (done < length) {
		/* A signal may also cut a read short. */
		if (is_stream && is_interrupted())
			return -EINTR;
		n = is_stream
			    ? read(end->fd, buffer + done, length - done)
			    : pread(end->fd, buffer + done, length - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0) /* perhaps because a signal has ended the writer, too */
			return is_stream && is_interrupted() ? -EINTR : (ssize_t)done;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static int write_local(const struct end *end, const char *buffer, size_t length, uint64_t offset)
{
	const bool is_stream = end->kind == &end_stream;
	size_t done = 0;
	ssize_t n;

	while (done < length) {
		if (is_stream && is_interrupted())
			return -EINTR;
		n = is_stream
			    ? write(end->fd, buffer + done, length - done)
			    : pwrite(end->fd, buffer + done, length - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		done += (size_t)n;
	}
	return 0;
}

static int next_local_data(const struct end *end, uint64_t bytes, uint64_t *offset, uint64_t *to)
{
	off_t data = lseek(end->fd, (off_t)*offset, SEEK_DATA), hole;

	*to = bytes;
	if (data < 0)
		return errno != ENXIO && *offset < bytes; /* it cannot tell */
	hole = lseek(end->fd, data, SEEK_HOLE);
	*offset = (uint64_t)data;
	if (hole >= 0 && (uint64_t)hole < bytes)
		*to = (uint64_t)hole;
	return *offset < bytes;
}

const struct end_kind end_local = {true, read_local, write_local, next_local_data};
const struct end_kind end_stream = {true, read_local, write_local, NULL};

/* ---- Of a file system */

static ssize_t read_store(const struct end *end, char *buffer, size_t length, uint64_t offset)
{
	return afar_file_pread(end->file, buffer, length, offset);
}

static int write_store(const struct end *end, const char *buffer, size_t length, uint64_t offset)
{
	ssize_t written = afar_file_pwrite(end->file, buffer, length, offset);

	return written < 0 ? (int)written : 0;
}

static int next_store_data(const struct end *end, uint64_t bytes, uint64_t *offset, uint64_t *to)
{
	int64_t data = afar_file_seek(end->file, *offset, false), hole;

	if (data == -ENXIO)
		return 0;
	if (data < 0)
		return (int)data;
	hole = afar_file_seek(end->file, (uint64_t)data, true);
	if (hole < 0)
		return (int)hole;
	*offset = (uint64_t)data;
	*to = (uint64_t)hole < bytes ? (uint64_t)hole : bytes;
	return *offset < *to;
}

const struct end_kind end_store = {false, read_store, write_store, next_store_data};
