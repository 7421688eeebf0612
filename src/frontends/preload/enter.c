/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decides which descriptors go to the servers, and carries their transfers out. The first large transfer on a descriptor, or the
 * 16th, asks the mount which file it is. Then libafar opens the same inode, as the user of the program. Whatever fails, the
 * descriptor stays with the kernel; what the mount then answers is right.
 *
 * Owns sessions, one for each file system, and the lists of devices and inodes that are known.
 */
#include "enter.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "frontends/bypass.h"
#include "library.h"
#include "own.h"
#include "real.h"
#include "signals.h"

#define LARGE_BYTES (64U << 10)
#define NR_SMALL    16U
#define DEVICES_MAX 64U
#define BARRED_MAX  4096U
#define VECTORS_MAX 64
#define END_WAIT_MS 1000
#define PAUSE_NS    100000
#define IS_MOUNT    1
#define IS_NO_MOUNT 2

struct cluster {
	struct cluster *next;
	uint64_t identity;
	struct afar_session *session;
	struct afar_fs *fs;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static struct cluster *clusters;
static struct {
	uint64_t device;
	int is;
} devices[DEVICES_MAX];
static unsigned nr_devices;
static struct {
	uint64_t device, ino;
} barred[BARRED_MAX];
static unsigned nr_barred;
static bool has_exit;

/* ---- Why not, for those who ask */

__attribute__((format(printf, 2, 3))) static void say(int fd, const char *format, ...)
{
	const char *verbose = getenv("AFAR_PRELOAD_VERBOSE");
	char line[512];
	va_list arguments;

	if (!verbose || strcmp(verbose, "1") != 0)
		return;
	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	dprintf(STDERR_FILENO, "afar: note: descriptor %d goes through the mount: %s\n", fd, line);
}

static const char *words_of(int error)
{
	const char *line = library.afar_last_error();

	return *line ? line : library.afar_strerror(error);
}

/* ---- Which files may. With the lock */

static int device_is(uint64_t device)
{
	for (unsigned i = 0; i < nr_devices; i++)
		if (devices[i].device == device)
			return devices[i].is;
	return 0;
}

static void note_device(uint64_t device, int is)
{
	if (device_is(device) || nr_devices == DEVICES_MAX)
		return;
	devices[nr_devices].device = device;
	devices[nr_devices++].is = is;
}

static bool is_barred(uint64_t device, uint64_t ino)
{
	for (unsigned i = 0; i < nr_barred; i++)
		if (barred[i].device == device && barred[i].ino == ino)
			return true;
	return nr_barred == BARRED_MAX;
}

static void bar(uint64_t device, uint64_t ino)
{
	if (is_barred(device, ino))
		return;
	barred[nr_barred].device = device;
	barred[nr_barred++].ino = ino;
}

/* Mounts of FUSE have devices of no driver. */
static bool may_be_mount(int fd, struct stat *stat)
{
	return fstat(fd, stat) == 0 && S_ISREG(stat->st_mode) && major(stat->st_dev) == 0 &&
	       device_is(stat->st_dev) != IS_NO_MOUNT;
}

/* Returns whether the mount has answered. */
static bool ask_mount(int fd, uint64_t device, struct bypass_answer *out)
{
	const int ret = ioctl(fd, BYPASS_ASK, out);
	const bool is_mount = ret == 0 && out->version == BYPASS_VERSION;

	/* Nobody else is known to answer so; but a mount may have no time. */
	if (is_mount || (ret < 0 && (errno == ENOTTY || errno == ENOSYS || errno == EINVAL ||
				     errno == EOPNOTSUPP)))
		note_device(device, is_mount ? IS_MOUNT : IS_NO_MOUNT);
	return is_mount;
}

static bool may_write(int fd, const struct stat *stat)
{
	struct rlimit limit;

	/* The kernel clears these bits when others write, and heeds the limit. */
	if (stat->st_mode & (S_ISUID | S_ISGID)) {
		say(fd, "its file has the setuid or setgid bit, which writing clears");
		return false;
	}
	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur != RLIM_INFINITY) {
		say(fd, "there is a limit of file sizes (ulimit -f)");
		return false;
	}
	return true;
}

/* ---- Sessions. With the lock, inside */

static int open_cluster(const struct bypass_answer *answer, struct cluster *out)
{
	const struct afar_session_options session_options = {
		.size = sizeof(session_options),
		.timeout_ms = answer->timeout_ms,
		.path = *answer->path ? answer->path : NULL,
	};
	struct afar_fs_options options = {
		.size = sizeof(options),
		.retry_ms = answer->retry_ms,
	};
	int ret = library.afar_session_open(answer->uri, &session_options, &out->session);

	if (ret)
		return ret;
	ret = library.afar_fs_open(out->session, answer->fs, &options, &out->fs);
	if (ret == -EACCES) {
		options.flags = AFAR_FS_READ_ONLY;
		ret = library.afar_fs_open(out->session, answer->fs, &options, &out->fs);
	}
	if (!ret && library.afar_fs_identity(out->fs) != answer->identity) {
		library.afar_fs_close(out->fs);
		ret = -ESTALE;
	}
	if (ret)
		library.afar_session_close(out->session);
	return ret;
}

static struct cluster *find_cluster(int fd, const struct bypass_answer *answer)
{
	struct cluster *cluster;
	const char *why = library_load();
	int ret;

	if (why) {
		say(fd, "%s", why);
		return NULL;
	}
	for (cluster = clusters; cluster; cluster = cluster->next)
		if (cluster->identity == answer->identity)
			return cluster;
	cluster = calloc(1, sizeof(*cluster));
	if (!cluster)
		return NULL;
	ret = open_cluster(answer, cluster);
	if (ret) {
		say(fd, "%s", words_of(ret));
		free(cluster);
		return NULL;
	}
	cluster->identity = answer->identity;
	cluster->next = clusters;
	clusters = cluster;
	if (!has_exit)
		has_exit = atexit(enter_end) == 0 && at_quick_exit(enter_end) == 0;
	return cluster;
}

/* ---- Deciding. With the lock, inside */

static struct held *open_held(int fd, int flags, const struct stat *stat,
			      const struct bypass_answer *answer)
{
	struct cluster *cluster = find_cluster(fd, answer);
	struct held *held;
	int ret;

	if (!cluster) {
		for (unsigned i = 0; i < nr_devices; i++)
			if (devices[i].device == stat->st_dev)
				devices[i].is =
					IS_NO_MOUNT; /* it would fail again, and take as long */
		return NULL;
	}
	held = held_new();
	if (!held)
		return NULL;
	held->cluster = cluster;
	held->device = stat->st_dev;
	held->ino = stat->st_ino;
	held->flags = flags;
	ret = library.afar_file_open(cluster->fs, NULL, answer->ino,
				     flags & (O_ACCMODE | O_SYNC | O_DSYNC), &held->file);
	if (ret) {
		say(fd, "%s", words_of(ret));
		held->file = NULL;
		held_drop(held);
		return NULL;
	}
	if ((flags & O_ACCMODE) != O_WRONLY)
		library.afar_file_advise(held->file, AFAR_ADVICE_SEQUENTIAL);
	return held;
}

/* Returns the held with a user for the entry; NULL: the descriptor is the kernel's. */
static struct held *decide(int fd)
{
	static struct bypass_answer answer;
	struct stat stat;
	int flags;

	if (!may_be_mount(fd, &stat) || is_barred(stat.st_dev, stat.st_ino))
		return NULL;
	flags = REAL(fcntl)(fd, F_GETFL);
	if (flags < 0 || flags & (O_PATH | O_APPEND))
		return NULL;
	if (!ask_mount(fd, stat.st_dev, &answer) || !(answer.flags & BYPASS_ALLOWED))
		return NULL;
	if ((flags & O_ACCMODE) != O_RDONLY && !may_write(fd, &stat))
		return NULL;
	answer.path[sizeof(answer.path) - 1] = '\0';
	answer.fs[sizeof(answer.fs) - 1] = '\0';
	answer.uri[sizeof(answer.uri) - 1] = '\0';
	return open_held(fd, flags, &stat, &answer);
}

/* The entry is not 0 meanwhile: another thread that makes the number another file's changes it. */
static void decide_for(int fd, uintptr_t entry)
{
	const uintptr_t mark = (entry + ENTRY_ONE) | ENTRY_COUNT;
	struct own own = own_enter();
	struct held *held;

	/* Somebody else may be at it: this transfer is the kernel's then, and a later one asks again. */
	if (pthread_mutex_trylock(&lock) == 0) {
		held = table_is_on() && table_replace(fd, entry, mark) ? decide(fd) : NULL;
		if (held && !table_replace(fd, mark, (uintptr_t)held))
			held_drop(held);
		else if (!held)
			table_replace(fd, mark, ENTRY_KERNEL);
		pthread_mutex_unlock(&lock);
	}
	own_leave(&own);
}

/* Within, the thread has to be inside: a handler that jumps away would keep the held. */
bool enter_if_held(int fd, struct way *out)
{
	if (own_is_inside || signals_in_handler())
		return false;
	out->own = own_enter();
	out->held = table_take(fd);
	if (out->held)
		return true;
	own_leave(&out->own);
	return false;
}

void enter_leave(const struct way *way)
{
	held_drop(way->held);
	own_leave(&way->own);
}

bool enter(int fd, size_t length, bool is_writing, struct way *out)
{
	uintptr_t entry = table_get(fd);

	if (entry & (ENTRY_KERNEL | ENTRY_LIBRARY) || own_is_inside || signals_in_handler() ||
	    !table_is_on())
		return false;
	if (!entry || entry & ENTRY_COUNT) {
		if (length < LARGE_BYTES && entry / ENTRY_ONE + 1 < NR_SMALL) {
			table_replace(fd, entry, (entry + ENTRY_ONE) | ENTRY_COUNT);
			return false;
		}
		decide_for(fd, entry);
	}
	pthread_testcancel(); /* as the kernel's calls do; inside nobody may cancel */
	if (!enter_if_held(fd, out))
		return false;
	if (!out->held->is_over &&
	    (out->held->flags & O_ACCMODE) != (is_writing ? O_RDONLY : O_WRONLY))
		return true;
	enter_leave(out);
	return false;
}

/* ---- Transfers */

typedef ssize_t (*move_many)(struct afar_file *file, const struct afar_file_vector *vectors,
			     unsigned nr);

/* Moves the pieces in batches. Returns how much was moved; an error only if it was nothing. */
static ssize_t move_batches(struct held *held, move_many move, const struct iovec *iov, int nr,
			    uint64_t offset)
{
	struct afar_file_vector vectors[VECTORS_MAX];
	ssize_t all = 0, moved;
	int at = 0;

	while (at < nr) {
		size_t wanted = 0;
		unsigned in_batch = 0;

		for (; at < nr && in_batch < VECTORS_MAX; at++) {
			if (iov[at].iov_len == 0)
				continue;
			vectors[in_batch++] = (struct afar_file_vector){
				offset + wanted, iov[at].iov_base, iov[at].iov_len};
			wanted += iov[at].iov_len;
		}
		moved = in_batch ? move(held->file, vectors, in_batch) : 0;
		if (moved < 0)
			return all ? all : moved;
		all += moved;
		offset += (uint64_t)moved;
		if ((size_t)moved < wanted)
			break;
	}
	return all;
}

/* Whatever is wrong, the mount says it as it is, or waits. */
ssize_t enter_read(struct held *held, const struct iovec *iov, int nr, uint64_t offset)
{
	ssize_t ret;

	if (nr == 1)
		ret = library.afar_file_pread(held->file, iov->iov_base, iov->iov_len, offset);
	else
		ret = move_batches(held, library.afar_file_readx, iov, nr, offset);
	if (ret >= 0)
		return ret;
	held->is_over = true;
	return ENTER_KERNEL;
}

/* Returns whether nothing of a write that failed so can reach the file any more. */
static bool has_done_nothing(ssize_t error)
{
	switch (-error) {
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
	case EROFS:
	case EACCES:
	case ESTALE:
	case AFAR_ESESSION:
		return true;
	default:
		return false;
	}
}

ssize_t enter_write(struct held *held, const struct iovec *iov, int nr, uint64_t offset)
{
	ssize_t ret;

	held->is_written = true;
	if (nr == 1)
		ret = library.afar_file_pwrite(held->file, iov->iov_base, iov->iov_len, offset);
	else
		ret = move_batches(held, library.afar_file_writex, iov, nr, offset);
	if (ret >= 0)
		return ret;
	held->is_over = true;
	return has_done_nothing(ret) ? ENTER_KERNEL : ENTER_ERROR;
}

int enter_sync(struct held *held)
{
	return held->is_written && library.afar_file_sync(held->file) ? ENTER_ERROR : 0;
}

int enter_flush(struct held *held)
{
	return held->is_written && library.afar_file_flush(held->file) ? ENTER_ERROR : 0;
}

/* A file that was written is closed at once: the next who opens it would wait for that. */
void enter_end_held(struct held *held)
{
	struct own own = own_enter();

	if (held->file && held->is_written)
		library.afar_file_close(held->file);
	else if (held->file)
		library.afar_file_close_later(held->file);
	held->file = NULL;
	own_leave(&own);
}

/* ---- Ending */

static void pause_briefly(void)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};

	nanosleep(&pause, NULL);
}

static void forget(const struct held *held)
{
	for (int fd = 0; fd < table_end(); fd++)
		if (table_get(fd) == (uintptr_t)held)
			table_replace(fd, (uintptr_t)held, ENTRY_KERNEL);
}

/* The caller keeps it, and nobody else does in the end. `tries` 0: no limit. */
static void end_one(struct held *held, unsigned tries)
{
	held->is_over = true;
	held_drop_forgotten(held);
	for (unsigned i = 1; held->users > 1; i++) {
		forget(held);
		if (held->users == 1 || i == tries)
			break;
		pause_briefly();
	}
}

static void end_if_same(struct held *held, void *argument)
{
	const struct stat *stat = argument;

	if (held->device == stat->st_dev && held->ino == stat->st_ino)
		end_one(held, 0);
}

void enter_bar(int fd)
{
	static struct bypass_answer answer;
	struct own own;
	struct stat stat;

	if (own_is_inside || signals_in_handler() || !table_is_on())
		return;
	own = own_enter();
	pthread_mutex_lock(&lock);
	if (may_be_mount(fd, &stat) &&
	    (device_is(stat.st_dev) == IS_MOUNT || ask_mount(fd, stat.st_dev, &answer))) {
		bar(stat.st_dev, stat.st_ino);
		held_for_each(end_if_same, &stat);
	}
	pthread_mutex_unlock(&lock);
	own_leave(&own);
}

static void end_any(struct held *held, void *argument)
{
	(void)argument;
	end_one(held, END_WAIT_MS * 1000000 / PAUSE_NS);
}

/* Sessions of files that some thread still uses are left to the kernel. */
void enter_end(void)
{
	struct own own;
	struct cluster *cluster;

	if (own_is_inside || signals_in_handler() || !table_set_on(false))
		return;
	own = own_enter();
	pthread_mutex_lock(&lock);
	held_for_each(end_any, NULL);
	while ((cluster = clusters)) {
		clusters = cluster->next;
		if (library.afar_fs_close(cluster->fs) == 0)
			library.afar_session_close(cluster->session);
		free(cluster);
	}
	pthread_mutex_unlock(&lock);
	own_leave(&own);
}
