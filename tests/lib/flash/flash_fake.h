/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device of memory for tests: slow, failing, losing power as it is told, and the same each time
 * for the same seed.
 *
 * With a log, live or recording, a write whose memory changed before it ended is not done and ends
 * with -EFAULT.
 *
 * Its clock ticks once per poll; a poll that waits lets it tick until something ends. Operations
 * that end in one tick end in any order. Data is read and written when an operation ends, never
 * before. Discarded bytes read as before, as zeros, or as something else.
 *
 * Events are what a power cut can fall behind: a write or a discard was submitted, one has ended, a
 * flush has ended. In an operation's `done`, flash_fake_events() says how many there were when it
 * ended. All that the operation promises must be there after a cut behind that many, and behind
 * more. After a cut, each sector that was written and not flushed is there or not, by seed. All of
 * a write survives, none, or any of its sectors. So it is with those in flight.
 *
 * Power is lost in two ways. Live: flash_fake_cut_after(), then flash_fake_restart(). Or from a
 * record, to try a cut behind every event of a long run: flash_fake_image_at() makes what
 * survived at any point of it.
 */
#ifndef TESTS_FLASH_FAKE_H
#define TESTS_FLASH_FAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "flash/device/device.h"

struct flash_fake_options {
	uint64_t size; /* these as in struct flash_device; `depth` 0: 32       */
	uint32_t sector;
	uint32_t discard_unit;
	unsigned depth;
	uint64_t seed;
	unsigned latency_max; /* an operation takes 1 to that many ticks; 0: 1             */
	bool is_in_order;     /* what ends in one tick ends as it was submitted            */
	bool can_lose_power;  /* it can be cut and restarted, which costs memory and time  */
};

/* A fault of one kind of operations, which fail until as many did as were to. */
struct flash_fake_fault {
	enum flash_io_opcode opcode;
	uint64_t offset; /* those that touch this range; of flushes all */
	uint64_t length;
	/*
	 * Negative; a write is there in part. 0, of a write: it ends well, and is not there at all.
	 */
	int error;
	unsigned skip; /* those before it that go well */
	unsigned nr;   /* 0: each from then on         */
};

/* How many ended, whether well or not. */
struct flash_fake_counts {
	uint64_t nr_reads, nr_writes, nr_discards, nr_flushes;
	uint64_t bytes_read, bytes_written;
};

/*
 * Returns 0, or with a sentence: -EINVAL: sizes that do not fit; -ENOMEM. Its memory is that of the
 * blocks written.
 */
int flash_fake_open(const struct flash_fake_options *options, struct flash_device **out);

/* Adds a fault. Those added before come first; each operation meets one. Returns 0, or -ENOMEM. */
int flash_fake_fail(struct flash_device *device, const struct flash_fake_fault *fault);
/* Ends all faults. */
void flash_fake_heal(struct flash_device *device);

/*
 * Looks at what is there, and changes it behind everybody's back: also what would survive, but no
 * record. Returns 0, or -ENOMEM.
 */
void flash_fake_peek(const struct flash_device *device, uint64_t offset, void *to, uint64_t length);
int flash_fake_poke(struct flash_device *device, uint64_t offset, const void *from,
		    uint64_t length);

void flash_fake_counts(const struct flash_device *device, struct flash_fake_counts *out);
uint64_t flash_fake_ticks(const struct flash_device *device);
uint64_t flash_fake_events(const struct flash_device *device);

/* ---- Power, live */

/*
 * Cuts it behind `nr_events` more events; 0: now. From then on no operation ends, and polls fail
 * with -ENODEV.
 */
void flash_fake_cut_after(struct flash_device *device, uint64_t nr_events);
bool flash_fake_is_cut(const struct flash_device *device);

/*
 * A device with what survived a cut, which falls now if it did not before, with `seed` and nothing
 * else new. Needs `can_lose_power`. The old one is to be closed, before or after, and no operation
 * of it ends any more: whoever submitted them has them back. Returns 0, or with a sentence:
 * -EINVAL; -ENOMEM.
 */
int flash_fake_restart(struct flash_device *device, uint64_t seed, struct flash_device **out);

/* ---- Power, recorded */

struct flash_fake_log;

/*
 * From now on all is recorded, until the device is closed. The log is the caller's. Returns 0, or
 * with a sentence: -EBUSY: something was submitted already; -ENOMEM.
 */
int flash_fake_record(struct flash_device *device, struct flash_fake_log **out);

uint64_t flash_fake_log_events(const struct flash_fake_log *log);

/*
 * Makes what survived a cut behind the first `nr_events` events, as a device like the recorded
 * one, with `seed`. It can lose power if that could. No other one of this log is open. Cheap
 * where `nr_events` grows from call to call. Returns 0, or with a sentence: -EINVAL: there were
 * not as many; -EBUSY; -ENOMEM.
 */
int flash_fake_image_at(struct flash_fake_log *log, uint64_t nr_events, uint64_t seed,
			struct flash_device **out);

/* No device of it is open. */
void flash_fake_log_close(struct flash_fake_log *log);

#endif
