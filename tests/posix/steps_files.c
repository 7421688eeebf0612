/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps on open files and their mappings. See posix.h. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steps.h"

/* ---- Open files */

static const struct bit open_flags[] = {
	{"r", O_RDONLY},      {"w", O_WRONLY},		{"rw", O_RDWR},
	{"creat", O_CREAT},   {"excl", O_EXCL},		{"trunc", O_TRUNC},
	{"append", O_APPEND}, {"dir", O_DIRECTORY},	{"nofollow", O_NOFOLLOW},
	{"path", O_PATH},     {"nonblock", O_NONBLOCK}, {"sync", O_SYNC},
	{"dsync", O_DSYNC},   {"noatime", O_NOATIME},	{0},
};

static void step_open(struct posix_run *run, int nr, char **words)
{
	int *fd = word_slot(run, words[0]);

	*fd = open(words[1], word_bits(open_flags, words[2]) | O_CLOEXEC,
		   nr > 3 ? word_mode(words[3]) : 0644);
	note_result(*fd < 0 ? -1 : 0);
}

static void step_openat(struct posix_run *run, int nr, char **words)
{
	int *fd = word_slot(run, words[0]);

	*fd = openat(word_fd(run, words[1]), words[2], word_bits(open_flags, words[3]) | O_CLOEXEC,
		     nr > 4 ? word_mode(words[4]) : 0644);
	note_result(*fd < 0 ? -1 : 0);
}

static void step_close(struct posix_run *run, int nr, char **words)
{
	(void)nr;
	note_result(close(word_fd(run, words[0])));
	*word_slot(run, words[0]) = -1;
}

static void step_dup(struct posix_run *run, int nr, char **words)
{
	(void)nr;
	*word_slot(run, words[1]) = dup(word_fd(run, words[0]));
	note_result(word_fd(run, words[1]) < 0 ? -1 : 0);
}

static void step_read(struct posix_run *run, int nr, char **words)
{
	size_t size = (size_t)word_number(words[1]);
	unsigned char *data = malloc(size + 1);
	ssize_t length = nr > 2 ? pread(word_fd(run, words[0]), data, size, word_number(words[2]))
				: read(word_fd(run, words[0]), data, size);

	note_result(length);
	if (length > 0)
		note_data(data, (size_t)length);
	free(data);
}

static void step_write(struct posix_run *run, int nr, char **words)
{
	int fd = word_fd(run, words[0]);

	note_result(nr > 2 ? pwrite(fd, words[1], strlen(words[1]), word_number(words[2]))
			   : write(fd, words[1], strlen(words[1])));
}

/* fill FILE BYTES OFFSET SEED: with bytes that each have their own place. */
static void fill(unsigned char *data, size_t length, size_t offset, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		data[i] = (unsigned char)((offset + i) * 7 + ((offset + i) >> 8) * 13 + seed);
}

static void step_fill(struct posix_run *run, int nr, char **words)
{
	size_t length = (size_t)word_number(words[1]), offset = (size_t)word_number(words[2]);
	unsigned char *data = malloc(length + 1);

	fill(data, length, offset, nr > 3 ? (unsigned)word_number(words[3]) : 1);
	note_result(pwrite(word_fd(run, words[0]), data, length, (off_t)offset));
	free(data);
}

/* A sum of all bytes of the name. */
static void step_sum(struct posix_run *run, int nr, char **words)
{
	unsigned char data[65536];
	uint64_t sum = 14695981039346656037U;
	size_t total = 0;
	ssize_t length;
	int fd = open(words[0], O_RDONLY | O_CLOEXEC);

	(void)run;
	(void)nr;
	if (fd < 0) {
		note_result(-1);
		return;
	}
	while ((length = read(fd, data, sizeof(data))) > 0) {
		for (ssize_t i = 0; i < length; i++)
			sum = (sum ^ data[i]) * 1099511628211U;
		total += (size_t)length;
	}
	if (length < 0)
		note_result(-1);
	close(fd);
	posix_note(" %zu bytes %016lx", total, (unsigned long)sum);
}

static void step_cat(struct posix_run *run, int nr, char **words)
{
	static unsigned char data[DATA_MAX];
	ssize_t length;
	int fd = open(words[0], O_RDONLY | O_CLOEXEC);

	(void)run;
	(void)nr;
	if (fd < 0) {
		note_result(-1);
		return;
	}
	length = read(fd, data, sizeof(data));
	note_result(length);
	if (length > 0)
		note_data(data, (size_t)length);
	close(fd);
}

static void step_seek(struct posix_run *run, int nr, char **words)
{
	static const struct bit whences[] = {{"set", SEEK_SET},
					     {"cur", SEEK_CUR},
					     {"end", SEEK_END},
					     {"data", SEEK_DATA},
					     {"hole", SEEK_HOLE},
					     {"bad", 77},
					     {0}};

	(void)nr;
	note_result(
		lseek(word_fd(run, words[0]), word_number(words[1]), word_bits(whences, words[2])));
}

static void step_truncate(struct posix_run *run, int nr, char **words)
{
	(void)run;
	(void)nr;
	note_result(truncate(words[0], word_number(words[1])));
}

static void step_ftruncate(struct posix_run *run, int nr, char **words)
{
	(void)nr;
	note_result(ftruncate(word_fd(run, words[0]), word_number(words[1])));
}

static void step_fallocate(struct posix_run *run, int nr, char **words)
{
	static const struct bit modes[] = {{"keep", FALLOC_FL_KEEP_SIZE},
					   {"punch", FALLOC_FL_PUNCH_HOLE},
					   {"zero", FALLOC_FL_ZERO_RANGE},
					   {0}};

	(void)nr;
	note_result(fallocate(word_fd(run, words[0]), word_bits(modes, words[1]),
			      word_number(words[2]), word_number(words[3])));
}

static void step_fsync(struct posix_run *run, int nr, char **words)
{
	note_result(nr > 1 ? fdatasync(word_fd(run, words[0])) : fsync(word_fd(run, words[0])));
}

/* flag FILE append|0: with fcntl(). */
static void step_flag(struct posix_run *run, int nr, char **words)
{
	(void)nr;
	note_result(fcntl(word_fd(run, words[0]), F_SETFL, word_bits(open_flags, words[1])));
}

static void step_getflags(struct posix_run *run, int nr, char **words)
{
	int flags = fcntl(word_fd(run, words[0]), F_GETFL);

	(void)nr;
	posix_note(" access %d%s%s", flags & O_ACCMODE, flags & O_APPEND ? " append" : "",
		   flags & O_SYNC ? " sync" : "");
}

static void step_flock(struct posix_run *run, int nr, char **words)
{
	static const struct bit kinds[] = {{"sh", LOCK_SH | LOCK_NB},
					   {"ex", LOCK_EX | LOCK_NB},
					   {"wait", LOCK_EX},
					   {"un", LOCK_UN},
					   {0}};

	(void)nr;
	note_result(flock(word_fd(run, words[0]), word_bits(kinds, words[1])));
}

/* lock FILE r|w|u START LENGTH: of this open file (OFD), so that one process can contend with itself. */
static void step_lock(struct posix_run *run, int nr, char **words)
{
	struct flock lock = {.l_type = *words[1] == 'r'	  ? F_RDLCK
				       : *words[1] == 'w' ? F_WRLCK
							  : F_UNLCK,
			     .l_whence = SEEK_SET,
			     .l_start = word_number(words[2]),
			     .l_len = word_number(words[3])};

	(void)nr;
	note_result(fcntl(word_fd(run, words[0]), F_OFD_SETLK, &lock));
}

static void step_writev(struct posix_run *run, int nr, char **words)
{
	struct iovec parts[WORDS_MAX];

	for (int i = 1; i < nr; i++)
		parts[i - 1] = (struct iovec){words[i], strlen(words[i])};
	note_result(writev(word_fd(run, words[0]), parts, nr - 1));
}

/* copy FROM TO BYTES, with copy_file_range(). */
static void step_copy(struct posix_run *run, int nr, char **words)
{
	(void)nr;
	note_result(copy_file_range(word_fd(run, words[0]), NULL, word_fd(run, words[1]), NULL,
				    (size_t)word_number(words[2]), 0));
}

/* ---- Mappings */

static void step_map(struct posix_run *run, int nr, char **words)
{
	static const struct bit protections[] = {{"r", PROT_READ}, {"w", PROT_WRITE}, {0}};
	size_t i = (unsigned)atoi(words[0]) % FILES_MAX;
	void *memory = mmap(NULL, (size_t)word_number(words[1]), word_bits(protections, words[2]),
			    nr > 3 ? MAP_PRIVATE : MAP_SHARED, run->fds[i], 0);

	note_result(memory == MAP_FAILED ? -1 : 0);
	run->mapped[i] = memory == MAP_FAILED ? NULL : memory;
	run->mapped_length[i] = (size_t)word_number(words[1]);
}

static char *mapped_at(struct posix_run *run, const char *file, const char *offset)
{
	char *memory = run->mapped[(unsigned)atoi(file) % FILES_MAX];

	return memory ? memory + word_number(offset) : NULL;
}

static void step_poke(struct posix_run *run, int nr, char **words)
{
	char *at = mapped_at(run, words[0], words[1]);

	(void)nr;
	if (at)
		memcpy(at, words[2], strlen(words[2]));
	posix_note(at ? "" : " not mapped");
}

static void step_peek(struct posix_run *run, int nr, char **words)
{
	char *at = mapped_at(run, words[0], words[1]);

	(void)nr;
	if (at)
		note_data((unsigned char *)at, (size_t)word_number(words[2]));
	else
		posix_note(" not mapped");
}

/* Notes whether touching a mapped byte ends a process, as behind the end of the file. */
static void step_touch(struct posix_run *run, int nr, char **words)
{
	volatile const char *at = mapped_at(run, words[0], words[1]);
	int status;
	pid_t pid = at ? fork() : -1;

	(void)nr;
	if (pid == 0) {
		signal(SIGBUS, SIG_DFL);
		_exit(*at == 127 ? 1 : 0);
	}
	if (pid > 0 && waitpid(pid, &status, 0) == pid)
		posix_note(" %s", WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "fine");
}

static void step_msync(struct posix_run *run, int nr, char **words)
{
	size_t i = (unsigned)atoi(words[0]) % FILES_MAX;

	(void)nr;
	note_result(msync(run->mapped[i], run->mapped_length[i], MS_SYNC));
}

static void step_unmap(struct posix_run *run, int nr, char **words)
{
	size_t i = (unsigned)atoi(words[0]) % FILES_MAX;

	(void)nr;
	note_result(munmap(run->mapped[i], run->mapped_length[i]));
	run->mapped[i] = NULL;
}

const struct posix_step posix_steps_files[] = {
	{"open", 3, step_open},
	{"openat", 4, step_openat},
	{"close", 1, step_close},
	{"dup", 2, step_dup},
	{"read", 2, step_read},
	{"write", 2, step_write},
	{"fill", 3, step_fill},
	{"sum", 1, step_sum},
	{"cat", 1, step_cat},
	{"seek", 3, step_seek},
	{"truncate", 2, step_truncate},
	{"ftruncate", 2, step_ftruncate},
	{"fallocate", 4, step_fallocate},
	{"fsync", 1, step_fsync},
	{"flag", 2, step_flag},
	{"getflags", 1, step_getflags},
	{"flock", 2, step_flock},
	{"lock", 4, step_lock},
	{"writev", 2, step_writev},
	{"copy", 3, step_copy},
	{"map", 3, step_map},
	{"poke", 3, step_poke},
	{"peek", 3, step_peek},
	{"touch", 2, step_touch},
	{"msync", 1, step_msync},
	{"unmap", 1, step_unmap},
	{0},
};
