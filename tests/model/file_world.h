/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A state of the model of file.c, and what must hold in it. Sizes are counted in halves of a unit: a file has one
 * unit or none, so its size is 0, 1 or 2.
 */
#ifndef TESTS_MODEL_FILE_WORLD_H
#define TESTS_MODEL_FILE_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "file.h"

#define CLIENTS_MAX 2
#define FILES_MAX   2
#define UNITS_MAX   2
#define HALVES	    2

enum content { ZERO, WRITTEN, CUT }; /* CUT: of another file, or of before a truncate */
enum handle {
	CLOSED,
	OPENING,	  /* the manager has answered, the answer is on its way */
	OPENING_RECALLED, /* and a recall came first                           */
	OPEN,
	CLOSING, /* the manager has closed it, the answer is on its way */
};
enum write {
	WRITE_NONE,
	WRITE_GROWS,
	WRITE_GROWN,
	WRITE_POSTED,
	WRITE_LANDED,
	WRITE_TELLS,
	WRITE_TOLD
};
enum truncate { TRUNCATE_NONE, TRUNCATE_SHUT, TRUNCATE_ZEROED, TRUNCATE_DONE };
enum life { ALIVE, DEAD, FENCED_OFF, GONE };

enum harm { HARM_NONE, HARM_FOREIGN, HARM_LATE, NR_HARMS };

/* Bytes only: states are compared as memory. Units are numbers from 1; 0 is none. Sets are bits. */
struct opened {
	uint8_t handle;
	uint8_t unit;	    /* that it knows the file to have           */
	uint8_t is_present; /* what it knows is of the present layout   */
	uint8_t size;	    /* that it knows                            */
	uint8_t end;	    /* that it has told of                      */
};

struct posted {
	uint8_t file, unit;
	uint8_t is_old; /* the file was cut since */
};

struct client {
	uint8_t life;
	uint8_t is_joined; /* it has told this manager what it has open */
	struct opened opened[FILES_MAX];
	uint8_t write;
	struct posted posted;
	/* Its connection has ended, and the server may still carry it out. unit 0: there is none. */
	struct posted doubt;
	uint8_t truncate, truncated_file, truncated_to;
};

struct file {
	/* Stored: */
	uint8_t is_there, has_name;
	uint8_t unit;
	uint8_t stored_size;
	/* In the manager's memory: */
	uint8_t is_uncommitted; /* that it has the unit is */
	uint8_t size;
	uint8_t holds;	  /* clients */
	uint8_t recaller; /* client from 1 */
	uint8_t recalled; /* clients that gave it up for that */
	/* Users may count on this: */
	uint8_t least, most; /* size */
	uint8_t kept;	     /* halves that have to be as they were written */
};

struct file_state {
	uint8_t harm;
	uint8_t nr_failures_left;
	uint8_t is_manager_up;
	uint8_t unreclaimed; /* clients */
	/* Units: */
	uint8_t free, scrubs; /* stored                                      */
	uint8_t told;	      /* of the sweep; 0: none is under way          */
	uint8_t is_server_joined;
	uint8_t orders; /* that the server has, of this connection     */
	uint8_t late;	/* and of earlier ones                         */
	uint8_t content[UNITS_MAX][HALVES];
	struct file files[FILES_MAX];
	struct client clients[CLIENTS_MAX];
};

static inline uint8_t bit_of(unsigned number)
{
	return (uint8_t)(1U << number);
}

/* For struct model. */
const char *file_world_wrong(const void *context, const void *state);
bool file_world_is_well(const void *context, const void *state);

/* From now on users count on no more than the first halves of a file. */
void count_on_less(struct file *file, uint8_t size);
/* Somebody's memory has gone: users count on what is stored, and on what others have still to claim. */
void count_on_claims(const struct file_world *rules, struct file_state *state);
/* A unit leaves a file, or its end does: bytes from `from` on are nobody's. */
void cut_bytes(struct file_state *state, uint8_t unit, uint8_t from);
/* From now on, what clients know of a file, and have posted to it, is of an earlier layout. */
void change_layout(struct file_state *state, unsigned f);

/* The manager takes a hold back; one that was the last of a file without names ends it. */
void drop_hold(const struct file_world *rules, struct file_state *state, unsigned f, unsigned c);
/* The manager takes an end that a client tells of, if it goes by the present layout. */
void take_end(struct file *file, const struct opened *opened, uint8_t end, bool is_old_taken);
/* Passes all on to the search that a client does, and the manager for it. */
void client_steps(struct search *search, const struct file_world *rules,
		  const struct file_state *state, unsigned c);

#endif
