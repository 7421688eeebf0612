/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes files to a file system whose disk may fail at any moment, and knows afterwards what must be
 * there.
 *
 *	file_writer write FOLDER LOG [STEPS]
 *	                                takes so many steps, or writes until its input ends. It notes what
 *	                                fsync has made durable in LOG, which lies on another disk. Ends
 *	                                with 3 if a call fails.
 *
 *	file_writer verify FOLDER LOG   checks that all that was noted is there, or what was written later
 *	                                in its place, and that it is whole
 *
 * A step writes a new file, which replaces an older one by rename, or overwrites records of one file
 * in place. Everything that is written begins with the step's number, and the rest follows from it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NR_FILES	48U
#define FILE_BYTES_MAX	262144U
#define NR_RECORDS	256U
#define RECORD_BYTES	4096U
#define RECORDS_AT_ONCE 8U
#define ENDED_BY_ERROR	3
/* Steps that were begun and not noted may be on the disk; those of the next run get larger numbers.
 * It is odd, so that runs of one step write files and records in turn. */
#define GAP 101U

struct header {
	uint64_t step;
	uint64_t bytes; /* this header included */
};

static union {
	struct header header;
	unsigned char bytes[FILE_BYTES_MAX];
	uint64_t words[FILE_BYTES_MAX / sizeof(uint64_t)];
} content, wanted;

/* The last step known to be durable, of each file and each record; 0: none. */
static struct {
	uint64_t files[NR_FILES], records[NR_RECORDS];
	uint64_t last;
} noted;

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static bool is_of_files(uint64_t step)
{
	return step % 2 == 0;
}

static unsigned file_of(uint64_t step)
{
	return (unsigned)(step / 2 % NR_FILES);
}

static unsigned record_of(uint64_t step, unsigned i)
{
	return (unsigned)((mix(step) + i) % NR_RECORDS);
}

static bool is_record_of(uint64_t step, unsigned nr)
{
	bool is_one = false;

	for (unsigned i = 0; i < RECORDS_AT_ONCE; i++)
		is_one = is_one || record_of(step, i) == nr;
	return is_one;
}

static size_t file_bytes(uint64_t step)
{
	return sizeof(struct header) + mix(step) % (FILE_BYTES_MAX - sizeof(struct header));
}

/* Makes what step `step` writes into one file or one record. */
static void make_content(uint64_t step, size_t bytes, uint64_t *words)
{
	const struct header header = {.step = step, .bytes = bytes};
	uint64_t x = mix(step);

	for (size_t i = 0; i * sizeof(uint64_t) < bytes; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		words[i] = x;
	}
	memcpy(words, &header, sizeof(header));
}

/* ---- The log: "file STEP" or "records STEP", a line each */

static void note(bool is_file, uint64_t step)
{
	if (is_file) {
		noted.files[file_of(step)] = step;
	} else {
		for (unsigned i = 0; i < RECORDS_AT_ONCE; i++)
			noted.records[record_of(step, i)] = step;
	}
	noted.last = step;
}

static void read_log(const char *path)
{
	FILE *log = fopen(path, "r");
	uint64_t step;
	char kind[16];

	while (log && fscanf(log, "%15s %" SCNu64, kind, &step) == 2)
		note(kind[0] == 'f', step);
	if (log)
		fclose(log);
}

/* ---- Writing. A call fails because the disk is gone: nothing is noted then. */

static int fail(const char *what)
{
	fprintf(stderr, "file_writer: %s: %s\n", what, strerror(errno));
	return -1;
}

static int put(int fd, const void *data, size_t bytes, off_t at)
{
	ssize_t nr = pwrite(fd, data, bytes, at);

	if (nr >= 0 && (size_t)nr != bytes)
		errno = ENOSPC;
	return nr >= 0 && (size_t)nr == bytes ? 0 : fail("write");
}

static int write_file(int folder, uint64_t step)
{
	size_t bytes = file_bytes(step);
	char name[32];
	int fd, ret;

	snprintf(name, sizeof(name), "file-%u", file_of(step));
	fd = openat(folder, "new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail("create");
	make_content(step, bytes, content.words);
	ret = put(fd, content.bytes, bytes, 0);
	if (ret == 0 && fsync(fd))
		ret = fail("fsync");
	close(fd);
	if (ret == 0 && renameat(folder, "new", folder, name))
		ret = fail("rename");
	if (ret == 0 && fsync(folder))
		ret = fail("fsync of the folder");
	return ret;
}

static int write_records(int folder, uint64_t step)
{
	int fd = openat(folder, "records", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	int ret = 0;

	if (fd < 0)
		return fail("open records");
	make_content(step, RECORD_BYTES, content.words);
	for (unsigned i = 0; i < RECORDS_AT_ONCE && ret == 0; i++)
		ret = put(fd, content.bytes, RECORD_BYTES,
			  (off_t)record_of(step, i) * RECORD_BYTES);
	if (ret == 0 && fdatasync(fd))
		ret = fail("fdatasync");
	close(fd);
	return ret;
}

static bool is_asked_to_end(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, 0) > 0;
}

/* Takes `nr_steps`; 0: until its input ends. */
static int write_all(int folder, const char *path, unsigned long nr_steps)
{
	uint64_t first = noted.last + GAP;
	int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	if (log < 0 || fsync(folder)) {
		fail(path);
		return 1;
	}
	for (uint64_t step = first; nr_steps ? step - first < nr_steps : !is_asked_to_end();
	     step++) {
		bool is_file = is_of_files(step);

		if (is_file ? write_file(folder, step) : write_records(folder, step))
			return ENDED_BY_ERROR;
		if (dprintf(log, "%s %" PRIu64 "\n", is_file ? "file" : "records", step) < 0) {
			fail(path);
			return 1;
		}
	}
	close(log);
	return 0;
}

/* ---- Verifying */

static int complain(const char *what, unsigned nr, const char *how, uint64_t step)
{
	fprintf(stderr, "file_writer: %s %u: %s; step %" PRIu64 " was made durable\n", what, nr,
		how, step);
	return 1;
}

/* Compares `content`, of `bytes`, with what the step in its header writes. */
static int compare(const char *what, unsigned nr, size_t bytes, uint64_t step)
{
	char how[64];

	if (content.header.step < step) {
		snprintf(how, sizeof(how), "it is of step %" PRIu64, content.header.step);
		return complain(what, nr, how, step);
	}
	make_content(content.header.step, bytes, wanted.words);
	for (size_t i = 0; i < bytes; i++) {
		if (content.bytes[i] != wanted.bytes[i]) {
			snprintf(how, sizeof(how), "step %" PRIu64 ", damaged at %zu of %zu",
				 content.header.step, i, bytes);
			return complain(what, nr, how, step);
		}
	}
	return 0;
}

static int verify_file(int folder, unsigned nr)
{
	uint64_t step = noted.files[nr];
	char name[32];
	ssize_t got;
	int fd;

	snprintf(name, sizeof(name), "file-%u", nr);
	fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT && step == 0 ? 0
						    : complain("file", nr, strerror(errno), step);
	got = pread(fd, content.bytes, sizeof(content), 0);
	close(fd);
	if (got < 0)
		return complain("file", nr, strerror(errno), step);
	if ((size_t)got < sizeof(struct header) || !is_of_files(content.header.step) ||
	    file_of(content.header.step) != nr || (size_t)got != file_bytes(content.header.step))
		return complain("file", nr, "it is not of that size", step);
	return compare("file", nr, (size_t)got, step);
}

static int verify_record(int fd, unsigned nr)
{
	uint64_t step = noted.records[nr];
	ssize_t got = pread(fd, content.bytes, RECORD_BYTES, (off_t)nr * RECORD_BYTES);

	if (got < 0)
		return complain("record", nr, strerror(errno), step);
	if (step == 0 && (got == 0 || content.header.step == 0))
		return 0;
	if (got != RECORD_BYTES)
		return complain("record", nr, "it is not there", step);
	if (!is_record_of(content.header.step, nr))
		return complain("record", nr, "another is in its place", step);
	return compare("record", nr, RECORD_BYTES, step);
}

static int verify_all(int folder)
{
	int fd = openat(folder, "records", O_RDONLY | O_CLOEXEC);
	unsigned nr_files = 0, nr_records = 0;
	int nr_bad = 0;

	for (unsigned i = 0; i < NR_FILES; i++) {
		nr_bad += verify_file(folder, i);
		nr_files += noted.files[i] != 0;
	}
	for (unsigned i = 0; i < NR_RECORDS; i++) {
		if (fd >= 0 || noted.records[i] != 0)
			nr_bad += verify_record(fd, i);
		nr_records += noted.records[i] != 0;
	}
	if (fd >= 0)
		close(fd);
	printf("up to step %" PRIu64 ": %u files and %u records, %d of them bad\n", noted.last,
	       nr_files, nr_records, nr_bad);
	return nr_bad ? 1 : 0;
}

int main(int argc, char **argv)
{
	int folder = argc >= 4 ? open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (folder < 0) {
		fprintf(stderr, "file_writer: write|verify FOLDER LOG [STEPS]\n");
		return 2;
	}
	read_log(argv[3]);
	if (strcmp(argv[1], "verify") == 0)
		return verify_all(folder);
	return write_all(folder, argv[3], argc > 4 ? strtoul(argv[4], NULL, 10) : 0);
}
