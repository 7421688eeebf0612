/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the public API where access is given and taken away: principals and their rights, cancelled
 * operations, connections that servers close, lost memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/api/api.h"
#include "lib/base/transport.h"

/* ---- Principals and rights */

/* Another principal's view of the cluster. */
struct other {
	char folder[32], key_file[48];
	struct afar_session *session;
};

static void write_key_file(const struct other *other, const char *name, const char *secret)
{
	int fd = open(other->key_file, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_true(dprintf(fd, "%s:%s\n", name, secret) > 0);
	close(fd);
}

static int try_open_other(struct other *other)
{
	const struct afar_session_options options = {.size = sizeof(options),
						     .key_file = other->key_file};

	return afar_session_open(cluster_uri(cluster), &options, &other->session);
}

static void open_other(struct other *other, const char *name)
{
	char secret[AFAR_KEY_HEX_MAX];

	strcpy(other->folder, "/tmp/test_api.XXXXXX");
	assert_non_null(mkdtemp(other->folder));
	snprintf(other->key_file, sizeof(other->key_file), "%s/key", other->folder);
	assert_int_equal(afar_key_add(session, name, 0, secret), 0);
	assert_int_equal(strlen(secret), AFAR_KEY_HEX_MAX - 1);
	write_key_file(other, name, secret);
	assert_int_equal(try_open_other(other), 0);
}

static void close_other(struct other *other, const char *name)
{
	if (other->session)
		assert_int_equal(afar_session_close(other->session), 0);
	if (name)
		assert_int_equal(afar_key_revoke(session, name), 0);
	unlink(other->key_file);
	rmdir(other->folder);
}

static bool find_key(const char *name, struct afar_key_stat *out)
{
	struct afar_key_stat keys[2] = {{.size = sizeof(keys[0])}};
	char after[AFAR_PRINCIPAL_MAX + 1] = "";
	int count;

	while ((count = afar_key_list(session, after[0] ? after : NULL, keys, 2)) > 0) {
		for (int i = 0; i < count; i++) {
			assert_true(strcmp(keys[i].name, after) > 0);
			strcpy(after, keys[i].name);
			if (strcmp(after, name) == 0) {
				*out = keys[i];
				return true;
			}
		}
		keys[0].size = sizeof(keys[0]);
	}
	assert_int_equal(count, 0);
	return false;
}

static void test_keys(void **state)
{
	struct other bob = {0};
	struct afar_key_stat stat;
	struct afar_namespace *ns;
	char secret[AFAR_KEY_HEX_MAX];
	char *json;
	int status;

	(void)state;
	open_other(&bob, "bob");
	assert_true(find_key("bob", &stat));
	assert_int_equal(stat.flags, 0);
	assert_int_equal(stat.nr_sessions, 1);
	expect_error(afar_key_add(session, "bob", 0, secret), -EEXIST);
	expect_error(afar_key_add(session, "not/a name", 0, secret), -EINVAL);
	expect_error(afar_key_add(session, "carl", 8, secret), -EINVAL);
	expect_error(afar_key_revoke(session, "carl"), -ENOENT);
	expect_error(afar_key_add(bob.session, "carl", 0, secret), -EACCES);
	expect_error(afar_key_list(bob.session, NULL, &stat, 1), -EACCES);
	expect_error(afar_key_revoke(bob.session, "bob"), -EACCES);
	assert_int_equal(afar_session_status(bob.session, &json), 0);
	assert_non_null(strstr(json, "\"principal\": \"bob\""));
	free(json);

	/* A server's key opens no session. */
	assert_int_equal(afar_key_add(session, "store", AFAR_KEY_SERVER, secret), 0);
	assert_true(find_key("store", &stat));
	assert_int_equal(stat.flags, AFAR_KEY_SERVER);
	assert_int_equal(afar_key_revoke(session, "store"), 0);

	assert_int_equal(afar_key_revoke(session, "bob"), 0);
	assert_false(find_key("bob", &stat));
	/* The session hears first of its own end, or of its key's. */
	status = afar_namespace_open(bob.session, "x", &ns);
	assert_true(status == -AFAR_ESESSION || status == -AFAR_EAUTH);
	close_other(&bob, NULL);
	expect_error(try_open_other(&bob), -ENOENT); /* the key file is gone, too */
}

static void test_rights(void **state)
{
	struct afar_namespace *ns = make_namespace("rights", 64 * KIB, 8 * MIB), *theirs;
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	struct afar_region_stat region_stat = {.size = sizeof(region_stat)};
	struct afar_region *region, *reader, *writer, *made;
	struct afar_mapping *mapping;
	struct other bob = {0};
	static uint8_t sent[MIB], got[MIB];

	(void)state;
	fill(sent, sizeof(sent), 9);
	open_other(&bob, "bob");
	assert_int_equal(afar_region_create(ns, "r", sizeof(sent), 0, &region), 0);
	assert_int_equal(afar_region_pwrite(region, sent, sizeof(sent), 0), sizeof(sent));

	/* Nothing. */
	expect_error(afar_namespace_open(bob.session, "rights", &theirs), -ENOENT);
	assert_int_equal(afar_namespace_list(bob.session, NULL, &stat, 1), 0);
	expect_error(afar_namespace_grant(ns, "nobody", AFAR_RIGHT_READ), -ENOENT);
	expect_error(afar_namespace_grant(ns, "bob", AFAR_RIGHT_WRITE), -EINVAL);
	expect_error(afar_namespace_grant(ns, "bob", 4), -EINVAL);

	/* Reading. */
	assert_int_equal(afar_namespace_grant(ns, "bob", AFAR_RIGHT_READ), 0);
	assert_int_equal(afar_namespace_open(bob.session, "rights", &theirs), 0);
	assert_int_equal(afar_namespace_stat(theirs, &stat), 0);
	assert_int_equal(stat.rights, AFAR_RIGHT_READ);
	assert_string_equal(stat.owner, "admin");
	assert_int_equal(afar_region_open(theirs, "r", &reader), 0);
	assert_int_equal(afar_region_stat(reader, &region_stat), 0);
	assert_int_equal(region_stat.rights, AFAR_RIGHT_READ);
	assert_int_equal(afar_region_pread(reader, got, sizeof(got), 0), sizeof(got));
	assert_memory_equal(sent, got, sizeof(sent));
	expect_error(afar_region_pwrite(reader, sent, 1, 0), -EACCES);
	assert_int_equal(afar_region_map(reader, 0, 4096, 0, &mapping), 0);
	assert_int_equal(afar_mapping_read(mapping, 0, 4096), 0);
	expect_error(afar_mapping_write(mapping, 0, 4096), -EACCES);
	assert_int_equal(afar_mapping_unmap(mapping), 0);
	expect_error(afar_region_alloc(theirs, 4096, 0, &made), -EACCES);
	expect_error(afar_region_destroy(reader), -EACCES);
	expect_error(afar_namespace_reserve(theirs, MIB), -EACCES);
	expect_error(afar_namespace_grant(theirs, "bob", 3), -EACCES);

	/* Writing: what was opened before stays as it was. */
	assert_int_equal(afar_namespace_grant(ns, "bob", AFAR_RIGHT_READ | AFAR_RIGHT_WRITE), 0);
	expect_error(afar_region_pwrite(reader, sent, 1, 0), -EACCES);
	assert_int_equal(afar_region_open(theirs, "r", &writer), 0);
	assert_int_equal(afar_region_pwrite(writer, &(uint8_t){77}, 1, 5), 1);
	assert_int_equal(afar_region_pread(reader, got, 1, 5), 1);
	assert_int_equal(got[0], 77);
	assert_int_equal(afar_region_create(theirs, "bob's", 4096, 0, &made), 0);
	assert_int_equal(afar_region_destroy(made), 0);
	assert_int_equal(afar_region_close(made), 0);
	expect_error(afar_namespace_release(theirs, UINT64_MAX, NULL), -EACCES);
	expect_error(afar_namespace_delete(bob.session, "rights", 0), -EACCES);

	/* Taken away: the session with its regions ends, a new one sees nothing. */
	assert_int_equal(afar_namespace_grant(ns, "bob", 0), 0);
	expect_error(afar_region_stat(reader, &region_stat), -AFAR_ESESSION);
	assert_int_equal(afar_region_close(reader), 0);
	assert_int_equal(afar_region_close(writer), 0);
	assert_int_equal(afar_namespace_close(theirs), 0);
	assert_int_equal(afar_session_close(bob.session), 0);
	assert_int_equal(try_open_other(&bob), 0);
	expect_error(afar_namespace_open(bob.session, "rights", &theirs), -ENOENT);
	close_other(&bob, "bob");

	drop_region(region);
	drop_namespace(ns, "rights");
}

/* Keys, owners and grants are there again when the manager is, and sessions go on. */
static void test_rights_outlive_the_manager(void **state)
{
	struct afar_namespace *ns = make_namespace("stay", 64 * KIB, 8 * MIB), *theirs;
	struct afar_namespace_stat stat = {.size = sizeof(stat)};
	struct afar_region *region, *reader;
	struct other bob = {0};
	uint8_t byte = 42;
	ssize_t count;

	(void)state;
	open_other(&bob, "bob");
	assert_int_equal(afar_namespace_grant(ns, "bob", AFAR_RIGHT_READ), 0);
	assert_int_equal(afar_region_create(ns, "r", MIB, 0, &region), 0);
	assert_int_equal(afar_region_pwrite(region, &byte, 1, 0), 1);
	cluster_kill_manager(cluster);
	assert_int_equal(cluster_restart_manager(cluster), 0);
	assert_int_equal(afar_namespace_open(bob.session, "stay", &theirs), 0);
	assert_int_equal(afar_namespace_stat(theirs, &stat), 0);
	assert_int_equal(stat.rights, AFAR_RIGHT_READ);
	assert_string_equal(stat.owner, "admin");
	assert_int_equal(afar_region_open(theirs, "r", &reader), 0);
	do { /* until the servers have joined it again */
		byte = 0;
		count = afar_region_pread(reader, &byte, 1, 0);
	} while (count == -AFAR_ESERVER);
	assert_int_equal(count, 1);
	assert_int_equal(byte, 42);
	expect_error((int)afar_region_pwrite(reader, &byte, 1, 0), -EACCES);
	assert_int_equal(afar_region_close(reader), 0);
	assert_int_equal(afar_namespace_close(theirs), 0);
	close_other(&bob, "bob");
	drop_region(region);
	drop_namespace(ns, "stay");
}

static void test_structs_of_older_releases(void **state)
{
	struct afar_namespace *ns = make_namespace("older", 0, 0);
	struct {
		struct afar_namespace_stat stat;
		uint64_t behind[8];
	} wide = {.stat.size = sizeof(wide)};
	struct afar_namespace_stat stat = {.size = offsetof(struct afar_namespace_stat, owner)};

	(void)state;
	strcpy(stat.owner, "not touched");
	memset(wide.behind, 0xee, sizeof(wide.behind));
	assert_int_equal(afar_namespace_stat(ns, &stat), 0);
	assert_string_equal(stat.name, "older");
	assert_string_equal(stat.owner, "not touched");
	assert_int_equal(afar_namespace_stat(ns, &wide.stat), 0);
	assert_string_equal(wide.stat.owner, "admin");
	assert_int_equal(wide.behind[7], 0);
	stat.size -= 8;
	expect_error(afar_namespace_stat(ns, &stat), -EINVAL);
	drop_namespace(ns, "older");
}

/* ---- Time, and connections that are taken away */

/* Stops a server until all of its threads stand. */
static void stop_server(unsigned i)
{
	int status;

	assert_int_equal(kill(cluster_server(cluster, i), SIGSTOP), 0);
	assert_int_equal(waitpid(cluster_server(cluster, i), &status, WUNTRACED),
			 cluster_server(cluster, i));
	assert_true(WIFSTOPPED(status));
}

static void go_on(unsigned i)
{
	assert_int_equal(kill(cluster_server(cluster, i), SIGCONT), 0);
}

static void test_cancel(void **state)
{
	struct afar_policy policy = {.size = sizeof(policy), .width = 1};
	struct afar_completion done[4];
	struct afar_namespace *ns;
	struct afar_region *region;
	struct afar_queue *queue;
	struct afar_iov iov[3];
	struct afar_op ops[3];
	static uint8_t bytes[3][64 * KIB];
	unsigned server;

	(void)state;
	if (!is_on_tcp()) /* nothing stays in flight on a server that does not move */
		skip();
	assert_int_equal(afar_namespace_create(session, "cancel", &policy, &ns), 0);
	assert_int_equal(afar_namespace_reserve(ns, 2 * MIB), 0);
	assert_int_equal(afar_region_alloc(ns, MIB, 0, &region), 0);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	for (unsigned i = 0; i < 3; i++) {
		iov[i] = (struct afar_iov){NULL, bytes[i], sizeof(bytes[i])};
		ops[i] = (struct afar_op){.opcode = AFAR_OP_READ,
					  .target = afar_region_target(region),
					  .offset = i * sizeof(bytes[i]),
					  .iov = &iov[i],
					  .nr_iov = 1,
					  .user_data = i == 2 ? 7 : 5};
	}
	assert_int_equal(afar_queue_cancel(queue, 5), 0);

	/* In flight on a server that does not move: two of user_data 5, and one beside them. */
	for (server = 0; server < 2; server++)
		stop_server(server);
	assert_int_equal(afar_queue_submit(queue, ops, 3), 3);
	assert_int_equal(afar_queue_wait(queue, done, 4, 1, 0), 0);
	assert_int_equal(afar_queue_cancel(queue, 6), 0);
	assert_int_equal(afar_queue_cancel(queue, 5), 2);
	assert_int_equal(afar_queue_wait(queue, done, 4, 3, 0), 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(done[i].result,
				 done[i].user_data == 5 ? -ECANCELED : -AFAR_ESERVER);
	for (server = 0; server < 2; server++)
		go_on(server);

	/* It cost the connection. */
	assert_int_equal(afar_queue_submit(queue, ops, 1), 1);
	assert_int_equal(afar_queue_wait(queue, done, 1, 1, -1), 1);
	assert_int_equal(done[0].result, -AFAR_ESERVER);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	assert_int_equal(afar_queue_submit(queue, ops, 3), 3);
	assert_int_equal(afar_queue_wait(queue, done, 4, 3, -1), 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(done[i].result, sizeof(bytes[0]));
	assert_int_equal(afar_queue_cancel(queue, 5), 0);
	assert_int_equal(afar_queue_close(queue), 0);
	drop_region(region);
	drop_namespace(ns, "cancel");
}

/* One-sided means: where a NIC serves, the servers need not run, and do not notice. */
static void test_servers_asleep(void **state)
{
	struct afar_namespace *ns;
	struct afar_region *region;
	uint64_t word = 1, back;

	(void)state;
	if (is_on_tcp())
		skip();
	ns = make_namespace("asleep", 4 * KIB, 8 * MIB);
	assert_int_equal(afar_region_alloc(ns, MIB, 0, &region), 0);
	assert_int_equal(afar_region_pwrite(region, &word, sizeof(word), 0), sizeof(word));
	for (unsigned server = 0; server < 2; server++)
		stop_server(server);
	for (uint64_t i = 0; i < 5000; i++) {
		word = i * 0x9e3779b97f4a7c15U;
		assert_int_equal(afar_region_pwrite(region, &word, sizeof(word), i * 13 % MIB),
				 sizeof(word));
		assert_int_equal(afar_region_pread(region, &back, sizeof(back), i * 13 % MIB),
				 sizeof(back));
		assert_true(back == word);
	}
	for (unsigned server = 0; server < 2; server++)
		go_on(server);
	drop_region(region);
	drop_namespace(ns, "asleep");
}

#define LENT (16 * MIB)

/* Has a region in memory that the namespace gets for it, on all servers, and then not any more. */
static void use_for_a_while(struct afar_namespace *ns)
{
	struct afar_region *region;
	static uint8_t bytes[64 * KIB];

	assert_int_equal(afar_namespace_reserve(ns, LENT), 0);
	assert_int_equal(afar_region_alloc(ns, LENT - 4 * MIB, 0, &region), 0);
	assert_int_equal(afar_region_pwrite(region, bytes, sizeof(bytes), 0), sizeof(bytes));
	drop_region(region);
}

/* Makes the servers take memory away that this session could reach with its connections for the namespace. */
static void lose_connections(struct afar_namespace *ns)
{
	uint64_t released;

	use_for_a_while(ns);
	assert_int_equal(afar_namespace_release(ns, LENT, &released), 0);
	assert_true(released > 0);
}

static int64_t read_once(struct afar_queue *queue, const struct afar_op *op)
{
	struct afar_completion done;

	assert_int_equal(afar_queue_submit(queue, op, 1), 1);
	assert_int_equal(afar_queue_wait(queue, &done, 1, 1, -1), 1);
	return done.result;
}

static void test_connections_are_taken_away(void **state)
{
	struct afar_namespace *ns = make_namespace("kept", 4 * KIB, 8 * MIB);
	static uint8_t sent[MIB], got[MIB];
	struct afar_iov iov = {register_if_needed(got, sizeof(got)), got, sizeof(got)};
	struct afar_op op = {.opcode = AFAR_OP_READ, .iov = &iov, .nr_iov = 1};
	struct afar_mapping *mapping;
	struct afar_region *region;
	struct afar_queue *queue;
	int64_t result;

	(void)state;
	assert_int_equal(afar_region_alloc(ns, sizeof(sent), 0, &region), 0);
	assert_int_equal(afar_region_map(region, 0, sizeof(sent), 0, &mapping), 0);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	op.target = afar_region_target(region);
	for (uint32_t round = 0; round < 5; round++) {
		/* Blocking calls do not notice. */
		fill(sent, sizeof(sent), round);
		lose_connections(ns);
		assert_int_equal(afar_region_pwrite(region, sent, sizeof(sent), 0), sizeof(sent));
		lose_connections(ns);
		assert_int_equal(afar_region_pread(region, got, sizeof(got), 0), sizeof(got));
		assert_memory_equal(sent, got, sizeof(sent));
		lose_connections(ns);
		assert_int_equal(afar_mapping_read(mapping, 0, sizeof(sent)), 0);
		assert_memory_equal(sent, afar_mapping_data(mapping), sizeof(sent));

		/* A queue does — the servers close its connections soon, one after another — and is
		 * connected again. */
		assert_int_equal(afar_queue_connect(queue, op.target), 0);
		lose_connections(ns);
		while (read_once(queue, &op) == sizeof(got))
			;
		memset(got, 0, sizeof(got));
		do {
			assert_int_equal(afar_queue_connect(queue, op.target), 0);
			result = read_once(queue, &op);
			assert_true(result == sizeof(got) || result == -AFAR_ESERVER);
		} while (result != sizeof(got));
		assert_memory_equal(sent, got, sizeof(sent));
	}
	assert_int_equal(afar_queue_close(queue), 0);
	unregister(iov.buffer);
	assert_int_equal(afar_mapping_unmap(mapping), 0);
	drop_region(region);
	drop_namespace(ns, "kept");
}

/* Connections for one namespace's memory go on, whatever happens to another's. */
static void test_others_keep_their_connections(void **state)
{
	struct afar_namespace *ns = make_namespace("kept", 4 * KIB, 8 * MIB), *other;
	static uint8_t got[MIB];
	struct afar_iov iov = {register_if_needed(got, sizeof(got)), got, sizeof(got)};
	struct afar_op op = {.opcode = AFAR_OP_READ, .iov = &iov, .nr_iov = 1};
	struct afar_completion done;
	struct afar_region *region;
	struct afar_queue *queue;

	(void)state;
	assert_int_equal(afar_region_alloc(ns, sizeof(got), 0, &region), 0);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	op.target = afar_region_target(region);
	assert_int_equal(afar_queue_connect(queue, op.target), 0);
	for (unsigned round = 0; round < 20; round++) {
		assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
		other = make_namespace("lent", 4 * KIB, 0);
		use_for_a_while(other);
		drop_namespace(other, "lent");
		assert_int_equal(afar_queue_wait(queue, &done, 1, 1, -1), 1);
		assert_int_equal(done.result, sizeof(got));
		assert_int_equal(read_once(queue, &op), sizeof(got));
	}
	assert_int_equal(afar_queue_close(queue), 0);
	unregister(iov.buffer);
	drop_region(region);
	drop_namespace(ns, "kept");
}

/* Under load: blocking calls of several threads, while the servers take memory away. */
#define NR_READERS 3
#define NR_LOSSES  20

static atomic_bool is_over;

struct reader {
	pthread_t thread;
	struct afar_region *region;
	uint64_t offset; /* of its own part */
	unsigned nr_rounds;
	ssize_t result;
	char error[256];
};

static void *write_and_read(void *argument)
{
	struct reader *reader = argument;
	uint8_t *sent = malloc(MIB), *got = malloc(MIB);

	do {
		fill(sent, MIB, reader->nr_rounds);
		reader->result = afar_region_pwrite(reader->region, sent, MIB, reader->offset);
		if (reader->result == (ssize_t)MIB)
			reader->result =
				afar_region_pread(reader->region, got, MIB, reader->offset);
		if (reader->result == (ssize_t)MIB && memcmp(sent, got, MIB) != 0)
			reader->result = 0;
		reader->nr_rounds++;
	} while (reader->result == (ssize_t)MIB && !is_over);
	snprintf(reader->error, sizeof(reader->error), "%s", afar_last_error());
	free(sent);
	free(got);
	return NULL;
}

static void test_connections_are_taken_away_under_load(void **state)
{
	struct afar_namespace *ns = make_namespace("loaded", 4 * KIB, 8 * MIB);
	struct reader readers[NR_READERS] = {0};
	struct afar_region *region;

	(void)state;
	assert_int_equal(afar_region_alloc(ns, NR_READERS * MIB, 0, &region), 0);
	is_over = false;
	for (unsigned i = 0; i < NR_READERS; i++) {
		readers[i].region = region;
		readers[i].offset = i * MIB;
		assert_int_equal(
			pthread_create(&readers[i].thread, NULL, write_and_read, &readers[i]), 0);
	}
	for (unsigned i = 0; i < NR_LOSSES; i++)
		lose_connections(ns);
	is_over = true;
	for (unsigned i = 0; i < NR_READERS; i++)
		pthread_join(readers[i].thread, NULL);
	for (unsigned i = 0; i < NR_READERS; i++) {
		if (readers[i].result != (ssize_t)MIB)
			fail_msg("thread %u in round %u: %zd, %s", i, readers[i].nr_rounds,
				 readers[i].result, readers[i].error);
	}
	drop_region(region);
	drop_namespace(ns, "loaded");
}

/* The last of the file: a server starts again, and what it held is lost for every kind of user. */
static void test_lost_memory(void **state)
{
	struct afar_namespace *ns = make_namespace("lost", 4 * KIB, 8 * MIB);
	struct afar_region *region, *untouched;
	struct afar_completion done;
	struct afar_mapping *mapping;
	struct afar_queue *queue;
	static uint8_t bytes[64 * KIB];
	struct afar_iov iov = {register_if_needed(bytes, sizeof(bytes)), bytes, sizeof(bytes)};
	struct afar_op op = {.opcode = AFAR_OP_READ, .iov = &iov, .nr_iov = 1};

	(void)state;
	assert_int_equal(afar_region_create(ns, "r", MIB, 0, &region), 0);
	assert_int_equal(afar_region_create(ns, "s", MIB, 0, &untouched), 0);
	assert_int_equal(afar_region_map(region, 0, MIB, 0, &mapping), 0);
	assert_int_equal(afar_mapping_write(mapping, 0, MIB), 0);
	assert_int_equal(afar_queue_open(session, NULL, &queue), 0);
	op.target = afar_region_target(region);
	assert_int_equal(afar_queue_connect(queue, op.target), 0);
	for (unsigned i = 0; i < 2; i++) {
		cluster_kill_server(cluster, i);
		assert_int_equal(cluster_restart_server(cluster, i), 0);
	}
	/* A client that has the memory itself hears of that when it next looks. */
	while (is_on_local() && afar_region_pread(region, bytes, sizeof(bytes), 0) >= 0)
		;
	expect_error((int)afar_region_pread(region, bytes, sizeof(bytes), 0), -AFAR_ELOST);
	expect_error((int)afar_region_pread(untouched, bytes, sizeof(bytes), 0), -AFAR_ELOST);
	expect_error(afar_mapping_read(mapping, 0, MIB), -AFAR_ELOST);
	expect_error(afar_mapping_write(mapping, 0, MIB), -AFAR_ELOST);
	expect_error(afar_queue_connect(queue, op.target), -AFAR_ELOST);
	assert_int_equal(afar_queue_submit(queue, &op, 1), 1);
	assert_int_equal(afar_queue_wait(queue, &done, 1, 1, -1), 1);
	assert_int_equal(done.result, -AFAR_ELOST);
	assert_int_equal(afar_queue_close(queue), 0);
	unregister(iov.buffer);
	assert_int_equal(afar_mapping_unmap(mapping), 0);
	drop_region(region);
	drop_region(untouched);

	/* New memory of the same servers is reached at once. */
	assert_int_equal(afar_namespace_reserve(ns, 4 * MIB), 0);
	assert_int_equal(afar_region_alloc(ns, MIB, 0, &region), 0);
	assert_int_equal(afar_region_pwrite(region, bytes, sizeof(bytes), 0), sizeof(bytes));
	drop_region(region);
	drop_namespace(ns, "lost");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_rights),
		cmocka_unit_test(test_rights_outlive_the_manager),
		cmocka_unit_test(test_structs_of_older_releases),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_servers_asleep),
		cmocka_unit_test(test_connections_are_taken_away),
		cmocka_unit_test(test_others_keep_their_connections),
		cmocka_unit_test(test_connections_are_taken_away_under_load),
		cmocka_unit_test(test_lost_memory),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
