/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages of flash that clients read where the server of their machine keeps them, without it. A page
 * that was read twice is read on while the server is stopped. Every read that begins after a change sees it. The change may be
 * another client's, a deletion, or one at a server that was killed and started again. A client that
 * loses its key reads no more, and finds nothing new in memory that it has kept.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/page_guard.h"
#include "fabric/paged.h"
#include "lib/api/api.h"
#include "lib/base/child.h"
#include "lib/base/effort.h"
#include "lib/base/processes.h"

#define PAGE	   4096U
#define NR_WORDS   (PAGE / sizeof(uint64_t))
#define NR_PAGES   8U
#define NR_READERS 2U	/* processes, of two threads each */
#define READS	   16U	/* of each thread, at least, between two writes */
#define TIMEOUT_MS 5000 /* of a read that nobody answers */

static const struct afar_policy policy = {
	.size = sizeof(policy), .tier = AFAR_TIER_FLASH, .width = 1};

/* ---- One who reads and writes pages of numbers */

struct user {
	struct afar_session *session;
	struct afar_namespace *ns;
	struct afar_region *region;
};

static void open_user(struct user *user, const char *key_file)
{
	const struct afar_session_options options = {
		.size = sizeof(options), .key_file = key_file, .timeout_ms = TIMEOUT_MS};

	assert_int_equal(afar_session_open(cluster_uri(cluster), &options, &user->session), 0);
}

static void open_there(struct user *user, const char *name)
{
	open_user(user, NULL);
	assert_int_equal(afar_namespace_open(user->session, name, &user->ns), 0);
	assert_int_equal(afar_region_open(user->ns, "r", &user->region), 0);
}

static void make_there(struct user *user, const char *name)
{
	assert_int_equal(afar_namespace_create(user->session, name, &policy, &user->ns), 0);
	assert_int_equal(afar_namespace_reserve(user->ns, 4 * MIB), 0);
	assert_int_equal(
		afar_region_create(user->ns, "r", (uint64_t)NR_PAGES * PAGE, 0, &user->region), 0);
}

static void close_user(struct user *user)
{
	assert_int_equal(afar_region_close(user->region), 0);
	assert_int_equal(afar_namespace_close(user->ns), 0);
	assert_int_equal(afar_session_close(user->session), 0);
}

static void put(const struct user *user, unsigned page, uint64_t number)
{
	uint64_t words[NR_WORDS];

	for (unsigned i = 0; i < NR_WORDS; i++)
		words[i] = number;
	assert_int_equal(afar_region_pwrite(user->region, words, PAGE, (uint64_t)page * PAGE),
			 PAGE);
}

/* The number that all of a page has. */
static uint64_t number_of(const uint64_t *words)
{
	for (unsigned i = 1; i < NR_WORDS; i++)
		assert_int_equal(words[i], words[0]);
	return words[0];
}

static uint64_t get(const struct user *user, unsigned page)
{
	uint64_t words[NR_WORDS];

	assert_int_equal(afar_region_pread(user->region, words, PAGE, (uint64_t)page * PAGE), PAGE);
	return number_of(words);
}

/* By a queue, which finds pages for itself. */
static uint64_t get_queued(struct afar_queue *queue, const struct user *user, unsigned page)
{
	uint64_t words[NR_WORDS];
	const struct afar_iov iov = {NULL, words, PAGE};
	const struct afar_op op = {.opcode = AFAR_OP_READ,
				   .target = afar_region_target(user->region),
				   .offset = (uint64_t)page * PAGE,
				   .iov = &iov,
				   .nr_iov = 1};
	struct afar_completion done;

	assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
	assert_int_equal(afar_queue_wait(queue, &done, 1, 1, -1), 1);
	assert_int_equal(done.result, PAGE);
	return number_of(words);
}

/* The first read brings the page into memory, and the second one tells where it is. The slab comes a moment later. */
static void warm(const struct user *user)
{
	for (unsigned i = 0; i < 300; i++)
		get(user, i % NR_PAGES);
}

/* How many reads of pages servers know of: they were asked for them, or told of some. */
static uint64_t count_known(struct afar_session *of)
{
	static const char *const names[] = {
		"\"cache_hits\": ", "\"cache_misses\": ", "\"cache_shared\": ", "\"cache_past\": "};
	uint64_t sum = 0;
	char *json;

	assert_int_equal(afar_session_status(of, &json), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		for (char *at = json; (at = strstr(at, names[i])); at += strlen(names[i]))
			sum += strtoull(at + strlen(names[i]), NULL, 10);
	}
	free(json);
	return sum;
}

/* ---- Writers and readers */

static struct shared {
	atomic_uint is_over, nr_ready;
	_Atomic uint64_t begun[NR_PAGES], ended[NR_PAGES];
	_Atomic uint64_t nr_reads[NR_READERS][2];
} * shared;
static pid_t children[NR_READERS];

struct reader {
	struct user *user;
	unsigned number, which;
};

static void read_one(struct afar_queue *queue, const struct user *user, unsigned page)
{
	const uint64_t ended = atomic_load(&shared->ended[page]);
	const uint64_t found = queue ? get_queued(queue, user, page) : get(user, page);

	if (found < ended || found > atomic_load(&shared->begun[page])) {
		fprintf(stderr, "page %u has %llu; %llu had ended\n", page,
			(unsigned long long)found, (unsigned long long)ended);
		_exit(1);
	}
}

static void *run_reader(void *argument)
{
	const struct reader *reader = argument;
	struct afar_queue *queue = NULL;

	if (reader->which == 1) {
		assert_int_equal(afar_queue_open(reader->user->session, NULL, &queue), 0);
		assert_int_equal(
			afar_queue_connect(queue, afar_region_target(reader->user->region)), 0);
	}
	for (unsigned i = 0; !atomic_load(&shared->is_over); i++) {
		read_one(queue, reader->user, i / 4 % NR_PAGES);
		atomic_fetch_add(&shared->nr_reads[reader->number][reader->which], 1);
	}
	if (queue)
		assert_int_equal(afar_queue_close(queue), 0);
	return NULL;
}

static int run_readers(unsigned number)
{
	struct user user;
	struct reader readers[] = {{&user, number, 0}, {&user, number, 1}};
	pthread_t thread;

	while (atomic_load(&shared->nr_ready) == 0)
		usleep(1000);
	open_there(&user, "litmus");
	if (pthread_create(&thread, NULL, run_reader, &readers[1]) != 0)
		return 1;
	run_reader(&readers[0]);
	pthread_join(thread, NULL);
	close_user(&user);
	return 0;
}

static uint64_t count_reads(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < NR_READERS; i++)
		sum += atomic_load(&shared->nr_reads[i][0]) + atomic_load(&shared->nr_reads[i][1]);
	return sum;
}

/* Each thread has read so many pages since. */
static void await_reads(const uint64_t from[NR_READERS][2])
{
	for (unsigned i = 0; i < 2 * NR_READERS; i++) {
		while (atomic_load(&shared->nr_reads[i / 2][i % 2]) - from[i / 2][i % 2] < READS) {
			assert_int_equal(waitpid(children[i / 2], NULL, WNOHANG), 0);
			sched_yield();
		}
	}
}

static void write_rounds(const struct user *writer)
{
	const unsigned nr = (unsigned)test_effort(400, 2000, 20000);
	uint64_t from[NR_READERS][2];

	for (unsigned round = 1; round <= nr; round++) {
		const unsigned page = round % NR_PAGES;

		for (unsigned i = 0; i < 2 * NR_READERS; i++)
			from[i / 2][i % 2] = atomic_load(&shared->nr_reads[i / 2][i % 2]);
		atomic_store(&shared->begun[page], round);
		put(writer, page, round);
		atomic_store(&shared->ended[page], round);
		await_reads((const uint64_t(*)[2])from);
	}
}

/* Children are forked where no session was ever open, because those do not survive a fork. */
static int start_all(void **state)
{
	(void)state;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED || cluster_start(1, 64 * MIB, &cluster))
		return -1;
	for (unsigned i = 0; i < NR_READERS; i++) {
		children[i] = fork_child();
		if (children[i] == 0)
			_exit(run_readers(i));
	}
	return afar_session_open(cluster_uri(cluster), NULL, &session);
}

static void test_what_has_ended_is_seen(void **state)
{
	struct user writer;
	uint64_t known, reads;

	(void)state;
	open_user(&writer, NULL);
	make_there(&writer, "litmus");
	for (unsigned page = 0; page < NR_PAGES; page++)
		put(&writer, page, 0);
	known = count_known(session);
	atomic_store(&shared->nr_ready, 1);
	write_rounds(&writer);
	reads = count_reads();
	atomic_store(&shared->is_over, 1);
	for (unsigned i = 0; i < NR_READERS; i++) {
		int status;

		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_int_equal(status, 0);
	}
	known = count_known(session) - known;
	print_message("%llu reads, of which servers know %llu\n", (unsigned long long)reads,
		      (unsigned long long)known);
	assert_true(known < reads / 2);
	close_user(&writer);
	assert_int_equal(afar_namespace_delete(session, "litmus", AFAR_DELETE_REGIONS), 0);
}

/* ---- Without the server */

static void test_a_stopped_server(void **state)
{
	struct user user;

	(void)state;
	open_user(&user, NULL);
	make_there(&user, "stopped");
	for (unsigned page = 0; page < NR_PAGES; page++)
		put(&user, page, page + 7);
	warm(&user);
	process_stop(cluster_server(cluster, 0));
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(get(&user, i % NR_PAGES), i % NR_PAGES + 7);
	process_continue(cluster_server(cluster, 0));
	put(&user, 3, 99);
	assert_int_equal(get(&user, 3), 99);
	close_user(&user);
	assert_int_equal(afar_namespace_delete(session, "stopped", AFAR_DELETE_REGIONS), 0);
}

/* Nobody believes what the killed one showed. */
static void test_a_killed_server(void **state)
{
	struct user reader, writer;
	int ret;

	(void)state;
	open_user(&writer, NULL);
	make_there(&writer, "killed");
	open_there(&reader, "killed");
	for (unsigned round = 1; round <= 3; round++) {
		for (unsigned page = 0; page < NR_PAGES; page++)
			put(&writer, page, 2ULL * round);
		ret = afar_region_sync(writer.region);
		assert_true(ret == 0 || ret == -AFAR_EUNSYNCED); /* of the last round's */
		warm(&reader);
		cluster_kill_server(cluster, 0);
		assert_int_equal(cluster_restart_server(cluster, 0), 0);
		for (unsigned page = 0; page < NR_PAGES; page++) {
			put(&writer, page, 2ULL * round + 1);
			assert_int_equal(get(&reader, page), 2ULL * round + 1);
		}
	}
	close_user(&reader);
	close_user(&writer);
	assert_int_equal(afar_namespace_delete(session, "killed", AFAR_DELETE_REGIONS), 0);
}

/* ---- What becomes another's */

static void test_a_region_in_the_place_of_another(void **state)
{
	struct user reader, owner;

	(void)state;
	open_user(&owner, NULL);
	make_there(&owner, "place");
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned page = 0; page < NR_PAGES; page++)
			put(&owner, page, round + 5);
		open_there(&reader, "place");
		warm(&reader);
		assert_int_equal(afar_region_close(reader.region), 0);
		drop_region(owner.region);
		assert_int_equal(afar_region_create(owner.ns, "r", (uint64_t)NR_PAGES * PAGE, 0,
						    &owner.region),
				 0);
		assert_int_equal(afar_region_open(reader.ns, "r", &reader.region), 0);
		for (unsigned page = 0; page < NR_PAGES; page++)
			assert_int_equal(get(&reader, page), 0);
		close_user(&reader);
	}
	close_user(&owner);
	assert_int_equal(afar_namespace_delete(session, "place", AFAR_DELETE_REGIONS), 0);
}

/* ---- What somebody has kept */

/* Maps the slab that the process has once more. */
static uint8_t *keep_slab(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long long begin, end;
	char line[512], *kept = NULL;

	assert_non_null(maps);
	while (!kept && fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "memfd:afar ") || !strstr(line, "r--s") ||
		    sscanf(line, "%llx-%llx", &begin, &end) != 2 ||
		    end - begin != FABRIC_SLAB_BYTES)
			continue;
		kept = mremap((void *)(uintptr_t)begin, 0, FABRIC_SLAB_BYTES, MREMAP_MAYMOVE);
		assert_ptr_not_equal(kept, MAP_FAILED);
	}
	fclose(maps);
	assert_non_null(kept);
	return (uint8_t *)kept;
}

static bool has_number(const uint8_t *slab, uint64_t number)
{
	for (unsigned i = 0; i < FABRIC_SLAB_PAGES; i++) {
		uint64_t word;

		memcpy(&word, slab + (size_t)i * PAGE, sizeof(word));
		if (word == number)
			return true;
	}
	return false;
}

static unsigned count_shown(const uint8_t *slab)
{
	const struct page_guard *guards =
		(const struct page_guard *)(const void *)(slab + (size_t)FABRIC_SLAB_PAGES * PAGE);
	unsigned nr = 0;

	for (unsigned i = 0; i < FABRIC_SLAB_PAGES; i++)
		nr += !page_guard_begin(&guards[i], 0);
	return nr;
}

/* The cache has one slab. A namespace that misses long enough gets another one in its place. Nothing of it is in the
 * first. */
static void test_another_namespace(void **state)
{
	struct user first, second;
	uint8_t *kept;

	(void)state;
	open_user(&first, NULL);
	make_there(&first, "first");
	for (unsigned page = 0; page < NR_PAGES; page++)
		put(&first, page, 0x3333);
	warm(&first);
	kept = keep_slab();
	assert_true(has_number(kept, 0x3333));
	open_user(&second, NULL);
	make_there(&second, "second");
	for (unsigned page = 0; page < NR_PAGES; page++)
		put(&second, page, 0x4444);
	for (unsigned i = 0; i < 2 * FABRIC_SLAB_PAGES; i++)
		assert_int_equal(get(&second, i % NR_PAGES), 0x4444);
	warm(&second);
	process_stop(cluster_server(cluster, 0));
	for (unsigned page = 0; page < NR_PAGES; page++)
		assert_int_equal(get(&second, page), 0x4444);
	process_continue(cluster_server(cluster, 0));
	assert_false(has_number(kept, 0x4444));
	assert_int_equal(count_shown(kept), 0);
	for (unsigned page = 0; page < NR_PAGES; page++)
		assert_int_equal(get(&first, page), 0x3333);
	munmap(kept, FABRIC_SLAB_BYTES);
	close_user(&first);
	close_user(&second);
	assert_int_equal(afar_namespace_delete(session, "first", AFAR_DELETE_REGIONS), 0);
	assert_int_equal(afar_namespace_delete(session, "second", AFAR_DELETE_REGIONS), 0);
}

static void test_a_key_is_revoked(void **state)
{
	char path[] = "/tmp/test_references.XXXXXX", secret[AFAR_KEY_HEX_MAX];
	uint64_t words[NR_WORDS];
	struct user thief = {0}, owner;
	uint8_t *kept;
	int fd;

	(void)state;
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(afar_key_add(session, "thief", 0, secret), 0);
	assert_true(dprintf(fd, "thief:%s\n", secret) > 0);
	close(fd);
	open_user(&owner, NULL);
	make_there(&owner, "taken");
	assert_int_equal(afar_namespace_grant(owner.ns, "thief", AFAR_RIGHT_READ), 0);
	for (unsigned page = 0; page < NR_PAGES; page++)
		put(&owner, page, 0x1111);
	open_user(&thief, path);
	assert_int_equal(afar_namespace_open(thief.session, "taken", &thief.ns), 0);
	assert_int_equal(afar_region_open(thief.ns, "r", &thief.region), 0);
	warm(&thief);
	kept = keep_slab();
	assert_true(has_number(kept, 0x1111));
	assert_int_equal(count_shown(kept), NR_PAGES);
	assert_int_equal(afar_key_revoke(session, "thief"), 0);
	while (afar_region_pread(thief.region, words, PAGE, 0) >= 0)
		test_pause();
	close_user(&thief);
	/* Others write and read elsewhere from now on, and the old pages are hidden. */
	for (unsigned page = 0; page < NR_PAGES; page++)
		put(&owner, page, 0x2222);
	warm(&owner);
	for (unsigned page = 0; page < NR_PAGES; page++)
		assert_int_equal(get(&owner, page), 0x2222);
	assert_false(has_number(kept, 0x2222));
	assert_int_equal(count_shown(kept), 0);
	munmap(kept, FABRIC_SLAB_BYTES);
	close_user(&owner);
	assert_int_equal(afar_namespace_delete(session, "taken", AFAR_DELETE_REGIONS), 0);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_has_ended_is_seen),
		cmocka_unit_test(test_a_stopped_server),
		cmocka_unit_test(test_a_killed_server),
		cmocka_unit_test(test_a_region_in_the_place_of_another),
		cmocka_unit_test(test_another_namespace),
		cmocka_unit_test(test_a_key_is_revoked),
	};

	return cmocka_run_group_tests(tests, start_all, stop);
}
