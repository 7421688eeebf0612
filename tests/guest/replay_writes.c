/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replays what device-mapper's log-writes target has logged: the disk as a loss of power would have
 * left it, after each flush. (Linux: Documentation/admin-guide/device-mapper/log-writes.rst, and
 * drivers/md/dm-log-writes.c, which has the format.)
 *
 *	replay_writes LOG OUT           replays into OUT, a file of the disk's size, of zeros. At each
 *	                                flush behind a change it prints a line "flush NUMBER MARK", with
 *	                                the last mark in the log or "none". It goes on when it has read a
 *	                                line. Ends with "end ENTRIES".
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define MAGIC	  UINT64_C(0x6a736677736872)
#define VERSION	  1U
#define PIECE	  ((size_t)1 << 20)
#define MARK_SIZE 256U

enum {
	FLAG_FLUSH = 1,
	FLAG_FUA = 2,
	FLAG_DISCARD = 4,
	FLAG_MARK = 8,
};

/* Little-endian, as this machine is. Each is at the beginning of a sector. */
struct super {
	uint64_t magic;
	uint64_t version;
	uint64_t nr_entries;
	uint32_t sector_bytes;
	uint32_t reserved;
};

struct entry {
	uint64_t sector;
	uint64_t nr_sectors;
	uint64_t flags;
	uint64_t mark_bytes; /* behind this */
};

_Static_assert(sizeof(struct entry) == 32, "as the kernel has it");

static int log_fd, out_fd;
static uint32_t sector_bytes;
static unsigned char piece[PIECE];

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "replay_writes: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void read_log(void *out, size_t length, uint64_t at)
{
	ssize_t nr = pread(log_fd, out, length, (off_t)at);

	if (nr >= 0 && (size_t)nr != length)
		errno = ENODATA;
	if (nr < 0 || (size_t)nr != length)
		die("read the log");
}

/* Puts `length` bytes of the log at `from` where the disk has them. */
static void put(uint64_t to, uint64_t length, uint64_t from)
{
	while (length > 0) {
		size_t part = length < PIECE ? (size_t)length : PIECE;

		read_log(piece, part, from);
		from += part;
		if (pwrite(out_fd, piece, part, (off_t)to) != (ssize_t)part)
			die("write the replay");
		to += part;
		length -= part;
	}
}

static void discard(uint64_t at, uint64_t length)
{
	if (fallocate(out_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)length))
		die("discard in the replay");
}

/* Says that the disk may be looked at, and waits until that is over. */
static void show(uint64_t nr, const char *mark)
{
	char line[16];

	printf("flush %" PRIu64 " %s\n", nr, mark);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(1);
}

static void replay(uint64_t nr_entries)
{
	uint64_t at = sector_bytes, nr_flushes = 0;
	char mark[MARK_SIZE] = "none";
	bool has_changed = false;
	struct entry entry;

	for (uint64_t i = 0; i < nr_entries; i++) {
		uint64_t length;

		read_log(&entry, sizeof(entry), at);
		length = entry.nr_sectors * sector_bytes;
		if (entry.flags & FLAG_MARK) {
			size_t size =
				entry.mark_bytes < MARK_SIZE ? entry.mark_bytes : MARK_SIZE - 1;

			read_log(mark, size, at + sizeof(entry));
			mark[size] = '\0';
		}
		at += sector_bytes;
		if (entry.flags & FLAG_DISCARD) {
			discard(entry.sector * sector_bytes, length);
		} else {
			put(entry.sector * sector_bytes, length, at);
			at += length;
		}
		has_changed = has_changed || length > 0;
		if ((entry.flags & (FLAG_FLUSH | FLAG_FUA)) && has_changed) {
			show(nr_flushes++, mark);
			has_changed = false;
		}
	}
	printf("end %" PRIu64 "\n", nr_entries);
}

int main(int argc, char **argv)
{
	struct super super;

	log_fd = argc == 3 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	out_fd = argc == 3 ? open(argv[2], O_WRONLY | O_CLOEXEC) : -1;
	if (log_fd < 0 || out_fd < 0)
		die("open LOG and OUT");
	read_log(&super, sizeof(super), 0);
	if (super.magic != MAGIC || super.version != VERSION || super.sector_bytes == 0) {
		errno = EINVAL;
		die("this is no log of writes");
	}
	sector_bytes = super.sector_bytes;
	replay(super.nr_entries);
	return 0;
}
