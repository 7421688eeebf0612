/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts the connections of a lane by their congestion control. Called by connections.c and
 * progress.c. */
#include "server/data/congestion.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

void congestion_init(struct congestion *congestion)
{
	memset(congestion, 0, sizeof(*congestion));
	pthread_mutex_init(&congestion->lock, NULL);
}

void congestion_destroy(struct congestion *congestion)
{
	pthread_mutex_destroy(&congestion->lock);
}

/* Finds the place of a name, or gives it a free one. CONGESTION_NAMES: there is none. */
static unsigned place_of(struct congestion *congestion, const char *name)
{
	unsigned place = CONGESTION_NAMES;

	for (unsigned i = 0; i < CONGESTION_NAMES; i++) {
		if (congestion->uses[i].nr > 0 && strcmp(congestion->uses[i].name, name) == 0)
			return i;
		if (congestion->uses[i].nr == 0)
			place = i;
	}
	if (place < CONGESTION_NAMES)
		snprintf(congestion->uses[place].name, FABRIC_CONGESTION_MAX, "%s", name);
	return place;
}

void congestion_enter(struct congestion *congestion, const char *name)
{
	unsigned place;

	if (!name[0])
		return;
	pthread_mutex_lock(&congestion->lock);
	place = place_of(congestion, name);
	if (place < CONGESTION_NAMES)
		congestion->uses[place].nr++;
	pthread_mutex_unlock(&congestion->lock);
}

void congestion_leave(struct congestion *congestion, const char *name)
{
	unsigned place;

	if (!name[0])
		return;
	pthread_mutex_lock(&congestion->lock);
	place = place_of(congestion, name);
	if (place < CONGESTION_NAMES && congestion->uses[place].nr > 0)
		congestion->uses[place].nr--;
	pthread_mutex_unlock(&congestion->lock);
}

void congestion_list(struct congestion *congestion, char out[static FABRIC_CONGESTIONS_MAX])
{
	out[0] = '\0';
	pthread_mutex_lock(&congestion->lock);
	for (unsigned i = 0; i < CONGESTION_NAMES; i++) {
		if (congestion->uses[i].nr > 0)
			text_merge(out, FABRIC_CONGESTIONS_MAX, congestion->uses[i].name);
	}
	pthread_mutex_unlock(&congestion->lock);
}
