/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See tree.h. Called by files_put.c, files_get.c and files_rm.c. An entry belongs to one thread at a
 * time; a directory to its entries; rounds and lists of links are under the tree's lock.
 */
#include "tree.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/cli/interrupts.h"

#define SHOW_MS 100
#define SHOW_NS 300000000U /* nothing is shown of what takes less */

struct tree_round {
	struct pool_job job;
	struct tree *tree;
	struct tree_entry *first, **end;
	unsigned nr;
	uint64_t bytes;
};

/* ---- Failing, and progress */

/* Removes the line of progress. Call it locked. */
static void hide(struct tree *tree)
{
	if (tree->is_shown)
		fputs("\r\033[K", stderr);
	tree->is_shown = false;
}

/* Returns whether everything after it would fail in the same way. */
static bool is_final(int error)
{
	switch (error < 0 ? -error : error) {
	case ENOSPC:
	case EDQUOT:
	case EROFS:
	case ENOMEM:
	case ETIMEDOUT:
	case AFAR_EMANAGER:
	case AFAR_ESESSION:
		return true;
	default:
		return false;
	}
}

static int fail(struct tree *tree, const char *what, const char *path, int error, bool is_local)
{
	bool is_late;

	if (error == -EINTR || error == -ECANCELED)
		return CLI_FAILED;
	pthread_mutex_lock(&tree->lock);
	/* An error that all would fail with is shown once. */
	is_late = is_final(error) && atomic_exchange(&tree->is_stopping, true);
	hide(tree);
	if (!is_late && is_local)
		cli_fail("%s %s: %s", what, path, afar_strerror(error));
	else if (!is_late)
		files_fail(what, path, error);
	pthread_mutex_unlock(&tree->lock);
	atomic_store(&tree->has_failed, true);
	return CLI_FAILED;
}

int tree_fail(struct tree *tree, const char *what, const char *path, int error)
{
	return fail(tree, what, path, error, false);
}

int tree_fail_local(struct tree *tree, const char *what, const char *path, int error)
{
	return fail(tree, what, path, error, true);
}

int tree_fail_text(struct tree *tree, const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	va_end(arguments);
	pthread_mutex_lock(&tree->lock);
	hide(tree);
	cli_fail("%s", text ? text : "out of memory");
	pthread_mutex_unlock(&tree->lock);
	free(text);
	atomic_store(&tree->has_failed, true);
	return CLI_FAILED;
}

void tree_note(struct tree *tree, const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	va_end(arguments);
	pthread_mutex_lock(&tree->lock);
	hide(tree);
	cli_note("%s", text ? text : "out of memory");
	pthread_mutex_unlock(&tree->lock);
	free(text);
}

/* Prints how far it is. Call it locked. */
static void print_progress(struct tree *tree, const char *end)
{
	double seconds = (double)(clock_ns() - tree->started_ns) / 1e9;
	uint64_t bytes = atomic_load(&tree->nr_bytes), files = atomic_load(&tree->nr_files);
	char text[SIZE_TEXT_MAX];

	fprintf(stderr, "\r%llu files  %s  %.1f s  %.0f files/s", (unsigned long long)files,
		size_text(bytes, text), seconds, (double)files / seconds);
	if (bytes)
		fprintf(stderr, "  %.0f MB/s", (double)bytes / seconds / 1e6);
	fprintf(stderr, "\033[K%s", end);
	tree->is_shown = true;
}

static void show(struct tree *tree)
{
	if (!tree->is_terminal || clock_ns() - tree->started_ns < SHOW_NS)
		return;
	pthread_mutex_lock(&tree->lock);
	print_progress(tree, "");
	pthread_mutex_unlock(&tree->lock);
}

/* ---- Directories and entries */

struct tree_dir *tree_dir_new(struct tree *tree, struct tree_dir *parent)
{
	struct tree_dir *dir = calloc(1, sizeof(*dir));

	if (!dir)
		return NULL;
	dir->tree = tree;
	dir->parent = parent;
	atomic_init(&dir->references, 1);
	if (parent) {
		atomic_fetch_add(&parent->references, 1);
		dir->fs = parent->fs;
	}
	return dir;
}

void tree_dir_drop(struct tree_dir *dir)
{
	while (dir && atomic_fetch_sub(&dir->references, 1) == 1) {
		struct tree_dir *parent = dir->parent;

		if (parent && !atomic_load(&dir->tree->is_stopping))
			dir->tree->ops->leave(dir);
		if (parent && atomic_load(&dir->has_failed))
			atomic_store(&parent->has_failed, true);
		free(dir->source);
		free(dir->target);
		free(dir);
		dir = parent;
	}
}

struct tree_entry *tree_entry_new(struct tree_dir *dir, const char *name, const char *as)
{
	struct tree_entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	entry->name = strdup(name);
	entry->as = as == name ? entry->name : strdup(as);
	if (!entry->name || !entry->as) {
		if (entry->as != entry->name)
			free(entry->as);
		free(entry->name);
		free(entry);
		return NULL;
	}
	atomic_fetch_add(&dir->references, 1);
	entry->dir = dir;
	entry->stat.size = sizeof(entry->stat);
	return entry;
}

static void free_entry(struct tree_entry *entry)
{
	tree_dir_drop(entry->dir);
	if (entry->as != entry->name)
		free(entry->as);
	free(entry->name);
	free(entry);
}

char *tree_source(const struct tree_entry *entry)
{
	return entry->dir->source ? files_join(entry->dir->source, entry->name)
				  : strdup(entry->name);
}

char *tree_target(const struct tree_entry *entry)
{
	return entry->dir->target ? files_join(entry->dir->target, entry->as) : strdup(entry->as);
}

void tree_done_failed(struct tree_entry *entry)
{
	atomic_store(&entry->dir->has_failed, true);
	free_entry(entry);
}

void tree_fail_entry(const struct tree_entry *entry, int error, bool is_local)
{
	struct tree *tree = entry->dir->tree;
	const struct tree_ops *ops = tree->ops;
	const char *what = is_local ? ops->local_what : ops->what;
	char *path = is_local && ops->is_local_target ? tree_target(entry) : tree_source(entry);

	if (is_local && error == -ENODATA)
		tree_fail_text(tree, "%s %s: it became shorter while it was read; %s it again",
			       what, path ? path : entry->name, what);
	else
		fail(tree, what, path ? path : entry->name, error, is_local);
	free(path);
}

void tree_done_local(struct tree_entry *entry, int error)
{
	tree_fail_entry(entry, error, true);
	tree_done_failed(entry);
}

void tree_done(struct tree_entry *entry, int error, uint64_t bytes)
{
	struct tree *tree = entry->dir->tree;

	if (!error) {
		atomic_fetch_add(&tree->nr_files, 1);
		atomic_fetch_add(&tree->nr_bytes, bytes);
		free_entry(entry);
		return;
	}
	tree_fail_entry(entry, error, false);
	tree_done_failed(entry);
}

uint32_t tree_mode(const struct tree *tree, uint32_t mode)
{
	return tree->is_exact ? mode & 07777 : mode & 0777 & ~tree->umask;
}

void tree_aside(struct tree *tree, char out[32])
{
	snprintf(out, 32, ".afar-%d-%08x-%u", (int)getpid(), (unsigned)tree->started_ns,
		 atomic_fetch_add(&tree->next_aside, 1));
}

/* ---- What is done with an entry */

static void run_list(struct pool_job *job, struct pool_worker *worker)
{
	struct tree_entry *entry = (struct tree_entry *)job;
	struct tree *tree = entry->dir->tree;
	struct tree_dir *dir;

	if (atomic_load(&tree->is_stopping)) {
		tree_done_failed(entry);
		return;
	}
	dir = tree_dir_new(tree, entry->dir);
	if (!dir) {
		tree_done(entry, -ENOMEM, 0);
		return;
	}
	dir->stat = entry->stat;
	dir->source = tree_source(entry);
	dir->target = tree_target(entry);
	if (!dir->source || !dir->target) {
		tree_fail(tree, tree->ops->what, entry->name, -ENOMEM);
		atomic_store(&dir->has_failed, true);
	} else if (tree->ops->list(entry, dir, worker)) {
		atomic_store(&dir->has_failed, true);
	}
	free_entry(entry);
	tree_dir_drop(dir);
}

static void run_round(struct pool_job *job, struct pool_worker *worker)
{
	struct tree_round *round = (struct tree_round *)job;
	struct tree_entry *entry;

	if (!atomic_load(&round->tree->is_stopping)) {
		round->tree->ops->round(round->tree, round->first, worker);
	} else {
		while ((entry = round->first)) {
			round->first = entry->next;
			tree_done_failed(entry);
		}
	}
	free(round);
}

static void run_large(struct pool_job *job, struct pool_worker *worker)
{
	struct tree_entry *entry = (struct tree_entry *)job;
	struct tree *tree = entry->dir->tree;

	if (atomic_load(&tree->is_stopping))
		tree_done_failed(entry);
	else
		tree->ops->large(entry, worker);
}

/* Gives the round that is being filled; the pool asks, when nothing else is left. */
static struct pool_job *take_round(void *context)
{
	struct tree *tree = context;
	struct tree_round *round;

	pthread_mutex_lock(&tree->lock);
	round = tree->round;
	tree->round = NULL;
	pthread_mutex_unlock(&tree->lock);
	return round ? &round->job : NULL;
}

/* Adds the entry to the round, and gives the round if it is full then. -ENOMEM: it is not in it. */
static int fill_round(struct tree_entry *entry, struct tree_round **full)
{
	struct tree *tree = entry->dir->tree;
	struct tree_round *round = tree->round;

	*full = NULL;
	if (round && round->bytes + entry->stat.bytes > TREE_ROUND_BYTES) {
		*full = round;
		round = NULL;
	}
	if (!round) {
		round = calloc(1, sizeof(*round));
		if (!round) {
			*full = NULL;
			return -ENOMEM;
		}
		*round = (struct tree_round){.job = {.run = run_round}, .tree = tree};
		round->end = &round->first;
	}
	*round->end = entry;
	round->end = &entry->next;
	round->bytes += S_ISREG(entry->stat.mode) ? entry->stat.bytes : 0;
	if (++round->nr == tree->ops->round_files && !*full) {
		*full = round;
		round = NULL;
	}
	tree->round = round;
	return 0;
}

static void add_small(struct tree_entry *entry, struct pool_worker *worker)
{
	struct tree *tree = entry->dir->tree;
	struct tree_round *full;
	int ret;

	pthread_mutex_lock(&tree->lock);
	ret = fill_round(entry, &full);
	pthread_mutex_unlock(&tree->lock);
	if (full)
		pool_add_work(&tree->pool, &full->job);
	if (full && worker)
		pool_relieve(worker);
	if (ret)
		tree_done(entry, ret, 0);
}

/* Keeps an entry whose file another name has brought already. Returns 1 if so, 0, or -ENOMEM. */
static int keep_link(struct tree_entry *entry)
{
	struct tree *tree = entry->dir->tree;
	int is_new = 0, ret = 0;
	void **file;

	pthread_mutex_lock(&tree->lock);
	file = inodes_find(&tree->inodes, entry->device, entry->stat.ino, &is_new);
	if (file && is_new)
		*file = calloc(1, sizeof(struct tree_file));
	if (file && *file) {
		entry->file = *file;
		if (!is_new) {
			entry->next = tree->links;
			tree->links = entry;
			ret = 1;
		}
	} else {
		ret = -ENOMEM;
	}
	pthread_mutex_unlock(&tree->lock);
	return ret;
}

static bool is_large(const struct tree_entry *entry)
{
	const struct afar_file_stat *stat = &entry->stat;

	return stat->bytes > TREE_SMALL_BYTES ||
	       (stat->bytes >= TREE_SPARSE_BYTES && stat->allocated < stat->bytes / 2);
}

void tree_add(struct tree_entry *entry, struct pool_worker *worker)
{
	struct tree *tree = entry->dir->tree;
	int ret = 0;

	if (S_ISDIR(entry->stat.mode)) {
		entry->job.run = run_list;
		pool_add_list(&tree->pool, &entry->job);
		return;
	}
	if (tree->ops->link && S_ISREG(entry->stat.mode) && entry->stat.nlink > 1)
		ret = keep_link(entry);
	if (ret < 0)
		tree_done(entry, ret, 0);
	if (ret)
		return;
	if (tree->ops->large && S_ISREG(entry->stat.mode) && is_large(entry)) {
		entry->job.run = run_large;
		pool_add_work(&tree->pool, &entry->job);
		if (worker)
			pool_relieve(worker);
	} else {
		add_small(entry, worker);
	}
}

/* ---- All of it */

int tree_begin(struct tree *tree)
{
	mode_t mask = umask(0);
	int ret;

	umask(mask);
	tree->umask = mask;
	tree->is_root = geteuid() == 0;
	tree->is_terminal = isatty(STDERR_FILENO) == 1;
	tree->started_ns = clock_ns();
	tree->pool.buffer_bytes = TREE_BUFFER_BYTES;
	tree->pool.rest = take_round;
	tree->pool.context = tree;
	pthread_mutex_init(&tree->lock, NULL);
	ret = pool_begin(&tree->pool);
	if (!ret)
		return 0;
	pthread_mutex_destroy(&tree->lock);
	return cli_fail("%s: no thread: %s; raise the limit of processes", tree->ops->what,
			afar_strerror(ret));
}

/* Gives files their further names. */
static void make_links(struct tree *tree)
{
	struct tree_entry *entry;

	while ((entry = tree->links)) {
		tree->links = entry->next;
		if (atomic_load(&tree->is_stopping) || (!entry->file->ino && !entry->file->path))
			tree_done_failed(entry); /* a line has been written for the first name */
		else
			tree_done(entry, tree->ops->link(entry), 0);
	}
}

static void drop_file(void *value)
{
	struct tree_file *file = value;

	if (file)
		free(file->path);
	free(file);
}

int tree_end(struct tree *tree)
{
	bool was_interrupted = false;

	while (!pool_wait(&tree->pool, SHOW_MS)) {
		show(tree);
		if (is_interrupted() && !was_interrupted) {
			was_interrupted = true;
			atomic_store(&tree->is_stopping, true);
		}
	}
	make_links(tree);
	pool_end(&tree->pool);
	if (tree->is_shown)
		print_progress(tree, "\n");
	inodes_free(&tree->inodes, drop_file);
	pthread_mutex_destroy(&tree->lock);
	if (was_interrupted)
		return CLI_INTERRUPTED;
	return atomic_load(&tree->has_failed) ? CLI_FAILED : 0;
}
