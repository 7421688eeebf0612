/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names and attributes that are delegated to sessions: whatever one session has changed, all others see
 * when the call has returned.
 *
 * Three sessions take turns at random, and what each is told is compared with a model after every step.
 * Then threads of two sessions make and remove names of their own in one directory. At last a session is stopped
 * that has everything delegated.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <afar/file.h>

#include "lib/api/api.h"
#include "lib/base/effort.h"

#define NR_SESSIONS 3U
#define NR_DIRS	    3U
#define NR_NAMES    4U
#define NR_LOOKS    6U /* after each step */
#define NR_THREADS  4U
#define NR_ROUNDS   40U

static struct {
	struct afar_session *session;
	struct afar_fs *fs;
} users[NR_SESSIONS];
static uint64_t root;
static uint64_t seed = 1;

static uint64_t below(uint64_t limit)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 33) % limit;
}

static void open_users(void)
{
	const struct afar_fs_policy policy = {
		.size = sizeof(policy),
		.pool = &(struct afar_policy){.size = sizeof(struct afar_policy),
					      .stripe_bytes = 64 * KIB},
		.mode = 0755,
	};
	struct afar_fs_stat stat = {.size = sizeof(stat)};

	assert_int_equal(afar_fs_create(session, "names", &policy, NULL), 0);
	for (unsigned i = 0; i < NR_SESSIONS; i++) {
		assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &users[i].session),
				 0);
		assert_int_equal(afar_fs_open(users[i].session, "names", NULL, &users[i].fs), 0);
	}
	assert_int_equal(afar_fs_stat(users[0].fs, &stat), 0);
	root = stat.root;
}

static void close_users(void)
{
	for (unsigned i = 0; i < NR_SESSIONS; i++) {
		assert_int_equal(afar_fs_close(users[i].fs), 0);
		assert_int_equal(afar_session_close(users[i].session), 0);
	}
	assert_int_equal(afar_fs_delete(session, "names"), 0);
}

static const struct afar_who superuser = {.size = sizeof(superuser)};
static const struct afar_who somebody = {.size = sizeof(somebody), .uid = 1234, .gid = 1234};

/* ---- One after the other */

struct model_inode {
	uint64_t ino;
	uint64_t bytes;
	uint32_t mode;
	uint32_t nlink;
};

#define NR_INODES (NR_DIRS * NR_NAMES + NR_DIRS)

static struct model_inode inodes[NR_INODES]; /* the first are the directories */
static struct model_inode *names[NR_DIRS][NR_NAMES];

static const char *text_of(uint64_t name)
{
	static const char *const texts[NR_NAMES] = {"a", "b", "c", "d"};

	return texts[name];
}

static struct model_inode *free_inode(void)
{
	for (unsigned i = NR_DIRS; i < NR_INODES; i++)
		if (inodes[i].nlink == 0)
			return &inodes[i];
	return NULL;
}

static void make_dirs(void)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	uint64_t parent = root;

	inodes[0] = (struct model_inode){.ino = root, .mode = S_IFDIR | 0755, .nlink = 3};
	for (unsigned i = 1; i < NR_DIRS; i++) {
		assert_int_equal(afar_fs_make(users[0].fs, &superuser, parent, "dir",
					      S_IFDIR | 0755, 0, NULL, &stat),
				 0);
		parent = stat.ino;
		inodes[i] = (struct model_inode){
			.ino = parent, .mode = S_IFDIR | 0755, .nlink = i + 1 < NR_DIRS ? 3 : 2};
	}
}

static void expect_stat(const struct afar_file_stat *stat, const struct model_inode *inode)
{
	assert_int_equal(stat->ino, inode->ino);
	assert_int_equal(stat->mode, inode->mode);
	assert_int_equal(stat->nlink, inode->nlink);
	if (!S_ISDIR(inode->mode))
		assert_int_equal(stat->bytes, inode->bytes);
}

/* Checks what `user` is told of a name, as the superuser or as somebody who is nobody's owner. */
static void check_name(unsigned user, unsigned dir, unsigned name, bool is_somebody)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	int ret = afar_fs_lookup(users[user].fs, is_somebody ? &somebody : &superuser,
				 inodes[dir].ino, text_of(name), &stat);

	if (is_somebody && !(inodes[dir].mode & S_IXOTH)) {
		assert_int_equal(ret, -EACCES);
	} else if (!names[dir][name]) {
		assert_int_equal(ret, -ENOENT);
	} else {
		assert_int_equal(ret, 0);
		expect_stat(&stat, names[dir][name]);
	}
}

static void check_inode(unsigned user, const struct model_inode *inode)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};

	if (inode->nlink == 0)
		return;
	assert_int_equal(afar_fs_getattr(users[user].fs, inode->ino, &stat), 0);
	expect_stat(&stat, inode);
}

static void make(struct afar_fs *fs, uint64_t dir, uint64_t name)
{
	struct model_inode *inode = free_inode();
	struct afar_file_stat stat = {.size = sizeof(stat)};
	int ret = afar_fs_make(fs, &superuser, inodes[dir].ino, text_of(name), S_IFREG | 0644, 0,
			       NULL, &stat);

	assert_int_equal(ret, names[dir][name] ? -EEXIST : 0);
	if (ret)
		return;
	assert_non_null(inode);
	*inode = (struct model_inode){.ino = stat.ino, .mode = S_IFREG | 0644, .nlink = 1};
	names[dir][name] = inode;
}

static void take_away(uint64_t dir, uint64_t name)
{
	if (names[dir][name])
		names[dir][name]->nlink--;
	names[dir][name] = NULL;
}

static void rename_one(struct afar_fs *fs, uint64_t dir, uint64_t name, uint64_t new_dir,
		       uint64_t new_name)
{
	struct model_inode *moved = names[dir][name], *other = names[new_dir][new_name];
	unsigned flags = below(3) == 0 ? AFAR_RENAME_EXCHANGE : 0;
	int ret = afar_fs_rename(fs, &superuser, inodes[dir].ino, text_of(name),
				 inodes[new_dir].ino, text_of(new_name), flags);

	if (!moved || (flags && !other)) {
		assert_int_equal(ret, -ENOENT);
		return;
	}
	assert_int_equal(ret, 0);
	if (moved == other)
		return;
	if (flags) {
		names[dir][name] = other;
	} else {
		take_away(new_dir, new_name);
		names[dir][name] = NULL;
	}
	names[new_dir][new_name] = moved;
}

static void link_one(struct afar_fs *fs, uint64_t dir, uint64_t name, uint64_t new_dir,
		     uint64_t new_name)
{
	struct model_inode *linked = names[dir][name];
	int ret;

	if (!linked)
		return;
	ret = afar_fs_link(fs, &superuser, linked->ino, inodes[new_dir].ino, text_of(new_name),
			   NULL);
	assert_int_equal(ret, names[new_dir][new_name] ? -EEXIST : 0);
	if (ret)
		return;
	linked->nlink++;
	names[new_dir][new_name] = linked;
}

/* Through a file, which is closed or not before others look. */
static void write_one(struct afar_fs *fs, struct model_inode *inode)
{
	static const char bytes[3000];
	size_t length = 1 + below(sizeof(bytes));
	struct afar_file *file;

	if (!inode)
		return;
	assert_int_equal(afar_file_open(fs, &superuser, inode->ino, O_RDWR, &file), 0);
	assert_int_equal(afar_file_pwrite(file, bytes, length, 0), length);
	if (length > inode->bytes)
		inode->bytes = length;
	for (unsigned i = 0; i < NR_SESSIONS; i++)
		check_inode(i, inode);
	if (below(2)) {
		inode->bytes = below(2000);
		assert_int_equal(afar_file_truncate(file, inode->bytes), 0);
	}
	for (unsigned i = 0; i < NR_SESSIONS; i++)
		check_inode(i, inode);
	assert_int_equal(afar_file_close(file), 0);
}

static void set_mode(struct afar_fs *fs, struct model_inode *inode)
{
	struct afar_file_stat to = {.size = sizeof(to)};

	if (!inode)
		return;
	to.mode = S_ISDIR(inode->mode) ? (below(2) ? 0755 : 0700) : (uint32_t)below(01000);
	assert_int_equal(afar_fs_setattr(fs, &superuser, inode->ino, AFAR_SET_MODE, &to, NULL), 0);
	inode->mode = (inode->mode & S_IFMT) | to.mode;
}

/* Lists a directory. From then on the session knows that nothing else is there. */
static void list(struct afar_fs *fs, uint64_t dir)
{
	struct afar_dirent entries[NR_NAMES + 2] = {{.size = sizeof(entries[0])}};
	unsigned max = below(2) ? NR_NAMES + 2 : 1;
	int nr = afar_fs_readdir(fs, &superuser, inodes[dir].ino, NULL, true, entries, max);
	int expected = dir + 1 < NR_DIRS ? 1 : 0; /* the next one */

	for (unsigned i = 0; i < NR_NAMES; i++)
		expected += names[dir][i] != NULL;
	assert_int_equal(nr, expected < (int)max ? expected : (int)max);
	for (int i = 0; i < nr; i++)
		for (unsigned j = 0; j < NR_NAMES; j++)
			if (strcmp(entries[i].name, text_of(j)) == 0)
				expect_stat(&entries[i].stat, names[dir][j]);
}

static void step(struct afar_fs *fs)
{
	uint64_t dir = below(NR_DIRS), name = below(NR_NAMES);
	uint64_t new_dir = below(NR_DIRS), new_name = below(NR_NAMES);
	int ret;

	switch (below(9)) {
	case 0:
	case 1:
		make(fs, dir, name);
		break;
	case 2:
		ret = afar_fs_unlink(fs, &superuser, inodes[dir].ino, text_of(name));
		assert_int_equal(ret, names[dir][name] ? 0 : -ENOENT);
		take_away(dir, name);
		break;
	case 3:
		rename_one(fs, dir, name, new_dir, new_name);
		break;
	case 4:
		link_one(fs, dir, name, new_dir, new_name);
		break;
	case 5:
		set_mode(fs, below(2) ? &inodes[dir] : names[dir][name]);
		break;
	case 6:
		list(fs, dir);
		break;
	default:
		write_one(fs, names[dir][name]);
		break;
	}
}

static void test_one_after_the_other(void **state)
{
	uint64_t nr_steps = test_effort(400, 3000, 100000);

	(void)state;
	open_users();
	make_dirs();
	for (uint64_t i = 0; i < nr_steps; i++) {
		step(users[below(NR_SESSIONS)].fs);
		for (unsigned j = 0; j < NR_SESSIONS * NR_LOOKS; j++) {
			check_name(j % NR_SESSIONS, (unsigned)below(NR_DIRS),
				   (unsigned)below(NR_NAMES), below(4) == 0);
			check_inode(j % NR_SESSIONS, &inodes[below(NR_INODES)]);
		}
	}
	close_users();
}

/* ---- At once */

struct worker {
	pthread_t thread;
	struct afar_fs *fs;
	unsigned number;
	char failure[128]; /* empty: none */
};

static void complain(struct worker *worker, const char *what, int status)
{
	if (!worker->failure[0])
		snprintf(worker->failure, sizeof(worker->failure), "worker %u: %s: %d (%s)",
			 worker->number, what, status, afar_last_error());
}

static void look_for(struct worker *worker, const char *name, int expected, uint64_t ino)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	int ret = afar_fs_lookup(worker->fs, &superuser, root, name, &stat);

	if (ret != expected)
		complain(worker, expected ? "sees what it has removed" : "does not see its own",
			 ret);
	else if (ret == 0 && stat.ino != ino)
		complain(worker, "sees another inode", 0);
}

/* Numbers of changes never go back for whoever looks. */
static void look_at_root(struct worker *worker, uint64_t *change)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	int ret = afar_fs_getattr(worker->fs, root, &stat);

	if (ret || stat.change < *change)
		complain(worker, "sees the directory go back", ret);
	*change = stat.change;
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	struct afar_file_stat stat = {.size = sizeof(stat)};
	uint64_t change = 0, before;
	char name[32], other[32];

	snprintf(name, sizeof(name), "one.%u", worker->number);
	snprintf(other, sizeof(other), "two.%u", worker->number);
	for (unsigned i = 0; i < NR_ROUNDS && !worker->failure[0]; i++) {
		look_for(worker, name, -ENOENT, 0);
		look_at_root(worker, &change);
		before = change;
		if (afar_fs_make(worker->fs, &superuser, root, name, S_IFREG | 0644, 0, NULL,
				 &stat))
			complain(worker, "cannot make", 0);
		look_for(worker, name, 0, stat.ino);
		look_at_root(worker, &change);
		if (change <= before)
			complain(worker, "does not see its own change", 0);
		if (afar_fs_rename(worker->fs, &superuser, root, name, root, other, 0))
			complain(worker, "cannot rename", 0);
		look_for(worker, name, -ENOENT, 0);
		look_for(worker, other, 0, stat.ino);
		if (afar_fs_unlink(worker->fs, &superuser, root, other))
			complain(worker, "cannot remove", 0);
		look_for(worker, other, -ENOENT, 0);
	}
	return NULL;
}

static void work_at_once(unsigned nr_threads, unsigned nr_sessions)
{
	static struct worker workers[NR_THREADS];

	open_users();
	for (unsigned i = 0; i < nr_threads; i++) {
		workers[i] = (struct worker){.fs = users[i % nr_sessions].fs, .number = i};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < nr_threads; i++)
		pthread_join(workers[i].thread, NULL);
	for (unsigned i = 0; i < nr_threads; i++)
		if (workers[i].failure[0])
			fail_msg("%s", workers[i].failure);
	close_users();
}

/* The directory is delegated to the one session all the time, whose changes change what it knows. */
static void test_in_one_session(void **state)
{
	(void)state;
	work_at_once(1, 1);
	work_at_once(NR_THREADS, 1);
}

static void test_in_two_sessions(void **state)
{
	(void)state;
	work_at_once(NR_THREADS, 2);
}

/* ---- One that is stopped */

static void expect_byte(int fd)
{
	char byte;

	assert_int_equal(read(fd, &byte, 1), 1);
}

/* Has the root delegated all the time, until it is told to look once more. Its exit status is what it sees then. */
static int watch(const char *uri, int asked, int told)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	struct afar_fs_stat fs_stat = {.size = sizeof(fs_stat)};
	struct afar_session *mine;
	struct afar_fs *fs;
	char byte = 0;

	if (afar_session_open(uri, NULL, &mine) || afar_fs_open(mine, "names", NULL, &fs) ||
	    afar_fs_stat(fs, &fs_stat))
		return 3;
	for (unsigned i = 0; i < 2; i++) {
		if (afar_fs_lookup(fs, &superuser, fs_stat.root, "x", &stat) != -ENOENT)
			return 4;
	}
	if (write(told, &byte, 1) != 1 || read(asked, &byte, 1) != 1)
		return 5;
	if (afar_fs_lookup(fs, &superuser, fs_stat.root, "x", &stat))
		return 6;
	return afar_fs_close(fs) || afar_session_close(mine) ? 7 : 0;
}

/* Begins anew, as a program of one thread. */
static void become_watcher(int asked, int told)
{
	char texts[2][16];

	snprintf(texts[0], sizeof(texts[0]), "%d", asked);
	snprintf(texts[1], sizeof(texts[1]), "%d", told);
	execl("/proc/self/exe", "watcher", cluster_uri(cluster), texts[0], texts[1], (char *)NULL);
	_exit(2);
}

static void test_stopped(void **state)
{
	int asked[2], told[2], status;
	pid_t child;

	(void)state;
	open_users();
	assert_int_equal(pipe(asked), 0);
	assert_int_equal(pipe(told), 0);
	child = fork();
	if (child == 0)
		become_watcher(asked[0], told[1]);
	close(told[1]);
	expect_byte(told[0]);
	kill(child, SIGSTOP);
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(WIFSTOPPED(status));
	/* It waits until what the child has has run out. */
	assert_int_equal(
		afar_fs_make(users[0].fs, &superuser, root, "x", S_IFREG | 0644, 0, NULL, NULL), 0);
	kill(child, SIGCONT);
	assert_int_equal(write(asked[1], "x", 1), 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	close(asked[0]);
	close(asked[1]);
	close(told[0]);
	close_users();
}

/* ---- By path */

static int open_path(const struct afar_who *who, uint64_t dir, const char *path, int flags,
		     struct afar_file_stat *stat)
{
	const struct afar_open_options options = {.size = sizeof(options), .mode = 0640};
	struct afar_file *file;
	int ret = afar_file_open_path(users[0].fs, who, dir, path, flags, &options, &file);

	if (ret)
		return ret;
	stat->size = sizeof(*stat);
	assert_int_equal(afar_file_stat(file, stat), 0);
	assert_int_equal(afar_file_close(file), 0);
	return 0;
}

static void test_paths(void **state)
{
	static char name[AFAR_FILE_NAME_MAX + 2], path[AFAR_FILE_PATH_MAX + 2];
	const struct afar_open_options wrong = {.size = sizeof(wrong), .mode = 010000};
	struct afar_file_stat stat, dir = {.size = sizeof(dir)};
	struct afar_file *file;
	uint64_t ino;

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	memset(path, '/', sizeof(path) - 1);
	const struct {
		const struct afar_who *who;
		const char *path;
		int flags, ret;
	} cases[] = {
		{&superuser, "/d/new", O_RDONLY, -ENOENT},
		{&superuser, "/d/new", O_RDWR | O_CREAT | O_EXCL, 0},
		{&superuser, "/d/new", O_RDWR | O_CREAT | O_EXCL, -EEXIST},
		{&superuser, "/d/new", O_RDWR | O_CREAT, 0},
		{&superuser, "d//new", O_RDONLY, 0},
		{&superuser, "d/../d/./new", O_WRONLY, 0},
		{&superuser, "/d/new/", O_RDONLY, -ENOTDIR},
		{&superuser, "/d/link", O_RDONLY | O_CREAT, 0},
		{&superuser, "/d/link", O_RDONLY | O_NOFOLLOW, -EINVAL},
		{&superuser, "/d/nowhere", O_RDONLY, -ENOENT},
		{&superuser, "/d/nowhere", O_RDWR | O_CREAT, -EINVAL},
		{&superuser, "/none/new", O_RDWR | O_CREAT, -ENOENT},
		{&superuser, "/d/new/x", O_RDWR | O_CREAT, -ENOTDIR},
		{&superuser, "/d/other/", O_RDWR | O_CREAT, -EISDIR},
		{&superuser, "/d", O_RDWR | O_CREAT, -EISDIR},
		{&superuser, "/d", O_RDONLY, 0},
		{&superuser, "", O_RDONLY, -ENOENT},
		{&superuser, name, O_RDWR | O_CREAT, -ENAMETOOLONG},
		{&superuser, path, O_RDWR | O_CREAT, -ENAMETOOLONG},
		{&superuser, "/d/tmp", O_RDWR | O_TMPFILE, -EINVAL},
		{&superuser, "/d/new", O_ACCMODE, -EINVAL},
		{&somebody, "/d/new", O_RDONLY, -EACCES},
		{&somebody, "/d/his", O_RDWR | O_CREAT, -EACCES},
	};

	open_users();
	assert_int_equal(
		afar_fs_make(users[1].fs, &superuser, root, "d", S_IFDIR | 0755, 0, NULL, &dir), 0);
	assert_int_equal(afar_fs_make(users[1].fs, &superuser, dir.ino, "link", S_IFLNK | 0777, 0,
				      "new", NULL),
			 0);
	assert_int_equal(afar_fs_make(users[1].fs, &superuser, dir.ino, "nowhere", S_IFLNK | 0777,
				      0, "none", NULL),
			 0);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int ret = open_path(cases[i].who, root, cases[i].path, cases[i].flags, &stat);

		if (ret != cases[i].ret)
			fail_msg("open '%.40s' with 0%o: %d: %s", cases[i].path, cases[i].flags,
				 ret, afar_last_error());
	}
	/* Made with its mode, as a path from the directory leads there, and emptied when that is asked for. */
	assert_int_equal(open_path(&superuser, dir.ino, "new", O_RDONLY, &stat), 0);
	assert_int_equal(stat.mode, S_IFREG | 0640);
	ino = stat.ino;
	assert_int_equal(afar_file_open(users[0].fs, &superuser, ino, O_RDWR, &file), 0);
	assert_int_equal(afar_file_pwrite(file, "bytes", 5, 0), 5);
	assert_int_equal(afar_file_close(file), 0);
	assert_int_equal(open_path(&superuser, dir.ino, "link", O_RDWR | O_CREAT | O_TRUNC, &stat),
			 0);
	assert_true(stat.ino == ino && stat.bytes == 0);
	/* Others see what was made, and without options it has a mode, too. */
	assert_int_equal(afar_file_open_path(users[0].fs, &superuser, root, "plain",
					     O_RDWR | O_CREAT, NULL, &file),
			 0);
	assert_int_equal(afar_file_close(file), 0);
	stat.size = sizeof(stat);
	assert_int_equal(afar_fs_lookup(users[2].fs, &superuser, root, "plain", &stat), 0);
	assert_int_equal(stat.mode, S_IFREG | 0666);
	assert_int_equal(afar_file_open_path(users[0].fs, &superuser, root, "x", O_RDWR | O_CREAT,
					     &wrong, &file),
			 -EINVAL);
	assert_int_equal(
		afar_file_open_path(users[0].fs, &superuser, root, NULL, O_RDONLY, NULL, &file),
		-EINVAL);
	assert_int_equal(
		afar_file_open_path(users[0].fs, &superuser, root, "plain", O_RDONLY, NULL, NULL),
		-EINVAL);
	close_users();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_after_the_other),
		cmocka_unit_test(test_in_one_session),
		cmocka_unit_test(test_in_two_sessions),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_paths),
	};

	if (argc == 4)
		return watch(argv[1], atoi(argv[2]), atoi(argv[3]));
	return cmocka_run_group_tests(tests, start, stop);
}
