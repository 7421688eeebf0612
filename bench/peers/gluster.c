/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See gluster.h. Brick and client are told what they are by volume files, as glusterd would write them. So glusterd,
 * which owns folders of the system, need not run.
 */
#include "gluster.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/harness.h"

#define SERVER		 "glusterfsd"
#define START_TIMEOUT_MS 20000
#define PATH_BYTES	 96

const char *gluster_missing(void)
{
	if (!peer_is_installed(SERVER) || !peer_is_installed("glusterfs"))
		return "not installed: apt install glusterfs-server glusterfs-client";
	return geteuid() == 0 ? NULL : "not measured: GlusterFS wants root";
}

/* The layers between the socket and the disk in a volume that nobody has tuned. */
static const char brick_form[] = "volume posix\n"
				 "  type storage/posix\n"
				 "  option directory %s\n"
				 "end-volume\n"
				 "volume locks\n"
				 "  type features/locks\n"
				 "  subvolumes posix\n"
				 "end-volume\n"
				 "volume threads\n"
				 "  type performance/io-threads\n"
				 "  subvolumes locks\n"
				 "end-volume\n"
				 "volume brick\n"
				 "  type debug/io-stats\n"
				 "  subvolumes threads\n"
				 "end-volume\n"
				 "volume server\n"
				 "  type protocol/server\n"
				 "  option transport-type tcp\n"
				 "  option transport.address-family inet\n"
				 "  option transport.socket.bind-address 127.0.0.1\n"
				 "  option transport.socket.listen-port %u\n"
				 "  option auth.addr.brick.allow 127.0.0.1\n"
				 "  subvolumes brick\n"
				 "end-volume\n";

static const char client_form[] = "volume remote\n"
				  "  type protocol/client\n"
				  "  option transport-type tcp\n"
				  "  option transport.address-family inet\n"
				  "  option remote-host 127.0.0.1\n"
				  "  option remote-port %u\n"
				  "  option remote-subvolume brick\n"
				  "end-volume\n"
				  "volume behind\n"
				  "  type performance/write-behind\n"
				  "  subvolumes remote\n"
				  "end-volume\n"
				  "volume open\n"
				  "  type performance/open-behind\n"
				  "  subvolumes behind\n"
				  "end-volume\n";

static int write_brick(const char *path, const char *folder, uint16_t port)
{
	FILE *file = fopen(path, "we");

	if (!file)
		return bench_fail(-errno, "%s: %s", path, strerror(errno));
	fprintf(file, brick_form, folder, port);
	return fclose(file) ? bench_fail(-errno, "%s: %s", path, strerror(errno)) : 0;
}

static int write_client(const char *path, uint16_t port)
{
	FILE *file = fopen(path, "we");

	if (!file)
		return bench_fail(-errno, "%s: %s", path, strerror(errno));
	fprintf(file, client_form, port);
	return fclose(file) ? bench_fail(-errno, "%s: %s", path, strerror(errno)) : 0;
}

static bool listens(uint16_t port)
{
	const struct sockaddr_in address = {.sin_family = AF_INET,
					    .sin_port = htons(port),
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is_open =
		fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;

	if (fd >= 0)
		close(fd);
	return is_open;
}

static int await_brick(struct gluster *gluster, uint16_t port)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	uint64_t deadline = clock_deadline_ms(START_TIMEOUT_MS);

	while (!listens(port)) {
		if (bench_is_interrupted())
			return -EINTR;
		if (!peer_is_alive(&gluster->brick) || !clock_remaining_ms(deadline))
			return peer_fail(&gluster->brick, "GlusterFS did not start", -ETIMEDOUT);
		nanosleep(&pause, NULL);
	}
	return 0;
}

static int start_brick(struct gluster *gluster, const char *folder, uint16_t port)
{
	static const char *const no_environment[] = {NULL};
	char volume[PATH_BYTES], identity[PATH_BYTES];
	const char *const arguments[] = {SERVER,       "--no-daemon", "--volfile",
					 volume,       "--log-file",  "/dev/stderr",
					 "--pid-file", identity,      NULL};
	int ret;

	snprintf(volume, sizeof(volume), "%s/brick.vol", gluster->brick.folder);
	snprintf(identity, sizeof(identity), "%s/pid", gluster->brick.folder);
	ret = write_brick(volume, folder, port);
	if (!ret)
		ret = peer_run(&gluster->brick, arguments, no_environment);
	return ret ? ret : await_brick(gluster, port);
}

int gluster_open(const char *folder, struct gluster *gluster)
{
	char volume[PATH_BYTES];
	uint16_t port;
	int ret = peer_open(&gluster->brick);

	if (!ret)
		ret = peer_find_port(&port);
	if (!ret)
		ret = start_brick(gluster, folder, port);
	if (ret)
		return ret;
	snprintf(volume, sizeof(volume), "%s/client.vol", gluster->brick.folder);
	ret = write_client(volume, port);
	return ret ? ret : fuse_mount_gluster(&gluster->mount, volume);
}

void gluster_close(struct gluster *gluster)
{
	fuse_mount_end(&gluster->mount);
	peer_close(&gluster->brick);
}
