/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that are opened again. A session keeps what it has read, and asks nobody when it opens that once more. Whatever another session, or the same
 * one, has done to the file or its name is seen all the same.
 *
 * First the manager stands still while a file is opened. Then every kind of change follows an opening, and the file is opened after it. Then two
 * sessions change and read a few files at random, which are compared with a model. At last a session that keeps files is stopped, and killed, and the
 * manager starts anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <afar/cache.h>
#include <afar/file.h>

#include "lib/api/api.h"
#include "lib/base/child.h"
#include "lib/base/effort.h"
#include "lib/base/processes.h"

#define GONE_MAX 3000U /* looks */
#define NR_NAMES 4U
#define NR_TRIES 10U
#define TEXT_MAX 32U

static struct user {
	struct afar_session *session;
	struct afar_fs *fs;
	struct afar_cache *cache;
} users[2]; /* the first one keeps files */
static uint64_t root;

static const struct afar_who superuser = {.size = sizeof(superuser)};
static const struct afar_who somebody = {.size = sizeof(somebody), .uid = 1234, .gid = 1234};

static void open_user(struct user *user, uint32_t timeout_ms)
{
	const struct afar_session_options options = {.size = sizeof(options),
						     .timeout_ms = timeout_ms};

	assert_int_equal(afar_session_open(cluster_uri(cluster), &options, &user->session), 0);
	assert_int_equal(afar_fs_open(user->session, "kept", NULL, &user->fs), 0);
	assert_int_equal(afar_cache_open(user->session, 64 * KIB, &user->cache), 0);
}

static void close_user(struct user *user)
{
	assert_int_equal(afar_cache_close(user->cache), 0);
	assert_int_equal(afar_fs_close(user->fs), 0);
	assert_int_equal(afar_session_close(user->session), 0);
}

static int begin(void **state)
{
	const struct afar_fs_policy policy = {
		.size = sizeof(policy),
		.pool = &(struct afar_policy){.size = sizeof(struct afar_policy),
					      .stripe_bytes = 64 * KIB},
		.mode = 0755,
	};
	struct afar_fs_stat stat = {.size = sizeof(stat)};

	(void)state;
	assert_int_equal(afar_fs_create(session, "kept", &policy, NULL), 0);
	for (unsigned i = 0; i < 2; i++)
		open_user(&users[i], 0);
	assert_int_equal(afar_fs_stat(users[0].fs, &stat), 0);
	root = stat.root;
	return 0;
}

static int leave(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++)
		close_user(&users[i]);
	return 0;
}

static int end(void **state)
{
	leave(state);
	assert_int_equal(afar_fs_delete(session, "kept"), 0);
	return 0;
}

#define KEPT_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

/* ---- What the tests do with files */

static void write_text(struct afar_fs *fs, uint64_t ino, const char *text, int flags)
{
	struct afar_file *file;

	assert_int_equal(afar_file_open(fs, &superuser, ino, O_WRONLY | flags, &file), 0);
	assert_int_equal(afar_file_pwrite(file, text, strlen(text), 0), strlen(text));
	assert_int_equal(afar_file_close(file), 0);
}

static uint64_t make(struct afar_fs *fs, const char *name, const char *text)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};

	assert_int_equal(afar_fs_make(fs, &superuser, root, name, S_IFREG | 0644, 0, NULL, &stat),
			 0);
	write_text(fs, stat.ino, text, 0);
	return stat.ino;
}

/* Nobody writes it meanwhile: it has the same bytes through the user's cache, whether these come from there or not. */
static void expect_cached(struct afar_fs *fs, struct afar_file *file, const char *text)
{
	for (unsigned i = 0; i < 2; i++) {
		char cached[TEXT_MAX];
		ssize_t length;

		if (users[i].fs != fs)
			continue;
		length = afar_cache_read_file(users[i].cache, file, cached, TEXT_MAX - 1, 0);
		assert_int_equal(length, strlen(text));
		assert_memory_equal(cached, text, (size_t)length);
	}
}

/* Returns 0, or why it cannot be opened, read or closed. */
static int read_text(struct afar_fs *fs, const struct afar_who *who, uint64_t ino,
		     char text[TEXT_MAX])
{
	struct afar_file *file;
	int ret = afar_file_open(fs, who, ino, O_RDONLY, &file), closed;
	ssize_t length;

	if (ret)
		return ret;
	length = afar_file_pread(file, text, TEXT_MAX - 1, 0);
	text[length > 0 ? length : 0] = '\0';
	if (length >= 0)
		expect_cached(fs, file, text);
	closed = afar_file_close(file);
	return length < 0 ? (int)length : closed;
}

static void expect_text(struct afar_fs *fs, uint64_t ino, const char *expected)
{
	char text[TEXT_MAX];

	assert_int_equal(read_text(fs, &superuser, ino, text), 0);
	assert_string_equal(text, expected);
}

/* The first answers tell of the delegation alone. */
static void keep(struct afar_fs *fs, uint64_t ino)
{
	char text[TEXT_MAX];

	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(read_text(fs, &superuser, ino, text), 0);
	assert_int_equal(read_text(fs, &somebody, ino, text), 0);
}

/* Nobody has it any more: the manager does not know it. It forgets it just after the last one has let it go. */
static void expect_gone(struct afar_fs *fs, uint64_t ino)
{
	const struct timespec moment = {.tv_nsec = 10000000};
	struct afar_file_stat stat = {.size = sizeof(stat)};
	int ret = afar_fs_getattr(fs, ino, &stat);

	for (unsigned i = 0; ret == 0 && i < GONE_MAX; i++) {
		nanosleep(&moment, NULL);
		ret = afar_fs_getattr(fs, ino, &stat);
	}
	assert_int_equal(ret, -ESTALE);
}

/* ---- Nobody is asked */

/* Has the manager asked just now, and so the delegation renewed. */
static void renew(struct afar_fs *fs)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	static unsigned number;
	char name[32];

	snprintf(name, sizeof(name), "none.%u", number++);
	assert_int_equal(afar_fs_lookup(fs, &superuser, root, name, &stat), -ENOENT);
}

/* A delegation lasts for half a second, so not every try is soon enough on a busy machine. */
static void test_while_the_manager_stands(void **state)
{
	uint64_t ino = make(users[1].fs, "f", "hello");
	unsigned nr_good = 0;
	char text[TEXT_MAX];
	struct user user;
	int ret;

	(void)state;
	open_user(&user, 2000);
	for (unsigned i = 0; i < NR_TRIES && nr_good == 0; i++) {
		keep(user.fs, ino);
		renew(user.fs);
		kill(cluster_manager(cluster), SIGSTOP);
		ret = read_text(user.fs, &superuser, ino, text);
		if (ret == 0)
			ret = read_text(user.fs, &superuser, ino, text);
		kill(cluster_manager(cluster), SIGCONT);
		nr_good += ret == 0 && strcmp(text, "hello") == 0;
		/* Until it answers again, a keep() may fail. */
		while (ret && read_text(user.fs, &superuser, ino, text))
			;
	}
	assert_int_not_equal(nr_good, 0);
	close_user(&user);
}

/* Its page comes from the cache as long as nobody has it open to write. */
static void test_from_a_cache(void **state)
{
	const uint64_t ino = make(users[1].fs, "f", "hello");
	struct afar_cache_stat before = {.size = sizeof(before)}, after = before;
	struct afar_file *file;

	(void)state;
	do {
		assert_int_equal(afar_cache_stat(users[0].cache, &before), 0);
		keep(users[0].fs, ino);
		assert_int_equal(afar_cache_stat(users[0].cache, &after), 0);
	} while (after.nr_hits == before.nr_hits);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(afar_file_open(users[i].fs, &superuser, ino, O_RDWR, &file), 0);
		assert_int_equal(afar_cache_stat(users[0].cache, &before), 0);
		expect_text(users[0].fs, ino, "hello");
		assert_int_equal(afar_cache_stat(users[0].cache, &after), 0);
		assert_int_equal(after.nr_hits, before.nr_hits);
		assert_int_equal(after.nr_misses, before.nr_misses);
		assert_int_equal(after.nr_past, before.nr_past + 1);
		assert_int_equal(afar_file_close(file), 0);
	}
}

/* ---- One change after the other. `fs` makes it; the file is kept in the first session. */

static void change_bytes(struct afar_fs *fs, uint64_t ino)
{
	write_text(fs, ino, "bytes", 0);
	expect_text(users[0].fs, ino, "bytes");
}

static void change_bytes_beside(struct afar_fs *fs, uint64_t ino)
{
	struct afar_file *file;

	assert_int_equal(afar_file_open(fs, &superuser, ino, O_RDWR, &file), 0);
	expect_text(users[0].fs, ino, "first");
	assert_int_equal(afar_file_pwrite(file, "beside", 6, 0), 6);
	expect_text(users[0].fs, ino, "beside");
	assert_int_equal(afar_file_pwrite(file, "it", 2, 6), 2);
	expect_text(users[0].fs, ino, "besideit");
	assert_int_equal(afar_file_close(file), 0);
	expect_text(users[0].fs, ino, "besideit");
}

static void append(struct afar_fs *fs, uint64_t ino)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};

	write_text(fs, ino, "more", O_APPEND);
	expect_text(users[0].fs, ino, "firstmore");
	/* Room behind the end has gone back. */
	assert_int_equal(afar_fs_getattr(fs, ino, &stat), 0);
	assert_in_range(stat.allocated, 1, AFAR_FILE_BLOCK);
}

static void cut(struct afar_fs *fs, uint64_t ino)
{
	const struct afar_file_stat to = {.size = sizeof(to), .bytes = 2};

	assert_int_equal(afar_fs_setattr(fs, &superuser, ino, AFAR_SET_SIZE, &to, NULL), 0);
	expect_text(users[0].fs, ino, "fi");
	write_text(fs, ino, "", O_TRUNC);
	expect_text(users[0].fs, ino, "");
}

static void forbid(struct afar_fs *fs, uint64_t ino)
{
	const struct afar_file_stat to = {.size = sizeof(to), .mode = 0600};
	char text[TEXT_MAX];

	assert_int_equal(afar_fs_setattr(fs, &superuser, ino, AFAR_SET_MODE, &to, NULL), 0);
	assert_int_equal(read_text(users[0].fs, &somebody, ino, text), -EACCES);
	expect_text(users[0].fs, ino, "first");
	assert_int_equal(read_text(users[0].fs, &somebody, ino, text), -EACCES);
}

static void take_away(struct afar_fs *fs, uint64_t ino)
{
	char text[TEXT_MAX];

	assert_int_equal(afar_fs_unlink(fs, &superuser, root, "f"), 0);
	expect_gone(users[1].fs, ino);
	assert_int_equal(read_text(users[0].fs, &superuser, ino, text), -ESTALE);
	make(fs, "f", "again");
}

static void replace(struct afar_fs *fs, uint64_t ino)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	uint64_t other = make(fs, "g", "other");

	keep(users[0].fs, other);
	assert_int_equal(afar_fs_rename(fs, &superuser, root, "g", root, "f", 0), 0);
	expect_gone(users[1].fs, ino);
	assert_int_equal(afar_fs_lookup(users[0].fs, &superuser, root, "f", &stat), 0);
	assert_int_equal(stat.ino, other);
	expect_text(users[0].fs, other, "other");
}

/* It is open: it stays until that is closed, for good. */
static void take_away_open(struct afar_fs *fs, uint64_t ino)
{
	struct afar_file *file;
	char text[TEXT_MAX] = "";

	assert_int_equal(afar_file_open(users[0].fs, &superuser, ino, O_RDONLY, &file), 0);
	assert_int_equal(afar_fs_unlink(fs, &superuser, root, "f"), 0);
	assert_int_equal(afar_file_pread(file, text, 5, 0), 5);
	assert_string_equal(text, "first");
	expect_text(users[0].fs, ino, "first");
	assert_int_equal(afar_file_close(file), 0);
	expect_gone(users[1].fs, ino);
	make(fs, "f", "again");
}

static void (*const changes[])(struct afar_fs *fs, uint64_t ino) = {
	change_bytes, change_bytes_beside, append, cut, forbid, take_away, replace, take_away_open,
};

static void change_through(struct afar_fs *fs)
{
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		uint64_t ino = make(users[1].fs, "f", "first");

		keep(users[0].fs, ino);
		changes[i](fs, ino);
		assert_int_equal(afar_fs_unlink(fs, &superuser, root, "f"), 0);
	}
}

static void test_changed_elsewhere(void **state)
{
	(void)state;
	change_through(users[1].fs);
}

static void test_changed_here(void **state)
{
	(void)state;
	change_through(users[0].fs);
}

/* ---- At random */

static struct model {
	uint64_t ino; /* 0: the name is not there */
	char text[TEXT_MAX];
	bool is_secret;
} models[NR_NAMES];
static uint64_t seed = 1;

static uint64_t below(uint64_t limit)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 33) % limit;
}

static void new_text(char text[TEXT_MAX])
{
	static unsigned number;

	snprintf(text, TEXT_MAX, "%.*s%u", (int)below(12), "............", number++);
}

static void change_one(struct afar_fs *fs, struct model *model, const char *name)
{
	struct model *other = &models[below(NR_NAMES)];
	const char other_name[] = {(char)('a' + (other - models)), '\0'};
	struct afar_file_stat to = {.size = sizeof(to)};

	switch (model->ino == 0 ? 0 : 1 + below(4)) {
	case 0:
		new_text(model->text);
		model->ino = make(fs, name, model->text);
		model->is_secret = false;
		break;
	case 1:
		new_text(model->text);
		write_text(fs, model->ino, model->text, O_TRUNC);
		break;
	case 2:
		to.mode = model->is_secret ? 0644 : 0600;
		assert_int_equal(
			afar_fs_setattr(fs, &superuser, model->ino, AFAR_SET_MODE, &to, NULL), 0);
		model->is_secret = !model->is_secret;
		break;
	case 3:
		assert_int_equal(afar_fs_unlink(fs, &superuser, root, name), 0);
		expect_gone(fs, model->ino);
		model->ino = 0;
		break;
	default:
		if (other == model)
			break;
		assert_int_equal(afar_fs_rename(fs, &superuser, root, name, root, other_name, 0),
				 0);
		if (other->ino != 0)
			expect_gone(fs, other->ino);
		*other = *model;
		model->ino = 0;
	}
}

static void check_one(struct afar_fs *fs, const struct model *model, const char *name)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	int ret = afar_fs_lookup(fs, &superuser, root, name, &stat);
	char text[TEXT_MAX];

	assert_int_equal(ret, model->ino != 0 ? 0 : -ENOENT);
	if (ret)
		return;
	assert_int_equal(stat.ino, model->ino);
	expect_text(fs, stat.ino, model->text);
	assert_int_equal(read_text(fs, &somebody, stat.ino, text), model->is_secret ? -EACCES : 0);
}

static void test_at_random(void **state)
{
	uint64_t nr_steps = test_effort(40, 1000, 50000);

	(void)state;
	memset(models, 0, sizeof(models));
	for (uint64_t i = 0; i < nr_steps; i++) {
		unsigned at = (unsigned)below(NR_NAMES);
		char name[] = {(char)('a' + at), '\0'};

		change_one(users[below(2)].fs, &models[at], name);
		for (unsigned j = 0; j < 2 * NR_NAMES; j++) {
			name[0] = (char)('a' + j % NR_NAMES);
			check_one(users[j / NR_NAMES].fs, &models[j % NR_NAMES], name);
		}
	}
}

/* ---- One that is stopped, or killed, or has to do with another manager */

/* Another process: keeps "f" and "g", and looks at both when it is told to. */
static int holder(const char *uri, int told, int asked)
{
	struct afar_file_stat stat[2] = {{.size = sizeof(stat[0])}, {.size = sizeof(stat[0])}};
	struct afar_fs_stat fs_stat = {.size = sizeof(fs_stat)};
	struct afar_session *mine;
	char byte = 0, text[TEXT_MAX];
	struct afar_fs *fs;

	if (afar_session_open(uri, NULL, &mine) || afar_fs_open(mine, "kept", NULL, &fs) ||
	    afar_fs_stat(fs, &fs_stat) ||
	    afar_fs_lookup(fs, &superuser, fs_stat.root, "f", &stat[0]) ||
	    afar_fs_lookup(fs, &superuser, fs_stat.root, "g", &stat[1]))
		return 3;
	for (unsigned i = 0; i < 2; i++)
		keep(fs, stat[i].ino);
	if (write(told, &byte, 1) != 1 || read(asked, &byte, 1) != 1)
		return 4;
	if (read_text(fs, &superuser, stat[0].ino, text) || strcmp(text, "new f") != 0)
		return 5;
	/* It has been removed. Nobody has got its room as long as we may read it. */
	if (read_text(fs, &superuser, stat[1].ino, text) == 0 && strcmp(text, "old g") != 0)
		return 6;
	return afar_fs_close(fs) || afar_session_close(mine) ? 7 : 0;
}

static void test_stopped(void **state)
{
	struct client_process client;
	uint64_t ino = make(users[1].fs, "f", "old f");
	char byte;

	(void)state;
	make(users[1].fs, "g", "old g");
	client_start(&client, "holder", cluster_uri(cluster));
	client_hear(&client, &byte, 1);
	process_stop(client.pid);
	write_text(users[1].fs, ino, "new", 0);
	assert_int_equal(afar_fs_unlink(users[1].fs, &superuser, root, "g"), 0);
	make(users[1].fs, "h", "other");
	process_continue(client.pid);
	assert_int_equal(write(client.go, "x", 1), 1);
	assert_int_equal(client_reap(&client), 0);
	expect_text(users[0].fs, ino, "new f");
}

static void test_killed(void **state)
{
	struct client_process client;
	uint64_t ino = make(users[1].fs, "f", "old f");
	char byte;

	(void)state;
	make(users[1].fs, "g", "old g");
	client_start(&client, "holder", cluster_uri(cluster));
	client_hear(&client, &byte, 1);
	kill(client.pid, SIGKILL);
	client_reap(&client);
	write_text(users[1].fs, ino, "new", 0);
	assert_int_equal(afar_fs_unlink(users[1].fs, &superuser, root, "g"), 0);
	expect_text(users[0].fs, ino, "new f");
}

static void test_another_manager(void **state)
{
	uint64_t ino[2] = {make(users[1].fs, "f", "first"), make(users[1].fs, "g", "second")};

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		keep(users[0].fs, ino[i]);
	cluster_kill_manager(cluster);
	assert_int_equal(cluster_restart_manager(cluster), 0);
	assert_int_equal(afar_fs_unlink(users[1].fs, &superuser, root, "f"), 0);
	expect_gone(users[1].fs, ino[0]);
	expect_text(users[0].fs, ino[1], "second");
	write_text(users[1].fs, ino[1], "third.", 0);
	expect_text(users[0].fs, ino[1], "third.");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		KEPT_TEST(test_while_the_manager_stands),
		KEPT_TEST(test_from_a_cache),
		KEPT_TEST(test_changed_elsewhere),
		KEPT_TEST(test_changed_here),
		KEPT_TEST(test_at_random),
		KEPT_TEST(test_stopped),
		KEPT_TEST(test_another_manager),
		/* Its file system is in use until the lease of the one that was killed is over. */
		cmocka_unit_test_setup_teardown(test_killed, begin, leave),
	};

	if (argc == 5)
		return holder(argv[2], atoi(argv[3]), atoi(argv[4]));
	return cmocka_run_group_tests(tests, start, stop);
}
