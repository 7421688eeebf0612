/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that are opened, and the requests that leave pages with the kernel. See pages.h and pages_table.h. */
#include "pages_table.h"

#define WRITE_LATE_MS 50 /* a write may come so long after its page was filled */

/* `since`: as of pages_may_lease(). */
static bool are_good(const struct pages *pages, uint64_t since)
{
	if (pages->is_dropping || pages->is_queued)
		return false;
	return !pages->may_be_there || (since != 0 && pages->since == since);
}

/* Begins to use it. Returns whether the kernel may go on with what it has. Else it drops that with the answer, before any program reads. */
static bool begin_use(struct pages *pages, uint64_t since)
{
	if (pages->is_closed)
		pages_set_closed(pages, false);
	pages->nr_users++;
	if (pages->may_be_there && are_good(pages, since))
		return true;
	pages->dropped_at = pages_now_ms();
	if (pages->nr_users == 1)
		pages_set_present(pages, false);
	return false;
}

struct pages *pages_open(struct mount *mount, uint64_t ino, bool *are_good)
{
	const uint64_t since = pages_quiet_since(mount, ino);
	struct pages *pages;

	pthread_mutex_lock(&pages_mutex);
	pages = pages_get(ino);
	*are_good = pages && begin_use(pages, since);
	pthread_mutex_unlock(&pages_mutex);
	return pages;
}

/* ---- Requests */

void pages_begin(struct mount *mount, struct pages *pages, bool is_write, struct filling *out)
{
	out->since = pages_quiet_since(mount, pages->ino);
	out->began_at = pages_now_ms();
	pthread_mutex_lock(&pages_mutex);
	pages_watch(mount);
	if (!pages->may_be_there && !pages->is_dropping)
		pages->since = out->since;
	if (!is_write && pages->nr_filling++ == 0)
		pages->filling_since = out->began_at;
	if (!is_write)
		pages->nr_filled++;
	pages_set_present(pages, true);
	pages->used_at = out->began_at;
	pthread_mutex_unlock(&pages_mutex);
}

/* The mutex is held. */
static void note_end(struct pages *pages, const struct filling *filling, uint64_t now_since)
{
	if (filling->since == 0 || now_since != filling->since || pages->since != filling->since)
		pages->since = 0;
}

void pages_end_filling(struct mount *mount, struct pages *pages, const struct filling *filling)
{
	const uint64_t since = pages_quiet_since(mount, pages->ino);

	pthread_mutex_lock(&pages_mutex);
	pages->nr_filling--;
	note_end(pages, filling, since);
	pthread_mutex_unlock(&pages_mutex);
}

void pages_end_passing(struct mount *mount, struct pages *pages, const struct filling *filling)
{
	const uint64_t since = pages_quiet_since(mount, pages->ino);

	pthread_mutex_lock(&pages_mutex);
	pages->nr_filling--;
	note_end(pages, filling, since);
	if (pages->since == 0)
		drops_add(pages, NULL);
	pthread_mutex_unlock(&pages_mutex);
}

/* The kernel has put the bytes into its page before it asked us. If that was dropped in between, and read again before they were at the server, it has old ones. */
void pages_end_writing(struct mount *mount, struct pages *pages, const struct filling *filling)
{
	const uint64_t since = pages_quiet_since(mount, pages->ino);

	pthread_mutex_lock(&pages_mutex);
	note_end(pages, filling, since);
	if (pages->nr_filled != 0 && pages->dropped_at + WRITE_LATE_MS > filling->began_at)
		pages->since = 0;
	pthread_mutex_unlock(&pages_mutex);
}

void pages_passed_by(struct pages *pages)
{
	pthread_mutex_lock(&pages_mutex);
	pages->since = 0;
	pthread_mutex_unlock(&pages_mutex);
}

bool pages_are_good(struct mount *mount, struct pages *pages)
{
	const uint64_t since = pages_quiet_since(mount, pages->ino);
	bool are;

	pthread_mutex_lock(&pages_mutex);
	pages->used_at = pages_now_ms();
	are = are_good(pages, since);
	pthread_mutex_unlock(&pages_mutex);
	return are;
}

bool pages_may_lease(struct mount *mount, uint64_t ino, uint64_t since)
{
	const struct pages *pages;
	bool may;

	pthread_mutex_lock(&pages_mutex);
	pages_serve(mount);
	pages = pages_find(ino);
	may = drops_are_possible() && (!pages || pages->is_closed || are_good(pages, since));
	pthread_mutex_unlock(&pages_mutex);
	return may;
}
