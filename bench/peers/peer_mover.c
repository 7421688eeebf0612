/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer_mover read|write|stream FILE BYTES SIZE MS
 *
 * Moves pieces of SIZE bytes of a file of BYTES for MS milliseconds. It prints how many nanoseconds a piece took. "stream" reads from front to back, the others go to places in no order. Suite `preload` runs it
 * on a mount, with and without `afar run`. It knows nothing of Afar.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WARM_UP 20U	    /* pieces; then nobody decides anything any more */
#define LARGE	(64U << 10) /* and these count at once */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int fail(const char *what)
{
	perror(what);
	return 1;
}

int main(int argc, char **argv)
{
	const char *what = argc == 6 ? argv[1] : "";
	const int is_write = !strcmp(what, "write"), is_stream = !strcmp(what, "stream");
	const uint64_t bytes = argc == 6 ? strtoull(argv[3], NULL, 10) : 0;
	const size_t size = argc == 6 ? strtoull(argv[4], NULL, 10) : 0;
	const uint64_t span_ns = argc == 6 ? strtoull(argv[5], NULL, 10) * 1000000 : 0;
	uint64_t begin = 0, nr = 0, at = 0, end;
	char *memory = size && size <= bytes ? malloc(size < LARGE ? LARGE : size) : NULL;
	int fd;

	if (!memory) {
		fputs("usage: peer_mover read|write|stream FILE BYTES SIZE MS\n", stderr);
		return 2;
	}
	memset(memory, 'm', size);
	fd = open(argv[2], is_write ? O_RDWR : O_RDONLY);
	if (fd < 0)
		return fail(argv[2]);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	do {
		const uint64_t offset = at * size;
		const ssize_t moved = is_write	  ? pwrite(fd, memory, size, (off_t)offset)
				      : is_stream ? read(fd, memory, size)
						  : pread(fd, memory, size, (off_t)offset);

		if (moved != (ssize_t)size && !(is_stream && moved >= 0))
			return fail(argv[2]);
		if (is_stream && moved < (ssize_t)size)
			lseek(fd, 0, SEEK_SET);
		at = (at * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407)) %
		     (bytes / size);
		if (++nr == WARM_UP)
			begin = now_ns();
		end = now_ns();
	} while (nr <= WARM_UP || end - begin < span_ns);
	printf("%f\n", (double)(end - begin) / (double)(nr - WARM_UP));
	return 0;
}
