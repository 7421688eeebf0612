/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program of one mount: `afar mount` and mount(8) (as mount.afar) become it. It looks whether all
 * is as it must be, goes into the background, opens the file system and mounts it. Then it answers
 * the kernel until it is unmounted or told to end.
 *
 * Sessions do not survive a fork, so the fork comes first. The process that was started waits for
 * one word or one line of the other, and ends with its status.
 */
#include "mount.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "gone.h"
#include "locks.h"
#include "pages.h"
#include "place.h"
#include "say.h"
#include "session.h"

#define INTERRUPTED 130
#define BACKGROUND_MAX \
	256 /* reads ahead and the like that the kernel has under way; some may wait for a server */
#define WAITING_MAX 224U /* programs that wait for servers that are away, besides others */
#define READY	    '\n'

/* ---- The file system */

/* Finds the directory of it that is to be shown. Returns EXIT_FAILED with a line if it is none. */
static int find_root(struct mount *mount)
{
	const struct mount_options *options = mount->options;
	struct afar_file_stat stat = {.size = sizeof(stat)};
	int ret;

	if (!options->subdir)
		return 0;
	ret = afar_fs_walk(mount->fs, NULL, mount->root, options->subdir, 0, 0, &stat);
	if (ret)
		return say_failed("%s: find the directory %s of it: %s", options->asked,
				  options->subdir, afar_strerror(ret));
	if (!S_ISDIR(stat.mode))
		return say_failed("%s: %s is no directory there", options->asked, options->subdir);
	mount->root = stat.ino;
	return 0;
}

/* Looks whether the key may use files for whoever starts this; else all that the mount shows would be refused. A mount for all users also
 * needs it for others, and says what it lacks: that some can use it may be what is wanted. */
static int check_key(const struct mount *mount)
{
	const struct mount_options *options = mount->options;
	struct afar_who other = {.size = sizeof(other), .uid = geteuid() + 1, .gid = getegid() + 1};
	struct afar_file_stat stat = {.size = sizeof(stat)};
	int ret = afar_fs_walk(mount->fs, NULL, mount->root, "/", 0, 0, &stat);

	if (ret == -EACCES && options->is_for_others) {
		say_note("%s: %s; only users whom the key is for can do something there",
			 options->asked, afar_last_error());
		return 0;
	}
	if (!ret && options->is_for_others &&
	    afar_fs_walk(mount->fs, &other, mount->root, "/", 0, 0, &stat) == -EACCES)
		say_note("%s: its key is for uid %u alone, so other users can do nothing there; an "
			 "operator can add one for all with 'afar key add --any-uid'",
			 options->asked, (unsigned)geteuid());
	return ret;
}

static int open_all(struct mount *mount)
{
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	int ret = session_begin(mount);

	if (ret == -EDESTADDRREQ)
		return say_failed("%s: no cluster is named, and none runs on this machine; write "
				  "afar://HOST/%s, or set AFAR_CLUSTER",
				  mount->options->asked, mount->options->fs);
	if (!ret)
		ret = afar_fs_stat(mount->fs, &stat);
	mount->root = stat.root;
	if (!ret)
		ret = check_key(mount);
	if (ret)
		return say_failed("%s: %s", mount->options->asked,
				  *afar_last_error() ? afar_last_error() : afar_strerror(ret));
	return find_root(mount);
}

/* ---- libfuse */

static void set_up_connection(void *userdata, struct fuse_conn_info *connection)
{
	const struct mount *mount = userdata;
	/* Names and attributes that come with a listing are of use only if they may be old. */
	const unsigned plus = FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO;

	connection->want |= connection->capable &
			    (FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_AUTO_INVAL_DATA |
			     FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS);
	/* A handle names an inode wherever it is: a mount of a subdirectory would show what is outside of it. */
	if (!mount->options->subdir)
		connection->want |= connection->capable & FUSE_CAP_EXPORT_SUPPORT;
	/* The kernel drops setuid and setgid by itself then. Splicing through pipes is slower than the
	 * one copy that it saves, as our data goes to a socket or a card. */
	connection->want &=
		~(unsigned)(FUSE_CAP_HANDLE_KILLPRIV | FUSE_CAP_WRITEBACK_CACHE |
			    FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
	if (mount->options->age_s > 0)
		connection->want |= connection->capable & plus;
	else
		connection->want &= ~plus;
	/* The kernel's own, among the programs of this mount. */
	if (mount->options->are_locks_local)
		connection->want &= ~(unsigned)(FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS);
	connection->max_write = REQUEST_MAX;
	connection->max_readahead = REQUEST_MAX; /* as device_read_ahead() asks for */
	connection->max_background = BACKGROUND_MAX;
	connection->congestion_threshold = BACKGROUND_MAX * 3 / 4;
	connection->time_gran = 1;
}

/* No page is ever invalidated from inside a request: the kernel's answer may wait for a page whose reader waits for us. */
static const struct fuse_lowlevel_ops operations = {
	.init = set_up_connection,
	.lookup = do_lookup,
	.forget = do_forget,
	.forget_multi = do_forget_multi,
	.readlink = do_readlink,
	.mknod = do_mknod,
	.mkdir = do_mkdir,
	.unlink = do_unlink,
	.rmdir = do_rmdir,
	.symlink = do_symlink,
	.rename = do_rename,
	.link = do_link,
	.getattr = do_getattr,
	.setattr = do_setattr,
	.statfs = do_statfs,
	.setxattr = do_setxattr,
	.getxattr = do_getxattr,
	.listxattr = do_listxattr,
	.removexattr = do_removexattr,
	.opendir = do_opendir,
	.readdir = do_readdir,
	.readdirplus = do_readdirplus,
	.releasedir = do_releasedir,
	.fsyncdir = do_fsyncdir,
	.create = do_create,
#ifdef HAS_FUSE_TMPFILE
	.tmpfile = do_tmpfile,
#endif
	.open = do_open,
	.read = do_read,
	.write = do_write,
	.flush = do_flush,
	.fsync = do_fsync,
	.release = do_release,
	.fallocate = do_fallocate,
	.lseek = do_lseek,
	.getlk = do_getlk,
	.setlk = do_setlk,
	.flock = do_flock,
	.ioctl = do_ioctl,
};

static struct fuse_session *new_session(struct mount *mount)
{
	char *words[] = {"afar", "-o", mount->options->fuse, NULL};
	struct fuse_args arguments = FUSE_ARGS_INIT(3, words);
	struct fuse_session *session;

	session = fuse_session_new(&arguments, &operations, sizeof(operations), mount);
	fuse_opt_free_args(&arguments);
	return session;
}

/* Mounts. The words of fusermount3 on standard error become the end of our own line. */
static int mount_session(const struct mount *mount, struct fuse_session *session)
{
	const struct mount_options *options = mount->options;
	FILE *said = tmpfile();
	const int before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	char line[256] = "";
	const char *why = line;
	int ret;

	if (said)
		dup2(fileno(said), STDERR_FILENO);
	ret = fuse_session_mount(session, options->place);
	if (before >= 0) {
		dup2(before, STDERR_FILENO);
		close(before);
	}
	if (said) {
		rewind(said);
		if (!fgets(line, sizeof(line), said))
			line[0] = '\0';
		fclose(said);
	}
	if (!ret)
		return 0;
	line[strcspn(line, "\n")] = '\0';
	if (!*line)
		why = *say_kept() ? say_kept() : "the kernel refuses it";
	return say_failed("%s: %s", options->asked, why);
}

static int run_loop(const struct mount *mount, struct fuse_session *session)
{
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	int ret;

	if (!config)
		return -ENOMEM;
	/* Programs that wait for a server that is away have a thread each, and must not take all. */
	fuse_loop_cfg_set_max_threads(config, mount->options->nr_threads + WAITING_MAX);
	/* Threads stay: each has a buffer, and making one takes longer than a request. */
	fuse_loop_cfg_set_idle_threads(config, mount->options->nr_threads);
	ret = fuse_session_loop_mt(session, config);
	fuse_loop_cfg_destroy(config);
	return ret;
}

/* ---- One mount, from its beginning to its end */

/* Tells the process that was started that it can go. `*fd` is closed. */
static void tell_ready(int *fd)
{
	const char word = READY;
	ssize_t written;

	if (*fd < 0)
		return;
	written = write(*fd, &word, 1);
	(void)written;
	close(*fd);
	*fd = -1;
}

/* Leaves the folder, the terminal and the descriptors of whoever started us. */
static void leave(void)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	say_to_log();
	setsid();
	if (nothing < 0)
		return;
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		dup2(nothing, fd);
	close(nothing);
}

/* A sync of any file covers all that was written through its file system. */
static int sync_all(struct mount *mount)
{
	struct afar_file *root;
	int ret = mount->fs && !mount->options->is_read_only
			  ? afar_file_open(mount->fs, NULL, mount->root, O_RDONLY, &root)
			  : -EACCES;

	if (ret)
		return 0; /* whoever may not even read it has written nothing */
	ret = afar_file_sync(root);
	afar_file_close(root);
	return ret;
}

static int end_all(struct mount *mount)
{
	int ret = files_end(), synced = sync_all(mount);

	ret = ret ? ret : synced;

	if (ret)
		say_failed("%s: at its end: %s", mount->options->asked,
			   *afar_last_error() ? afar_last_error() : afar_strerror(ret));
	session_end(mount);
	return ret ? EXIT_FAILED : 0;
}

/* `ready_fd` -1: in the foreground. */
static int serve(const struct mount_options *options, int ready_fd)
{
	struct mount mount = {.options = options};
	struct fuse_session *session;
	bool is_free = true;
	int ret, end;

	ret = open_all(&mount);
	if (ret)
		goto out_close;
	ret = EXIT_FAILED;
	session = new_session(&mount);
	mount.fuse = session;
	if (!session) {
		say_failed("%s: libfuse: %s", options->asked, say_kept());
		goto out_close;
	}
	if (fuse_set_signal_handlers(session)) {
		say_failed("%s: catch signals: %s", options->asked, say_kept());
		goto out_session;
	}
	if (mount_session(&mount, session))
		goto out_signals;
	say_keep_no_more();
	device_listen(options->place, fuse_session_fd(session));
	device_read_ahead(options->place);
	if (chdir("/"))
		say_note("%s: go to the root folder: %s", options->asked, strerror(errno));
	if (ready_fd >= 0) {
		leave();
		tell_ready(&ready_fd);
	}
	gone_begin(&mount);
	ret = run_loop(&mount, session);
	if (ret < 0)
		ret = say_failed("%s: read requests: %s", options->asked, strerror(-ret));
	else
		ret = 0; /* a signal that ends it ends it well */
	locks_end();
	device_leave(); /* before its descriptor is closed */
	fuse_session_unmount(session);
	is_free = gone_end();
	is_free = pages_end() && is_free;
out_signals:
	fuse_remove_signal_handlers(session);
out_session:
	if (is_free)
		fuse_session_destroy(session);
out_close:
	end = end_all(&mount);
	return ret ? ret : end;
}

/* Waits until the other process has mounted or has failed, and passes its line on. */
static int wait_for(const struct mount_options *options, pid_t pid, int fd)
{
	char word;
	ssize_t nr;
	int status;

	do
		nr = read(fd, &word, 1);
	while (nr < 0 && errno == EINTR);
	if (nr == 1)
		return 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status))
		return WEXITSTATUS(status); /* it has said why */
	if (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGTERM)
		return INTERRUPTED;
	return say_failed("%s: its process was ended by signal %d", options->asked,
			  WTERMSIG(status));
}

/* The child keeps the terminal until it is ready: an interrupt ends both. */
static int serve_in_background(const struct mount_options *options)
{
	int ready[2];
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC))
		return say_failed("%s: make a pipe: %s", options->asked, strerror(errno));
	pid = fork();
	if (pid < 0)
		return say_failed("%s: start its process: %s", options->asked, strerror(errno));
	if (pid == 0) {
		close(ready[0]);
		exit(serve(options, ready[1]));
	}
	close(ready[1]);
	return wait_for(options, pid, ready[0]);
}

int main(int argc, char **argv)
{
	static struct mount_options options;
	bool is_done;
	int ret = options_parse(argc, argv, &options, &is_done);

	if (ret || is_done)
		return ret;
	/* One name, also if mount(8) called us by its own. */
	prctl(PR_SET_NAME, "afar-mount");
	if (options.is_remount)
		return place_remount(&options);
	ret = place_prepare(&options);
	if (ret)
		return ret;
	return options.is_foreground ? serve(&options, -1) : serve_in_background(&options);
}
