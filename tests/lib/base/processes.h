/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients that are processes of their own: the test's program, run again, with a pipe in and one
 * out.
 */
#ifndef TESTS_PROCESSES_H
#define TESTS_PROCESSES_H

#include <stddef.h>
#include <sys/types.h>

struct client_process {
	pid_t pid; /* 0: none          */
	int says;  /* what it writes   */
	int go;	   /* what it waits for */
};

/* Runs this program as `client BEHAVIOUR URI SAY-FD GO-FD`; it dies with this process. */
void client_start(struct client_process *client, const char *behaviour, const char *uri);
/* Reads exactly so many bytes of what it says; fails the test when it ends before. */
void client_hear(struct client_process *client, void *out, size_t length);
/* Waits for its end and returns its status, as waitpid() does. */
int client_reap(struct client_process *client);

/* Stops a child and waits until all of its threads stand: until then they may do a lot. */
void process_stop(pid_t pid);
void process_continue(pid_t pid);

#endif
