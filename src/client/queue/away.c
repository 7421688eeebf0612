/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that threads carry out, and give back; see away.h. */
#include "client/queue/away.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"

#define LINES 16U /* of failures, that are kept for afar_queue_explain() */

struct away_line {
	uint64_t user_data;
	int64_t result;
	char text[ERROR_LINE_BYTES];
};

struct queue_away {
	int event_fd;
	atomic_bool has_returned;
	pthread_mutex_t lock; /* guards the rest */
	struct cds_list_head returned;
	struct away_line lines[LINES];
	uint64_t nr_lines;
};

int away_open(struct afar_queue *queue)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct queue_away *away;

	if (queue->away)
		return 0;
	away = calloc(1, sizeof(*away));
	if (!away)
		return error_code(-ENOMEM);
	away->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (away->event_fd < 0 ||
	    epoll_ctl(queue->sleep_fd, EPOLL_CTL_ADD, away->event_fd, &event)) {
		int ret = error_code(-errno);

		if (away->event_fd >= 0)
			close(away->event_fd);
		free(away);
		return ret;
	}
	CDS_INIT_LIST_HEAD(&away->returned);
	pthread_mutex_init(&away->lock, NULL);
	queue->away = away;
	return 0;
}

void away_close(struct afar_queue *queue)
{
	struct queue_away *away = queue->away;

	if (!away)
		return;
	/* The thread that gave back the last one may still be about to unlock. */
	pthread_mutex_lock(&away->lock);
	pthread_mutex_unlock(&away->lock);
	pthread_mutex_destroy(&away->lock);
	close(away->event_fd);
	free(away);
}

int away_fd(const struct queue_away *away)
{
	return away->event_fd;
}

bool away_has_returned(const struct queue_away *away)
{
	return atomic_load_explicit(&away->has_returned, memory_order_relaxed);
}

void operation_go_away(struct afar_queue *queue, struct operation *operation)
{
	operation->waits = WAITS_FOR_THREAD;
	operation->status = 0;
	operation->remaining = 0;
	operation->queue = queue;
	queue->nr_away++;
}

void operation_come_back(struct afar_queue *queue, struct operation *operation)
{
	operation->waits = WAITS_NOT;
	queue->nr_away--;
}

void operation_return(struct operation *operation)
{
	struct queue_away *away = operation->queue->away;
	const uint64_t one = 1;

	pthread_mutex_lock(&away->lock);
	if (operation->answer < 0) {
		struct away_line *line = &away->lines[away->nr_lines++ % LINES];

		line->user_data = operation->user_data;
		line->result = operation->answer;
		strncpy(line->text, error_last_line(), sizeof(line->text) - 1);
	}
	cds_list_add_tail(&operation->waiting_node, &away->returned);
	if (!away_has_returned(away)) {
		atomic_store_explicit(&away->has_returned, true, memory_order_relaxed);
		/* It has room for more than we ever add. */
		(void)!write(away->event_fd, &one, sizeof(one));
	}
	pthread_mutex_unlock(&away->lock);
}

bool away_take_returned(struct afar_queue *queue, away_finish *finish)
{
	struct queue_away *away = queue->away;
	struct operation *operation, *next;
	CDS_LIST_HEAD(returned);
	uint64_t nr;

	if (!away_has_returned(away))
		return false;
	pthread_mutex_lock(&away->lock);
	cds_list_splice(&away->returned, &returned);
	CDS_INIT_LIST_HEAD(&away->returned);
	atomic_store_explicit(&away->has_returned, false, memory_order_relaxed);
	(void)!read(away->event_fd, &nr, sizeof(nr));
	pthread_mutex_unlock(&away->lock);
	cds_list_for_each_entry_safe (operation, next, &returned, waiting_node) {
		cds_list_del(&operation->waiting_node);
		operation_come_back(queue, operation);
		finish(queue, operation);
	}
	return true;
}

bool away_say(const struct queue_away *away, const struct afar_completion *completion)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&away->lock;
	bool is_known = false;

	pthread_mutex_lock(lock);
	for (unsigned i = 1; i <= LINES && i <= away->nr_lines && !is_known; i++) {
		const struct away_line *line = &away->lines[(away->nr_lines - i) % LINES];

		is_known = line->user_data == completion->user_data &&
			   line->result == completion->result;
		if (is_known)
			error_fail((int)completion->result, "%s", line->text);
	}
	pthread_mutex_unlock(lock);
	return is_known;
}
