/* SPDX-License-Identifier: BSD-3-Clause */
/* The process's session with the cluster that the environment names, and the file systems that it has open. */
#include "mpiio.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct {
	pthread_mutex_t lock;
	struct afar_session *session; /* NULL: none is open */
	struct mpiio_system *systems;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Under the lock. */
static void close_all(void)
{
	struct mpiio_system *system;

	while ((system = all.systems)) {
		all.systems = system->next;
		afar_fs_close(system->fs);
		free(system);
	}
	if (all.session)
		afar_session_close(all.session);
	all.session = NULL;
}

/* Drops a session that the cluster has ended, if no file is open in it. Under the lock. */
static void drop_ended(void)
{
	struct afar_session_stat stat = {.size = sizeof(stat)};

	if (!all.session || afar_session_stat(all.session, &stat) || !stat.has_ended)
		return;
	for (const struct mpiio_system *system = all.systems; system; system = system->next)
		if (system->nr_files != 0)
			return;
	close_all();
}

static int open_system(const char *name, struct mpiio_system **out)
{
	struct mpiio_system *system = calloc(1, sizeof(*system));
	int ret = system ? 0 : -ENOMEM;

	if (ret == 0 && !all.session)
		ret = afar_session_open(NULL, NULL, &all.session);
	if (ret == 0)
		ret = afar_fs_open(all.session, name, NULL, &system->fs);
	if (ret) {
		free(system);
		return ret;
	}
	strcpy(system->name, name);
	system->next = all.systems;
	all.systems = system;
	*out = system;
	return 0;
}

int mpiio_system_get(const char *name, struct mpiio_system **out)
{
	struct mpiio_system *system;
	int ret = 0;

	pthread_mutex_lock(&all.lock);
	drop_ended();
	for (system = all.systems; system; system = system->next)
		if (strcmp(system->name, name) == 0)
			break;
	if (!system)
		ret = open_system(name, &system);
	if (ret == 0) {
		system->nr_files++;
		*out = system;
	}
	pthread_mutex_unlock(&all.lock);
	return ret;
}

void mpiio_system_put(struct mpiio_system *system)
{
	pthread_mutex_lock(&all.lock);
	system->nr_files--;
	pthread_mutex_unlock(&all.lock);
}

void mpiio_systems_close(void)
{
	pthread_mutex_lock(&all.lock);
	close_all();
	pthread_mutex_unlock(&all.lock);
}
