/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations that progress.c and connections.c share: the threads, their commands and their
 * connections.
 */
#ifndef SERVER_PROGRESS_PRIVATE_H
#define SERVER_PROGRESS_PRIVATE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

#include "base/log.h"
#include "base/spin.h"
#include "fabric/listener.h"
#include "server/data/admission.h"
#include "server/data/congestion.h"
#include "server/data/door.h"
#include "server/data/mailbox.h"
#include "server/data/mover.h"
#include "server/data/progress.h"

#define QUEUE_DEPTH  (2 * MESSAGE_CREDITS) /* replies, and moves that clients ask for */
#define CONTEXT_MOVE UINT64_C(0x80) /* a move's; with the move's number. Others are the mailbox's */
#define CONNECT_MS   10000	    /* from accepting until it must be connected */

#define PORTS_MAX (1U + PROGRESS_BESIDE_MAX) /* of a progress: the ways to its threads */

/* A way to the threads. Each thread has a queue for each. */
struct port {
	struct fabric *fabric;
	unsigned nr_fabric; /* its number in the domains */
	struct fabric_listener *listener;
	struct door *door;
};

/* A data connection. Its thread owns it, on its list. */
struct connection {
	/* First, because the tree is searched for it. The context of its operations. */
	uint64_t number;
	struct cds_list_head node;
	struct fabric_endpoint *endpoint;
	struct mailbox *mailbox;
	struct mover_line line;
	struct progress_thread *thread;
	const struct port *port; /* by which it came */
	struct admission admission;
	struct domain *domain;	   /* the connection's domain */
	uint64_t connect_deadline; /* on clock_ns(); CLOCK_NEVER once it is connected */
	bool is_ending;		   /* its peer has been told to stop using the memory */
	struct progress_work work;
	char congestion[FABRIC_CONGESTION_MAX];
};

enum command_kind { COMMAND_ADOPT, COMMAND_CLOSE, COMMAND_RUN };

struct command {
	struct cds_list_head node;
	enum command_kind kind;
	struct fabric_request request;	  /* COMMAND_ADOPT, … */
	const struct port *port;	  /* … and the port that it came by */
	struct progress_closing *closing; /* COMMAND_CLOSE: the command is a part of it */
	uint64_t last_number;		  /* … and is about connections up to this one */
	void (*run)(void *argument);	  /* COMMAND_RUN, and its argument */
	void *argument;
};

/* A closing of connections, on its way through all threads. The last thread frees it. */
struct progress_closing {
	struct progress *progress;
	struct progress_order order;
	atomic_uint nr_left;	   /* threads that have not closed their connections yet */
	struct command commands[]; /* one per thread */
};

struct progress_thread {
	struct progress *progress;
	pthread_t thread;
	struct fabric_queue *queues[PORTS_MAX]; /* by the progress' ports */
	unsigned nr_on[PORTS_MAX];		/* endpoints on each queue */
	struct cds_list_head connections;
	struct cds_list_head closed;  /* connections for which the engine has work under way */
	struct cds_list_head waiting; /* COMMAND_CLOSEs that wait for peers, or for the engine */
	void *by_number;	      /* tree of the connections */
	uint64_t last_number; /* grows by 256: the low bits are the mailbox's and the mover's */
	struct mover mover;
	struct spin spin;
	bool is_hogged;	    /* others have taken the core for a time slice, when it was yielded */
	unsigned nr_hasty;  /* spins that were left out because others want the core */
	bool has_callers;   /* a listener's descriptor was readable */
	bool has_slept;	    /* so the listeners' descriptors were looked at */
	uint64_t listen_at; /* on clock_ns(): then it is looked at in any case */
	unsigned nr_connecting;
	atomic_uint nr_connections; /* given to this thread and not closed yet */

	int wake_fd;
	int sleep_fd;	      /* an epoll: sleep.c */
	int engine_fd;	      /* in it; -1: none is */
	pthread_mutex_t lock; /* guards the commands */
	struct cds_list_head commands;
	atomic_bool has_commands;
};

struct progress {
	struct progress_options options;
	struct port ports[PORTS_MAX];
	unsigned nr_ports;
	struct progress_thread *threads;
	atomic_bool is_stopping;
	atomic_uint nr_connections;
	struct congestion congestion;
	struct log_limit rejections, shortages;
	/* The outcome of the engine's opening, once `opened` is up. */
	sem_t opened;
	int open_status;
	char open_sentence[512];
};

/* ---- ports.c, with sentences */

int ports_open(struct progress *progress);
void ports_close(struct progress *progress);
/* Opens a queue of the thread for each port. */
int ports_open_queues(struct progress_thread *thread);
void ports_close_queues(struct progress_thread *thread);

/* ---- progress.c */

/* Sends a command to another thread, or to this one. The thread owns the command from then on. */
void progress_send(struct progress_thread *thread, struct command *command);

/* ---- sleep.c, on the thread */

/* When the thread has its queues. Errors, with a sentence: the kernel's. */
int sleep_open(struct progress_thread *thread);
/* Sleeps until something is to be done, or for so many milliseconds; -1: any time. True: somebody is at a listener. */
bool sleep_for(struct progress_thread *thread, int ms);
/* From now on commands and the engine alone wake it. */
void sleep_for_engine_alone(struct progress_thread *thread);

/* ---- connections.c. On the thread that the connection is on, or is to be. */

/* Finds a connection. NULL: it is closed. */
struct connection *connection_find(struct progress_thread *thread, uint64_t number);
void connection_close(struct progress_thread *thread, struct connection *connection);
/* Call it when the connection is connected: it has no deadline any more. */
void connection_settle(struct progress_thread *thread, struct connection *connection);
/* Accepts the request, or rejects it. */
void connection_adopt(struct progress_thread *thread, const struct port *port,
		      struct fabric_request *request);
/* Gives a request to the thread with the fewest connections. On the first thread. */
void connection_deal(struct progress *progress, const struct port *port,
		     struct fabric_request *request);
/* Closes the connections that the command is about. Afterwards its closing may be freed. */
void connections_close(struct progress_thread *thread, struct command *command);
/* Call it when a connection that closings wait for may have gone. */
void connections_look_again(struct progress_thread *thread);
/* Frees the closed connections for which the engine has nothing under way any more. True: there
 * were some. */
bool connections_sweep(struct progress_thread *thread);

#endif
