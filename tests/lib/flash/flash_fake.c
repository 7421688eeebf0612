/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fake device: its clock, its faults, and what operations do to its memory. `now` is what they
 * see, over the log's `base`, which is what surely survives a cut; a device that cannot lose power
 * has no log.
 */
#include "lib/flash/flash_fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "lib/flash/flash_fake_log.h"

#define DEPTH_DEFAULT 32U

struct operation {
	struct flash_io *io;
	uint64_t due;
	struct fake_write *write; /* the log's; NULL: there is no log, or it is no write */
	uint64_t nr_ended;	  /* of a flush: the log's, when it was submitted        */
	uint8_t fill;		  /* of a discard …                                      */
	bool is_idle;		  /* … which does nothing                                */
};

struct fault {
	struct flash_fake_fault is;
	struct cds_list_head node;
	unsigned nr_met;
};

struct fake {
	struct flash_device device;
	struct flash_fake_options options;
	struct image now;
	struct flash_fake_log *log;    /* its own, or that which records; NULL: none        */
	struct flash_fake_log *origin; /* of which it is an image, which is below; or NULL  */
	uint64_t dice;
	uint64_t ticks;
	struct cds_list_head refused;
	struct operation **in_flight, **due; /* `room` each */
	size_t nr_in_flight, room;
	struct cds_list_head faults;
	struct flash_fake_counts counts;
	uint64_t nr_events;
	uint64_t cut_behind; /* events; 0: not */
	bool is_cut;
};

static struct fake *fake_of(struct flash_device *device)
{
	return caa_container_of(device, struct fake, device);
}

static const struct fake *const_fake_of(const struct flash_device *device)
{
	return caa_container_of(device, const struct fake, device);
}

static void note_event(struct fake *fake)
{
	fake->nr_events++;
	if (fake->nr_events == fake->cut_behind)
		fake->is_cut = true;
}

/* ---- Faults */

static bool touches(const struct flash_fake_fault *fault, const struct flash_io *io)
{
	if (fault->opcode != io->opcode)
		return false;
	return io->opcode == FLASH_IO_FLUSH || (io->offset < fault->offset + fault->length &&
						fault->offset < io->offset + io->length);
}

/* The fault that an operation meets, which thereby did one more; NULL: none. */
static const struct flash_fake_fault *meet_fault(struct fake *fake, const struct flash_io *io)
{
	struct fault *fault;

	cds_list_for_each_entry (fault, &fake->faults, node) {
		if (!touches(&fault->is, io))
			continue;
		fault->nr_met++;
		if (fault->nr_met <= fault->is.skip)
			continue;
		if (fault->is.nr == 0 || fault->nr_met - fault->is.skip <= fault->is.nr)
			return &fault->is;
	}
	return NULL;
}

int flash_fake_fail(struct flash_device *device, const struct flash_fake_fault *fault)
{
	struct fault *own = calloc(1, sizeof(*own));

	if (!own)
		return -ENOMEM;
	own->is = *fault;
	cds_list_add_tail(&own->node, &fake_of(device)->faults);
	return 0;
}

void flash_fake_heal(struct flash_device *device)
{
	struct fault *fault, *next;

	cds_list_for_each_entry_safe (fault, next, &fake_of(device)->faults, node) {
		cds_list_del(&fault->node);
		free(fault);
	}
}

/* ---- Submission */

static uint8_t *gather(const struct flash_io *io)
{
	uint8_t *data = malloc(io->length), *at = data;

	for (unsigned i = 0; i < io->nr_iov && data; i++) {
		memcpy(at, io->iov[i].iov_base, io->iov[i].iov_len);
		at += io->iov[i].iov_len;
	}
	return data;
}

/* The log keeps what the memory holds now. */
static int log_write(struct fake *fake, struct operation *operation)
{
	const struct flash_io *io = operation->io;
	struct fake_write write = {
		.offset = io->offset,
		.length = io->length,
		.is_durable = io->flags & FLASH_IO_DURABLE,
		.fill = operation->fill,
	};
	int ret = 0;

	if (fake->log && io->opcode == FLASH_IO_WRITE) {
		write.data = gather(io);
		if (!write.data)
			return -ENOMEM;
	}
	if (fake->log)
		ret = fake_log_begin(fake->log, &write, &operation->write);
	if (ret)
		free(write.data);
	else
		note_event(fake);
	return ret;
}

static int make_room(struct fake *fake)
{
	size_t room = fake->room ? 2 * fake->room : DEPTH_DEFAULT;
	struct operation **grown;

	if (fake->nr_in_flight < fake->room)
		return 0;
	grown = realloc(fake->in_flight, room * sizeof(struct operation *));
	if (!grown)
		return -ENOMEM;
	fake->in_flight = grown;
	grown = realloc(fake->due, room * sizeof(struct operation *));
	if (!grown)
		return -ENOMEM;
	fake->due = grown;
	fake->room = room;
	return 0;
}

static int take(struct fake *fake, struct flash_io *io)
{
	struct operation *operation;
	int ret = make_room(fake);

	if (ret)
		return ret;
	operation = calloc(1, sizeof(*operation));
	if (!operation)
		return -ENOMEM;
	operation->io = io;
	operation->due = fake->ticks + 1 + dice_below(&fake->dice, fake->options.latency_max);
	if (io->opcode == FLASH_IO_DISCARD) {
		uint64_t what = dice_below(&fake->dice, 3);

		operation->is_idle = what == 0;
		operation->fill = what == 1 ? 0 : (uint8_t)dice_roll(&fake->dice);
	}
	if (io->opcode == FLASH_IO_FLUSH && fake->log)
		operation->nr_ended = fake->log->nr_ended;
	if (io->opcode == FLASH_IO_WRITE || io->opcode == FLASH_IO_DISCARD)
		ret = log_write(fake, operation);
	if (ret)
		free(operation);
	else
		fake->in_flight[fake->nr_in_flight++] = operation;
	return ret;
}

static void fake_submit(struct flash_device *device, struct flash_io *io)
{
	struct fake *fake = fake_of(device);

	if (fake->is_cut)
		return;
	io->result = flash_device_check(device, io);
	if (!io->result)
		io->result = take(fake, io);
	if (io->result)
		cds_list_add_tail(&io->node, &fake->refused);
}

/* ---- The end of operations */

static int end_read(struct fake *fake, const struct flash_io *io, int error)
{
	uint64_t offset = io->offset;

	fake->counts.nr_reads++;
	if (error)
		return error;
	fake->counts.bytes_read += io->length;
	for (unsigned i = 0; i < io->nr_iov; i++) {
		image_read(&fake->now, offset, io->iov[i].iov_base, io->iov[i].iov_len);
		offset += io->iov[i].iov_len;
	}
	return 0;
}

/* The memory is not what it was when the write was submitted: its owner broke the rule. */
static bool has_changed(const struct operation *operation)
{
	const struct flash_io *io = operation->io;
	const uint8_t *before = operation->write ? operation->write->data : NULL;

	for (unsigned i = 0; i < io->nr_iov && before; i++) {
		if (memcmp(before, io->iov[i].iov_base, io->iov[i].iov_len) != 0)
			return true;
		before += io->iov[i].iov_len;
	}
	return false;
}

/* Returns how much of a write or discard is done. */
static uint64_t reach_of(struct fake *fake, const struct operation *operation,
			 const struct flash_fake_fault *fault)
{
	uint64_t length = operation->io->length, sector = fake->device.sector;

	if (operation->is_idle || (fault && fault->error == 0))
		return 0;
	return fault ? dice_below(&fake->dice, length / sector + 1) * sector : length;
}

static int change(struct fake *fake, const struct operation *operation, uint64_t reach)
{
	const struct flash_io *io = operation->io;
	uint64_t done = 0;
	int ret = 0;

	if (io->opcode == FLASH_IO_DISCARD)
		return image_fill(&fake->now, io->offset, operation->fill, reach);
	for (unsigned i = 0; i < io->nr_iov && done < reach && !ret; i++) {
		const struct iovec *iov = &io->iov[i];
		uint64_t part = iov->iov_len < reach - done ? iov->iov_len : reach - done;

		ret = image_write(&fake->now, io->offset + done, iov->iov_base, part);
		done += part;
	}
	return ret;
}

static int end_change(struct fake *fake, const struct operation *operation,
		      const struct flash_fake_fault *fault)
{
	const struct flash_io *io = operation->io;
	bool is_wrong = has_changed(operation);
	uint64_t reach = is_wrong ? 0 : reach_of(fake, operation, fault);
	int ret = change(fake, operation, reach);

	if (operation->write && !ret)
		ret = fake_log_end(fake->log, operation->write, reach);
	note_event(fake);
	if (is_wrong)
		ret = -EFAULT;
	if (io->opcode == FLASH_IO_DISCARD) {
		fake->counts.nr_discards++;
	} else {
		fake->counts.nr_writes++;
		fake->counts.bytes_written += reach;
	}
	return !ret && fault ? fault->error : ret;
}

static int end_flush(struct fake *fake, const struct operation *operation, int error)
{
	int ret = error;

	fake->counts.nr_flushes++;
	if (fake->log && !ret)
		ret = fake_log_flush(fake->log, operation->nr_ended);
	if (!error)
		note_event(fake);
	return ret;
}

/* Ends an operation. Returns whether anybody is told: behind a cut nobody is. */
static bool end(struct fake *fake, struct operation *operation)
{
	struct flash_io *io = operation->io;
	const struct flash_fake_fault *fault = meet_fault(fake, io);
	int error = fault ? fault->error : 0;

	switch (io->opcode) {
	case FLASH_IO_READ:
		io->result = end_read(fake, io, error);
		break;
	case FLASH_IO_WRITE:
	case FLASH_IO_DISCARD:
		io->result = end_change(fake, operation, fault);
		break;
	case FLASH_IO_FLUSH:
		io->result = end_flush(fake, operation, error);
		break;
	}
	if (fake->is_cut)
		return false;
	io->done(io);
	return true;
}

/* ---- Time */

static void tick(struct fake *fake, int timeout_ms)
{
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; i < fake->nr_in_flight; i++) {
		if (fake->in_flight[i]->due < first)
			first = fake->in_flight[i]->due;
	}
	fake->ticks = timeout_ms != 0 && first > fake->ticks ? first : fake->ticks + 1;
}

/* Those that end in this tick, in the order they end in. How many. */
static size_t take_due(struct fake *fake)
{
	size_t nr_due = 0, nr_left = 0;

	for (size_t i = 0; i < fake->nr_in_flight; i++) {
		struct operation *operation = fake->in_flight[i];

		if (operation->due <= fake->ticks)
			fake->due[nr_due++] = operation;
		else
			fake->in_flight[nr_left++] = operation;
	}
	fake->nr_in_flight = nr_left;
	for (size_t i = nr_due; i > 1 && !fake->options.is_in_order; i--) {
		size_t other = dice_below(&fake->dice, i);
		struct operation *moved = fake->due[i - 1];

		fake->due[i - 1] = fake->due[other];
		fake->due[other] = moved;
	}
	return nr_due;
}

static int fake_poll(struct flash_device *device, int timeout_ms)
{
	struct fake *fake = fake_of(device);
	int nr_ended = fake->is_cut ? 0 : flash_device_end_all(&fake->refused);
	size_t nr_due;

	if (!fake->is_cut && fake->nr_in_flight > 0) {
		tick(fake, nr_ended > 0 ? 0 : timeout_ms);
		nr_due = take_due(fake);
		for (size_t i = 0; i < nr_due; i++) {
			struct operation *operation = fake->due[i];

			if (!fake->is_cut && end(fake, operation))
				nr_ended++;
			free(operation);
		}
	}
	return fake->is_cut ? error_fail(-ENODEV, "fake flash device: its power was cut")
			    : nr_ended;
}

static int fake_fd(struct flash_device *device)
{
	(void)device;
	return -1;
}

/* ---- Opening and closing */

static void fake_close(struct flash_device *device)
{
	struct fake *fake = fake_of(device);

	for (size_t i = 0; i < fake->nr_in_flight; i++)
		free(fake->in_flight[i]);
	free(fake->in_flight);
	free(fake->due);
	flash_fake_heal(device);
	image_close(&fake->now);
	if (fake->log && fake->log->is_live)
		fake_log_close(fake->log);
	if (fake->origin)
		fake->origin->has_image = false;
	free(fake);
}

static const struct flash_device_ops fake_ops = {
	.submit = fake_submit, .poll = fake_poll, .fd = fake_fd, .close = fake_close};

/* Without memory of its own yet. NULL: no memory. */
static struct fake *make(const struct flash_fake_options *options, uint64_t seed)
{
	struct fake *fake = calloc(1, sizeof(*fake));

	if (!fake)
		return NULL;
	fake->options = *options;
	fake->dice = fake->options.seed = seed;
	if (fake->options.depth == 0)
		fake->options.depth = DEPTH_DEFAULT;
	if (fake->options.latency_max == 0)
		fake->options.latency_max = 1;
	fake->device = (struct flash_device){&fake_ops, options->size, options->sector,
					     options->discard_unit, fake->options.depth};
	CDS_INIT_LIST_HEAD(&fake->refused);
	CDS_INIT_LIST_HEAD(&fake->faults);
	return fake;
}

/* One that can lose power sees its memory through a log. */
static int give_memory(struct fake *fake, const struct image *below)
{
	const struct flash_fake_options *options = &fake->options;
	int ret = 0;

	if (options->can_lose_power)
		ret = fake_log_open(&fake->log, below, options->size, options->sector, true);
	if (ret)
		return ret;
	return image_open(&fake->now, fake->log ? &fake->log->base : below, options->size);
}

static bool is_right(const struct flash_fake_options *options)
{
	return (options->sector == 512 || options->sector == 4096) && options->size > 0 &&
	       options->size % options->sector == 0 && options->discard_unit % options->sector == 0;
}

int flash_fake_open(const struct flash_fake_options *options, struct flash_device **out)
{
	struct fake *fake;

	if (!is_right(options))
		return error_fail(-EINVAL, "open a fake flash device: its sector is 512 or 4096, "
					   "of which size and discard unit are multiples");
	fake = make(options, options->seed);
	if (!fake)
		return error_code(-ENOMEM);
	if (give_memory(fake, NULL)) {
		fake_close(&fake->device);
		return error_code(-ENOMEM);
	}
	*out = &fake->device;
	return 0;
}

/* ---- Looking at it */

void flash_fake_peek(const struct flash_device *device, uint64_t offset, void *to, uint64_t length)
{
	image_read(&const_fake_of(device)->now, offset, to, length);
}

int flash_fake_poke(struct flash_device *device, uint64_t offset, const void *from, uint64_t length)
{
	struct fake *fake = fake_of(device);
	int ret = image_write(&fake->now, offset, from, length);

	if (!ret && fake->log && fake->log->is_live)
		ret = image_write(&fake->log->base, offset, from, length);
	return ret;
}

void flash_fake_counts(const struct flash_device *device, struct flash_fake_counts *out)
{
	*out = const_fake_of(device)->counts;
}

uint64_t flash_fake_ticks(const struct flash_device *device)
{
	return const_fake_of(device)->ticks;
}

uint64_t flash_fake_events(const struct flash_device *device)
{
	return const_fake_of(device)->nr_events;
}

/* ---- Power */

void flash_fake_cut_after(struct flash_device *device, uint64_t nr_events)
{
	struct fake *fake = fake_of(device);

	fake->cut_behind = nr_events > 0 ? fake->nr_events + nr_events : 0;
	fake->is_cut = fake->is_cut || nr_events == 0;
}

bool flash_fake_is_cut(const struct flash_device *device)
{
	return const_fake_of(device)->is_cut;
}

int flash_fake_restart(struct flash_device *device, uint64_t seed, struct flash_device **out)
{
	struct fake *old = fake_of(device), *fake;
	int ret;

	if (!old->log || !old->log->is_live)
		return error_fail(-EINVAL, "restart a fake flash device: it cannot lose power");
	fake = make(&old->options, seed);
	if (!fake)
		return error_code(-ENOMEM);
	old->is_cut = true;
	ret = image_open(&fake->now, &old->log->base, fake->options.size);
	if (!ret)
		ret = fake_log_survive(old->log, seed, &old->log->base);
	if (ret) {
		fake_close(&fake->device);
		return error_code(ret);
	}
	fake_log_settle(old->log);
	fake->log = old->log;
	fake->origin = old->origin;
	old->log = NULL;
	old->origin = NULL;
	image_clear(&old->now);
	old->now.below = NULL;
	*out = &fake->device;
	return 0;
}

int flash_fake_record(struct flash_device *device, struct flash_fake_log **out)
{
	struct fake *fake = fake_of(device);
	struct flash_fake_log *log;

	if (fake->nr_events > 0 || fake->nr_in_flight > 0 || fake->origin)
		return error_fail(-EBUSY, "record a fake flash device: it has been in use");
	if (fake_log_open(&log, NULL, fake->options.size, fake->options.sector, false))
		return error_code(-ENOMEM);
	log->options = fake->options;
	if (fake->log)
		fake_log_close(fake->log);
	fake->now.below = NULL;
	fake->log = log;
	*out = log;
	return 0;
}

uint64_t flash_fake_log_events(const struct flash_fake_log *log)
{
	return log->nr_events;
}

int flash_fake_image_at(struct flash_fake_log *log, uint64_t nr_events, uint64_t seed,
			struct flash_device **out)
{
	struct fake *fake;
	int ret;

	if (nr_events > log->nr_events)
		return error_fail(-EINVAL, "an image of a fake flash device: there were %zu events",
				  log->nr_events);
	if (log->has_image)
		return error_fail(-EBUSY, "an image of a fake flash device: close the other one");
	fake = make(&log->options, seed);
	if (!fake)
		return error_code(-ENOMEM);
	ret = fake_log_go(log, nr_events);
	if (!ret)
		ret = give_memory(fake, &log->base);
	if (!ret)
		ret = fake_log_survive(log, seed, fake->log ? &fake->log->base : &fake->now);
	if (ret) {
		fake_close(&fake->device);
		return error_code(ret);
	}
	fake->origin = log;
	log->has_image = true;
	*out = &fake->device;
	return 0;
}

void flash_fake_log_close(struct flash_fake_log *log)
{
	fake_log_close(log);
}
