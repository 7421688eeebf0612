/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One load for disks that are reached in different ways, for disk_speed.sh.
 *
 *	disk_load device PATH LOAD BYTES [DEPTH SECONDS]	a block device: io_uring, O_DIRECT
 *	disk_load volume NAME LOAD BYTES [DEPTH SECONDS]	a volume: a queue of libafar
 *
 * LOAD is `fill`: writes the first BYTES in order; or `read` or `write`: 4 KiB at a time, anywhere in
 * them, with DEPTH in flight. Each such write is durable when it has ended: RWF_DSYNC or
 * AFAR_OP_DURABLE. Prints how many ended in a second.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <afar/afar.h>
#include <afar/volume.h>

#define BLOCK	   4096U
#define FILL_BLOCK (256U * 1024)
#define FILL_DEPTH 4U
#define DEPTH_MAX  64U

struct request {
	bool is_write, is_durable;
	unsigned slot; /* of the memory */
	size_t length;
	uint64_t offset;
};

/* A way to a disk. Calls end the program if they fail. */
struct way {
	const char *name;
	void (*open)(const char *disk, unsigned depth, size_t length);
	void (*submit)(const struct request *request);
	/* Waits for at least one; puts the slots of those that ended into `slots`. */
	unsigned (*reap)(unsigned *slots, unsigned max);
	void (*sync)(void);
	void (*close)(void);
};

static char *memory;

static _Noreturn void die(const char *what, const char *why)
{
	fprintf(stderr, "disk_load: %s: %s\n", what, why);
	exit(1);
}

/* ---- A block device */

static struct {
	int fd;
	struct io_uring ring;
} device;

static void device_open(const char *disk, unsigned depth, size_t length)
{
	int ret;

	device.fd = open(disk, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (device.fd < 0)
		die(disk, strerror(errno));
	memory = aligned_alloc(BLOCK, depth * length);
	ret = io_uring_queue_init(depth, &device.ring, 0);
	if (!memory || ret)
		die("io_uring", memory ? strerror(-ret) : "no memory");
}

static void device_submit(const struct request *request)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&device.ring);
	void *at = memory + request->slot * request->length;

	if (request->is_write)
		io_uring_prep_write(sqe, device.fd, at, (unsigned)request->length, request->offset);
	else
		io_uring_prep_read(sqe, device.fd, at, (unsigned)request->length, request->offset);
	sqe->rw_flags = request->is_durable ? RWF_DSYNC : 0;
	io_uring_sqe_set_data64(sqe, request->slot | (uint64_t)request->length << 32);
}

static unsigned device_reap(unsigned *slots, unsigned max)
{
	struct io_uring_cqe *cqe;
	unsigned nr = 0;
	int ret = io_uring_submit_and_wait(&device.ring, 1);

	if (ret < 0)
		die("io_uring_enter", strerror(-ret));
	while (nr < max && io_uring_peek_cqe(&device.ring, &cqe) == 0) {
		uint64_t data = io_uring_cqe_get_data64(cqe);

		if (cqe->res < 0 || (uint64_t)cqe->res != data >> 32)
			die("a transfer", cqe->res < 0 ? strerror(-cqe->res) : "it is short");
		slots[nr++] = (unsigned)data;
		io_uring_cqe_seen(&device.ring, cqe);
	}
	return nr;
}

static void device_sync(void)
{
	if (fdatasync(device.fd))
		die("fdatasync", strerror(errno));
}

static void device_close(void)
{
	io_uring_queue_exit(&device.ring);
	close(device.fd);
	free(memory);
}

/* ---- A volume */

static struct {
	struct afar_session *session;
	struct afar_volume *volume;
	struct afar_buffer *buffer;
	struct afar_queue *queue;
	struct afar_iov iov[DEPTH_MAX];
} volume;

static void check(int ret)
{
	if (ret < 0)
		die("the volume", afar_last_error());
}

static void volume_open(const char *disk, unsigned depth, size_t length)
{
	check(afar_session_open(NULL, NULL, &volume.session));
	check(afar_volume_open(volume.session, disk, NULL, &volume.volume));
	check(afar_buffer_alloc(volume.session, depth * length, &volume.buffer));
	memory = afar_buffer_data(volume.buffer);
	check(afar_queue_open(volume.session, NULL, &volume.queue));
	check(afar_queue_connect(volume.queue, afar_volume_target(volume.volume)));
}

static void volume_submit(const struct request *request)
{
	struct afar_iov *iov = &volume.iov[request->slot];
	const struct afar_op op = {
		.opcode = request->is_write ? AFAR_OP_WRITE : AFAR_OP_READ,
		.flags = request->is_durable ? AFAR_OP_DURABLE : 0,
		.target = afar_volume_target(volume.volume),
		.offset = request->offset,
		.iov = iov,
		.nr_iov = 1,
		.user_data = request->slot,
	};

	*iov = (struct afar_iov){.buffer = volume.buffer,
				 .addr = memory + request->slot * request->length,
				 .length = request->length};
	check(afar_queue_submit(volume.queue, &op, 1));
}

static unsigned volume_reap(unsigned *slots, unsigned max)
{
	struct afar_completion done[DEPTH_MAX];
	int nr = afar_queue_wait(volume.queue, done, max, 1, -1);

	check(nr);
	for (int i = 0; i < nr; i++) {
		check(afar_queue_explain(volume.queue, &done[i]));
		slots[i] = (unsigned)done[i].user_data;
	}
	return (unsigned)nr;
}

static void volume_sync(void)
{
	check(afar_volume_sync(volume.volume));
}

static void volume_close(void)
{
	check(afar_queue_close(volume.queue));
	check(afar_buffer_unregister(volume.buffer));
	check(afar_volume_close(volume.volume));
	check(afar_session_close(volume.session));
}

static const struct way ways[] = {
	{"device", device_open, device_submit, device_reap, device_sync, device_close},
	{"volume", volume_open, volume_submit, volume_reap, volume_sync, volume_close},
};

/* ---- Loads */

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Some block of so many. The multiplier and increment are Knuth's; the low bits are the poor ones. */
static uint64_t any(uint64_t nr)
{
	static uint64_t x = 1;

	x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (x >> 33) % nr;
}

static void fill(const struct way *way, uint64_t bytes)
{
	unsigned slots[FILL_DEPTH], nr_in_flight = 0;
	struct request request = {.is_write = true, .length = FILL_BLOCK};

	for (request.offset = 0; request.offset < bytes; request.offset += FILL_BLOCK) {
		if (nr_in_flight == FILL_DEPTH) {
			/* One at a time: its slot is the next request's. */
			way->reap(slots, 1);
			request.slot = slots[0];
		} else {
			request.slot = nr_in_flight++;
		}
		way->submit(&request);
	}
	while (nr_in_flight > 0)
		nr_in_flight -= way->reap(slots, FILL_DEPTH);
	way->sync();
}

static void run(const struct way *way, struct request *request, uint64_t bytes, unsigned depth,
		double seconds)
{
	unsigned slots[DEPTH_MAX], nr_in_flight = depth;
	uint64_t nr_ended = 0;
	double begin = now();

	request->length = BLOCK;
	request->is_durable = request->is_write;
	for (unsigned i = 0; i < depth; i++) {
		request->slot = i;
		request->offset = any(bytes / BLOCK) * BLOCK;
		way->submit(request);
	}
	while (nr_in_flight > 0) {
		bool goes_on = now() - begin < seconds;
		unsigned nr = way->reap(slots, DEPTH_MAX);

		nr_ended += nr;
		nr_in_flight -= nr;
		for (unsigned i = 0; i < nr && goes_on; i++) {
			request->slot = slots[i];
			request->offset = any(bytes / BLOCK) * BLOCK;
			way->submit(request);
			nr_in_flight++;
		}
	}
	printf("%.1f\n", (double)nr_ended / (now() - begin));
}

int main(int argc, char **argv)
{
	const bool is_fill = argc == 5 && strcmp(argv[3], "fill") == 0;
	const unsigned long depth = argc == 7 ? strtoul(argv[5], NULL, 10) : FILL_DEPTH;
	const uint64_t bytes = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
	struct request request = {.is_write = argc > 3 && strcmp(argv[3], "write") == 0};

	if ((!is_fill && argc != 7) || bytes < BLOCK || bytes % FILL_BLOCK || depth < 1 ||
	    depth > DEPTH_MAX) {
		fprintf(stderr, "usage: disk_load device|volume DISK fill|read|write BYTES [DEPTH "
				"SECONDS]\n");
		return 2;
	}
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (strcmp(ways[i].name, argv[1]) != 0)
			continue;
		ways[i].open(argv[2], (unsigned)depth, is_fill ? FILL_BLOCK : BLOCK);
		memset(memory, 0x5a, depth * (is_fill ? FILL_BLOCK : BLOCK));
		if (is_fill)
			fill(&ways[i], bytes);
		else
			run(&ways[i], &request, bytes, (unsigned)depth, strtod(argv[6], NULL));
		ways[i].close();
		return 0;
	}
	die(argv[1], "it is neither `device` nor `volume`");
}
