/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Code that the rows of suite `registration` share that measure how much pinning a cache saves,
 * whatever pins: registration_ring.c and registration_verbs.c say what does. The experiment is that
 * of Wu, Wyckoff and Panda (Fig. 13): operations of 1 MiB over 1000 buffers, of which 100 may be
 * pinned, and of which 20 or 80 in a hundred hit. The reference has all buffers pinned ahead, so
 * the difference is the cost of registration.
 *
 * It counts what the operating thread registers and deregisters itself, and how much was pinned at
 * once.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/error.h"
#include "registration.h"

#define NR_RECENT 50U /* of which one is taken for a hit: there whatever the policy */
#define STRIDE	  (PINNING_BUFFER_BYTES + 4096)
#define MIB	  ((size_t)1 << 20)

static char *buffer_at(const struct pinning *pinning, unsigned i)
{
	return pinning->buffers + i * STRIDE;
}

/* ---- The registrar, counted */

static bool is_operating(const struct pinning *pinning)
{
	return pthread_equal(pthread_self(), pinning->operating);
}

static void note_pinned(struct pinning *pinning)
{
	unsigned nr = atomic_fetch_add(&pinning->nr_pinned, 1) + 1;
	unsigned most = atomic_load(&pinning->nr_pinned_most);

	while (nr > most && !atomic_compare_exchange_weak(&pinning->nr_pinned_most, &most, nr))
		;
}

static int pin(void *context, void *addr, size_t length, void **registration)
{
	struct pinning *pinning = context;
	const struct registrar *registrar = &pinning->registrar;
	uint64_t began = clock_ns();
	int ret = registrar->add(registrar->context, addr, length, registration);

	if (ret)
		return ret;
	note_pinned(pinning);
	if (is_operating(pinning)) {
		pinning->now.nr_added++;
		pinning->now.pinning_ns += clock_ns() - began;
	}
	return 0;
}

static void unpin(void *context, void *const *registrations, size_t nr)
{
	struct pinning *pinning = context;
	const struct registrar *registrar = &pinning->registrar;
	uint64_t began = clock_ns();

	registrar->remove(registrar->context, registrations, nr);
	atomic_fetch_sub(&pinning->nr_pinned, (unsigned)nr);
	if (is_operating(pinning)) {
		pinning->now.nr_removed += (unsigned)nr;
		pinning->now.pinning_ns += clock_ns() - began;
	}
}

static void begin_tally(struct pinning *pinning)
{
	pinning->operating = pthread_self();
	pinning->now = (struct pinning_tally){0};
	atomic_store(&pinning->nr_pinned_most, atomic_load(&pinning->nr_pinned));
}

/* The warm-up has the number of the first repetition, which begins anew. */
static void note_tally(struct pinning *pinning, unsigned repetition)
{
	const struct pinning_tally *now = &pinning->now;
	struct pinning_tally *sum = &pinning->sum;
	double nr;

	if (repetition == 0)
		*sum = (struct pinning_tally){0};
	sum->nr_operated += now->nr_operated;
	sum->nr_added += now->nr_added;
	sum->nr_removed += now->nr_removed;
	sum->elapsed_ns += now->elapsed_ns;
	sum->operating_ns += now->operating_ns;
	sum->pinning_ns += now->pinning_ns;
	nr = (double)sum->nr_operated;
	bench_note("each: %.2f registered, %.2f deregistered, which took %.1f µs, what there was "
		   "beside "
		   "it %.1f µs, of %.0f µs; at most %.0f MiB pinned",
		   sum->nr_added / nr, sum->nr_removed / nr, (double)sum->pinning_ns / 1e3 / nr,
		   (double)(sum->elapsed_ns - sum->operating_ns - sum->pinning_ns) / 1e3 / nr,
		   (double)sum->elapsed_ns / 1e3 / nr,
		   (double)atomic_load(&pinning->nr_pinned_most) * PINNING_BUFFER_BYTES / MIB);
}

/* ---- The experiment */

/* A recent one, or the one that was not used for longest. */
static unsigned next_buffer(struct pinning *pinning, unsigned operation, unsigned hits)
{
	bool is_hit = operation * 37 % 100 < hits;
	unsigned place = is_hit ? PINNING_NR_BUFFERS - 1 - operation * 31 % NR_RECENT : 0;
	unsigned chosen = pinning->order[place];

	memmove(&pinning->order[place], &pinning->order[place + 1],
		(PINNING_NR_BUFFERS - 1 - place) * sizeof(pinning->order[0]));
	pinning->order[PINNING_NR_BUFFERS - 1] = chosen;
	return chosen;
}

static int operate(struct pinning *pinning, void *buffer, void *registration)
{
	uint64_t began = clock_ns();
	int ret = pinning->operate(pinning->registrar.context, buffer, registration);

	pinning->now.operating_ns += clock_ns() - began;
	return ret;
}

/* One repetition. `use` has a buffer registered in its way, and operates on it; `context` is its own. */
static int repeat(struct pinning *pinning, const struct bench_row *row,
		  int (*use)(struct pinning *pinning, void *context, unsigned buffer),
		  void *context, double *value)
{
	const struct pinning_way *way = row->parameters;
	struct pinning_tally *now = &pinning->now;
	uint64_t began;
	int ret = 0;

	begin_tally(pinning);
	began = clock_ns();
	while (now->nr_operated < pinning->nr_operations && !ret) {
		unsigned buffer = next_buffer(pinning, now->nr_operated, way->hits);

		ret = use(pinning, context, buffer);
		now->nr_operated++;
	}
	now->elapsed_ns = clock_ns() - began;
	*value = (double)now->nr_operated * PINNING_BUFFER_BYTES * 1e3 / (double)now->elapsed_ns;
	return ret;
}

/* ---- Kept by a cache */

static int take(const struct pinning *pinning, struct registration_cache *cache, unsigned buffer,
		struct registration **out)
{
	int ret = registration_take(cache, buffer_at(pinning, buffer), PINNING_BUFFER_BYTES, out);

	return ret ? bench_fail(ret, "%s", error_last_line()) : 0;
}

static int use_cached(struct pinning *pinning, void *cache, unsigned buffer)
{
	struct registration *registration;
	int ret = take(pinning, cache, buffer, &registration);

	if (ret)
		return ret;
	ret = operate(pinning, buffer_at(pinning, buffer), registration_handle(registration));
	registration_give(cache, registration);
	return ret;
}

/* Until it is full, and evicts. */
static int fill(struct pinning *pinning, struct registration_cache *cache)
{
	struct registration *registration;
	int ret = 0;

	for (unsigned i = 0; i < 2 * PINNING_NR_KEPT && !ret; i++) {
		ret = take(pinning, cache, next_buffer(pinning, i, 0), &registration);
		if (!ret)
			registration_give(cache, registration);
	}
	return ret;
}

int pinning_run_cached(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct pinning_way *way = row->parameters;
	struct pinning *pinning = stage;
	const struct registration_cache_options options = {
		.registrar = {pin, unpin, pinning},
		.bytes_max = PINNING_NR_KEPT * PINNING_BUFFER_BYTES,
		.nr_max = PINNING_NR_KEPT,
		.batch = way->batch,
	};
	struct registration_cache *cache;
	int ret = registration_cache_open(&options, &cache);

	if (ret)
		return bench_fail(ret, "%s", error_last_line());
	ret = fill(pinning, cache);
	if (!ret)
		ret = repeat(pinning, row, use_cached, cache, value);
	if (!ret)
		note_tally(pinning, repetition);
	registration_cache_close(cache);
	return ret;
}

/* ---- For the operation, and no longer */

static int use_dynamic(struct pinning *pinning, void *context, unsigned buffer)
{
	void *registration;
	int ret = pin(pinning, buffer_at(pinning, buffer), PINNING_BUFFER_BYTES, &registration);

	(void)context;
	if (ret)
		return bench_fail(ret, "pin a buffer: raise the limit of locked memory");
	ret = operate(pinning, buffer_at(pinning, buffer), registration);
	unpin(pinning, &registration, 1);
	return ret;
}

int pinning_run_dynamic(void *stage, const struct bench_row *row, unsigned repetition,
			double *value)
{
	struct pinning *pinning = stage;
	int ret = repeat(pinning, row, use_dynamic, NULL, value);

	if (!ret)
		note_tally(pinning, repetition);
	return ret;
}

/* ---- Ahead */

static int use_registered(struct pinning *pinning, void *registrations, unsigned buffer)
{
	void *const *all = registrations;

	return operate(pinning, buffer_at(pinning, buffer), all[buffer]);
}

int pinning_run_ahead(void *stage, const struct bench_row *row, unsigned repetition, double *value)
{
	struct pinning *pinning = stage;
	void *registrations[PINNING_NR_BUFFERS];
	unsigned nr = 0;
	int ret;

	(void)repetition;
	while (nr < PINNING_NR_BUFFERS &&
	       pin(pinning, buffer_at(pinning, nr), PINNING_BUFFER_BYTES, &registrations[nr]) == 0)
		nr++;
	if (nr == PINNING_NR_BUFFERS)
		ret = repeat(pinning, row, use_registered, registrations, value);
	else
		ret = bench_fail(-ENOMEM, "pin %zu MiB: raise the limit of locked memory",
				 PINNING_NR_BUFFERS * PINNING_BUFFER_BYTES / MIB);
	unpin(pinning, registrations, nr);
	return ret;
}

/* ---- The buffers */

void pinning_close(struct pinning *pinning)
{
	if (pinning->buffers)
		munmap(pinning->buffers, PINNING_NR_BUFFERS * STRIDE);
}

int pinning_open(struct pinning *pinning)
{
	char *buffers = mmap(NULL, PINNING_NR_BUFFERS * STRIDE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (buffers == MAP_FAILED)
		return bench_fail(-ENOMEM, "no %u MiB for buffers", PINNING_NR_BUFFERS);
	pinning->buffers = buffers;
	for (unsigned i = 0; i < PINNING_NR_BUFFERS; i++)
		pinning->order[i] = i;
	return 0;
}
