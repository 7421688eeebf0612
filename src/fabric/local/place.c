/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses: "unix:PATH@MARK". They name a socket in the file system, and a mark to recognise it
 * by. The mark is made of the machine's boot and of the socket's inode. So it tells apart an
 * address of another machine, or of a container that has other files at that path. Connecting and
 * listening use it; it owns nothing.
 *
 * Only the socket's owner may open it. Both ends also ask the kernel who the other is: it must be a
 * process of this user or of root.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "fabric/local/local.h"

#define PREFIX	     "unix:"
#define PREFIX_BYTES 5U
#define MARK_DIGITS  16U
#define PATH_BYTES   (FABRIC_ADDRESS_MAX - PREFIX_BYTES - 1 - MARK_DIGITS) /* final 0 included */
#define OWN_BYTES    25U /* of "/afar/PID.RANDOM", the final 0 not included */
#define RUNTIME_MAX  (PATH_BYTES - 1 - OWN_BYTES)
_Static_assert(PATH_BYTES <= sizeof(((struct sockaddr_un *)NULL)->sun_path), "it fits");

/* ---- The mark */

static uint64_t mix(uint64_t hash, const void *data, size_t length)
{
	const uint8_t *bytes = data;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3U; /* FNV-1a */
	return hash;
}

/* Where there is no boot id, the inode must do. */
static uint64_t mark_of(const struct stat *socket)
{
	const uint64_t device = socket->st_dev, inode = socket->st_ino;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	uint64_t hash = 0xcbf29ce484222325U;
	char boot[36];
	ssize_t nr = 0;

	if (fd >= 0) {
		nr = read(fd, boot, sizeof(boot));
		close(fd);
	}
	if (nr > 0)
		hash = mix(hash, boot, (size_t)nr);
	hash = mix(hash, &device, sizeof(device));
	return mix(hash, &inode, sizeof(inode));
}

/* -errno, of which -ENOTSOCK: something else is there. */
static int look_at(const struct sockaddr_un *place, struct stat *out)
{
	if (lstat(place->sun_path, out) != 0)
		return -errno;
	return S_ISSOCK(out->st_mode) ? 0 : -ENOTSOCK;
}

/* ---- Text */

struct address {
	struct sockaddr_un place;
	bool has_mark;
	uint64_t mark;
};

static bool parse_mark(const char *text, uint64_t *out)
{
	if (strlen(text) != MARK_DIGITS || strspn(text, "0123456789abcdef") != MARK_DIGITS)
		return false;
	*out = strtoull(text, NULL, 16);
	return true;
}

/* The path may be empty. */
static int parse(const char *text, struct address *out)
{
	const char *path = text + PREFIX_BYTES, *at;
	size_t length;

	*out = (struct address){.place.sun_family = AF_UNIX};
	if (strncmp(text, PREFIX, PREFIX_BYTES) != 0)
		return -EINVAL;
	length = strlen(path);
	at = strrchr(path, '@');
	if (at && parse_mark(at + 1, &out->mark)) {
		out->has_mark = true;
		length = (size_t)(at - path);
	}
	if (length >= PATH_BYTES || (length > 0 && path[0] != '/'))
		return -EINVAL;
	memcpy(out->place.sun_path, path, length);
	return 0;
}

static int fail_malformed(const char *what, const char *text)
{
	return error_fail(-EINVAL,
			  "%s \"%s\": not a place on this machine; write unix:PATH, PATH from / "
			  "on and shorter than %u bytes",
			  what, text, PATH_BYTES);
}

int local_place_print(const struct sockaddr_un *place, char out[static FABRIC_ADDRESS_MAX])
{
	struct stat socket;
	int ret = look_at(place, &socket);

	if (ret != 0)
		return ret;
	snprintf(out, FABRIC_ADDRESS_MAX, PREFIX "%.*s@%016llx", (int)PATH_BYTES - 1,
		 place->sun_path, (unsigned long long)mark_of(&socket));
	return 0;
}

/* ---- Connecting */

static int fail_elsewhere(const char *address)
{
	return error_fail(-EHOSTUNREACH,
			  "connect to %s: this socket is not on this machine, or not to be seen "
			  "from here; use another transport",
			  address);
}

int local_place_find(const char *address, struct sockaddr_un *out)
{
	struct address parsed;
	struct stat socket;

	if (parse(address, &parsed) != 0 || parsed.place.sun_path[0] == '\0')
		return fail_malformed("connect to", address);
	/* Without a mark one may try. */
	if (parsed.has_mark &&
	    (look_at(&parsed.place, &socket) != 0 || mark_of(&socket) != parsed.mark))
		return fail_elsewhere(address);
	*out = parsed.place;
	return 0;
}

bool local_place_is_trusted(int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
	       (peer.uid == 0 || peer.uid == geteuid());
}

/* ---- Listening */

/* Nobody listens at a dead server's. Only a socket is ever removed. */
static bool is_stale(const struct sockaddr_un *place)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct stat found;
	bool is_refused;

	if (fd < 0)
		return false;
	is_refused = look_at(place, &found) == 0 &&
		     connect(fd, (const struct sockaddr *)place, sizeof(*place)) != 0 &&
		     errno == ECONNREFUSED;
	close(fd);
	return is_refused;
}

/* Somebody else may have made it, to have our sockets. */
static int make_folder(const char *folder)
{
	struct stat found;

	if (mkdir(folder, 0700) != 0 && errno != EEXIST)
		return error_fail(-errno, "make %s: %s; set XDG_RUNTIME_DIR to a folder of yours",
				  folder, afar_strerror(-errno));
	if (lstat(folder, &found) != 0 || !S_ISDIR(found.st_mode) || found.st_uid != geteuid() ||
	    (found.st_mode & 077) != 0)
		return error_fail(-EACCES,
				  "use %s for sockets: it is not a folder of this user's alone; "
				  "remove it, or set XDG_RUNTIME_DIR to one that is",
				  folder);
	return 0;
}

/* Removes the sockets of servers that were killed. Servers that begin to listen do so under the
 * lock. */
static void sweep(const char *path)
{
	struct sockaddr_un place = {.sun_family = AF_UNIX};
	const struct dirent *entry;
	DIR *folder = opendir(path);
	int length;

	if (!folder)
		return;
	if (flock(dirfd(folder), LOCK_EX) == 0) {
		while ((entry = readdir(folder))) {
			length = snprintf(place.sun_path, PATH_BYTES, "%s/%s", path, entry->d_name);
			if (length > 0 && length < (int)PATH_BYTES && is_stale(&place))
				unlink(place.sun_path);
		}
	}
	closedir(folder);
}

static void choose_folder(char out[static PATH_BYTES])
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	const bool is_absolute = runtime && runtime[0] == '/';

	if (is_absolute && strlen(runtime) <= RUNTIME_MAX) {
		snprintf(out, PATH_BYTES, "%.*s/afar", (int)RUNTIME_MAX, runtime);
		return;
	}
	snprintf(out, PATH_BYTES, "/tmp/afar-%u", geteuid());
	if (is_absolute)
		log_warn("XDG_RUNTIME_DIR has more than %u bytes, so the socket of a local lane is "
			 "in %s",
			 RUNTIME_MAX, out);
	else if (runtime && *runtime)
		log_warn("XDG_RUNTIME_DIR does not begin with '/', so the socket of a local lane "
			 "is in %s",
			 out);
}

/* The pid is for people. Processes of several containers that share the folder may have the same. */
static int choose_own(struct sockaddr_un *out)
{
	char folder[PATH_BYTES];
	uint32_t random;
	int ret, length;

	choose_folder(folder);
	ret = make_folder(folder);
	if (ret != 0)
		return ret;
	sweep(folder);
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return error_fail(-EIO, "choose a place for a socket: no random numbers");
	length = snprintf(out->sun_path, PATH_BYTES, "%s/%d.%08x", folder, getpid(), random);
	return length < (int)PATH_BYTES ? 0 : error_code(-ENAMETOOLONG);
}

int local_place_choose(const char *address, struct sockaddr_un *out)
{
	struct address parsed;

	if (parse(address, &parsed) != 0 || parsed.has_mark)
		return fail_malformed("listen on", address);
	*out = parsed.place;
	return out->sun_path[0] == '\0' ? choose_own(out) : 0;
}

static int bind_once(int fd, const struct sockaddr_un *place)
{
	return bind(fd, (const struct sockaddr *)place, sizeof(*place)) == 0 ? 0 : -errno;
}

static int open_folder_of(const struct sockaddr_un *place)
{
	char folder[sizeof(place->sun_path)];
	char *slash;

	memcpy(folder, place->sun_path, sizeof(folder));
	slash = strrchr(folder, '/');
	slash[slash == folder ? 1 : 0] = '\0';
	return open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int local_place_bind(int fd, const struct sockaddr_un *place)
{
	int folder = open_folder_of(place), ret;

	if (folder < 0)
		return errno == ENOENT || errno == ENOTDIR ? -EADDRNOTAVAIL : -errno;
	/* Two that find the same stale one, one after the other: else the second would remove the first's. */
	if (flock(folder, LOCK_EX) != 0 || fchmod(fd, 0600) != 0) {
		ret = -errno;
		goto out_close;
	}
	ret = bind_once(fd, place);
	if (ret == -EADDRINUSE && is_stale(place) && unlink(place->sun_path) == 0)
		ret = bind_once(fd, place);
	/* Under the lock: it is stale until somebody listens. */
	if (ret == 0 && listen(fd, SOMAXCONN) != 0)
		ret = -errno;

out_close:
	close(folder);
	return ret;
}

void local_place_remove(const char *address)
{
	struct sockaddr_un place;

	if (local_place_find(address, &place) == 0)
		unlink(place.sun_path);
}
