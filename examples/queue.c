/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue: sixteen reads of a region in flight at once, from one thread, with no call per completion.
 *
 *   ./queue NAMESPACE:REGION       prints the sum of the region's bytes
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <afar/afar.h>

#define DEPTH 16
#define BLOCK ((size_t)1 << 20)

static void check(int ret)
{
	if (ret < 0) {
		fprintf(stderr, "queue: %s\n", afar_last_error());
		exit(1);
	}
}

static uint64_t sum_bytes(const uint8_t *bytes, size_t length)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < length; i++)
		sum += bytes[i];
	return sum;
}

/* Asks for the next block into slot `slot`; the slot's number comes back with the completion. */
static void submit(struct afar_queue *queue, struct afar_region *region, struct afar_iov *iov,
		   unsigned slot, uint64_t offset, uint64_t length)
{
	struct afar_op op;

	iov->length = length - offset < BLOCK ? length - offset : BLOCK;
	afar_prep_read(&op, afar_region_target(region), iov, 1, offset);
	op.user_data = slot;
	check(afar_queue_submit(queue, &op, 1));
}

int main(int argc, char **argv)
{
	struct afar_session *session;
	struct afar_namespace *ns;
	struct afar_region *region;
	struct afar_region_stat stat = {.size = sizeof(stat)};
	struct afar_buffer *buffer;
	struct afar_queue *queue;
	struct afar_iov iov[DEPTH];
	uint64_t next = 0, sum = 0;
	unsigned nr_in_flight = 0;
	char *name = argc == 2 ? strchr(argv[1], ':') : NULL;

	if (!name) {
		fprintf(stderr, "usage: queue NAMESPACE:REGION\n");
		return 2;
	}
	*name++ = '\0';
	check(afar_session_open(NULL, NULL, &session));
	check(afar_namespace_open(session, argv[1], &ns));
	check(afar_region_open(ns, name, &region));
	check(afar_region_stat(region, &stat));
	check(afar_buffer_alloc(session, DEPTH * BLOCK, &buffer));
	check(afar_queue_open(session, NULL, &queue));
	check(afar_queue_connect(queue, afar_region_target(region)));

	for (unsigned slot = 0; slot < DEPTH && next < stat.length; slot++, next += BLOCK) {
		iov[slot].buffer = buffer;
		iov[slot].addr = (char *)afar_buffer_data(buffer) + slot * BLOCK;
		submit(queue, region, &iov[slot], slot, next, stat.length);
		nr_in_flight++;
	}
	while (nr_in_flight) {
		struct afar_completion done[DEPTH];
		int count = afar_queue_wait(queue, done, DEPTH, 1, -1);

		check(count);
		for (int i = 0; i < count; i++) {
			unsigned slot = (unsigned)done[i].user_data;

			if (done[i].result < 0) {
				afar_queue_explain(queue, &done[i]);
				fprintf(stderr, "queue: %s\n", afar_last_error());
				return 1;
			}
			sum += sum_bytes(iov[slot].addr, (size_t)done[i].result);
			nr_in_flight--;
			if (next < stat.length) {
				submit(queue, region, &iov[slot], slot, next, stat.length);
				next += BLOCK;
				nr_in_flight++;
			}
		}
	}
	printf("%llu\n", (unsigned long long)sum);

	check(afar_queue_close(queue));
	check(afar_buffer_unregister(buffer));
	check(afar_region_close(region));
	check(afar_namespace_close(ns));
	check(afar_session_close(session));
	return 0;
}
