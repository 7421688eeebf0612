/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What progress.c and connections.c share: the threads, their commands and their connections.
 */
#ifndef SERVER_PROGRESS_PRIVATE_H
#define SERVER_PROGRESS_PRIVATE_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

#include "base/spin.h"
#include "server/complaint.h"
#include "server/congestion.h"
#include "server/door.h"
#include "server/mailbox.h"
#include "server/mover.h"
#include "server/progress.h"

#define CONTEXT_MOVE UINT64_C(0x80) /* of a move; with its number. Else it is the mailbox's */
#define CONNECT_MS   10000	    /* from being accepted to being connected             */

enum { WATCH_QUEUE, WATCH_WAKE, WATCH_LISTENER, NR_WATCHED };

/* A data connection. Owned by its thread, on its list. */
struct connection {
	uint64_t
		number; /* first: the tree is searched for it. What its operations have as context */
	struct cds_list_head node;
	struct fabric_endpoint *endpoint;
	struct mailbox *mailbox;
	struct mover_line line;
	struct progress_thread *thread;
	struct admission admission;
	struct domain *domain;	   /* that it is accepted into */
	uint64_t connect_deadline; /* on clock_ns(); CLOCK_NEVER once it is connected */
	bool is_ending;		   /* its peer has been told to let go */
	char congestion[FABRIC_CONGESTION_MAX];
};

enum command_kind { COMMAND_ADOPT, COMMAND_CLOSE };

struct command {
	struct cds_list_head node;
	enum command_kind kind;
	struct fabric_request request;	  /* COMMAND_ADOPT                            */
	struct progress_closing *closing; /* COMMAND_CLOSE: which the command is part of */
};

/* The closing of connections, on its way through all threads. Freed by the last. */
struct progress_closing {
	struct progress *progress;
	struct progress_order order;
	atomic_uint nr_left;	   /* threads that have not closed theirs yet */
	struct command commands[]; /* one per thread */
};

struct progress_thread {
	struct progress *progress;
	pthread_t thread;
	struct fabric_queue *queue;
	struct pollfd watched[NR_WATCHED];
	nfds_t nr_watched; /* with the listener or without */
	struct cds_list_head connections;
	struct cds_list_head waiting; /* commands to close, until peers have let go */
	void *by_number;	      /* tree of them */
	uint64_t last_number; /* in steps of 256: the low bits are the mailbox's and the mover's */
	struct mover mover;
	struct spin spin;
	unsigned nr_connecting;
	atomic_uint nr_connections; /* dealt to it, closed ones taken off */

	int wake_fd;
	pthread_mutex_t lock; /* of the commands */
	struct cds_list_head commands;
	atomic_bool has_commands;
};

struct progress {
	struct progress_options options;
	struct fabric_listener *listener;
	struct door *door;
	struct progress_thread *threads;
	atomic_bool is_stopping;
	atomic_uint nr_connections;
	struct congestion congestion;
	struct complaints rejections, shortages;
};

/* ---- progress.c */

/* To another thread, or this one. The command is the thread's from then on. */
void progress_send(struct progress_thread *thread, struct command *command);

/* ---- connections.c. On the thread that the connection is on, or is to be. */

/* NULL: it is closed. */
struct connection *connection_find(struct progress_thread *thread, uint64_t number);
void connection_close(struct progress_thread *thread, struct connection *connection);
/* It is connected: no time runs against it any more. */
void connection_settle(struct progress_thread *thread, struct connection *connection);
/* Accepts a stranger, or rejects it. */
void connection_adopt(struct progress_thread *thread, struct fabric_request *request);
/* Gives a request to the thread with the fewest connections. On the first. */
void connection_deal(struct progress *progress, struct fabric_request *request);
/* Closes those that the command is about. Afterwards its closing may be gone. */
void connections_close(struct progress_thread *thread, struct command *command);
/* A connection that was waited for may have gone. */
void connections_look_again(struct progress_thread *thread);

#endif
