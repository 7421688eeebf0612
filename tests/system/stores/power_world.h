/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program on regions on flash, whose server loses its power as it goes on, and a model of what
 * must be there. The server is afard with the devices of lib/flash_power.h: behind a cut, what was
 * not flushed is there or not, in any part and order. Manager and client live on.
 *
 * The program is a row of steps. When one fails because of a cut, the server is started again, and
 * everything is looked at before the step is run again:
 *  - All that a sync or a durable write covered is there.
 *  - Each block is zeros or of its own region, whole, and no newer than what was written.
 *  - A sync says once that writes may be lost. It does if any had completed, and never says 0 if
 *    they are.
 *  - The figures of manager, server and layer agree with what there is: nothing has leaked.
 *
 * A failure in here fails the test.
 */
#ifndef TESTS_POWER_WORLD_H
#define TESTS_POWER_WORLD_H

#include <stddef.h>
#include <stdint.h>

#include "lib/api/api.h"

#define POWER_BLOCK	    4096U
#define POWER_BLOCKS	    256U /* of a region */
#define POWER_REGION_BYTES  ((uint64_t)POWER_BLOCKS * POWER_BLOCK)
#define POWER_RESERVE_BYTES (2 * MIB) /* one extent, which the two regions fill */
#define POWER_NAMESPACE	    "power"

/* For cmocka: these make the cluster and the session, and end them. $AFAR_SEED chooses other dice. */
int power_start(void **state);
int power_stop(void **state);
uint64_t power_dice(uint64_t sides);

/* ---- Cuts */

/* The power goes behind so many more events of the device, as lib/flash_fake.h counts them; 0: when
 * it is used next; POWER_NO_CUT: it stays. */
#define POWER_NO_CUT (UINT64_MAX / 4)
void power_cut_behind(uint64_t nr_events);
/* Events of the device, and cuts, since the cluster was started. */
uint64_t power_nr_events(void);
uint64_t power_nr_cuts(void);

struct power_counts {
	unsigned nr_starts;   /* that were cut */
	unsigned nr_unsynced; /* syncs that said that writes may be lost */
	unsigned nr_lost;     /* of these, where some were */
};
struct power_counts power_counts(void);

/* ---- Steps. They return 0, or why they failed. */

struct power_step {
	int (*run)(const struct power_step *step);
	unsigned place;	    /* 0 or 1: of the two regions */
	unsigned first, nr; /* blocks; `nr` is a multiple of 4 */
};

int power_make_namespace(const struct power_step *step);
int power_reserve(const struct power_step *step);
int power_release(const struct power_step *step);
int power_make_region(const struct power_step *step);
int power_free_region(const struct power_step *step);
/* These write several blocks at once, as one version. */
int power_write(const struct power_step *step);
int power_write_durable(const struct power_step *step);
int power_write_and_sync(const struct power_step *step);  /* with AFAR_OP_SYNC behind  */
int power_write_and_flush(const struct power_step *step); /* with AFAR_OP_FLUSH behind */
int power_sync(const struct power_step *step);
/* Ends the server in order, if the power stays, and starts it. Nothing that had completed is lost. */
int power_restart(const struct power_step *step);

/* Runs a step until it succeeds. */
void power_run(const struct power_step *step);
/* Looks at everything, as after a cut. From then on the power stays. */
void power_look(void);
/* Cuts the power, starts the server, and looks at everything. Needs the second region. */
void power_cut_now(void);
/* Another program has reserved for the region of that name and filled it. From now on it must have
 * these bytes, which stay the caller's. */
void power_expect(const char *name, const void *bytes, size_t length);
/* Deletes the namespace and all that is in it, and finds that nothing is left. */
void power_clear(void);

#endif
