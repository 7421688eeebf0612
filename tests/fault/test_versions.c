/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Versions of a copy-on-write region under readers that are processes of their own, over two transports at once.
 * No reader ever sees two versions in one, whoever is stopped or killed meanwhile. The namespace has so little
 * memory that what one version gives back is soon in another. AFAR_LONG=1 publishes a million, AFAR_VERSIONS=N as
 * many; a minute has some 5000.
 *
 * Unit u changes in each version that is a multiple of its period. Every word of it is the number of the version that
 * changed it last. So each version says of each word what it must be.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <afar/cow.h>

#include "harness/cluster.h"
#include "lib/base/bytes.h"
#include "lib/base/effort.h"
#include "lib/base/processes.h"

#define UNIT	   4096U
#define NR_UNITS   48U
#define LENGTH	   (UNIT * NR_UNITS)
#define WORDS	   (LENGTH / 8)
#define NR_READERS 8U

static struct cluster *cluster;

static int start(void **state)
{
	(void)state;
	return cluster_start_over(CLUSTER_LOCAL_AND_TCP, 2, 64 * MIB, &cluster);
}

static int stop(void **state)
{
	(void)state;
	cluster_stop(cluster);
	return 0;
}

/* ---- What a version is */

static uint64_t period_of(unsigned unit)
{
	return 1 + unit % 7;
}

/* The version that changed the unit last, as version `version` has it; 0: none since it was made. */
static uint64_t stamp_of(uint64_t version, unsigned unit)
{
	uint64_t stamp = version - version % period_of(unit);

	return stamp > 1 ? stamp : 0;
}

/* Returns the first word that is not of the version, or WORDS. */
static unsigned find_wrong(const uint64_t *words, uint64_t version)
{
	for (unsigned u = 0; u < NR_UNITS; u++) {
		const uint64_t stamp = stamp_of(version, u);

		for (unsigned i = u * UNIT / 8; i < (u + 1) * UNIT / 8; i++)
			if (words[i] != stamp)
				return i;
	}
	return WORDS;
}

/* ---- Clients, in this process and in others */

struct client {
	struct afar_session *session;
	struct afar_namespace *ns;
	struct afar_region *region;
};

static int open_with(struct client *client, const char *uri,
		     const struct afar_session_options *options)
{
	int ret = afar_session_open(uri, options, &client->session);

	if (!ret)
		ret = afar_namespace_open(client->session, "n", &client->ns);
	return ret ? ret : afar_region_open(client->ns, "r", &client->region);
}

/* `key_file`: NULL for the one that the URI names. */
static int client_open(struct client *client, const char *uri, const char *path,
		       const char *key_file)
{
	const struct afar_session_options options = {
		.size = sizeof(options), .path = path, .key_file = key_file};

	return open_with(client, uri, &options);
}

/* Opens a client whose calls and operations fail soon when nobody answers. */
static void open_hasty(struct client *client)
{
	const struct afar_session_options options = {
		.size = sizeof(options), .path = "tcp", .timeout_ms = 1500};

	assert_int_equal(open_with(client, cluster_uri(cluster), &options), 0);
}

static void client_close(struct client *client)
{
	assert_int_equal(afar_region_close(client->region), 0);
	assert_int_equal(afar_namespace_close(client->ns), 0);
	assert_int_equal(afar_session_close(client->session), 0);
}

static void make_all(struct client *client)
{
	const struct afar_policy policy = {.size = sizeof(policy), .stripe_bytes = UNIT};

	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &client->session), 0);
	assert_int_equal(afar_namespace_create(client->session, "n", &policy, &client->ns), 0);
	assert_int_equal(afar_namespace_reserve(client->ns, 4 * MIB), 0);
	assert_int_equal(
		afar_region_create(client->ns, "r", LENGTH, AFAR_ALLOC_COW, &client->region), 0);
}

static void drop_all(struct client *client)
{
	struct afar_session *session = client->session;
	int ret;

	assert_int_equal(afar_region_destroy(client->region), 0);
	assert_int_equal(afar_region_close(client->region), 0);
	assert_int_equal(afar_namespace_close(client->ns), 0);
	/* Sessions of those that were killed may not have ended yet. */
	while ((ret = afar_namespace_delete(session, "n", 0)) == -EBUSY)
		test_pause();
	assert_int_equal(ret, 0);
	assert_int_equal(afar_session_close(session), 0);
}

static uint64_t allocated(const struct client *client)
{
	struct afar_namespace_stat stat = {.size = sizeof(stat)};

	assert_int_equal(afar_namespace_stat(client->ns, &stat), 0);
	return stat.allocated_bytes;
}

/* Writes what changes in the version that is begun. Every other time it leaves the first bytes of its units to the library,
 * which copies them; it writes them afterwards. */
static int write_changes(struct afar_region *region)
{
	static uint64_t words[UNIT / 8];
	const uint64_t version = afar_region_version(region);
	struct afar_range ranges[NR_UNITS];
	const unsigned skip = version % 2 ? 0 : 16;
	unsigned nr = 0;
	int ret;

	for (unsigned u = 0; u < NR_UNITS; u++)
		if (version % period_of(u) == 0)
			ranges[nr++] = (struct afar_range){(uint64_t)u * UNIT + skip, UNIT - skip};
	ret = afar_region_prepare(region, ranges, nr);
	for (unsigned i = 0; i < UNIT / 8; i++)
		words[i] = version;
	for (unsigned i = 0; i < nr && !ret; i++) {
		ssize_t n = afar_region_pwrite(region, words, UNIT, ranges[i].offset - skip);

		ret = n < 0 ? (int)n : 0;
	}
	return ret;
}

static int make_version(struct afar_region *region)
{
	int ret = afar_region_begin(region, NULL, 0);

	if (!ret)
		ret = write_changes(region);
	return ret ? ret : afar_region_publish(region);
}

static void must_make_version(struct afar_region *region)
{
	int ret = make_version(region);

	if (ret)
		fail_msg("make version %llu: %s", (unsigned long long)afar_region_version(region),
			 afar_last_error());
}

/* Reads the region. Returns 0, an error, or 1 and says what is wrong. */
static int look(struct afar_region *region)
{
	static uint64_t words[WORDS];
	uint64_t version = afar_region_version(region);
	ssize_t n = afar_region_pread(region, words, LENGTH, 0);
	unsigned wrong;

	if (n != (ssize_t)LENGTH)
		return n < 0 ? (int)n : -EIO;
	wrong = find_wrong(words, version);
	if (wrong == WORDS)
		return 0;
	fprintf(stderr, "version %llu: word %u is of version %llu\n", (unsigned long long)version,
		wrong, (unsigned long long)words[wrong]);
	return 1;
}

/* ---- Processes */

static void say(int fd, char word)
{
	if (write(fd, &word, 1) != 1)
		_exit(9);
}

static char hear(int fd)
{
	char word;

	return read(fd, &word, 1) == 1 ? word : 0;
}

/* Looks at each version three times, and says at the end how many it has seen: until the other end of `go` is
 * closed. */
static int run_reader(struct client *client, int says, int go)
{
	uint64_t nr = 0, last = 0, newest;
	char word;
	int ret = 0;

	fcntl(go, F_SETFL, O_NONBLOCK);
	say(says, 'r');
	while (!ret && read(go, &word, 1) < 0) { /* it does not wait */
		for (int i = 0; i < 3 && !ret; i++)
			ret = look(client->region);
		nr += afar_region_version(client->region) != last;
		last = afar_region_version(client->region);
		if (!ret)
			ret = afar_region_newest(client->region, &newest);
		if (!ret && newest < last)
			ret = 2;
		if (ret)
			break;
		if (newest > last)
			ret = afar_region_refresh(client->region);
		else
			test_pause(); /* the writer needs a processor, too */
	}
	if (ret < 0)
		fprintf(stderr, "a reader: %s\n", afar_last_error());
	if (ret || write(says, &nr, sizeof(nr)) != sizeof(nr))
		return 1;
	return 0;
}

/* Begins a version, writes it, and waits to be killed. */
static int run_writer(struct client *client, int says, int go)
{
	int ret = afar_region_begin(client->region, NULL, 0);

	if (!ret)
		ret = write_changes(client->region);
	say(says, ret ? 'e' : 'w');
	hear(go);
	return ret ? 1 : 0;
}

/* Begins a version, and scribbles on all of it for as long as that is possible. */
static int run_scribbler(struct client *client, int says)
{
	const struct afar_range all = {0, LENGTH};
	static uint64_t words[WORDS];
	int ret = afar_region_begin(client->region, &all, 1);

	memset(words, 0xff, sizeof(words));
	say(says, ret ? 'e' : 'k');
	if (afar_region_pwrite(client->region, words, LENGTH, 0) > 0)
		say(says, 'w');
	while (afar_region_pwrite(client->region, words, LENGTH, 0) > 0)
		;
	say(says, 'e');
	return 0;
}

/* Looks each time it is told to, and says what came of it: the version's bytes, an error, or others. */
static int run_holder(struct client *client, int says, int go)
{
	int ret;

	do {
		ret = look(client->region);
		say(says, ret == 0 ? 'k' : ret < 0 ? 'e' : 'w');
	} while (hear(go));
	return 0;
}

static int run_client(char **argv)
{
	const char *behaviour = argv[1], *key_file = strchr(behaviour, '/');
	struct client client;
	int says = atoi(argv[3]), go = atoi(argv[4]), ret;

	ret = client_open(&client, argv[2], strstr(behaviour, "local") ? "local" : "tcp", key_file);
	if (ret) {
		fprintf(stderr, "%s: %s\n", behaviour, afar_last_error());
		return 3;
	}
	if (strncmp(behaviour, "reader", 6) == 0)
		ret = run_reader(&client, says, go);
	else if (strncmp(behaviour, "writer", 6) == 0)
		ret = run_writer(&client, says, go);
	else if (strncmp(behaviour, "scribbler", 9) == 0)
		ret = run_scribbler(&client, says);
	else
		ret = run_holder(&client, says, go);
	afar_region_close(client.region);
	afar_namespace_close(client.ns);
	afar_session_close(client.session);
	return ret;
}

static void expect_word(struct client_process *process, char word)
{
	char got;

	client_hear(process, &got, 1);
	assert_int_equal(got, word);
}

/* ---- Tests */

static void test_readers_see_one_version(void **state)
{
	const char *wanted = getenv("AFAR_VERSIONS");
	const uint64_t nr = wanted ? strtoull(wanted, NULL, 0) : test_effort(100, 1000, 1000000);
	struct client_process readers[NR_READERS];
	struct client writer;
	uint64_t nr_seen, before;

	(void)state;
	make_all(&writer);
	must_make_version(writer.region);
	for (unsigned i = 0; i < NR_READERS; i++) {
		client_start(&readers[i], i % 2 ? "reader-local" : "reader-tcp",
			     cluster_uri(cluster));
		expect_word(&readers[i], 'r');
	}
	for (uint64_t i = 0; i < nr; i++)
		must_make_version(writer.region);
	for (unsigned i = 0; i < NR_READERS; i++) {
		close(readers[i].go);
		client_hear(&readers[i], &nr_seen, sizeof(nr_seen));
		assert_true(nr_seen > 1);
		readers[i].go = dup(readers[i].says);
		assert_int_equal(client_reap(&readers[i]), 0);
	}
	assert_int_equal(look(writer.region), 0);
	/* One version is left: each unit once, and the word's page. */
	before = allocated(&writer);
	while (allocated(&writer) != LENGTH + 4096)
		test_pause();
	assert_true(before >= LENGTH + 4096);
	drop_all(&writer);
}

/* Its session ends, and takes along what nobody has seen. */
static void kill_writer(const char *behaviour)
{
	struct client_process process;
	struct client reader;
	uint64_t before, version;
	int ret;

	make_all(&reader);
	for (int i = 0; i < 5; i++)
		must_make_version(reader.region);
	version = afar_region_version(reader.region);
	before = allocated(&reader);
	client_start(&process, behaviour, cluster_uri(cluster));
	expect_word(&process, 'w');
	assert_true(allocated(&reader) > before);
	assert_int_equal(afar_region_begin(reader.region, NULL, 0), -EBUSY);
	kill(process.pid, SIGKILL);
	client_reap(&process);
	while ((ret = afar_region_begin(reader.region, NULL, 0)) == -EBUSY) {
		assert_int_equal(look(reader.region), 0);
		test_pause();
	}
	assert_int_equal(ret, 0);
	assert_int_equal(afar_region_version(reader.region), version + 1);
	while (allocated(&reader) != before)
		test_pause();
	assert_int_equal(afar_region_abandon(reader.region), 0);
	assert_int_equal(afar_region_version(reader.region), version);
	assert_int_equal(look(reader.region), 0);
	must_make_version(reader.region);
	assert_int_equal(look(reader.region), 0);
	drop_all(&reader);
}

static void test_writer_is_killed(void **state)
{
	(void)state;
	kill_writer("writer-tcp");
	kill_writer("writer-local");
}

/* Makes a principal, and starts a client with its key. */
static void start_holder(struct client_process *process, struct client *writer,
			 const char *behaviour)
{
	char path[] = "/tmp/afar-test-key-XXXXXX", secret[AFAR_KEY_HEX_MAX], words[128];
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(afar_key_add(writer->session, "holder", 0, secret), 0);
	assert_int_equal(
		afar_namespace_grant(writer->ns, "holder", AFAR_RIGHT_READ | AFAR_RIGHT_WRITE), 0);
	dprintf(fd, "holder:%s\n", secret);
	close(fd);
	snprintf(words, sizeof(words), "%s%s", behaviour, path);
	client_start(process, words, cluster_uri(cluster));
	expect_word(process, 'k');
	unlink(path);
}

/* While it stands its version stays, without a limit of time. When its session has ended, because its key is revoked, the
 * memory is free, and it does not read what others have there. */
static void stop_reader(const char *behaviour)
{
	struct client_process process;
	struct client writer;

	make_all(&writer);
	for (int i = 0; i < 7; i++)
		must_make_version(writer.region);
	start_holder(&process, &writer, behaviour);
	process_stop(process.pid);
	for (int i = 0; i < 20; i++)
		must_make_version(writer.region);
	process_continue(process.pid);
	say(process.go, 'g');
	expect_word(&process, 'k');
	process_stop(process.pid);
	assert_int_equal(allocated(&writer), 2 * LENGTH + 4096);
	assert_int_equal(afar_key_revoke(writer.session, "holder"), 0);
	while (allocated(&writer) != LENGTH + 4096)
		test_pause();
	for (int i = 0; i < 20; i++)
		must_make_version(writer.region);
	process_continue(process.pid);
	say(process.go, 'g');
	expect_word(&process, 'e');
	close(process.go);
	process.go = dup(process.says);
	client_reap(&process);
	drop_all(&writer);
}

static void test_reader_is_stopped(void **state)
{
	(void)state;
	stop_reader("holder-tcp");
	stop_reader("holder-local");
}

/* Writes that it posted before it stood land nowhere when its session has ended and its memory is in other versions. */
static void stop_writer(const char *behaviour, bool is_local)
{
	const unsigned nr = 40;
	struct client_process process;
	struct client writer;
	int ret;

	make_all(&writer);
	for (int i = 0; i < 7; i++)
		must_make_version(writer.region);
	start_holder(&process, &writer, behaviour);
	expect_word(&process, 'w'); /* and goes on */
	process_stop(process.pid);
	assert_int_equal(afar_key_revoke(writer.session, "holder"), 0);
	/* A client that stands in the middle of a copy over local is waited for. */
	while (!is_local && allocated(&writer) != LENGTH + 4096)
		test_pause();
	for (unsigned i = 0; i < 2 * nr; i++) {
		must_make_version(writer.region);
		assert_int_equal(look(writer.region), 0);
		if (i == nr)
			process_continue(process.pid);
	}
	expect_word(&process, 'e');
	while (allocated(&writer) != LENGTH + 4096)
		test_pause();
	ret = look(writer.region);
	assert_int_equal(ret, 0);
	client_reap(&process);
	drop_all(&writer);
}

static void test_writer_is_stopped(void **state)
{
	(void)state;
	stop_writer("scribbler-tcp", false);
	stop_writer("scribbler-local", true);
}

/* Versions, what readers hold, and the claim outlive the manager; calls meanwhile are done once. */
static void test_manager_is_killed(void **state)
{
	struct client_process holder;
	struct client writer, other;

	(void)state;
	make_all(&writer);
	assert_int_equal(client_open(&other, cluster_uri(cluster), NULL, NULL), 0);
	client_start(&holder, "holder-tcp", cluster_uri(cluster));
	expect_word(&holder, 'k');
	for (int i = 0; i < 6; i++) {
		assert_int_equal(afar_region_begin(writer.region, NULL, 0), 0);
		if (i % 3 == 0) {
			cluster_kill_manager(cluster);
			assert_int_equal(cluster_restart_manager(cluster), 0);
			assert_int_equal(afar_region_begin(other.region, NULL, 0), -EBUSY);
		}
		assert_int_equal(write_changes(writer.region), 0);
		if (i % 3 == 1) {
			cluster_kill_manager(cluster);
			assert_int_equal(cluster_respawn_manager(cluster), 0);
		}
		assert_int_equal(afar_region_publish(writer.region), 0);
		if (i % 3 == 1)
			assert_int_equal(cluster_await_manager(cluster), 0);
		assert_int_equal(look(writer.region), 0);
		assert_int_equal(look(other.region), 0);
		assert_int_equal(afar_region_refresh(other.region), 0);
		assert_int_equal(afar_region_version(other.region),
				 afar_region_version(writer.region));
		assert_int_equal(look(other.region), 0);
		say(holder.go, 'g');
		expect_word(&holder, 'k');
	}
	close(holder.go);
	holder.go = dup(holder.says);
	assert_int_equal(client_reap(&holder), 0);
	client_close(&other);
	while (allocated(&writer) != LENGTH + 4096)
		test_pause();
	drop_all(&writer);
}

/* A part of the region is gone with a server: each call says so. */
static void test_server_is_killed(void **state)
{
	struct client writer;
	int ret;

	(void)state;
	make_all(&writer);
	for (int i = 0; i < 3; i++)
		must_make_version(writer.region);
	assert_int_equal(afar_region_begin(writer.region, NULL, 0), 0);
	cluster_kill_server(cluster, 1);
	assert_int_equal(cluster_restart_server(cluster, 1), 0);
	ret = write_changes(writer.region);
	assert_int_equal(ret, -AFAR_ELOST);
	ret = afar_region_publish(writer.region);
	assert_true(ret == -AFAR_ELOST || ret == -EINVAL);
	assert_int_equal(afar_region_abandon(writer.region), -AFAR_ELOST);
	drop_all(&writer);
}

/* A begin that fails while its copies may still land keeps the new memory, and with it the claim. */
static void test_begin_fails(void **state)
{
	/* Nothing is behind unit 2 in the version before, so what is copied into it comes from no server. */
	const struct afar_range range = {2 * UNIT + 16, 16};
	struct client writer, hasty;
	uint64_t before;
	int ret;

	(void)state;
	make_all(&writer);
	must_make_version(writer.region);
	open_hasty(&hasty);
	assert_int_equal(look(hasty.region), 0); /* connects */
	before = allocated(&writer);
	for (unsigned i = 0; i < 2; i++)
		process_stop(cluster_server(cluster, i));
	assert_int_equal(afar_region_begin(hasty.region, &range, 1), -ETIMEDOUT);
	assert_int_equal(afar_region_begin(writer.region, NULL, 0), -EBUSY);
	assert_int_equal(afar_region_publish(hasty.region), -EINVAL);
	assert_int_equal(afar_region_abandon(hasty.region), -AFAR_ESERVER);
	for (unsigned i = 0; i < 2; i++)
		process_continue(cluster_server(cluster, i));
	while ((ret = afar_region_abandon(hasty.region)) == -AFAR_ESERVER)
		test_pause();
	assert_int_equal(ret, 0);
	assert_int_equal(look(hasty.region), 0);
	while (allocated(&writer) != before)
		test_pause();
	must_make_version(writer.region);
	assert_int_equal(look(hasty.region), 0);
	must_make_version(hasty.region);
	client_close(&hasty);
	drop_all(&writer);
}

/* A writer that abandons a version of unknown outcome is a reader of it, if it was published. */
static void test_publish_is_unknown(void **state)
{
	struct client writer, hasty;
	uint64_t version;

	(void)state;
	make_all(&writer);
	open_hasty(&hasty);
	assert_int_equal(afar_region_begin(hasty.region, NULL, 0), 0);
	assert_int_equal(write_changes(hasty.region), 0);
	version = afar_region_version(hasty.region);
	process_stop(cluster_manager(cluster));
	assert_int_equal(afar_region_publish(hasty.region), -ETIMEDOUT);
	assert_int_equal(afar_region_pwrite(hasty.region, "x", 1, 0), -EROFS);
	process_continue(cluster_manager(cluster));
	while (afar_region_version(writer.region) < version) {
		assert_int_equal(afar_region_refresh(writer.region), 0);
		test_pause();
	}
	assert_int_equal(afar_region_abandon(hasty.region), 0);
	assert_int_equal(afar_region_version(hasty.region), version);
	assert_int_equal(look(hasty.region), 0);
	assert_int_equal(afar_region_pwrite(hasty.region, "x", 1, 0), -EROFS);
	assert_int_equal(afar_region_publish(hasty.region), -EINVAL);
	must_make_version(hasty.region);
	assert_int_equal(look(writer.region), 0);
	client_close(&hasty);
	drop_all(&writer);
}

int main(int argc, char **argv)
{
	if (argc == 5)
		return run_client(argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_readers_see_one_version),
		cmocka_unit_test(test_writer_is_killed),
		cmocka_unit_test(test_reader_is_stopped),
		cmocka_unit_test(test_writer_is_stopped),
		cmocka_unit_test(test_manager_is_killed),
		cmocka_unit_test(test_begin_fails),
		cmocka_unit_test(test_publish_is_unknown),
		cmocka_unit_test(test_server_is_killed),
	};

	if (argc > 1) /* one of them */
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, start, stop);
}
