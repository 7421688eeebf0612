/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes metrics as text: OpenMetrics 1.0, or Prometheus' older format 0.0.4, for whoever does not ask for the former. Pure.
 *
 * The samples of a family follow it at once, and no family comes twice. No two samples of a family may have the same
 * labels: the caller gives each thing a label of its own.
 */
#ifndef AFARD_OPENMETRICS_H
#define AFARD_OPENMETRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/latency.h"

enum metric_type {
	METRIC_COUNTER,	  /* grows; its samples' names end in _total */
	METRIC_GAUGE,	  /* rises and falls */
	METRIC_HISTOGRAM, /* of seconds */
	METRIC_INFO,	  /* labels alone; its sample's name ends in _info */
};

/* `name` ends in its unit, if it has one, and in neither _total nor _info. */
struct metric_family {
	const char *name;
	enum metric_type type;
	const char *unit; /* "bytes", "seconds"; NULL: none */
	const char *help;
};

struct metric_label {
	const char *name;  /* NULL: the last was before it */
	const char *value; /* any bytes; those that are no UTF-8 become '?' */
};

struct metrics_text {
	char *bytes;
	size_t length, room;
	bool is_open;	 /* OpenMetrics */
	bool has_failed; /* there was no memory, so it is not whole */
	const struct metric_family *family;
};

void metrics_begin(struct metrics_text *text, bool is_open);
void metrics_family(struct metrics_text *text, const struct metric_family *family);
/* Labels may be NULL. */
void metrics_number(struct metrics_text *text, const struct metric_label *labels, uint64_t value);
void metrics_real(struct metrics_text *text, const struct metric_label *labels, double value);
void metrics_info(struct metrics_text *text, const struct metric_label *labels);
/* Its buckets are always the same, so that those of several can be added. */
void metrics_histogram(struct metrics_text *text, const struct metric_label *labels,
		       const struct latency *latency);
/* Ends the text. Returns it, for free(), and its length; NULL: no memory. */
char *metrics_end(struct metrics_text *text, size_t *length);

#endif
