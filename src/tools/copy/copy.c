/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See copy.h. Called by region put and region get, by cat, and by put and get of standard input and output. A far end moves
 * slots in the background: a region by requests of io.c, a file by a thread.
 */
#include "copy.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "failure.h"
#include "tools/cli/cli.h"
#include "tools/cli/interrupts.h"

#define SHOW_NS 100000000U

struct copy_far {
	/* Begins to move an idle slot. Returns 0 or an error. */
	int (*start)(struct copy *copy, struct io_request *slot);
	/* Waits until the slot is idle. Returns how many bytes it has moved; an error, with a line; or -ECANCELED after a
	 * signal, when it may still be in flight. */
	int64_t (*wait)(struct copy *copy, struct io_request *slot);
	/* Waits until all are idle, and frees what the far end has. */
	void (*close)(struct copy *copy);
};

/* ---- A region */

static bool is_ended(void *context)
{
	(void)context;
	return is_interrupted();
}

static int start_request(struct copy *copy, struct io_request *slot)
{
	int ret = (slot->opcode == AFAR_OP_READ ? io_read : io_write)(
		&copy->io, slot, &copy->end, slot->offset, slot->iov.buffer, slot->iov.addr,
		slot->iov.length);

	return ret ? ret : io_look(&copy->io);
}

static int64_t wait_request(struct copy *copy, struct io_request *slot)
{
	int ret = io_wait(&copy->io, slot);

	return ret ? ret : (int64_t)slot->iov.length;
}

static void close_region(struct copy *copy)
{
	io_close(&copy->io);
	for (unsigned i = 0; i < copy->nr_slots; i++)
		afar_buffer_unregister(copy->slots[i].iov.buffer);
}

static const struct copy_far far_region = {start_request, wait_request, close_region};

static int open_buffers(struct afar_session *session, struct copy *copy)
{
	struct afar_iov *iov;
	int ret;

	while (copy->nr_slots < COPY_SLOTS && copy->nr_slots * copy->slot_bytes < copy->length) {
		iov = &copy->slots[copy->nr_slots].iov;
		ret = afar_buffer_alloc(session, copy->slot_bytes, &iov->buffer);
		if (ret)
			return app_fail_last(ret, copy->end.text);
		iov->addr = afar_buffer_data(iov->buffer);
		copy->nr_slots++;
	}
	return 0;
}

int copy_open_region(struct afar_session *session, struct afar_region *region, const char *text,
		     uint64_t length, uint32_t flags, struct copy *out)
{
	int ret;

	*out = (struct copy){
		.far = &far_region,
		.end = {.text = text, .fd = -1, .region = region},
		.length = length,
		.slot_bytes = length < COPY_SLOT_BYTES ? length : COPY_SLOT_BYTES,
		.is_terminal = isatty(STDERR_FILENO) == 1,
	};
	ret = io_open(&out->io, session, is_ended, NULL);
	out->io.flags = flags;
	if (!ret)
		ret = io_connect(&out->io, &out->end);
	if (!ret)
		ret = open_buffers(session, out);
	if (ret)
		copy_close(out);
	out->started_ns = clock_ns();
	return ret;
}

/* ---- A file */

static int64_t move_slot(const struct copy *copy, const struct io_request *slot)
{
	const struct afar_iov *iov = &slot->iov;
	int ret;

	if (slot->opcode == AFAR_OP_READ)
		return end_store.read(&copy->end, iov->addr, iov->length, slot->offset);
	ret = end_store.write(&copy->end, iov->addr, iov->length, slot->offset);
	return ret ? ret : (int64_t)iov->length;
}

/* Moves slots one after the other, up to an error, or to the end of what is read. */
static void *move_slots(void *argument)
{
	struct copy *copy = argument;
	struct io_request *slot;
	int64_t result;

	pthread_mutex_lock(&copy->lock);
	while (!copy->is_ending) {
		if (copy->nr_done == copy->nr_started) {
			pthread_cond_wait(&copy->changed, &copy->lock);
			continue;
		}
		slot = &copy->slots[copy->nr_done % COPY_SLOTS];
		pthread_mutex_unlock(&copy->lock);
		result = move_slot(copy, slot);
		if (result < 0)
			snprintf(copy->said, sizeof(copy->said), "%s", afar_last_error());
		pthread_mutex_lock(&copy->lock);
		copy->nr_done++;
		copy->is_ending = copy->is_ending || result < (int64_t)slot->iov.length;
		slot->result = result;
		slot->is_busy = false;
		pthread_cond_signal(&copy->changed);
	}
	pthread_mutex_unlock(&copy->lock);
	return NULL;
}

static int start_slot(struct copy *copy, struct io_request *slot)
{
	pthread_mutex_lock(&copy->lock);
	slot->is_busy = true;
	copy->nr_started++;
	pthread_cond_signal(&copy->changed);
	pthread_mutex_unlock(&copy->lock);
	return 0;
}

static int64_t wait_slot(struct copy *copy, struct io_request *slot)
{
	const int64_t *result = &slot->result;

	pthread_mutex_lock(&copy->lock);
	while (slot->is_busy)
		pthread_cond_wait(&copy->changed, &copy->lock);
	pthread_mutex_unlock(&copy->lock);
	if (*result < 0)
		app_fail((int)*result, "%s: %s", copy->end.text,
			 *copy->said ? copy->said : afar_strerror((int)*result));
	return *result;
}

static void free_slots(struct copy *copy)
{
	for (unsigned i = 0; i < copy->nr_slots; i++)
		free(copy->slots[i].iov.addr);
	pthread_cond_destroy(&copy->changed);
	pthread_mutex_destroy(&copy->lock);
}

static void close_file(struct copy *copy)
{
	pthread_mutex_lock(&copy->lock);
	copy->is_ending = true;
	pthread_cond_signal(&copy->changed);
	pthread_mutex_unlock(&copy->lock);
	pthread_join(copy->thread, NULL);
	free_slots(copy);
}

static const struct copy_far far_file = {start_slot, wait_slot, close_file};

/* Starts the thread with all signals blocked: they are for this one. */
static int start_thread(struct copy *copy)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&copy->thread, NULL, move_slots, copy);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -ret;
}

int copy_open_file(struct afar_file *file, const char *text, struct copy *out)
{
	int ret = 0;

	*out = (struct copy){
		.far = &far_file,
		.end = {.kind = &end_store, .text = text, .fd = -1, .file = file},
		.length = UINT64_MAX,
		.nr_slots = COPY_SLOTS,
		.slot_bytes = COPY_SLOT_BYTES,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.changed = PTHREAD_COND_INITIALIZER,
	};
	for (unsigned i = 0; i < out->nr_slots; i++) {
		out->slots[i].iov.addr = malloc(out->slot_bytes);
		if (!out->slots[i].iov.addr)
			ret = -ENOMEM;
	}
	if (!ret)
		ret = start_thread(out);
	if (!ret)
		return 0;
	free_slots(out);
	out->is_far_error = true;
	return app_fail(ret, "%s: %s", text, afar_strerror(ret));
}

/* ---- The line on the terminal */

static double seconds_since(uint64_t then_ns, uint64_t now_ns)
{
	return (double)(now_ns - then_ns) / 1e9;
}

static void rate_text(double bytes_per_second, char out[SIZE_TEXT_MAX])
{
	if (bytes_per_second >= 1e9)
		snprintf(out, SIZE_TEXT_MAX, "%.2f GB/s", bytes_per_second / 1e9);
	else
		snprintf(out, SIZE_TEXT_MAX, "%.0f MB/s", bytes_per_second / 1e6);
}

/* Shows, on a terminal and not too often, that `done` bytes are there. */
static void show(struct copy *copy, uint64_t done)
{
	char done_text[SIZE_TEXT_MAX], length_text[SIZE_TEXT_MAX], rate[SIZE_TEXT_MAX];
	uint64_t now;

	if (!copy->is_terminal)
		return;
	now = clock_ns();
	if (now - copy->started_ns < SHOW_NS || now - copy->shown_ns < SHOW_NS)
		return;
	rate_text((double)done / seconds_since(copy->started_ns, now), rate);
	fprintf(stderr, "\r%s of %s  %3.0f %%  %s\033[K", size_text(done, done_text),
		size_text(copy->length, length_text), 100.0 * (double)done / (double)copy->length,
		rate);
	copy->shown_ns = now;
	copy->is_shown = true;
}

void copy_summary(const struct copy *copy, char *out, size_t size)
{
	double seconds = seconds_since(copy->started_ns, clock_ns());
	char length[SIZE_TEXT_MAX], rate[SIZE_TEXT_MAX];

	rate_text((double)copy->length / (seconds > 0 ? seconds : 1e-9), rate);
	snprintf(out, size, "%s in %.3f s, %s", size_text(copy->length, length), seconds, rate);
}

void copy_close(struct copy *copy)
{
	if (copy->is_shown)
		fputs("\r\033[K", stderr);
	copy->is_shown = false;
	copy->far->close(copy);
}

/* ---- Copying, in order */

static struct io_request *slot_of(struct copy *copy, uint64_t index)
{
	return &copy->slots[index % COPY_SLOTS];
}

/* Returns how long a piece is; 0: it is behind the end. */
static uint64_t piece_length(const struct copy *copy, uint64_t index)
{
	const uint64_t offset = index * copy->slot_bytes;
	const uint64_t left = offset < copy->length ? copy->length - offset : 0;

	return left < copy->slot_bytes ? left : copy->slot_bytes;
}

/* Returns `error` of the far end as copy_in() and copy_out() do. */
static int fail_far(struct copy *copy, int error)
{
	if (error == -ECANCELED && is_interrupted())
		return -EINTR;
	copy->is_far_error = true;
	return error;
}

static int start(struct copy *copy, uint16_t opcode, uint64_t index, uint64_t length)
{
	struct io_request *slot = slot_of(copy, index);
	int ret;

	slot->opcode = opcode;
	slot->offset = index * copy->slot_bytes;
	slot->iov.length = length;
	ret = copy->far->start(copy, slot);
	return ret ? fail_far(copy, ret) : 0;
}

/* Returns how many bytes were moved, or an error. */
static int64_t await(struct copy *copy, uint64_t index)
{
	int64_t n = copy->far->wait(copy, slot_of(copy, index));

	return n < 0 ? fail_far(copy, (int)n) : n;
}

int copy_out(struct copy *copy, int fd)
{
	const struct end stream = {.kind = &end_stream, .fd = fd};
	uint64_t started = 0, length;
	struct io_request *request;
	int64_t n;
	int ret;

	for (uint64_t index = 0; piece_length(copy, index); index++) {
		for (; started < index + copy->nr_slots; started++) {
			length = piece_length(copy, started);
			ret = length ? start(copy, AFAR_OP_READ, started, length) : 0;
			if (ret)
				return ret;
		}
		n = await(copy, index);
		if (n < 0)
			return (int)n;
		request = slot_of(copy, index);
		ret = end_stream.write(&stream, request->iov.addr, (size_t)n, request->offset);
		if (ret || (uint64_t)n < request->iov.length)
			return ret;
		show(copy, request->offset + request->iov.length);
	}
	return 0;
}

int copy_in(struct copy *copy, int fd)
{
	const struct end stream = {.kind = &end_stream, .fd = fd};
	uint64_t started = 0, ended = 0, wanted;
	bool is_end = false;
	int64_t n;
	int ret;

	for (; !is_end && (wanted = piece_length(copy, started)); started++) {
		n = started - ended == copy->nr_slots ? await(copy, ended++) : 0;
		if (n < 0)
			return (int)n;
		n = end_stream.read(&stream, slot_of(copy, started)->iov.addr, wanted, 0);
		if (n < 0)
			return (int)n;
		if ((uint64_t)n < wanted && copy->length != UINT64_MAX)
			return -ENODATA;
		if (n == 0)
			break;
		ret = start(copy, AFAR_OP_WRITE, started, (uint64_t)n);
		if (ret)
			return ret;
		show(copy, started * copy->slot_bytes);
		is_end = (uint64_t)n < wanted;
	}
	while (ended < started) {
		n = await(copy, ended++);
		if (n < 0)
			return (int)n;
	}
	return 0;
}
