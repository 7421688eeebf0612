/* SPDX-License-Identifier: BSD-3-Clause */
/* See ganesha.h. The server is a process of its own, which ends with this one. */
#include "ganesha.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <nfsc/libnfs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/harness.h"
#include "peer.h"

#define SERVER		 "ganesha.nfsd"
#define START_TIMEOUT_MS 30000
#define REPLY_TIMEOUT_MS 30000
#define PATH_BYTES	 128
#define WRITE_MAX \
	2048U /* libnfs 4 has no room for more than some 3800 bytes in a request of NFSv4 */

struct ganesha {
	struct peer peer;
	uint16_t port;
	struct nfs_context *context; /* NULL: not mounted */
};

/* ---- The library */

#define FUNCTIONS(X)           \
	X(nfs_init_context)    \
	X(nfs_destroy_context) \
	X(nfs_parse_url_dir)   \
	X(nfs_destroy_url)     \
	X(nfs_set_timeout)     \
	X(nfs_mount)           \
	X(nfs_get_error)       \
	X(nfs_open2)           \
	X(nfs_open)            \
	X(nfs_close)           \
	X(nfs_pread)           \
	X(nfs_pwrite)          \
	X(nfs_stat64)          \
	X(nfs_unlink)

#define MEMBER(name) __typeof__(name) *name;
static struct {
	FUNCTIONS(MEMBER)
} library;

static bool load(void)
{
	void *handle = dlopen("libnfs.so.13", RTLD_NOW);
	bool is_whole = handle;

#define FIND(name)                                              \
	if (is_whole) {                                         \
		*(void **)&library.name = dlsym(handle, #name); \
		is_whole = library.name;                        \
	}
	FUNCTIONS(FIND)
	return is_whole;
}

const char *ganesha_missing(void)
{
	if (!peer_is_installed(SERVER) || !load())
		return "not installed: apt install nfs-ganesha nfs-ganesha-vfs libnfs13";
	return geteuid() == 0 ? NULL : "not measured: NFS-Ganesha wants root";
}

static int fail(const struct ganesha *ganesha, const char *what, const char *name, int status)
{
	const char *why = library.nfs_get_error(ganesha->context);

	return bench_fail(status < 0 ? status : -EIO, "libnfs: %s %s: %s", what, name,
			  why ? why : strerror(-status));
}

/* ---- The server */

/*
 * Returns its line about the address to listen at. It looks for one as other machines would reach it. With only the
 * loopback interface, as in the bench's own network, it finds none. There it may listen everywhere.
 */
static const char *bind_line(void)
{
	const struct addrinfo hints = {
		.ai_family = AF_INET, .ai_flags = AI_ADDRCONFIG, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found;

	if (getaddrinfo("127.0.0.1", NULL, &hints, &found))
		return "";
	freeaddrinfo(found);
	return "Bind_addr = 127.0.0.1;";
}

static int write_configuration(const struct ganesha *ganesha, const char *path, const char *folder)
{
	FILE *file = fopen(path, "we");

	if (!file)
		return bench_fail(-errno, "%s: %s", path, strerror(errno));
	fprintf(file,
		"NFS_CORE_PARAM { Protocols = 4; NFS_Port = %u; %s\n"
		"\tEnable_NLM = false; Enable_RQUOTA = false; fsid_device = true; }\n"
		"NFSv4 { Graceless = true; RecoveryRoot = \"%s\"; }\n"
		"EXPORT { Export_Id = 1; Path = \"%s\"; Pseudo = \"/x\"; Access_Type = RW;\n"
		"\tSquash = none; SecType = sys; Protocols = 4; Transports = TCP;\n"
		"\tFSAL { Name = VFS; } }\n",
		ganesha->port, bind_line(), ganesha->peer.folder, folder);
	return fclose(file) ? bench_fail(-errno, "%s: %s", path, strerror(errno)) : 0;
}

static int start(struct ganesha *ganesha, const char *folder)
{
	static const char *const no_environment[] = {NULL};
	char configuration[PATH_BYTES], identity[PATH_BYTES];
	const char *const arguments[] = {SERVER,	"-F", "-f",	configuration, "-L",
					 "/dev/stderr", "-p", identity, NULL};
	int ret = peer_open(&ganesha->peer);

	if (!ret)
		ret = peer_find_port(&ganesha->port);
	if (ret)
		return ret;
	snprintf(configuration, sizeof(configuration), "%s/conf", ganesha->peer.folder);
	snprintf(identity, sizeof(identity), "%s/pid", ganesha->peer.folder);
	ret = write_configuration(ganesha, configuration, folder);
	return ret ? ret : peer_run(&ganesha->peer, arguments, no_environment);
}

/* ---- The client */

static int mount_once(struct ganesha *ganesha)
{
	struct nfs_url *url;
	char text[64];
	int ret = -EIO;

	ganesha->context = library.nfs_init_context();
	if (!ganesha->context)
		return bench_fail(-ENOMEM, "no memory for libnfs");
	snprintf(text, sizeof(text), "nfs://127.0.0.1/x?version=4&nfsport=%u", ganesha->port);
	url = library.nfs_parse_url_dir(ganesha->context, text);
	library.nfs_set_timeout(ganesha->context, REPLY_TIMEOUT_MS);
	if (url)
		ret = library.nfs_mount(ganesha->context, url->server, url->path);
	if (url)
		library.nfs_destroy_url(url);
	if (!ret)
		return 0;
	library.nfs_destroy_context(ganesha->context);
	ganesha->context = NULL;
	return -EAGAIN;
}

static int await_mount(struct ganesha *ganesha)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	uint64_t deadline = clock_deadline_ms(START_TIMEOUT_MS);
	int ret;

	while ((ret = mount_once(ganesha)) == -EAGAIN) {
		if (bench_is_interrupted())
			return -EINTR;
		if (!peer_is_alive(&ganesha->peer) || !clock_remaining_ms(deadline))
			return peer_fail(&ganesha->peer, "NFS-Ganesha did not start", -ETIMEDOUT);
		nanosleep(&pause, NULL);
	}
	return ret;
}

int ganesha_open(const char *folder, struct ganesha **out)
{
	struct ganesha *ganesha = calloc(1, sizeof(*ganesha));
	int ret;

	if (!ganesha)
		return bench_fail(-ENOMEM, "no memory for a peer");
	ret = start(ganesha, folder);
	if (!ret)
		ret = await_mount(ganesha);
	if (ret)
		ganesha_close(ganesha);
	else
		*out = ganesha;
	return ret;
}

void ganesha_close(struct ganesha *ganesha)
{
	if (!ganesha)
		return;
	if (ganesha->context)
		library.nfs_destroy_context(ganesha->context);
	peer_close(&ganesha->peer);
	free(ganesha);
}

/* ---- Files */

static void path_of(const char *name, char path[PATH_BYTES])
{
	snprintf(path, PATH_BYTES, "/%s", name);
}

static int write_all(struct ganesha *ganesha, struct nfsfh *file, uint64_t offset, const char *data,
		     size_t length)
{
	for (size_t done = 0; done < length;) {
		size_t left = length - done;
		int ret = library.nfs_pwrite(ganesha->context, file, offset + done,
					     left < WRITE_MAX ? left : WRITE_MAX, data + done);

		if (ret <= 0)
			return ret ? ret : -EIO;
		done += (size_t)ret;
	}
	return 0;
}

int ganesha_make(struct ganesha *ganesha, const char *name, const void *data, size_t length)
{
	char path[PATH_BYTES];
	struct nfsfh *file;
	int ret, end;

	path_of(name, path);
	ret = library.nfs_open2(ganesha->context, path, O_WRONLY | O_CREAT | O_EXCL, 0600, &file);
	if (ret)
		return fail(ganesha, "make", name, ret);
	ret = write_all(ganesha, file, 0, data, length);
	end = library.nfs_close(ganesha->context, file);
	return ret || end ? fail(ganesha, "write", name, ret ? ret : end) : 0;
}

int ganesha_append(struct ganesha *ganesha, const char *name, uint64_t end, const void *data,
		   size_t length)
{
	char path[PATH_BYTES];
	struct nfsfh *file;
	int ret, closed;

	path_of(name, path);
	ret = library.nfs_open(ganesha->context, path, O_WRONLY, &file);
	if (ret)
		return fail(ganesha, "open", name, ret);
	ret = write_all(ganesha, file, end, data, length);
	closed = library.nfs_close(ganesha->context, file);
	return ret || closed ? fail(ganesha, "append to", name, ret ? ret : closed) : 0;
}

int ganesha_look(struct ganesha *ganesha, const char *name)
{
	struct nfs_stat_64 stat;
	char path[PATH_BYTES];
	int ret;

	path_of(name, path);
	ret = library.nfs_stat64(ganesha->context, path, &stat);
	return ret ? fail(ganesha, "stat", name, ret) : 0;
}

int ganesha_read(struct ganesha *ganesha, const char *name, void *data, size_t length)
{
	return ganesha_stream(ganesha, name, data, length, length);
}

int ganesha_remove(struct ganesha *ganesha, const char *name)
{
	char path[PATH_BYTES];
	int ret;

	path_of(name, path);
	ret = library.nfs_unlink(ganesha->context, path);
	return ret ? fail(ganesha, "remove", name, ret) : 0;
}

int ganesha_stream(struct ganesha *ganesha, const char *name, void *data, size_t size,
		   uint64_t bytes)
{
	char path[PATH_BYTES];
	struct nfsfh *file;
	int ret;

	path_of(name, path);
	ret = library.nfs_open(ganesha->context, path, O_RDONLY, &file);
	if (ret)
		return fail(ganesha, "open", name, ret);
	for (uint64_t done = 0; done < bytes && ret >= 0; done += size) {
		ret = library.nfs_pread(ganesha->context, file, done, size, data);
		if (ret >= 0 && ret != (int)size)
			ret = -EIO;
	}
	library.nfs_close(ganesha->context, file);
	return ret < 0 ? fail(ganesha, "read", name, ret) : 0;
}
