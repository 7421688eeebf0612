/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process that serves an export: nbdkit with our plugin (src/frontends/nbd).
 *
 * nbdkit gets the socket as systemd would give it. The plugin writes lines into a pipe: the number of its session, the
 * mark of its handle of the volume, and words. The word "ready" says that it serves, and "over" that its session has
 * ended. "another" says that the volume is gone, and "synced" that the plugin has synced and closed it. The pipe's end
 * is the end of nbdkit. So nothing is waited for by looking again and again. The lines of nbdkit on standard error come
 * through a pipe, too, and are shown one by one as our own.
 */
#ifndef TOOLS_NBDKIT_H
#define TOOLS_NBDKIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NBDKIT_READY_FD	 4   /* in nbdkit: where the plugin writes */
#define NBDKIT_NOT_FOUND 127 /* its exit status if there is none, as a shell's */
#define NBDKIT_END_S	 4   /* that it has to end when it should */
#define NBDKIT_MARK_MAX	 65536

struct nbdkit {
	pid_t pid;
	int told_fd;		    /* the plugin writes there */
	int said_fd;		    /* its standard error */
	char session[20];	    /* the plugin's, once it has the volume open */
	char mark[NBDKIT_MARK_MAX]; /* of its handle of the volume (afar_volume_mark()) */
	bool is_ready, is_over, is_another, is_synced; /* so the plugin has told */
	bool is_late; /* it did not end when it should, and was killed */
	unsigned nr_said;
	int status; /* once it has ended: as of waitpid() */
	char told[NBDKIT_MARK_MAX];
	size_t told_length;
	char said[2048];
	size_t said_length;
};

/* Starts nbdkit with these words, at a socket that stays the caller's. Returns 0, or CLI_FAILED with a line that begins
 * with `asked`. */
int nbdkit_start(struct nbdkit *nbdkit, const char *asked, char *const words[], int socket);

/*
 * Returns when it has ended. Meanwhile calls `be_ready` once it serves. Tells it to end when we are interrupted, or when
 * its session has ended, and kills it if it has not ended NBDKIT_END_S later.
 */
void nbdkit_watch(struct nbdkit *nbdkit, void (*be_ready)(void *argument), void *argument);

/* Says how it has ended: "with status 1". */
void nbdkit_end_text(const struct nbdkit *nbdkit, char out[64]);

#endif
