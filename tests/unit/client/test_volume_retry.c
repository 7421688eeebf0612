/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A volume waits for its servers, against a store that ends and begins again at any moment. With each
 * end, changes that no sync covers are lost or not, and failed operations took effect or not. The
 * program sees nothing of that, and nothing that was promised is lost, whenever the program ends.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "client/namespace/region.h"
#include "client/volume/volume.h"
#include "unit/group.h"

/* ---- A store of cells. A change gives all cells of its range its number, which counts up. */

#define CELLS	   64U
#define CELL	   8U /* bytes */
#define NR_THREADS 4U
#define NR_OWN	   (CELLS / NR_THREADS) /* each thread has as many for itself */

static struct store {
	pthread_mutex_t lock;
	bool is_open;		  /* else these tests do not run: calls go where they went */
	uint64_t present[CELLS];  /* what a read finds */
	uint64_t durable[CELLS];  /* what is there after an end for sure */
	uint64_t promised[CELLS]; /* the oldest that may be there after an end, ever */
	uint64_t zeroed[CELLS];	  /* the number of the last change that was zeros */
	uint64_t serial, opening, remembered;
	uint64_t random;
	unsigned end_each; /* it ends at one operation in so many; 0: never */
	unsigned nr_ends, nr_operations, nr_reconnects;
	int reconnect_status, make_status;
	void (*behind_sync)(
		void); /* happens when a sync has been carried out, and before it ends */
	struct afar_volume *volume;
} store;

static uint64_t random_below(uint64_t limit)
{
	store.random = store.random * 6364136223846793005ULL + 1442695040888963407ULL;
	return (store.random >> 24) % limit;
}

/* Never older than what was promised, for it may be what is found when all ends now. */
static void check_cell(uint64_t cell)
{
	uint64_t number = store.present[cell] ? store.present[cell] : store.zeroed[cell];

	assert_true(number >= store.promised[cell]);
}

static void end_store(void)
{
	for (uint64_t i = 0; i < CELLS; i++) {
		if (random_below(2))
			store.present[i] = store.durable[i];
		store.durable[i] = store.present[i];
		check_cell(i);
	}
	store.serial++;
	store.opening++;
	store.nr_ends++;
}

static int sync_store(const struct afar_target *target)
{
	memcpy(store.durable, store.present, sizeof(store.durable));
	if (store.remembered == store.opening)
		return 0;
	if (!target->keeps_opening)
		store.remembered = store.opening;
	return -AFAR_EUNSYNCED;
}

static int carry_out(const struct afar_op *op, uint64_t length)
{
	uint64_t first = op->offset / CELL, nr = length / CELL;

	if (op->opcode == AFAR_OP_SYNC)
		return sync_store(op->target);
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t *cell = op->nr_iov ? (uint64_t *)op->iov[0].addr + i : NULL;

		if (op->opcode == AFAR_OP_READ) {
			*cell = store.present[first + i];
			continue;
		}
		store.present[first + i] = cell ? *cell : 0;
		if (op->flags & AFAR_OP_DURABLE)
			store.durable[first + i] = store.present[first + i];
		check_cell(first + i);
	}
	return 0;
}

int __real_target_try(const struct afar_op *op, uint64_t length, uint64_t serial,
		      uint64_t deadline);
int __wrap_target_try(const struct afar_op *op, uint64_t length, uint64_t serial,
		      uint64_t deadline);

int __wrap_target_try(const struct afar_op *op, uint64_t length, uint64_t serial, uint64_t deadline)
{
	static const int failures[] = {-AFAR_ESERVER, -ETIMEDOUT, -ECANCELED};
	int ret;

	if (!store.is_open)
		return __real_target_try(op, length, serial, deadline);
	pthread_mutex_lock(&store.lock);
	store.nr_operations++;
	if (serial != store.serial) {
		ret = -ESTALE;
	} else if (store.make_status && op->opcode == AFAR_OP_WRITE) {
		ret = store.make_status;
	} else if (store.end_each && random_below(store.end_each) == 0) {
		if (random_below(2))
			carry_out(op, length);
		end_store();
		ret = failures[random_below(3)];
	} else {
		ret = carry_out(op, length);
	}
	pthread_mutex_unlock(&store.lock);
	if (op->opcode == AFAR_OP_SYNC && store.behind_sync)
		store.behind_sync();
	sched_yield();
	return ret;
}

int __real_target_reconnect(struct afar_target *target, uint64_t deadline, uint64_t *serial);
int __wrap_target_reconnect(struct afar_target *target, uint64_t deadline, uint64_t *serial);

int __wrap_target_reconnect(struct afar_target *target, uint64_t deadline, uint64_t *serial)
{
	if (!store.is_open)
		return __real_target_reconnect(target, deadline, serial);
	pthread_mutex_lock(&store.lock);
	store.nr_reconnects++;
	*serial = store.serial;
	pthread_mutex_unlock(&store.lock);
	return store.reconnect_status;
}

uint64_t __real_session_deadline(const struct afar_session *session);
uint64_t __wrap_session_deadline(const struct afar_session *session);

uint64_t __wrap_session_deadline(const struct afar_session *session)
{
	return store.is_open ? CLOCK_NEVER : __real_session_deadline(session);
}

void __real_volume_log_drop(struct volume_log *log, uint64_t mark);
void __wrap_volume_log_drop(struct volume_log *log, uint64_t mark);

/* A replay that runs, or was cut off, must find all that it began with. */
void __wrap_volume_log_drop(struct volume_log *log, uint64_t mark)
{
	if (store.is_open)
		assert_int_equal(pthread_rwlock_trywrlock(&store.volume->gate), EBUSY);
	__real_volume_log_drop(log, mark);
}

void __real_volume_log_end(struct volume_log *log, struct log_entry *entry, bool is_done);
void __wrap_volume_log_end(struct volume_log *log, struct log_entry *entry, bool is_done);

/* Nor may a replay pass a change by that has just been made. */
void __wrap_volume_log_end(struct volume_log *log, struct log_entry *entry, bool is_done)
{
	if (store.is_open)
		assert_int_equal(pthread_rwlock_trywrlock(&store.volume->gate), EBUSY);
	__real_volume_log_end(log, entry, is_done);
}

/* ---- The volume */

static struct afar_session session = {.lock = PTHREAD_MUTEX_INITIALIZER}; /* has not ended */
static struct afar_namespace ns = {.session = &session};
static struct afar_region region;
static struct afar_volume volume;

static void open_volume(uint32_t mode, uint32_t retry_ms)
{
	region = (struct afar_region){.target = {.is_flash = true}};
	volume = (struct afar_volume){.ns = &ns, .region = &region, .mode = mode};
	assert_int_equal(volume_retry_open(&volume, retry_ms, 0), 0);
	store = (struct store){
		.lock = PTHREAD_MUTEX_INITIALIZER, .is_open = true, .random = 1, .volume = &volume};
}

static int close_volume(void **state)
{
	(void)state;
	store.is_open = false;
	volume_retry_close(&volume);
	return 0;
}

#define RETRY_TEST(name) cmocka_unit_test_teardown(name, close_volume)

/* An operation on whole cells. */
static struct afar_op op_of(uint16_t opcode, uint64_t first, uint64_t nr, struct afar_iov *iov)
{
	struct afar_op op = {.opcode = opcode, .target = &region.target, .offset = first * CELL};

	if (opcode == AFAR_OP_READ || opcode == AFAR_OP_WRITE) {
		op.iov = iov;
		op.nr_iov = 1;
		iov->length = nr * CELL;
	} else {
		op.operand = nr * CELL;
	}
	return op;
}

static int write_cells(uint64_t first, uint64_t nr, uint64_t number, uint32_t flags)
{
	uint64_t values[CELLS];
	struct afar_iov iov = {.addr = values};
	struct afar_op op = op_of(AFAR_OP_WRITE, first, nr, &iov);

	op.flags = flags;
	for (uint64_t i = 0; i < nr; i++)
		values[i] = number;
	return volume.log ? volume_change(&volume, &op, nr * CELL)
			  : volume_carry_out(&volume, &op, nr * CELL);
}

static int read_cells(uint64_t first, uint64_t nr, uint64_t *values)
{
	struct afar_iov iov = {.addr = values};
	struct afar_op op = op_of(AFAR_OP_READ, first, nr, &iov);

	return volume_carry_out(&volume, &op, nr * CELL);
}

static void expect_cell(uint64_t cell, uint64_t number)
{
	uint64_t value;

	assert_int_equal(read_cells(cell, 1, &value), 0);
	assert_int_equal(value, number);
}

/* ---- Many threads, many ends */

#define NR_STEPS 1500U

struct writer {
	uint64_t id, random;
	uint64_t cells[NR_OWN]; /* what it has written */
};

static uint64_t random_of(struct writer *writer, uint64_t limit)
{
	writer->random = writer->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return (writer->random >> 24) % limit;
}

static void promise(const struct writer *writer, uint64_t first, uint64_t nr, uint64_t number)
{
	pthread_mutex_lock(&store.lock);
	for (uint64_t i = first; i < first + nr; i++) {
		uint64_t cell = writer->id * NR_OWN + i;

		if (number)
			store.promised[cell] = number;
		else
			store.promised[cell] =
				writer->cells[i] ? writer->cells[i] : store.zeroed[cell];
	}
	pthread_mutex_unlock(&store.lock);
}

static void change(struct writer *writer, uint64_t first, uint64_t nr, uint64_t number)
{
	uint32_t flags = random_of(writer, 4) ? 0 : AFAR_OP_DURABLE;

	assert_int_equal(write_cells(writer->id * NR_OWN + first, nr, number, flags), 0);
	for (uint64_t i = first; i < first + nr; i++)
		writer->cells[i] = number;
	if (flags)
		promise(writer, first, nr, number);
}

static void zero(struct writer *writer, uint64_t first, uint64_t nr, uint64_t number)
{
	uint16_t opcode = random_of(writer, 2) ? AFAR_OP_ZERO : AFAR_OP_TRIM;
	struct afar_op op = op_of(opcode, writer->id * NR_OWN + first, nr, NULL);

	pthread_mutex_lock(&store.lock);
	for (uint64_t i = first; i < first + nr; i++)
		store.zeroed[writer->id * NR_OWN + i] = number;
	pthread_mutex_unlock(&store.lock);
	assert_int_equal(volume_change(&volume, &op, nr * CELL), 0);
	for (uint64_t i = first; i < first + nr; i++)
		writer->cells[i] = 0;
}

static void *use_volume(void *argument)
{
	struct writer *writer = argument;
	uint64_t values[NR_OWN];

	for (uint64_t number = 1; number <= NR_STEPS; number++) {
		uint64_t nr = 1 + random_of(writer, NR_OWN);
		uint64_t first = random_of(writer, NR_OWN - nr + 1);

		switch (random_of(writer, 12)) {
		case 0:
			assert_int_equal(volume_sync(&volume), 0);
			promise(writer, 0, NR_OWN, 0);
			break;
		case 1:
			zero(writer, first, nr, number);
			break;
		case 2:
		case 3:
		case 4:
			assert_int_equal(read_cells(writer->id * NR_OWN + first, nr, values), 0);
			assert_memory_equal(values, &writer->cells[first], nr * CELL);
			break;
		default:
			change(writer, first, nr, number);
			break;
		}
	}
	return NULL;
}

static void test_many_ends(void **state)
{
	static struct writer writers[NR_THREADS];
	pthread_t threads[NR_THREADS];

	(void)state;
	open_volume(AFAR_VOLUME_EXCLUSIVE, 600000);
	store.end_each = 150;
	for (uint64_t i = 0; i < NR_THREADS; i++) {
		writers[i] = (struct writer){.id = i, .random = i};
		pthread_create(&threads[i], NULL, use_volume, &writers[i]);
	}
	for (size_t i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_true(store.nr_ends > 10);
	store.end_each = 0;
	end_store();
	for (uint64_t i = 0; i < CELLS; i++)
		expect_cell(i, writers[i / NR_OWN].cells[i % NR_OWN]);
}

/* ---- One thing each */

/* No sync says that something was lost, for nothing is missing. */
static void test_no_sync_fails(void **state)
{
	(void)state;
	open_volume(AFAR_VOLUME_EXCLUSIVE, 1000);
	for (uint64_t number = 1; number <= 5; number++) {
		assert_int_equal(write_cells(0, 1, number, 0), 0);
		end_store();
		store.present[0] = store.durable[0] = 0;
		assert_int_equal(volume_sync(&volume), 0);
		assert_int_equal(store.durable[0], number);
	}
}

/* A store was reached again before anybody noticed that it had ended. A sync notices, and goes on
 * noticing until what was lost is there again. */
static void test_sync_notices(void **state)
{
	(void)state;
	open_volume(AFAR_VOLUME_EXCLUSIVE, 1000);
	for (int can_write = 0; can_write < 2; can_write++) {
		assert_int_equal(write_cells(0, 1, 7, 0), 0);
		store.opening++;
		store.present[0] = store.durable[0] = 0;
		if (!can_write) {
			store.make_status = -ENOSPC;
			assert_int_equal(volume_sync(&volume), -ENOSPC);
			assert_int_equal(volume_sync(&volume), -ENOSPC);
			store.make_status = 0;
		}
		assert_int_equal(volume_sync(&volume), 0);
		assert_int_equal(store.durable[0], 7);
	}
}

static void write_behind(void)
{
	store.behind_sync = NULL;
	assert_int_equal(write_cells(1, 1, 9, 0), 0);
}

/* A sync on its way does not cover what another thread writes meanwhile. */
static void test_sync_covers_what_had_ended(void **state)
{
	(void)state;
	open_volume(AFAR_VOLUME_EXCLUSIVE, 1000);
	assert_int_equal(write_cells(0, 1, 7, 0), 0);
	store.behind_sync = write_behind;
	assert_int_equal(volume_sync(&volume), 0);
	assert_int_equal(store.durable[0], 7);
	end_store();
	store.present[1] = store.durable[1] = 0;
	expect_cell(1, 9);
}

/* A volume that others may write cannot make its changes again: a sync says that once. */
static void test_shared_says_so(void **state)
{
	(void)state;
	open_volume(AFAR_VOLUME_SHARED, 1000);
	assert_null(volume.log);
	assert_int_equal(write_cells(0, 1, 7, 0), 0);
	end_store();
	assert_int_equal(volume_sync(&volume), -AFAR_EUNSYNCED);
	assert_int_equal(volume_sync(&volume), 0);
	expect_cell(0, store.present[0]);
}

/* While changes cannot be made again, nothing else is done; then they are. */
static void test_nothing_passes_a_replay(void **state)
{
	static const int statuses[] = {-ENOSPC, -EBADMSG, -AFAR_ELOST};
	uint64_t value, was;

	(void)state;
	open_volume(AFAR_VOLUME_EXCLUSIVE, 1);
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(write_cells(0, 1, 10 + i, 0), 0);
		end_store();
		store.present[0] = store.durable[0] = was = 3;
		store.make_status = statuses[i];
		assert_int_equal(read_cells(0, 1, &value), statuses[i]);
		assert_int_equal(volume_sync(&volume), statuses[i]);
		assert_int_equal(write_cells(0, 1, 20, 0), statuses[i]);
		assert_int_equal(store.present[0], was);
		store.make_status = 0;
		expect_cell(0, 10 + i);
	}
}

/* The manager says that the session has ended: nothing that it had begun lands any more. */
static void test_taken_over(void **state)
{
	uint64_t value;

	(void)state;
	open_volume(AFAR_VOLUME_EXCLUSIVE, 1000);
	assert_int_equal(write_cells(0, 2, 7, 0), 0);
	end_store();
	store.present[0] = 8; /* whoever took it over */
	store.reconnect_status = -AFAR_ESESSION;
	assert_int_equal(read_cells(0, 1, &value), -AFAR_ESESSION);
	assert_int_equal(write_cells(0, 1, 9, 0), -AFAR_ESESSION);
	assert_int_equal(volume_sync(&volume), -AFAR_ESESSION);
	assert_int_equal(store.present[0], 8);
	assert_int_equal(store.nr_reconnects, 1 + 3); /* it does not try again and again */
}

/* Its time is over: it fails, and does not make again what was being written. It makes again what
 * was written before. */
static void test_time_is_over(void **state)
{
	uint64_t value;

	(void)state;
	open_volume(AFAR_VOLUME_EXCLUSIVE, 1);
	assert_int_equal(write_cells(0, 1, 7, 0), 0);
	end_store();
	store.present[0] = store.durable[0] = 3;
	store.reconnect_status = -AFAR_ESERVER;
	assert_int_equal(write_cells(0, 1, 8, 0), -AFAR_ESERVER);
	assert_int_equal(read_cells(0, 1, &value), -AFAR_ESERVER);
	store.reconnect_status = 0;
	expect_cell(0, 7);
}

/* More changes than the log has room for: it syncs by itself. */
static void test_log_is_full(void **state)
{
	(void)state;
	open_volume(AFAR_VOLUME_EXCLUSIVE, 1000);
	volume_log_close(volume.log);
	assert_int_equal(volume_log_open(0, &volume.log), 0);
	for (uint64_t i = 1; i < 3 * VOLUME_LOG_MIN / (CELLS * CELL); i++) {
		assert_int_equal(write_cells(0, CELLS, i, 0), 0);
		if (i % 1000 == 0)
			end_store();
	}
	assert_true(store.durable[0] != 0);
}

/* No log has what the process before this one had written. A sync says once that it may be lost, also if the log was synced
 * before the program asked. */
static void test_former_handle(void **state)
{
	(void)state;
	for (int is_recovered = 0; is_recovered < 2; is_recovered++) {
		open_volume(AFAR_VOLUME_EXCLUSIVE, 1000);
		volume.is_successor = true;
		store.opening++;
		assert_int_equal(write_cells(0, 1, 7, 0), 0);
		if (is_recovered)
			end_store();
		assert_int_equal(write_cells(0, 1, 8, 0), 0);
		assert_int_equal(store.remembered == store.opening, is_recovered);
		assert_int_equal(volume_sync(&volume), -AFAR_EUNSYNCED);
		assert_int_equal(volume_sync(&volume), 0);
		end_store();
		assert_int_equal(volume_sync(&volume), 0);
		if (!is_recovered)
			close_volume(NULL);
	}
}

TEST_GROUP(volume_retry)
{
	const struct CMUnitTest tests[] = {
		RETRY_TEST(test_many_ends),	 RETRY_TEST(test_no_sync_fails),
		RETRY_TEST(test_sync_notices),	 RETRY_TEST(test_sync_covers_what_had_ended),
		RETRY_TEST(test_shared_says_so), RETRY_TEST(test_nothing_passes_a_replay),
		RETRY_TEST(test_taken_over),	 RETRY_TEST(test_time_is_over),
		RETRY_TEST(test_log_is_full),	 RETRY_TEST(test_former_handle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
