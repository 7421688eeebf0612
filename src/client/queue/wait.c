/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting on a queue: spins, then sleeps, until progress has moved something or a time has come.
 * Only this asks the clock and the kernel; an operation's own path does not.
 */
#include <poll.h>

#include "client/queue/away.h"

#define POLLS_PER_CLOCK	 16	 /* between looks at the clock, while spinning */
#define SPIN_NS_PER_BYTE 1	 /* 1 GB/s: for a slower transfer, spinning does not pay */
#define SPIN_NS_MAX	 1000000 /* in addition to the session's own */
#define BULK_BYTES	 ((uint64_t)128 << 10) /* in flight: bandwidth counts, not the last µs */
#define BULK_PAUSE_NS	 4000

bool queue_arm(struct afar_queue *queue)
{
	for (unsigned f = 0; f < queue->nr_fabrics; f++) {
		if (fabric_queue_arm(queue->fabrics[f]) != 0)
			return false;
	}
	return queue->nr_away == 0 || !away_has_returned(queue->away);
}

void queue_doze(struct afar_queue *queue, uint64_t deadline)
{
	struct pollfd waits[FABRICS_MAX + 1];
	nfds_t nr = queue->nr_fabrics;
	uint64_t first = queue_first_deadline(queue);

	for (unsigned f = 0; f < queue->nr_fabrics; f++)
		waits[f] =
			(struct pollfd){.fd = fabric_queue_fd(queue->fabrics[f]), .events = POLLIN};
	if (queue->nr_away != 0)
		waits[nr++] = (struct pollfd){.fd = away_fd(queue->away), .events = POLLIN};
	poll(waits, nr, clock_remaining_ms(first < deadline ? first : deadline));
}

void queue_sleep(struct afar_queue *queue, uint64_t deadline)
{
	if (queue_arm(queue))
		queue_doze(queue, deadline);
}

/* Returns how long to spin. Large transfers take long, and sleeping between their completions costs
 * the sender, who has to wake us, a third of its bandwidth. */
static uint64_t spin_ns(const struct afar_queue *queue)
{
	uint64_t moving_ns = queue->bytes_in_flight * SPIN_NS_PER_BYTE;

	if (queue->session->spin_ns == 0)
		return 0;
	return queue->session->spin_ns + (moving_ns < SPIN_NS_MAX ? moving_ns : SPIN_NS_MAX);
}

/*
 * Pauses between two looks at a bulk transfer. Looking all the time would take the bytes in small
 * pieces, and contend for the socket's locks with the side that fills it. It would cost 2 to 4 % of
 * the bandwidth over loopback.
 */
bool queue_wait_progress(struct afar_queue *queue, uint64_t deadline)
{
	uint64_t now = clock_ns();
	uint64_t spin_until = now + spin_ns(queue);

	spin_begin(&queue->spin, now);
	for (;;) {
		const unsigned nr_polls = queue->spin.is_crowded ? 1 : POLLS_PER_CLOCK;

		for (unsigned i = 0; i < nr_polls; i++) {
			if (queue_progress(queue))
				return true;
			if (queue->bytes_in_flight >= BULK_BYTES)
				clock_pause_ns(BULK_PAUSE_NS);
		}
		now = clock_ns();
		if (now < spin_until && now < deadline) {
			spin_pause(&queue->spin, now);
			continue;
		}
		if (queue_check(queue))
			return true;
		if (now >= deadline)
			return false;
		queue_sleep(queue, deadline);
		spin_until = 0;
	}
}
