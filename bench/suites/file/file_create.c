/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `file` on making files: 8 clients, each with a session of its own, make empty files, a batch
 * in one call. When a call returns, its files survive the loss of power. The reference is the database
 * that the manager keeps names in: one value after the other, each synced.
 */
#include <errno.h>
#include <lmdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "file.h"

#define NR_CLIENTS   8U
#define BATCH_MAX    256U
#define SERVER_BYTES (256 * MIB)
#define NR_PUTS	     400U
#define BAR	     0.5

struct create {
	unsigned batch;	   /* files of one call */
	unsigned nr_calls; /* of each client */
};

struct creator {
	struct create_stage *stage;
	struct afar_session *session;
	struct afar_fs *fs;
	uint64_t dir;
	unsigned nr_made; /* names, so far */
	const struct create *create;
	int status;
};

struct create_stage {
	struct cluster *cluster;
	struct creator creators[NR_CLIENTS];
	char folder[64]; /* of the reference */
	MDB_env *env;
	MDB_dbi table;
	uint64_t nr_put;
};

static int make_batch(struct creator *creator)
{
	struct afar_small_file files[BATCH_MAX];
	char names[BATCH_MAX][24];

	memset(files, 0, sizeof(files));
	for (unsigned i = 0; i < creator->create->batch; i++) {
		snprintf(names[i], sizeof(names[i]), "file-%u", creator->nr_made++);
		files[i].size = sizeof(files[i]);
		files[i].dir = creator->dir;
		files[i].name = names[i];
		files[i].mode = 0644;
	}
	return afar_fs_write_files(creator->fs, NULL, files, creator->create->batch);
}

static void *create_files(void *argument)
{
	struct creator *creator = argument;

	creator->status = 0;
	for (unsigned i = 0; i < creator->create->nr_calls && !creator->status; i++)
		creator->status = make_batch(creator);
	if (creator->status)
		scene_fail("make files", creator->status);
	return NULL;
}

static int run_creates(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct create *create = row->parameters;
	struct create_stage *stage = state;
	pthread_t threads[NR_CLIENTS];
	uint64_t begin = clock_ns();
	unsigned nr = 0;
	int ret = 0;

	(void)repetition;
	for (; nr < NR_CLIENTS && !ret; nr++) {
		stage->creators[nr].create = create;
		ret = -pthread_create(&threads[nr], NULL, create_files, &stage->creators[nr]);
	}
	for (unsigned i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
	*value = (double)NR_CLIENTS * create->batch * create->nr_calls * 1e6 /
		 (double)(clock_ns() - begin);
	for (unsigned i = 0; i < nr && !ret; i++)
		ret = stage->creators[i].status;
	return ret;
}

static int put_one(struct create_stage *stage)
{
	char text[200] = {0};
	MDB_val key = {.mv_data = &stage->nr_put, .mv_size = sizeof(stage->nr_put)};
	MDB_val value = {.mv_data = text, .mv_size = sizeof(text)};
	MDB_txn *transaction;
	int ret = mdb_txn_begin(stage->env, NULL, 0, &transaction);

	if (ret)
		return bench_fail(-EIO, "begin a transaction: %s", mdb_strerror(ret));
	stage->nr_put++;
	ret = mdb_put(transaction, stage->table, &key, &value, 0);
	if (!ret)
		ret = mdb_txn_commit(transaction);
	else
		mdb_txn_abort(transaction);
	return ret ? bench_fail(-EIO, "put a value: %s", mdb_strerror(ret)) : 0;
}

static int run_lmdb(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct create_stage *stage = state;
	uint64_t begin = clock_ns();
	int ret = 0;

	(void)row;
	(void)repetition;
	for (unsigned i = 0; i < NR_PUTS && !ret; i++)
		ret = put_one(stage);
	*value = NR_PUTS * 1e6 / (double)(clock_ns() - begin);
	return ret;
}

/* ---- The stage */

static int open_lmdb(struct create_stage *stage)
{
	const char *place = getenv("TMPDIR");
	MDB_txn *transaction;
	int ret;

	/* Beside the manager's own folder: on the same file system. */
	snprintf(stage->folder, sizeof(stage->folder), "%.40s/afar-lmdb-XXXXXX",
		 place ? place : "/tmp");
	if (!mkdtemp(stage->folder))
		return bench_fail(-errno, "make a folder: %s", stage->folder);
	ret = mdb_env_create(&stage->env);
	if (!ret)
		ret = mdb_env_set_mapsize(stage->env, 64 * MIB);
	if (!ret)
		ret = mdb_env_open(stage->env, stage->folder, 0, 0600);
	if (!ret)
		ret = mdb_txn_begin(stage->env, NULL, 0, &transaction);
	if (!ret)
		ret = mdb_dbi_open(transaction, NULL, 0, &stage->table);
	if (!ret)
		ret = mdb_txn_commit(transaction);
	return ret ? bench_fail(-EIO, "open a database: %s", mdb_strerror(ret)) : 0;
}

static void close_lmdb(struct create_stage *stage)
{
	char path[128];

	if (stage->env)
		mdb_env_close(stage->env);
	snprintf(path, sizeof(path), "%s/data.mdb", stage->folder);
	unlink(path);
	snprintf(path, sizeof(path), "%s/lock.mdb", stage->folder);
	unlink(path);
	rmdir(stage->folder);
}

static int open_creator(struct create_stage *stage, unsigned i)
{
	struct creator *creator = &stage->creators[i];
	struct afar_file_stat made = {.size = sizeof(made)};
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	char name[16];
	int ret = afar_session_open(cluster_uri(stage->cluster), NULL, &creator->session);

	if (ret)
		return scene_fail("open a session", ret);
	ret = i == 0 ? file_fs_open(creator->session, AFAR_TIER_DRAM, &creator->fs)
		     : file_fs_join(creator->session, &creator->fs);
	if (ret)
		return ret;
	snprintf(name, sizeof(name), "client-%u", i);
	ret = afar_fs_stat(creator->fs, &stat);
	if (!ret)
		ret = afar_fs_make(creator->fs, NULL, stat.root, name, S_IFDIR | 0755, 0, NULL,
				   &made);
	creator->dir = made.ino;
	return ret ? scene_fail("make a directory", ret) : 0;
}

static void teardown(void *state)
{
	struct create_stage *stage = state;

	for (unsigned i = 0; i < NR_CLIENTS; i++) {
		if (stage->creators[i].fs)
			afar_fs_close(stage->creators[i].fs);
		if (stage->creators[i].session)
			afar_session_close(stage->creators[i].session);
	}
	cluster_stop(stage->cluster);
	close_lmdb(stage);
	free(stage);
}

static int setup(void **state)
{
	struct create_stage *stage = calloc(1, sizeof(*stage));
	int ret;

	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	ret = open_lmdb(stage);
	if (!ret)
		ret = cluster_start_over("tcp", 1, SERVER_BYTES, &stage->cluster);
	for (unsigned i = 0; i < NR_CLIENTS && !ret; i++)
		ret = open_creator(stage, i);
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

#define LMDB "LMDB: puts of 200 bytes, one by one, each synced"
#define CREATE(name, bar, ...)                                                             \
	{                                                                                  \
		name, "k/s", BENCH_HIGHER, LMDB, bar, &(const struct create){__VA_ARGS__}, \
			run_creates, run_lmdb                                              \
	}
static const struct bench_row rows[] = {
	CREATE("durable creates, 8 clients, batches of 256", BAR, 256, 8),
	CREATE("durable creates, 8 clients, batches of 16", BENCH_REPORTED, 16, 32),
	CREATE("durable creates, 8 clients, one by one", BENCH_REPORTED, 1, 64),
};

const struct bench_stage file_create_stage = {setup, teardown, rows, NR_ROWS(rows)};
