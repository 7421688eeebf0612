/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers programs from what is delegated to the session of a file system, and learns from the answers to questions. See
 * attr_cache.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "client/base/abi.h"
#include "client/files/inode/attr_cache_table.h"
#include "client/files/inode/fs_drop.h"
#include "rpc/delegation.h"

#define KNOWN_MAX 524288U /* inodes and names; more are forgotten together */
#define USED_NS	  ((uint64_t)DELEGATION_USED_MS * 1000000U)
/* A kernel counts what it was told from when the program runs that has asked. */
#define LATE_NS 50000000U

static uint64_t now_ns(void)
{
	struct timespec now;

	/* It goes on while the machine sleeps. */
	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* ---- Who asks */

static bool is_same_who(const struct fs_who *a, const struct fs_who *b)
{
	return a->message.uid == b->message.uid && a->message.gid == b->message.gid &&
	       a->message.n_groups == b->message.n_groups &&
	       memcmp(a->groups, b->groups, a->message.n_groups * sizeof(a->groups[0])) == 0;
}

static bool has_who(const struct attr_cache *cache, const struct fs_who *who)
{
	for (unsigned i = 0; i < cache->nr_whos; i++)
		if (is_same_who(&cache->whos[i], who))
			return true;
	return false;
}

static void add_who(struct attr_cache *cache, const struct fs_who *who)
{
	if (has_who(cache, who))
		return;
	if (!cache->whos)
		cache->whos = calloc(KNOWN_WHOS, sizeof(*cache->whos));
	if (!cache->whos)
		return;
	fs_who_copy(&cache->whos[cache->next_who], who);
	cache->next_who = (cache->next_who + 1) % KNOWN_WHOS;
	if (cache->nr_whos < KNOWN_WHOS)
		cache->nr_whos++;
}

/* Returns whether `who` may read an inode (R_OK), or look names of a directory up (X_OK): the manager's rule (who_may()). */
static bool may(const struct fs_who *who, const struct afar_file_stat *stat, uint32_t access)
{
	const Afar__FileWho *message = &who->message;
	bool is_member = message->gid == stat->gid;

	if (message->uid == 0)
		return true;
	if (message->uid == stat->uid)
		return stat->mode >> 6 & access;
	for (size_t i = 0; i < message->n_groups && !is_member; i++)
		is_member = message->groups[i] == stat->gid;
	return stat->mode >> (is_member ? 3 : 0) & access;
}

/* ---- Answering programs */

static bool lasts(const struct attr_cache *cache, uint64_t ms)
{
	return cache->number != 0 && now_ns() + ms * 1000000U - cache->renewed_at < USED_NS;
}

static bool is_usable(const struct attr_cache *cache)
{
	return lasts(cache, 0);
}

bool attr_cache_lasts(struct attr_cache *cache, uint64_t ms)
{
	bool is_so;

	pthread_mutex_lock(&cache->lock);
	is_so = lasts(cache, ms);
	pthread_mutex_unlock(&cache->lock);
	return is_so;
}

void attr_cache_wrote(struct attr_cache *cache, uint64_t ino, int64_t at)
{
	struct attr_cache_inode *inode;

	pthread_mutex_lock(&cache->lock);
	inode = attr_cache_find(cache, ino);
	if (inode && inode->is_known && inode->stat.mtime < at)
		inode->stat.mtime = at;
	if (inode && inode->is_known && inode->stat.ctime < at)
		inode->stat.ctime = at;
	pthread_mutex_unlock(&cache->lock);
}

/* Changes of our own make no difference: others cannot change it. */
uint64_t attr_cache_since(struct attr_cache *cache, uint64_t ino)
{
	const struct attr_cache_inode *inode;
	uint64_t since = 0;

	pthread_mutex_lock(&cache->lock);
	inode = is_usable(cache) ? attr_cache_find(cache, ino) : NULL;
	if (inode && inode->is_known)
		since = inode->since;
	pthread_mutex_unlock(&cache->lock);
	return since;
}

/* NULL: the manager has to be asked about it. */
static const struct attr_cache_inode *find_settled(const struct attr_cache *cache, uint64_t ino)
{
	const struct attr_cache_inode *inode = attr_cache_find(cache, ino);

	return inode && inode->is_known && inode->nr_changing == 0 && cache->nr_blind == 0 ? inode
											   : NULL;
}

/* Gives the attributes of an inode: 0, or 1. */
static int give(const struct attr_cache *cache, uint64_t ino, struct afar_file_stat *out)
{
	const struct attr_cache_inode *inode = find_settled(cache, ino);

	if (!inode)
		return 1;
	abi_give(out, out->size, &inode->stat, sizeof(inode->stat));
	return 0;
}

static int lookup(const struct attr_cache *cache, const struct fs_who *who, uint64_t dir,
		  const char *name, struct afar_file_stat *out)
{
	const struct attr_cache_inode *directory = attr_cache_find(cache, dir);
	const struct attr_cache_name *found = attr_cache_find_name(cache, dir, name);

	if (!directory || !directory->is_known || !has_who(cache, who) ||
	    !may(who, &directory->stat, X_OK))
		return 1;
	if (!found)
		return directory->is_whole && attr_cache_is_ordinary(name) ? -ENOENT : 1;
	if (found->ino == UNKNOWN)
		return 1;
	return found->ino != 0 ? give(cache, found->ino, out) : -ENOENT;
}

int attr_cache_lookup(struct afar_fs *fs, const struct fs_who *who, uint64_t dir, const char *name,
		      struct afar_file_stat *out)
{
	struct attr_cache *cache = &fs->attr_cache;
	int ret = 1;

	pthread_mutex_lock(&cache->lock);
	if (is_usable(cache))
		ret = lookup(cache, who, dir, name, out);
	pthread_mutex_unlock(&cache->lock);
	return ret == -ENOENT ? error_fail(ret, "find '%s': there is no such name", name) : ret;
}

int attr_cache_stat(struct afar_fs *fs, uint64_t ino, struct afar_file_stat *out)
{
	struct attr_cache *cache = &fs->attr_cache;
	int ret = 1;

	pthread_mutex_lock(&cache->lock);
	if (is_usable(cache))
		ret = give(cache, ino, out);
	pthread_mutex_unlock(&cache->lock);
	return ret;
}

int attr_cache_keep(struct attr_cache *cache, uint64_t ino, struct afar_file_stat *out)
{
	int left_ms = 0;

	pthread_mutex_lock(&cache->lock);
	if (is_usable(cache) && give(cache, ino, out) == 0)
		left_ms = (int)((cache->renewed_at + USED_NS - now_ns()) / 1000000U);
	/* It may have run out meanwhile. */
	if (left_ms < 0 || left_ms > (int)DELEGATION_USED_MS)
		left_ms = 0;
	if (left_ms > 0 && cache->kept_until < cache->renewed_at + USED_NS + LATE_NS)
		cache->kept_until = cache->renewed_at + USED_NS + LATE_NS;
	pthread_mutex_unlock(&cache->lock);
	return left_ms;
}

/* How long, in ns. The lock is held. */
static uint64_t is_kept_for(const struct attr_cache *cache)
{
	const uint64_t now = now_ns();

	return now < cache->kept_until ? cache->kept_until - now : 0;
}

void attr_cache_await_kept(struct attr_cache *cache)
{
	struct timespec left;

	pthread_mutex_lock(&cache->lock);
	left = clock_to_timespec(is_kept_for(cache));
	pthread_mutex_unlock(&cache->lock);
	nanosleep(&left, NULL);
}

bool attr_cache_no_xattrs(struct afar_fs *fs, uint64_t ino)
{
	struct attr_cache *cache = &fs->attr_cache;
	const struct attr_cache_inode *inode;
	bool has_none;

	pthread_mutex_lock(&cache->lock);
	inode = is_usable(cache) ? find_settled(cache, ino) : NULL;
	has_none = inode && inode->has_no_xattrs;
	pthread_mutex_unlock(&cache->lock);
	return has_none;
}

bool attr_cache_is_delegated(struct attr_cache *cache, uint64_t ino)
{
	const struct attr_cache_inode *inode;
	bool is_delegated;

	pthread_mutex_lock(&cache->lock);
	inode = attr_cache_find(cache, ino);
	is_delegated = inode && inode->is_known && inode->stat.nlink != 0;
	pthread_mutex_unlock(&cache->lock);
	return is_delegated;
}

bool attr_cache_may_read(struct attr_cache *cache, const struct fs_who *who, uint64_t ino,
			 uint64_t *size, uint64_t *layout)
{
	const struct attr_cache_inode *inode;
	bool is_so;

	pthread_mutex_lock(&cache->lock);
	inode = is_usable(cache) ? find_settled(cache, ino) : NULL;
	is_so = inode && S_ISREG(inode->stat.mode) && has_who(cache, who) &&
		may(who, &inode->stat, R_OK);
	if (is_so) {
		*size = inode->stat.bytes;
		*layout = inode->layout;
	}
	pthread_mutex_unlock(&cache->lock);
	return is_so;
}

bool attr_cache_size(struct attr_cache *cache, uint64_t ino, uint64_t *size)
{
	const struct attr_cache_inode *inode;

	pthread_mutex_lock(&cache->lock);
	inode = is_usable(cache) ? find_settled(cache, ino) : NULL;
	if (inode)
		*size = inode->stat.bytes;
	pthread_mutex_unlock(&cache->lock);
	return inode;
}

uint64_t attr_cache_ino(struct attr_cache *cache, uint64_t dir, const char *name)
{
	const struct attr_cache_name *found;
	uint64_t ino = 0;

	pthread_mutex_lock(&cache->lock);
	found = attr_cache_find_name(cache, dir, name);
	if (found && found->ino != UNKNOWN)
		ino = found->ino;
	pthread_mutex_unlock(&cache->lock);
	return ino;
}

/* ---- Learning */

struct attr_cache_mark attr_cache_mark(struct attr_cache *cache)
{
	struct attr_cache_mark mark = {.at = now_ns()};

	pthread_mutex_lock(&cache->lock);
	mark.nr_events = cache->nr_events;
	pthread_mutex_unlock(&cache->lock);
	return mark;
}

uint64_t attr_cache_take_dropped(struct attr_cache *cache)
{
	uint64_t dropped;

	pthread_mutex_lock(&cache->lock);
	/* The manager lets others change at once what we say that we have dropped. */
	dropped = is_kept_for(cache) == 0 ? cache->dropped : 0;
	if (dropped)
		cache->dropped = 0;
	pthread_mutex_unlock(&cache->lock);
	return dropped;
}

void attr_cache_put_dropped(struct attr_cache *cache, uint64_t dropped)
{
	pthread_mutex_lock(&cache->lock);
	if (cache->dropped < dropped)
		cache->dropped = dropped;
	pthread_mutex_unlock(&cache->lock);
}

static bool is_usable_answer(const struct attr_cache *cache, const struct attr_cache_mark *mark,
			     const Afar__FileAttributes *attributes)
{
	return attributes && fs_check_attributes(attributes) == 0 &&
	       !attr_cache_is_old(cache, mark, attributes->ino);
}

/* Takes a name that a question has found, or not. False: it is not known. */
static bool put_found(struct attr_cache *cache, const struct attr_cache_mark *mark,
		      const Afar__FileAttributes *dir, const char *name,
		      const Afar__FileAttributes *found)
{
	const struct attr_cache_inode *directory = attr_cache_find(cache, dir->ino);

	/* Without links it has no attributes: the manager could not tell them. */
	if (found && found->nlink != 0 && is_usable_answer(cache, mark, found))
		attr_cache_put_delegated(cache, found);
	/* A change of this name may be under way, and have been carried out since. */
	return is_usable_answer(cache, mark, dir) && directory && directory->nr_changing == 0 &&
	       attr_cache_is_ordinary(name) &&
	       attr_cache_put_name(cache, dir->ino, name, found ? found->ino : 0, dir->change);
}

/* Takes what a directory was listed as. */
static void put_entries(struct attr_cache *cache, const struct attr_cache_mark *mark,
			const Afar__FileList *ask, const Afar__FileResult *result)
{
	bool is_whole = ask->after[0] == '\0' && !result->is_more;
	struct attr_cache_inode *directory;

	for (size_t i = 0; i < result->n_entries; i++) {
		const Afar__FileEntry *entry = result->entries[i];

		is_whole &= entry->attributes &&
			    put_found(cache, mark, result->dir, entry->name, entry->attributes);
	}
	directory = attr_cache_find(cache, ask->dir);
	if (is_whole && directory && directory->is_known && directory->nr_changing == 0 &&
	    directory->stat.change == result->dir->change)
		directory->is_whole = true;
}

static void take_look(struct attr_cache *cache, const struct attr_cache_mark *mark,
		      const Afar__FileLook *ask, const Afar__FileResult *result)
{
	const Afar__FileAttributes *found = result->status == 0 ? result->attributes : NULL;

	if (!result->is_delegated)
		return;
	if (is_usable_answer(cache, mark, result->dir))
		attr_cache_put_delegated(cache, result->dir);
	if (ask->what_case == AFAR__FILE_LOOK__WHAT_STAT && is_usable_answer(cache, mark, found))
		attr_cache_put_delegated(cache, found);
	if (!result->dir)
		return;
	if (ask->what_case == AFAR__FILE_LOOK__WHAT_LOOKUP && result->dir->ino == ask->lookup->dir)
		put_found(cache, mark, result->dir, ask->lookup->name, found);
	if (ask->what_case == AFAR__FILE_LOOK__WHAT_LIST && result->dir->ino == ask->list->dir)
		put_entries(cache, mark, ask->list, result);
}

/* Takes the delegation's number. False: what came with it was asked for under another one. */
static bool renew(struct attr_cache *cache, const struct attr_cache_mark *mark,
		  const Afar__FileResults *results)
{
	if (attr_cache_is_void(cache, mark))
		return false;
	if (results->delegation == 0)
		return true;
	if (results->delegation <= cache->refused)
		return false;
	if (results->delegation != cache->number) {
		/* One that is smaller is of before: its answer was overtaken. */
		if (results->delegation < cache->number)
			return false;
		attr_cache_forget_all(cache);
		cache->number = results->delegation;
		cache->renewed_at = mark->at;
		return false;
	}
	if (mark->at > cache->renewed_at)
		cache->renewed_at = mark->at;
	return true;
}

/* Drops all if the manager, or this process, has no room for more. */
static void drop_if_full(struct attr_cache *cache, const Afar__FileResults *results)
{
	if (cache->number == 0 || (!results->is_delegation_full && cache->nr <= KNOWN_MAX))
		return;
	cache->dropped = cache->refused = cache->number;
	attr_cache_forget_all(cache);
}

void attr_cache_looked(struct afar_fs *fs, const struct attr_cache_mark *mark,
		       const struct fs_who *who, Afar__FileLook *const *operations,
		       const Afar__FileResults *results)
{
	struct attr_cache *cache = &fs->attr_cache;

	pthread_mutex_lock(&cache->lock);
	if (who)
		add_who(cache, who);
	if (renew(cache, mark, results))
		for (size_t i = 0; i < results->n_results; i++)
			take_look(cache, mark, operations[i], results->results[i]);
	drop_if_full(cache, results);
	pthread_mutex_unlock(&cache->lock);
}

void attr_cache_opened(struct afar_fs *fs, const struct attr_cache_mark *mark,
		       const struct fs_who *who, Afar__FileHold *const *operations,
		       const Afar__FileResults *results)
{
	struct attr_cache *cache = &fs->attr_cache;
	bool is_renewed;

	pthread_mutex_lock(&cache->lock);
	if (who)
		add_who(cache, who);
	is_renewed = renew(cache, mark, results);
	for (size_t i = 0; i < results->n_results && is_renewed; i++)
		if (operations[i]->what_case == AFAR__FILE_HOLD__WHAT_OPEN &&
		    results->results[i]->status == 0 && results->results[i]->is_delegated &&
		    is_usable_answer(cache, mark, results->results[i]->attributes))
			attr_cache_put_delegated(cache, results->results[i]->attributes);
	drop_if_full(cache, results);
	pthread_mutex_unlock(&cache->lock);
}

/* ---- Dropping */

static void forget_these(struct attr_cache *cache, const uint64_t *inos, size_t nr)
{
	pthread_mutex_lock(&cache->lock);
	for (size_t i = 0; i < nr; i++) {
		cache->revoked[inos[i] % ATTR_CACHE_EVENTS] = ++cache->nr_events;
		attr_cache_forget(cache, attr_cache_find(cache, inos[i]));
	}
	pthread_mutex_unlock(&cache->lock);
}

void attr_cache_revoke(struct afar_session *session, const Afar__FileRevoke *ask,
		       struct rpc_call *call)
{
	const uint64_t *inos = ask->n_inos != 0 ? ask->inos : &ask->ino;
	const size_t nr = ask->n_inos != 0 ? ask->n_inos : ask->ino != 0;
	struct drop_call *drops = NULL;
	struct afar_fs *fs;
	int ret = 0;

	pthread_mutex_lock(&session->lock);
	cds_list_for_each_entry (fs, &session->file_systems, node) {
		if (fs->ns->number != ask->fs)
			continue;
		forget_these(&fs->attr_cache, inos, nr);
		/* The manager hears of that before our answer. */
		kept_let_go(fs, inos, nr);
		drops = drop_call_new(&fs->drops, inos, nr, call);
		/* The manager waits, and asks again. */
		if (!drops && nr != 0 && fs->drops.tell)
			ret = error_code(-ENOMEM);
		break;
	}
	pthread_mutex_unlock(&session->lock);
	if (drops)
		drop_call_tell(drops);
	else
		rpc_reply_status(call, 0, ret);
}
