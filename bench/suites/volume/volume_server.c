/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts and ends the NBD servers of suite `volume`. They are nbdkit with our plugin as `afar
 * export` starts it, and servers that people use today for memory and files. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/process.h"
#include "volume.h"

#define PLUGIN		 "nbdkit-afar-plugin.so"
#define READY_TIMEOUT_MS 10000
#define PAUSE_NS	 UINT64_C(5000000)
#define ARGUMENTS_MAX	 16U
#define TEXT_BYTES	 8192U

/* ---- What is here */

/* Finds the plugin that was built with this program. */
static bool find_plugin(char out[PATH_MAX])
{
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	self[length > 0 ? length : 0] = '\0';
	slash = strrchr(self, '/');
	return slash &&
	       snprintf(out, PATH_MAX, "%.*s/../src/frontends/nbd/" PLUGIN, (int)(slash - self),
			self) < PATH_MAX &&
	       access(out, R_OK) == 0;
}

const char *volume_nbd_missing(void)
{
	char plugin[PATH_MAX];

	if (!peer_is_installed("nbdkit"))
		return "nbdkit is not installed: apt install nbdkit";
	if (flash_fio_missing())
		return "fio, the client, is not installed: apt install fio";
	if (system("fio --enghelp=nbd >/dev/null 2>&1"))
		return "fio, the client, was built without its engine nbd";
	if (!find_plugin(plugin))
		return "our plugin stays where it is built: run build/afar, built where "
		       "nbdkit-plugin-dev is installed";
	return NULL;
}

const char *volume_qemu_missing(void)
{
	return peer_is_installed("qemu-nbd") ? NULL
					     : "qemu-nbd is not installed: apt install qemu-utils";
}

/* ---- Command lines */

struct line {
	const char *words[ARGUMENTS_MAX + 1];
	unsigned nr;
	char text[TEXT_BYTES]; /* of the words that were made */
	size_t used;
};

static void add(struct line *line, const char *word)
{
	line->words[line->nr++] = word;
}

__attribute__((format(printf, 2, 3))) static void add_text(struct line *line, const char *format,
							   ...)
{
	size_t room = sizeof(line->text) - line->used;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(line->text + line->used, room, format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length >= room)
		return;
	add(line, line->text + line->used);
	line->used += (size_t)length + 1;
}

static void add_nbdkit(struct line *line, const struct volume_server *server, bool is_forced)
{
	add(line, "nbdkit");
	add(line, "--foreground");
	add_text(line, "--unix=%s", server->socket);
	add_text(line, "--pidfile=%s/ready", server->peer.folder);
	if (is_forced)
		add(line, "--filter=fua");
}

/* Ends with the parameters of filters, which nbdkit wants behind the plugin. */
static void add_forced(struct line *line, bool is_forced)
{
	if (is_forced)
		add(line, "fuamode=force");
}

static void make_lent(struct line *line, const struct volume_server *server,
		      const struct volume_place *place, enum volume_way way)
{
	const bool is_forced = way == VOLUME_LENT_FORCED;
	char plugin[PATH_MAX] = "";

	find_plugin(plugin);
	add_nbdkit(line, server, is_forced);
	add_text(line, "%s", plugin);
	add_text(line, "volume=%s", place->volume);
	add_text(line, "cluster=%s", place->cluster);
	add(line, way == VOLUME_LENT_LOCAL ? "path=local" : "path=tcp");
	/* By default `afar export` does so, too. */
	add(line, place->is_flash ? "retry=60" : "retry=0");
	add_forced(line, is_forced);
}

/* Its allocator `malloc` has nothing to look up. */
static void make_memory(struct line *line, const struct volume_server *server,
			const struct volume_place *place)
{
	add_nbdkit(line, server, false);
	add(line, "memory");
	add_text(line, "size=%llu", (unsigned long long)place->bytes);
	add(line, "allocator=malloc");
}

static void make_file(struct line *line, const struct volume_server *server,
		      const struct volume_place *place, bool is_forced)
{
	add_nbdkit(line, server, is_forced);
	add(line, "file");
	add_text(line, "file=%s", place->file);
	add(line, "cache=none");
	add_forced(line, is_forced);
}

static void make_qemu(struct line *line, const struct volume_server *server,
		      const struct volume_place *place, bool is_forced)
{
	add(line, "qemu-nbd");
	add(line, "--format=raw");
	add(line, "--persistent");
	add(line, "--aio=io_uring");
	add(line, is_forced ? "--cache=directsync" : "--cache=none");
	add_text(line, "--socket=%s", server->socket);
	add_text(line, "--pid-file=%s/ready", server->peer.folder);
	add_text(line, "%s", place->file);
}

static void make_line(struct line *line, const struct volume_server *server, enum volume_way way,
		      const struct volume_place *place)
{
	switch (way) {
	case VOLUME_MEMORY:
		make_memory(line, server, place);
		break;
	case VOLUME_FILE:
	case VOLUME_FILE_FORCED:
		make_file(line, server, place, way == VOLUME_FILE_FORCED);
		break;
	case VOLUME_QEMU:
	case VOLUME_QEMU_FORCED:
		make_qemu(line, server, place, way == VOLUME_QEMU_FORCED);
		break;
	default:
		make_lent(line, server, place, way);
		break;
	}
}

/* ---- Running */

/* All of them write their process's number once they listen. */
static int wait_until_ready(struct volume_server *server)
{
	const uint64_t deadline = clock_deadline_ms(READY_TIMEOUT_MS);
	char ready[sizeof(server->peer.folder) + sizeof("/ready")];

	snprintf(ready, sizeof(ready), "%s/ready", server->peer.folder);
	while (access(ready, F_OK)) {
		if (bench_is_interrupted())
			return -EINTR;
		if (!peer_is_alive(&server->peer) || !clock_remaining_ms(deadline))
			return peer_fail(&server->peer, "an NBD server has not started", -EIO);
		clock_pause_ns(PAUSE_NS);
	}
	return 0;
}

/* Otherwise its memory would be populated while it is measured. */
static int write_memory(const struct volume_server *server)
{
	const struct flash_load load = {.is_write = true, .block = MIB, .depth = 8};
	struct flash_figures figures;

	return flash_fio_run_nbd(server->socket, &load, &figures);
}

int volume_server_run(struct volume_server *server, enum volume_way way,
		      const struct volume_place *place)
{
	static const char *const none[] = {NULL};
	struct line line = {.nr = 0};
	int ret;

	if (server->way == way && peer_is_alive(&server->peer))
		return 0;
	volume_server_end(server);
	ret = peer_open(&server->peer);
	if (ret)
		return ret;
	server->way = way;
	snprintf(server->socket, sizeof(server->socket), "%s/socket", server->peer.folder);
	make_line(&line, server, way, place);
	ret = peer_run(&server->peer, line.words, none);
	if (!ret)
		ret = wait_until_ready(server);
	if (!ret && way == VOLUME_MEMORY)
		ret = write_memory(server);
	return ret;
}

void volume_server_end(struct volume_server *server)
{
	if (server->way != VOLUME_NONE)
		peer_close(&server->peer);
	*server = (struct volume_server){.way = VOLUME_NONE};
}

uint64_t volume_server_cpu_ns(const struct volume_server *server)
{
	return server->peer.pid ? process_cpu_ns(server->peer.pid) : 0;
}
