/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * preload_calls MOUNT PID: makes calls that Python has not, under `afar run`. These are other names of reading and writing, signal
 * handlers that write or jump away, cancelled threads, and vfork(). PID is the mount's, which must have little to do. Run by preload.sh.
 */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define RECORD	   70000
#define NR_RECORDS 300

#define CHECK(condition)                                                           \
	do {                                                                       \
		if (!(condition)) {                                                \
			fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, \
				strerror(errno));                                  \
			exit(1);                                                   \
		}                                                                  \
	} while (0)

ssize_t __read_chk(int fd, void *data, size_t size, size_t room);
ssize_t __pread_chk(int fd, void *data, size_t size, off_t offset, size_t room);
ssize_t __pread64_chk(int fd, void *data, size_t size, off64_t offset, size_t room);

static char data[RECORD], found[RECORD];
static char path[4096];
static int fd;

static int open_new(void)
{
	return open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
}

/* Returns how many bytes the mount has moved. */
static long long moved(const char *mount_pid)
{
	char name[64], word[32];
	long long sum = 0, value;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/%s/io", mount_pid);
	file = fopen(name, "re");
	CHECK(file);
	while (fscanf(file, "%31s %lld", word, &value) == 2)
		if (!strcmp(word, "rchar:") || !strcmp(word, "wchar:"))
			sum += value;
	fclose(file);
	return sum;
}

/* ---- Names */

static void try_names(void)
{
	struct iovec iov = {data, RECORD}, back = {found, RECORD};

	fd = open_new();
	memset(data, 'n', RECORD);
	CHECK(write(fd, data, RECORD) == RECORD);
	CHECK(pwrite64(fd, data, RECORD, RECORD) == RECORD);
	CHECK(pwritev64(fd, &iov, 1, 2L * RECORD) == RECORD);
	CHECK(pwritev2(fd, &iov, 1, 3L * RECORD, 0) == RECORD);
	CHECK(pwritev64v2(fd, &iov, 1, -1, 0) == RECORD);
	CHECK(lseek(fd, 0, SEEK_CUR) == 2L * RECORD);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	CHECK(__read_chk(fd, found, RECORD, RECORD) == RECORD && !memcmp(found, data, RECORD));
	CHECK(preadv2(fd, &back, 1, -1, 0) == RECORD && !memcmp(found, data, RECORD));
	CHECK(lseek(fd, 0, SEEK_CUR) == 2L * RECORD);
	CHECK(__pread_chk(fd, found, RECORD, 3L * RECORD, RECORD) == RECORD);
	CHECK(__pread64_chk(fd, found, RECORD, 3L * RECORD + 5, RECORD) == RECORD - 5);
	CHECK(preadv64(fd, &back, 1, RECORD) == RECORD && preadv64v2(fd, &back, 1, 0, 0) == RECORD);
	CHECK(fdatasync(fd) == 0 && fsync(fd) == 0);
	errno = 77;
	CHECK(pread64(fd, found, RECORD, 0) == RECORD && errno == 77);
	CHECK(close(fd) == 0);
}

/* ---- Signals */

static volatile sig_atomic_t nr_handled;
static sigjmp_buf away;

static void write_record(int number, siginfo_t *info, void *context)
{
	char record[RECORD];

	(void)info;
	(void)context;
	if (number != SIGALRM || nr_handled >= NR_RECORDS)
		return;
	memset(record, 's', RECORD);
	if (write(fd, record, RECORD) == RECORD)
		nr_handled++;
}

static void jump(int number)
{
	(void)number;
	nr_handled++;
	siglongjmp(away, 1);
}

static void set_timer(long us)
{
	const struct itimerval timer = {{0, us}, {0, us}};

	CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static void try_handlers(void)
{
	struct sigaction action = {.sa_sigaction = write_record,
				   .sa_flags = SA_SIGINFO | SA_RESTART};
	struct sigaction old;
	int nr_written = 0, nr_found[256] = {0};

	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	CHECK(sigaction(SIGALRM, NULL, &old) == 0 && old.sa_sigaction == write_record);
	CHECK(old.sa_flags & SA_SIGINFO);
	fd = open_new();
	memset(data, 'm', RECORD);
	CHECK(write(fd, data, RECORD) == RECORD);
	nr_handled = 0;
	set_timer(500);
	for (nr_written = 1; nr_written < NR_RECORDS || nr_handled < 20; nr_written++)
		CHECK(write(fd, data, RECORD) == RECORD);
	set_timer(0);
	for (off_t at = 0; pread(fd, found, RECORD, at) > 0; at += RECORD) {
		for (int i = 1; i < RECORD; i++)
			CHECK(found[i] == found[0]);
		nr_found[(unsigned char)found[0]]++;
	}
	CHECK(nr_found['m'] == nr_written && nr_found['s'] == nr_handled);
	CHECK(close(fd) == 0);
}

/* A handler may have come from inside of malloc(), so it must not open a session. */
static void try_first(const char *mount_pid)
{
	struct sigaction action = {.sa_sigaction = write_record, .sa_flags = SA_SIGINFO};
	const long long before = moved(mount_pid);

	fd = open_new();
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	for (int i = 0; i < 20; i++)
		CHECK(raise(SIGALRM) == 0);
	CHECK(moved(mount_pid) - before >= 20L * RECORD);
	CHECK(close(fd) == 0);
}

/* fclose() closes a descriptor from inside of the C library, and memfd_create() gives its number to another. */
static void try_stream(void)
{
	FILE *file;

	fd = open_new();
	CHECK(write(fd, data, RECORD) == RECORD && close(fd) == 0);
	file = fopen(path, "re");
	CHECK(file && pread(fileno(file), found, RECORD, 0) == RECORD);
	fd = fileno(file);
	CHECK(fclose(file) == 0 && memfd_create("x", 0) == fd);
	CHECK(pread(fd, found, RECORD, 0) == 0 && close(fd) == 0);
}

/* freopen() makes the number another file's, from inside of the C library. */
static void try_stream_anew(void)
{
	char other[4200];
	FILE *file;

	fd = open_new();
	CHECK(close(fd) == 0);
	snprintf(other, sizeof(other), "%s-anew", path);
	file = fopen(path, "r+e");
	fd = file ? fileno(file) : -1;
	memset(data, 'a', RECORD);
	CHECK(write(fd, data, RECORD) == RECORD);
	file = freopen(other, "w+e", file);
	CHECK(file && fileno(file) == fd);
	memset(data, 'b', RECORD);
	CHECK(pwrite(fd, data, RECORD, 0) == RECORD && fclose(file) == 0);
	file = fopen(path, "re");
	CHECK(file && fread(found, 1, RECORD, file) == RECORD && found[0] == 'a');
	CHECK(fclose(file) == 0 && unlink(other) == 0);
}

/* O_APPEND is of all copies of a descriptor. */
static void try_appending_copy(void)
{
	struct stat stat;
	int copy;

	fd = open_new();
	CHECK(write(fd, data, RECORD) == RECORD);
	copy = dup(fd);
	CHECK(copy >= 0 && fcntl(copy, F_SETFL, O_APPEND) == 0);
	CHECK(lseek(fd, 0, SEEK_SET) == 0 && write(fd, data, RECORD) == RECORD);
	CHECK(fstat(fd, &stat) == 0 && stat.st_size == 2 * RECORD);
	CHECK(close(copy) == 0 && close(fd) == 0);
}

/* A handler that jumps away leaves no lock behind. */
static void try_jumps(void)
{
	fd = open_new();
	CHECK(write(fd, data, RECORD) == RECORD);
	nr_handled = 0;
	CHECK(signal(SIGALRM, jump) != SIG_ERR);
	CHECK(signal(SIGALRM, jump) == jump);
	for (volatile int i = 0; nr_handled < 100; i++) {
		if (sigsetjmp(away, 1) == 0) {
			set_timer(700);
			for (;;)
				CHECK(pread(fd, found, RECORD, 0) == RECORD);
		}
		set_timer(0);
	}
	CHECK(signal(SIGALRM, SIG_DFL) == jump);
	CHECK(close(fd) == 0);
}

/* ---- Threads that are cancelled */

static void *read_on(void *argument)
{
	(void)argument;
	for (;;)
		CHECK(pread(fd, found, RECORD, 0) >= 0);
	return NULL;
}

static void try_cancelling(void)
{
	pthread_t thread;
	void *result;

	fd = open_new();
	CHECK(write(fd, data, RECORD) == RECORD);
	for (int i = 0; i < 50; i++) {
		CHECK(pthread_create(&thread, NULL, read_on, NULL) == 0);
		usleep(1000);
		CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
		CHECK(result == PTHREAD_CANCELED);
	}
	CHECK(close(fd) == 0);
}

/* ---- Children that have our memory */

static void try_vfork(void)
{
	int other, status;
	pid_t child;

	fd = open_new();
	CHECK(write(fd, data, RECORD) == RECORD);
	other = open("/dev/null", O_RDWR);
	child = vfork();
	if (child == 0) {
		dup2(fd, other);
		dup2(other, 200);
		close(fd);
		close(3);
		signal(SIGPIPE, SIG_DFL);
		execl("/no/such", "x", (char *)NULL);
		execlp("true", "true", "word", (char *)NULL);
		_exit(1);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(write(other, data, RECORD) == RECORD);
	CHECK(pread(fd, found, RECORD, 0) == RECORD && pread(fd, found, RECORD, RECORD) == 0);
	CHECK(close(other) == 0);
	closefrom(fd);
	CHECK(pread(fd, found, RECORD, 0) < 0 && errno == EBADF);
	fd = open(path, O_RDONLY);
	CHECK(fd >= 0 && close_range((unsigned)fd + 1, ~0U, 0) == 0);
	CHECK(pread(fd, found, RECORD, 0) == RECORD);
	CHECK(close_range((unsigned)fd, (unsigned)fd, 0) == 0);
	CHECK(pread(fd, found, RECORD, 0) < 0 && errno == EBADF);
}

int main(int argc, char **argv)
{
	const bool is_watched = argc == 3;
	long long before;

	CHECK(is_watched);
	snprintf(path, sizeof(path), "%s/calls", argv[1]);
	try_first(argv[2]);
	before = moved(argv[2]);
	try_names();
	try_stream();
	try_stream_anew();
	try_appending_copy();
	try_jumps();
	try_cancelling();
	try_vfork();
	CHECK(moved(argv[2]) - before < 20L * RECORD);
	try_handlers();
	/* Descriptors that nobody closes, at an end that runs no handlers. */
	fd = open(path, O_RDWR);
	CHECK(pwrite(fd, data, RECORD, 0) == RECORD);
	_exit(0);
}
