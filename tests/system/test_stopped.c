/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * While a server is stopped, whatever waits for it ends in its time, and says which server it was. The others,
 * and the manager, are well.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include <afar/file.h>
#include <cmocka.h>

#include "lib/api/api.h"
#include "lib/base/effort.h"
#include "lib/base/transport.h"

#define STRIPE	   (64 * KIB)
#define TIMEOUT_MS 1500U

static struct afar_session *hasty;
static struct afar_namespace *ns, *other_ns;
static struct afar_region *region, *other; /* each over both servers */
static uint8_t *bytes;
static uint64_t far_stripe; /* of `region`, on the server that is stopped: its number */

static int setup(void **state)
{
	const struct afar_policy policy = {.size = sizeof(policy), .stripe_bytes = STRIPE};
	const struct afar_session_options options = {.size = sizeof(options),
						     .timeout_ms = TIMEOUT_MS * test_slowness()};

	bytes = calloc(2, STRIPE);
	if (start(state) || !bytes || afar_session_open(cluster_uri(cluster), &options, &hasty) ||
	    afar_namespace_create(hasty, "a", &policy, &ns) ||
	    afar_namespace_create(hasty, "b", &policy, &other_ns) ||
	    afar_namespace_reserve(ns, 8 * MIB) || afar_namespace_reserve(other_ns, 8 * MIB) ||
	    afar_region_create(ns, "r", 2 * STRIPE, 0, &region))
		return -1;
	return afar_region_create(other_ns, "r", 2 * STRIPE, 0, &other);
}

static int teardown(void **state)
{
	free(bytes);
	if (afar_region_close(region) || afar_region_close(other) || afar_namespace_close(ns) ||
	    afar_namespace_close(other_ns) || afar_session_close(hasty))
		return -1;
	return stop(state);
}

static void stop_process(pid_t process)
{
	int status;

	assert_int_equal(kill(process, SIGSTOP), 0);
	assert_int_equal(waitpid(process, &status, WUNTRACED), process);
	assert_true(WIFSTOPPED(status));
}

static void stop_server(void)
{
	stop_process(cluster_server(cluster, 1));
}

static int let_go_on(void **state)
{
	(void)state;
	return kill(cluster_server(cluster, 1), SIGCONT) || kill(cluster_manager(cluster), SIGCONT);
}

/* The line has `part`, and the stopped server, and nobody else. */
static void expect_blame(const char *part)
{
	const char *line = afar_last_error();

	if (!strstr(line, part) || !strstr(line, "server bench-1 at ") || strstr(line, "bench-0") ||
	    strstr(line, "manager") || strchr(line, '\n'))
		fail_msg("'%s' does not say '%s' of server bench-1 alone", line, part);
}

static struct afar_queue *connect_queue(void)
{
	struct afar_queue *queue;

	assert_int_equal(afar_queue_open(hasty, NULL, &queue), 0);
	assert_int_equal(afar_queue_connect(queue, afar_region_target(region)), 0);
	return queue;
}

static void test_explains_what_failed(void **state)
{
	struct afar_buffer *buffer;
	struct afar_queue *queue = connect_queue();
	struct afar_completion done[4], unknown = {.user_data = 99, .result = -EIO};
	struct afar_iov iov[2];
	struct afar_op ops[4];
	unsigned nr_timed_out = 0;

	(void)state;
	assert_int_equal(afar_buffer_alloc(hasty, 2 * STRIPE, &buffer), 0);
	for (unsigned i = 0; i < 4; i++)
		ops[i] = (struct afar_op){.target = afar_region_target(region), .user_data = i};
	for (unsigned i = 0; i < 2; i++) {
		iov[i] = (struct afar_iov){buffer, (char *)afar_buffer_data(buffer) + i * STRIPE,
					   STRIPE};
		ops[i].opcode = AFAR_OP_WRITE;
		ops[i].offset = i * STRIPE;
		ops[i].iov = &iov[i];
		ops[i].nr_iov = 1;
	}
	ops[2].opcode = AFAR_OP_FLUSH;
	ops[3].opcode = AFAR_OP_FLUSH;
	ops[3].flags = AFAR_OP_AFTER;
	stop_server();
	assert_int_equal(afar_queue_submit(queue, ops, 4), 4);
	assert_int_equal(afar_queue_wait(queue, done, 4, 4, -1), 4);
	expect_error(afar_region_close(NULL), -EINVAL);
	for (unsigned i = 0; i < 4; i++) {
		char asked[64];
		int result = afar_queue_explain(queue, &done[i]);

		if (done[i].result >= 0) {
			assert_int_equal(result, 0);
			continue;
		}
		assert_int_equal(result, done[i].result);
		snprintf(asked, sizeof(asked),
			 "write %u bytes at %u of the region at 0x1000 of 'a': server",
			 (unsigned)STRIPE, (unsigned)(done[i].user_data * STRIPE));
		if (done[i].user_data >= 2) {
			assert_int_equal(result, -ECANCELED);
			assert_non_null(
				strstr(afar_last_error(), "flush the region at 0x1000 of 'a': "));
			assert_non_null(strstr(afar_last_error(), "nothing of it was done"));
			continue;
		}
		assert_int_equal(result, -ETIMEDOUT);
		expect_blame(asked);
		expect_blame("did not answer in");
		expect_blame("outcome unknown");
		far_stripe = done[i].user_data;
		nr_timed_out++;
	}
	assert_int_equal(nr_timed_out, 1);
	assert_int_equal(afar_queue_explain(queue, &unknown), -EIO);
	assert_string_equal(afar_last_error(), afar_strerror(EIO));
	expect_error(afar_queue_explain(queue, NULL), -EINVAL);
	expect_error(afar_queue_explain(NULL, &unknown), -EINVAL);
	/* An operation that succeeded has no line. */
	unknown.result = 8;
	assert_int_equal(afar_queue_explain(queue, &unknown), 0);
	assert_non_null(strstr(afar_last_error(), "null or closed"));
	assert_int_equal(afar_queue_close(queue), 0);
	assert_int_equal(afar_buffer_unregister(buffer), 0);
}

static void test_blocking_calls(void **state)
{
	(void)state;
	assert_int_equal(afar_region_pwrite(region, bytes, 2 * STRIPE, 0), 2 * STRIPE);
	stop_server();
	assert_int_equal(afar_region_pread(region, bytes, 2 * STRIPE, 0), -ETIMEDOUT);
	expect_blame("read 131072 bytes at 0 of the region at 0x1000 of 'a': server");
	/* Now it is the connection that it waits for. */
	assert_int_equal(afar_region_pwrite(region, bytes, 2 * STRIPE, 0), -ETIMEDOUT);
	expect_blame("write 131072 bytes at 0 of the region at 0x1000 of 'a': ");
	expect_blame("did not answer in time");
	assert_null(strstr(afar_last_error(), "outcome unknown"));
}

#define NR_RANGES 300U /* more than are in flight at once */

/* Writes a list of ranges, of which a part waits for the others when the time is up. The error says what did not
 * answer, and how far it came. */
static void test_list_of_ranges(void **state)
{
	const struct afar_fs_policy policy = {
		.size = sizeof(policy),
		.pool = &(struct afar_policy){.size = sizeof(struct afar_policy),
					      .max_bytes = 16 * MIB}};
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	struct afar_file_vector ranges[NR_RANGES];
	struct afar_file *file;
	struct afar_fs *fs;
	char span[64];

	(void)state;
	assert_int_equal(afar_fs_create(hasty, "files", &policy, NULL), 0);
	assert_int_equal(afar_fs_open(hasty, "files", NULL, &fs), 0);
	assert_int_equal(afar_fs_stat(fs, &stat), 0);
	assert_int_equal(afar_file_create(fs, NULL, stat.root, "f", 0600, O_RDWR, &file, NULL), 0);
	assert_int_equal(afar_file_truncate(file, NR_RANGES * STRIPE / 2), 0);
	assert_int_equal(afar_file_allocate(file, 0, 0, NR_RANGES * STRIPE / 2), 0);
	for (unsigned i = 0; i < NR_RANGES; i++)
		ranges[i] = (struct afar_file_vector){(uint64_t)i * STRIPE / 2, bytes, 512};
	assert_int_equal(afar_file_writex(file, ranges, NR_RANGES), NR_RANGES * 512);
	stop_server();
	assert_int_equal(afar_file_writex(file, ranges, NR_RANGES), -ETIMEDOUT);
	snprintf(span, sizeof(span), "did not answer in %u ms", TIMEOUT_MS * test_slowness());
	expect_blame(span);
	assert_non_null(strstr(afar_last_error(), " of 300 parts are done"));
	assert_int_equal(let_go_on(NULL), 0);
	assert_int_equal(afar_file_close(file), 0);
	assert_int_equal(afar_fs_close(fs), 0);
	assert_int_equal(afar_fs_delete(hasty, "files"), 0);
}

static ssize_t written;

#define NR_LONG	  60000U
#define LONG_SPAN ((uint64_t)96) /* of which a range has so many bytes: */
#define LONG_PART 64
#define NR_PAUSES 4U /* which are longer than the time-out together */

struct long_list {
	struct afar_file *file;
	struct afar_file_vector *ranges;
	atomic_bool is_done;
	char line[1024]; /* if it failed */
};

static void *write_list(void *argument)
{
	struct long_list *list = argument;

	written = afar_file_writex(list->file, list->ranges, NR_LONG);
	snprintf(list->line, sizeof(list->line), "%s", afar_last_error());
	list->is_done = true;
	return NULL;
}

/* Waits until a list has come to a range, or has ended. */
static void await_range(const struct long_list *list, struct afar_file *reader, unsigned range)
{
	uint8_t byte = 0;

	while (byte == 0 && !list->is_done) {
		assert_int_equal(afar_file_pread(reader, &byte, 1, range * LONG_SPAN), 1);
		test_pause();
	}
}

/* A server stands still again and again while it carries out a list, each time for less than the time-out. The list takes
 * longer, and goes well, for it makes progress. */
static void write_slowly(struct afar_fs *fs, struct afar_fs *other_fs, uint64_t root)
{
	const struct timespec pause = {0, TIMEOUT_MS * 300000L};
	struct long_list list = {0};
	struct afar_file *reader;
	pthread_t writer;

	list.ranges = calloc(NR_LONG, sizeof(*list.ranges));
	assert_non_null(list.ranges);
	assert_int_equal(afar_file_create(fs, NULL, root, "f", 0600, O_RDWR, &list.file, NULL), 0);
	assert_int_equal(afar_file_truncate(list.file, NR_LONG * LONG_SPAN), 0);
	assert_int_equal(afar_file_allocate(list.file, 0, 0, NR_LONG * LONG_SPAN), 0);
	assert_int_equal(
		afar_file_open(other_fs, NULL, afar_file_ino(list.file), O_RDONLY, &reader), 0);
	memset(bytes, 1, STRIPE);
	for (unsigned i = 0; i < NR_LONG; i++)
		list.ranges[i] = (struct afar_file_vector){i * LONG_SPAN, bytes, LONG_PART};
	assert_int_equal(pthread_create(&writer, NULL, write_list, &list), 0);
	for (unsigned i = 1; i <= NR_PAUSES; i++) {
		await_range(&list, reader, i * (NR_LONG / 8));
		stop_server();
		for (unsigned k = 0; k < test_slowness(); k++)
			nanosleep(&pause, NULL);
		assert_int_equal(let_go_on(NULL), 0);
	}
	assert_int_equal(pthread_join(writer, NULL), 0);
	if (written != NR_LONG * LONG_PART)
		fail_msg("%s", list.line);
	assert_int_equal(afar_file_close(reader), 0);
	assert_int_equal(afar_file_close(list.file), 0);
	free(list.ranges);
}

static void test_long_list(void **state)
{
	const struct afar_fs_policy policy = {
		.size = sizeof(policy),
		.pool = &(struct afar_policy){.size = sizeof(struct afar_policy),
					      .max_bytes = 16 * MIB,
					      .stripe_bytes = STRIPE}};
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	struct afar_fs *fs, *other_fs;

	(void)state;
	assert_int_equal(afar_fs_create(hasty, "files", &policy, NULL), 0);
	assert_int_equal(afar_fs_open(hasty, "files", NULL, &fs), 0);
	assert_int_equal(afar_fs_open(session, "files", NULL, &other_fs), 0);
	assert_int_equal(afar_fs_stat(fs, &stat), 0);
	write_slowly(fs, other_fs, stat.root);
	assert_int_equal(afar_fs_close(other_fs), 0);
	assert_int_equal(afar_fs_close(fs), 0);
	assert_int_equal(afar_fs_delete(hasty, "files"), 0);
}

/* Ranges that touch are written together. The line counts ranges of the list. */
static void test_list_that_touches(void **state)
{
	const struct afar_fs_policy policy = {
		.size = sizeof(policy),
		.pool = &(struct afar_policy){.size = sizeof(struct afar_policy),
					      .max_bytes = 16 * MIB,
					      .stripe_bytes = STRIPE}};
	static struct afar_file_vector ranges[NR_LONG];
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	struct afar_file *file;
	struct afar_fs *fs;

	(void)state;
	assert_int_equal(afar_fs_create(hasty, "files", &policy, NULL), 0);
	assert_int_equal(afar_fs_open(hasty, "files", NULL, &fs), 0);
	assert_int_equal(afar_fs_stat(fs, &stat), 0);
	assert_int_equal(afar_file_create(fs, NULL, stat.root, "f", 0600, O_RDWR, &file, NULL), 0);
	for (unsigned i = 0; i < NR_LONG; i++)
		ranges[i] = (struct afar_file_vector){(uint64_t)i * 64, bytes, 64};
	assert_int_equal(afar_file_writex(file, ranges, NR_LONG), NR_LONG * 64);
	stop_server();
	assert_int_equal(afar_file_writex(file, ranges, NR_LONG), -ETIMEDOUT);
	expect_blame("did not answer in");
	assert_non_null(strstr(afar_last_error(), " of 60000 parts are done"));
	assert_null(strstr(afar_last_error(), ": 0 of"));
	assert_int_equal(let_go_on(NULL), 0);
	assert_int_equal(afar_file_writex(file, ranges, NR_LONG), NR_LONG * 64);
	assert_int_equal(afar_file_close(file), 0);
	assert_int_equal(afar_fs_close(fs), 0);
	assert_int_equal(afar_fs_delete(hasty, "files"), 0);
}

static void *write_all(void *line)
{
	written = afar_region_pwrite(region, bytes, 2 * STRIPE, 0);
	snprintf(line, 1024, "%s", afar_last_error());
	return NULL;
}

/* It dies with a write under way, and cannot be reached any more. The last test here. */
static void test_dead_under_a_write(void **state)
{
	char line[1024] = "";
	uint64_t near_stripe = 1 - far_stripe;
	struct view view;
	pthread_t writer;
	uint8_t byte = 0;

	(void)state;
	open_view(&view, "a", "r");
	memset(bytes, 1, 2 * STRIPE);
	assert_int_equal(afar_region_pwrite(region, bytes, 2 * STRIPE, 0), 2 * STRIPE);
	assert_int_equal(afar_region_pread(view.region, &byte, 1, far_stripe * STRIPE), 1);
	memset(bytes, 2, 2 * STRIPE);
	stop_server();
	assert_int_equal(pthread_create(&writer, NULL, write_all, line), 0);
	while (byte != 2)
		assert_int_equal(afar_region_pread(view.region, &byte, 1, near_stripe * STRIPE), 1);
	cluster_kill_server(cluster, 1);
	assert_int_equal(pthread_join(writer, NULL), 0);
	assert_int_equal(written, -AFAR_ESERVER);
	assert_non_null(strstr(line, "write 131072 bytes at 0 of the region at 0x1000 of 'a': "));
	assert_non_null(strstr(line, "reach server bench-1 at "));
	assert_non_null(strstr(line, "outcome unknown"));
	close_view(&view);
}

static void test_tickets(void **state)
{
	struct afar_queue *queue = connect_queue(), *late;

	(void)state;
	assert_int_equal(afar_queue_open(hasty, NULL, &late), 0);
	stop_server();
	assert_int_equal(afar_queue_connect(late, afar_region_target(region)), -ETIMEDOUT);
	expect_blame("connect to server");
	assert_int_equal(afar_queue_close(late), 0);
	assert_int_equal(afar_queue_close(queue), 0);
}

/* Once, in the life of this region here. */
static void test_keys(void **state)
{
	struct afar_queue *queue = connect_queue();

	(void)state;
	stop_server();
	assert_int_equal(afar_queue_connect(queue, afar_region_target(other)), -ETIMEDOUT);
	expect_blame("get keys of server");
	assert_int_equal(afar_queue_close(queue), 0);
}

static void test_reservation_and_seal(void **state)
{
	(void)state;
	stop_server();
	assert_int_equal(afar_namespace_reserve(ns, 64 * MIB), -ETIMEDOUT);
	assert_non_null(strstr(afar_last_error(), "reserve 64 MiB: server 'bench-1' at "));
	assert_non_null(strstr(afar_last_error(), "outcome unknown"));
	assert_int_equal(afar_region_seal(other), -ETIMEDOUT);
	assert_non_null(strstr(afar_last_error(), "server 'bench-1' at "));
}

/* Where it is the manager that is stopped, errors name it. */
static void test_manager(void **state)
{
	(void)state;
	stop_process(cluster_manager(cluster));
	assert_int_equal(afar_namespace_reserve(ns, 2 * MIB), -ETIMEDOUT);
	assert_non_null(strstr(afar_last_error(), "call the manager at "));
	assert_non_null(strstr(afar_last_error(), "outcome unknown"));
}

#define STOPPING(test) cmocka_unit_test_setup_teardown(test, NULL, let_go_on)

int main(void)
{
	/* Over `local` no server is needed to move bytes. */
	const struct CMUnitTest moving[] = {
		STOPPING(test_explains_what_failed), STOPPING(test_blocking_calls),
		STOPPING(test_list_of_ranges),	     STOPPING(test_long_list),
		STOPPING(test_list_that_touches),    cmocka_unit_test(test_dead_under_a_write),
	};
	const struct CMUnitTest tests[] = {
		STOPPING(test_tickets),
		STOPPING(test_keys),
		STOPPING(test_reservation_and_seal),
		STOPPING(test_manager),
	};
	int nr_failed = is_on_tcp() ? cmocka_run_group_tests(moving, setup, teardown) : 0;

	return nr_failed + cmocka_run_group_tests(tests, setup, teardown);
}
