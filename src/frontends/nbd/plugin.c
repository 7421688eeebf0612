/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The nbdkit plugin: lends one volume to NBD clients, `nbdkit afar VOLUME`. The protocol is
 * nbdkit's, which calls this file from many threads at once. Each request is one blocking call of
 * the library.
 *
 * All connections share one session and one handle of the volume. So a flush on one of them covers
 * what was written on all, and clients may have several (multi-conn).
 *
 * Sessions do not survive a fork, and nbdkit forks between get_ready() and after_fork() unless it
 * stays in the foreground. So get_ready() opens the volume and closes it again, because a refusal
 * can still be shown then. Then after_fork() opens it for good, and ending.c closes it.
 */
#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <afar/afar.h>
#include <afar/volume.h>

#include "ending.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

#define RETRY_MAX_S   (UINT32_MAX / 1000)
#define TIMEOUT_MAX_S 86400U
#define REQUEST_MAX   (32U << 20) /* nbdkit takes no more of a write than 64 MiB */

/* From the command line. The texts are nbdkit's, and stay valid. */
static struct {
	const char *volume, *cluster, *key_file, *path;
	uint32_t mode; /* enum afar_volume_mode */
	bool takes_over;
	uint64_t replaces; /* the number of a session; 0: none */
	const char *mark;  /* of that one's handle; NULL: none */
	unsigned retry_s;
	unsigned timeout_s;
	uint64_t log_bytes;
	int ready_fd; /* -1: none */
	int folder;   /* where nbdkit was started: relative names are meant from there */
} settings = {.mode = AFAR_VOLUME_EXCLUSIVE, .ready_fd = -1, .folder = -1};

static struct {
	struct afar_session *session; /* NULL: not open */
	struct afar_volume *volume;
	bool is_flash;
	_Atomic uint64_t bytes; /* when it was looked at last */
	atomic_bool is_over;	/* the session has ended, for good */
	/* The handle before this one may have lost what its clients had not flushed. The next flush says so. */
	atomic_bool owes_unsynced;
	/* A loss was found, and no sync has gone well since. The answer may never reach a client, so whoever follows us has
	 * to find it, too. */
	atomic_bool has_loss;
	/* Meanwhile the mark may be of after a loss that is not in `has_loss` yet. */
	atomic_uint nr_syncing;
	pthread_mutex_t telling; /* guards `told`, and the order in which marks are told */
	char *told;		 /* the mark that was told last */
} lent = {.telling = PTHREAD_MUTEX_INITIALIZER};

/* ---- Failing */

/* Says the library's line about the call that failed with `error`. */
static void say(int error)
{
	const char *line = afar_last_error();

	nbdkit_error("%s", *line ? line : afar_strerror(error));
}

/* Gives the errno that tells an NBD client most. NBD knows few; nbdkit makes others EINVAL, which
 * would blame the client. */
static int errno_for_client(int error)
{
	switch (error) {
	case -EACCES:
	case -EPERM:
	case -EROFS:
		return EPERM;
	case -ENOSPC:
	case -EDQUOT:
		return ENOSPC;
	case -EINVAL:
	case -ERANGE:
		return EINVAL;
	case -ENOMEM:
		return ENOMEM;
	default:
		return EIO;
	}
}

/* Tells whoever started us. If nobody listens, nothing is lost. */
static void tell(const char *line)
{
	ssize_t written;

	if (settings.ready_fd < 0)
		return;
	written = write(settings.ready_fd, line, strlen(line));
	(void)written;
}

/* Tells what whoever follows us has to know of the volume, if that is news. */
static void tell_mark(void)
{
	char *mark = NULL, *line;

	if (settings.ready_fd < 0)
		return;
	pthread_mutex_lock(&lent.telling);
	if (afar_volume_mark(lent.volume, &mark) == 0 && lent.nr_syncing == 0 && !lent.has_loss &&
	    (!lent.told || strcmp(lent.told, mark) != 0) &&
	    asprintf(&line, "mark %s\n", mark) >= 0) {
		tell(line);
		free(line);
		free(lent.told);
		lent.told = mark;
		mark = NULL;
	}
	free(mark);
	pthread_mutex_unlock(&lent.telling);
}

/* The session has ended, or the volume is another one: nothing can be done here any more. */
static void note_over(int error)
{
	if (!atomic_exchange(&lent.is_over, true))
		tell(error == -ESTALE ? "another\n" : "over\n");
	ending_ask();
}

static int fail(int error)
{
	say(error);
	nbdkit_set_error(errno_for_client(error));
	if (error == -AFAR_ESESSION || error == -ESTALE)
		note_over(error);
	return -1;
}

/* Begins a request. False: the volume is being closed. */
static bool begin(void)
{
	if (ending_enter())
		return true;
	nbdkit_set_error(ESHUTDOWN);
	return false;
}

/* Ends a request: returns 0, or says why it failed and returns -1. */
static int answer(int64_t result)
{
	int ret = result < 0 ? fail((int)result) : 0;

	ending_leave();
	return ret;
}

/* ---- The command line */

static int config_mode(const char *value)
{
	static const char *const words[] = {
		[AFAR_VOLUME_EXCLUSIVE] = "exclusive",
		[AFAR_VOLUME_SHARED] = "shared",
		[AFAR_VOLUME_READ_ONLY] = "read-only",
	};

	for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(value, words[i]) == 0) {
			settings.mode = i;
			return 0;
		}
	}
	nbdkit_error("mode=%s: there is no such mode; use exclusive, shared or read-only", value);
	return -1;
}

static int config_seconds(const char *key, const char *value, unsigned min, unsigned max,
			  unsigned *out)
{
	unsigned seconds;

	if (nbdkit_parse_unsigned(key, value, &seconds))
		return -1;
	if (seconds < min || seconds > max) {
		nbdkit_error("%s=%s: give a number of seconds from %u to %u", key, value, min, max);
		return -1;
	}
	*out = seconds;
	return 0;
}

static int config_take_over(const char *value)
{
	int is_true = nbdkit_parse_bool(value);

	settings.takes_over = is_true == 1;
	return is_true < 0 ? -1 : 0;
}

static int config_replaces(const char *value)
{
	char *end;

	errno = 0;
	settings.replaces = strtoull(value, &end, 16);
	if (*value && !*end && errno == 0)
		return 0;
	nbdkit_error("replaces=%s: give the number of a session, as afar status shows it", value);
	return -1;
}

static int config_log(const char *value)
{
	int64_t bytes = nbdkit_parse_size(value);

	settings.log_bytes = bytes < 0 ? 0 : (uint64_t)bytes;
	return bytes < 0 ? -1 : 0;
}

static int config_ready_fd(const char *value)
{
	if (nbdkit_parse_int("ready-fd", value, &settings.ready_fd))
		return -1;
	if (settings.ready_fd < 0 || fcntl(settings.ready_fd, F_SETFD, FD_CLOEXEC) < 0) {
		nbdkit_error("ready-fd=%s: it is not open; give the number of an open descriptor",
			     value);
		return -1;
	}
	return 0;
}

static int plugin_config(const char *key, const char *value)
{
	const struct {
		const char *key;
		const char **value;
	} texts[] = {
		{"volume", &settings.volume}, {"cluster", &settings.cluster},
		{"key", &settings.key_file},  {"path", &settings.path},
		{"mark", &settings.mark},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (strcmp(key, texts[i].key) == 0) {
			*texts[i].value = value;
			return 0;
		}
	}
	if (strcmp(key, "mode") == 0)
		return config_mode(value);
	if (strcmp(key, "take-over") == 0)
		return config_take_over(value);
	if (strcmp(key, "replaces") == 0)
		return config_replaces(value);
	if (strcmp(key, "retry") == 0)
		return config_seconds(key, value, 0, RETRY_MAX_S, &settings.retry_s);
	if (strcmp(key, "timeout") == 0)
		return config_seconds(key, value, 1, TIMEOUT_MAX_S, &settings.timeout_s);
	if (strcmp(key, "log") == 0)
		return config_log(value);
	if (strcmp(key, "ready-fd") == 0)
		return config_ready_fd(value);
	nbdkit_error("%s=%s: there is no such parameter; nbdkit afar --help lists them", key,
		     value);
	return -1;
}

static int plugin_config_complete(void)
{
	if (!settings.volume || !*settings.volume) {
		nbdkit_error("no volume is named; give volume=NAME, or NAME alone");
		return -1;
	}
	if (strlen(settings.volume) > AFAR_NAME_MAX) {
		nbdkit_error("volume=%.64s…: the name is too long; names have at most %d bytes",
			     settings.volume, AFAR_NAME_MAX);
		return -1;
	}
	return 0;
}

#define CONFIG_HELP                                                                           \
	"volume=NAME              (required) The volume. \"volume=\" may be left out.\n"      \
	"cluster=URI              Its cluster (default: $AFAR_CLUSTER, else ./afar-data).\n"  \
	"key=FILE                 The key to open the cluster with.\n"                        \
	"mode=exclusive|shared|read-only   What others may do meanwhile (default exclusive: " \
	"read).\n"                                                                            \
	"take-over=true           End the sessions of those who are in the way.\n"            \
	"replaces=SESSION         End this one of yours first, if it has the volume open.\n"  \
	"mark=MARK                What that one's nbdkit told last of the volume.\n"          \
	"retry=SECONDS            On flash, wait so long for a server that is away (default " \
	"0).\n"                                                                               \
	"log=SIZE                 Of changes kept to be written again (default 64M).\n"       \
	"path=TRANSPORT           The only one to reach servers over.\n"                      \
	"timeout=SECONDS          How long a call may take (default 30).\n"                   \
	"ready-fd=FD              Write \"ready\" there once, and \"synced\" at a good end."

static void plugin_dump(void)
{
	printf("afar_volume_modes=exclusive,shared,read-only\n");
	printf("afar_request_max=%u\n", REQUEST_MAX);
}

/* ---- Opening and closing */

static int open_session(void)
{
	const struct afar_session_options options = {
		.size = sizeof(options),
		.key_file = settings.key_file,
		.timeout_ms = settings.timeout_s * 1000,
		.path = settings.path,
	};

	return afar_session_open(settings.cluster, &options, &lent.session);
}

static int open_volume(void)
{
	const struct afar_volume_options options = {
		.size = sizeof(options),
		.mode = settings.mode,
		.flags = settings.takes_over ? AFAR_VOLUME_TAKE_OVER : 0,
		.retry_ms = settings.retry_s * 1000,
		.log_bytes = settings.log_bytes,
		.replaces = settings.replaces,
		.mark = settings.mark,
	};
	struct afar_volume_stat stat = {.size = sizeof(stat)};
	int ret;

	ret = afar_volume_open(lent.session, settings.volume, &options, &lent.volume);
	if (ret)
		return ret;
	ret = afar_volume_stat(lent.volume, &stat);
	lent.is_flash = stat.tier == AFAR_TIER_FLASH;
	lent.bytes = stat.bytes;
	return ret;
}

static void close_all(void)
{
	if (lent.volume)
		afar_volume_close(lent.volume);
	if (lent.session)
		afar_session_close(lent.session);
	lent.volume = NULL;
	lent.session = NULL;
}

/* Tells which session is to be replaced if we die. */
static int tell_session(void)
{
	struct afar_session_stat stat = {.size = sizeof(stat)};
	char line[32];
	int ret = afar_session_stat(lent.session, &stat);

	if (ret)
		return ret;
	snprintf(line, sizeof(line), "session %" PRIx64 "\n", stat.number);
	tell(line);
	return 0;
}

/* Writes that the session before had answered are on the servers, and need not be durable. They are in no log
 * any more: if a server has lost some, or does so from now on, a flush has to say so. */
static int settle(void)
{
	int ret = settings.replaces != 0 && settings.mode != AFAR_VOLUME_READ_ONLY
			  ? afar_volume_sync(lent.volume)
			  : 0;

	if (ret && ret != -AFAR_EUNSYNCED)
		return ret;
	if (ret && !lent.has_loss)
		say(ret);
	lent.owes_unsynced = lent.has_loss = ret != 0;
	tell_mark();
	return 0;
}

static int open_all(void)
{
	int ret = open_session();

	if (!ret)
		ret = open_volume();
	if (!ret)
		ret = tell_session();
	if (!ret)
		ret = settle();
	if (!ret)
		return 0;
	if (ret == -ESTALE)
		tell("another\n");
	say(ret);
	close_all();
	return -1;
}

static int plugin_get_ready(void)
{
	settings.folder = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (open_all())
		return -1;
	close_all();
	return 0;
}

/* Has all made durable that was answered. Tells once of what may be lost. */
static int sync_volume(void)
{
	bool had_loss = lent.has_loss;
	int ret;

	lent.nr_syncing++;
	ret = afar_volume_sync(lent.volume);
	if (ret == 0 && atomic_exchange(&lent.owes_unsynced, false))
		ret = -AFAR_EUNSYNCED;
	else if (ret == -AFAR_EUNSYNCED)
		lent.has_loss = true;
	else if (ret == 0 && had_loss) /* and that was not found by another sync meanwhile */
		lent.has_loss = false;
	lent.nr_syncing--;
	tell_mark();
	return ret;
}

/* ---- Ending */

static bool is_over(void)
{
	struct afar_session_stat stat = {.size = sizeof(stat)};
	struct afar_volume_stat volume = {.size = sizeof(volume)};

	if (afar_session_stat(lent.session, &stat) == 0 && stat.has_ended)
		note_over(afar_volume_stat(lent.volume, &volume)); /* which tells why */
	tell_mark(); /* a server may have restarted, and all is durable there again */
	return lent.is_over;
}

/* Syncs and closes. Called by ending.c. */
static int conclude(void)
{
	int ret = 0;

	if (!lent.is_over && settings.mode != AFAR_VOLUME_READ_ONLY)
		ret = sync_volume();
	if (ret)
		say(ret);
	close_all();
	if (ret || lent.is_over)
		return EXIT_FAILURE;
	tell("synced\n");
	return EXIT_SUCCESS;
}

/* All connections are closed, and no thread is in a call. */
static void plugin_cleanup(void)
{
	ending_wait();
}

/* nbdkit has gone to the root folder if it went to the background. */
static int open_from_there(void)
{
	int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int ret;

	if (settings.folder >= 0 && fchdir(settings.folder))
		nbdkit_debug("go to the folder where nbdkit was started: %s", strerror(errno));
	ret = open_all();
	if (here >= 0 && fchdir(here))
		nbdkit_debug("go back to the root folder: %s", strerror(errno));
	if (here >= 0)
		close(here);
	return ret;
}

static int plugin_after_fork(void)
{
	const struct ending ending = {.is_over = is_over, .conclude = conclude};
	int ret;

	if (open_from_there())
		return -1;
	ret = ending_start(&ending);
	if (ret) {
		nbdkit_error("start a thread: %s; raise the limit of threads and open files",
			     strerror(ret));
		close_all();
		return -1;
	}
	tell("ready\n");
	return 0;
}

/* ---- Connections: what each is told of the volume */

static void *plugin_open(int is_read_only)
{
	(void)is_read_only;
	return NBDKIT_HANDLE_NOT_NEEDED;
}

/* Every new connection sees a volume that has grown in its new size. While the manager is away, it
 * gets the size that the last one got: reads and writes go on then. */
static int64_t plugin_get_size(void *unused)
{
	struct afar_volume_stat stat = {.size = sizeof(stat)};
	int ret;

	(void)unused;
	if (!begin())
		return -1;
	ret = afar_volume_stat(lent.volume, &stat);
	if (ret == -AFAR_ESESSION || ret == -ESTALE)
		return answer(ret);
	if (ret)
		say(ret);
	else
		lent.bytes = stat.bytes;
	if (!ret)
		tell_mark(); /* it may have grown onto other stores */
	ending_leave();
	return (int64_t)lent.bytes;
}

static int can_write(void *unused)
{
	(void)unused;
	return settings.mode != AFAR_VOLUME_READ_ONLY;
}

static int can_always(void *unused)
{
	(void)unused;
	return 1;
}

static int never(void *unused)
{
	(void)unused;
	return 0;
}

static int can_fua(void *unused)
{
	(void)unused;
	return NBDKIT_FUA_NATIVE;
}

/* In memory a trim leaves all as it was, so clients need not send any. */
static int can_trim(void *unused)
{
	(void)unused;
	return lent.is_flash;
}

static int block_size(void *unused, uint32_t *minimum, uint32_t *preferred, uint32_t *maximum)
{
	(void)unused;
	*minimum = 1;
	*preferred = AFAR_VOLUME_BLOCK;
	*maximum = REQUEST_MAX;
	return 0;
}

static const char *export_description(void *unused)
{
	(void)unused;
	return nbdkit_printf_intern("Afar volume %s on %s", settings.volume,
				    lent.is_flash ? "flash" : "dram");
}

/* ---- Requests */

static unsigned durable_if(uint32_t flags)
{
	return flags & NBDKIT_FLAG_FUA ? AFAR_OP_DURABLE : 0;
}

static int plugin_pread(void *unused, void *data, uint32_t length, uint64_t offset, uint32_t flags)
{
	(void)unused;
	(void)flags;
	return begin() ? answer(afar_volume_pread(lent.volume, data, length, offset)) : -1;
}

static int plugin_pwrite(void *unused, const void *data, uint32_t length, uint64_t offset,
			 uint32_t flags)
{
	(void)unused;
	return begin() ? answer(afar_volume_pwrite(lent.volume, data, length, offset,
						   durable_if(flags)))
		       : -1;
}

static int plugin_flush(void *unused, uint32_t flags)
{
	(void)unused;
	(void)flags;
	return begin() ? answer(sync_volume()) : -1;
}

static int plugin_trim(void *unused, uint32_t length, uint64_t offset, uint32_t flags)
{
	(void)unused;
	return begin() ? answer(afar_volume_trim(lent.volume, offset, length, durable_if(flags)))
		       : -1;
}

/* A client's wish for a hole (NBDKIT_FLAG_MAY_TRIM) makes no difference: on flash a zeroed block
 * takes no room, in memory it always does. */
static int plugin_zero(void *unused, uint32_t length, uint64_t offset, uint32_t flags)
{
	(void)unused;
	return begin() ? answer(afar_volume_zero(lent.volume, offset, length, durable_if(flags)))
		       : -1;
}

static struct nbdkit_plugin plugin = {
	.name = "afar",
	.longname = "Afar volumes",
	.version = AFAR_PLUGIN_VERSION,
	.description = "lends a volume of an Afar cluster to NBD clients",
	.config = plugin_config,
	.config_complete = plugin_config_complete,
	.config_help = CONFIG_HELP,
	.magic_config_key = "volume",
	.dump_plugin = plugin_dump,
	.get_ready = plugin_get_ready,
	.after_fork = plugin_after_fork,
	.cleanup = plugin_cleanup,
	.open = plugin_open,
	.export_description = export_description,
	.get_size = plugin_get_size,
	.block_size = block_size,
	.can_write = can_write,
	.can_flush = can_always,
	.can_fua = can_fua,
	.can_multi_conn = can_always,
	.can_trim = can_trim,
	.can_zero = can_always,
	/* Zeros are written by the servers, so no bytes of them are sent, whatever the tier. */
	.can_fast_zero = can_always,
	.is_rotational = never,
	.pread = plugin_pread,
	.pwrite = plugin_pwrite,
	.flush = plugin_flush,
	.trim = plugin_trim,
	.zero = plugin_zero,
};

NBDKIT_REGISTER_PLUGIN(plugin)
