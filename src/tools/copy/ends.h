/* SPDX-License-Identifier: BSD-3-Clause */
/* The ends of a copy: files of this machine, streams, files of a file system, and regions. The calls of a kind return when the
 * bytes have moved. Regions have no kind, because io.h keeps many reads and writes of one in flight. */
#ifndef TOOLS_COPY_ENDS_H
#define TOOLS_COPY_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <afar/file.h>

struct end {
	const struct end_kind *kind; /* NULL: a region, if there is one, else of this machine */
	const char *text;	     /* for people */
	int fd;			     /* of this machine */
	struct afar_file *file;	     /* of a file system */
	struct afar_region *region;
};

struct end_kind {
	bool is_local; /* of this machine */
	/* Reads until so much is there or the end ends. Returns how much, or a negative error. */
	ssize_t (*read)(const struct end *end, char *buffer, size_t length, uint64_t offset);
	/* Writes all of that. Returns 0 or a negative error. */
	int (*write)(const struct end *end, const char *buffer, size_t length, uint64_t offset);
	/* Finds the next range with data from `*offset` on, in `bytes` in all. Returns 1; 0: there is none; or an
	 * error. NULL: it is read from its beginning on. */
	int (*next_data)(const struct end *end, uint64_t bytes, uint64_t *offset, uint64_t *to);
};

/* A local file; any thread may use it. */
extern const struct end_kind end_local;
/* A local file or pipe from where its descriptor is, whatever the offset; a signal ends it with -EINTR. For the thread that
 * called catch_interrupts(). */
extern const struct end_kind end_stream;
/* A file of a file system. */
extern const struct end_kind end_store;

#endif
