/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mover REGION_BYTES TRANSFER_BYTES: writes and reads a region of the namespace "moved" without end. It counts a
 * word up after each round, for tests of what is counted. Says "moving" once it does. After a byte on its standard
 * input it rests, says "resting", and waits for another. It ends with its standard input, so that it does not
 * outlive who has started it.
 */
#include <afar/afar.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static int fail(const char *what)
{
	fprintf(stderr, "mover: %s: %s\n", what, afar_last_error());
	return 1;
}

static void say(const char *what)
{
	(void)!write(STDOUT_FILENO, what, strlen(what));
}

static int is_wanted(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char byte;

	if (poll(&input, 1, 0) == 0)
		return 1;
	if (read(STDIN_FILENO, &byte, 1) != 1)
		return 0;
	say("resting\n");
	return read(STDIN_FILENO, &byte, 1) == 1;
}

/* Once over the region. 0, or negative. */
static int move(struct afar_region *region, void *memory, uint64_t region_bytes,
		uint64_t transfer_bytes)
{
	const struct iovec iov = {memory, transfer_bytes};
	uint64_t word;

	for (uint64_t at = 0; at + transfer_bytes <= region_bytes; at += transfer_bytes) {
		if (afar_region_writev(region, &iov, 1, at) < 0 ||
		    afar_region_readv(region, &iov, 1, at) < 0)
			return -1;
	}
	return afar_region_fetch_add(region, 0, 1, &word);
}

int main(int argc, char **argv)
{
	uint64_t region_bytes = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
	uint64_t transfer_bytes = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
	struct afar_session *session;
	struct afar_namespace *ns;
	struct afar_region *region;
	void *memory;
	int rc, has_said = 0;

	memory = transfer_bytes ? calloc(1, transfer_bytes) : NULL;
	if (!memory || region_bytes < transfer_bytes)
		return 2;
	if (afar_session_open(NULL, NULL, &session))
		return fail("open a session");
	if (afar_namespace_open(session, "moved", &ns))
		return fail("open the namespace");
	if (afar_region_alloc(ns, region_bytes, 0, &region))
		return fail("allocate a region");
	do {
		rc = move(region, memory, region_bytes, transfer_bytes);
		if (!rc && !has_said++)
			say("moving\n");
	} while (!rc && is_wanted());
	if (rc)
		return fail("move");
	afar_region_destroy(region);
	afar_region_close(region);
	afar_namespace_close(ns);
	afar_session_close(session);
	free(memory);
	return 0;
}
