/* SPDX-License-Identifier: BSD-3-Clause */
/* Which slow operations get a line. Owns the count of the present second. */
#include "base/slow.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#define SECOND_NS UINT64_C(1000000000)

_Atomic uint64_t slow_threshold_ns;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t second_ends;
static unsigned nr_shown;
static _Atomic uint64_t nr_hidden;

/* With the lock held. Begins another second if the last one is over. Returns how many lines that has not shown. */
static uint64_t next_second(uint64_t now)
{
	if (now < second_ends)
		return 0;
	second_ends = now + SECOND_NS;
	nr_shown = 0;
	return atomic_exchange(&nr_hidden, 0);
}

static void tell(uint64_t nr)
{
	const struct log_field field = LOG_NUMBER("nr_not_shown", nr);
	const struct log_site site = {
		.file = __FILE__, .level = LOG_LEVEL_WARN, .fields = &field, .nr_fields = 1};

	if (nr > 0)
		log_write(&site, "%" PRIu64 " more slow operations not shown", nr);
}

bool slow_write(const char *file, uint64_t now, const struct log_field *fields, size_t nr_fields,
		const char *format, ...)
{
	const struct log_site site = {
		.file = file, .level = LOG_LEVEL_WARN, .fields = fields, .nr_fields = nr_fields};
	char text[1024];
	va_list arguments;
	uint64_t nr_before;
	bool is_shown;

	pthread_mutex_lock(&lock);
	nr_before = next_second(now);
	is_shown = nr_shown < SLOW_SHOWN_MAX;
	if (is_shown)
		nr_shown++;
	else
		atomic_fetch_add(&nr_hidden, 1);
	pthread_mutex_unlock(&lock);
	tell(nr_before);
	if (!is_shown)
		return false;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	log_write(&site, "%s", text);
	return true;
}

void slow_tell(uint64_t now)
{
	uint64_t nr;

	if (atomic_load_explicit(&nr_hidden, memory_order_relaxed) == 0)
		return;
	pthread_mutex_lock(&lock);
	nr = next_second(now);
	pthread_mutex_unlock(&lock);
	tell(nr);
}
