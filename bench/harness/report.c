/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Statistics over what the harness measured, and how they are shown: the table for people, the JSON
 * for programs. Owns nothing.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "congestion.h"
#include "harness.h"
#include "peers/raw_fabric.h"

static int compare_doubles(const void *left, const void *right)
{
	double a = *(const double *)left;
	double b = *(const double *)right;

	return (a > b) - (a < b);
}

double bench_median(const double *values, unsigned nr)
{
	double *sorted;
	double median;

	if (!nr)
		return NAN;
	sorted = malloc(nr * sizeof(*sorted));
	if (!sorted)
		return NAN;
	memcpy(sorted, values, nr * sizeof(*sorted));
	qsort(sorted, nr, sizeof(*sorted), compare_doubles);
	median = (sorted[(nr - 1) / 2] + sorted[nr / 2]) / 2;
	free(sorted);
	return median;
}

double bench_ratio(const struct bench_result *result)
{
	double reference = bench_median(result->reference, result->nr_reference);

	return bench_median(result->ours, result->nr_ours) / reference;
}

/* ---- The machine */

/* The value of the first line "KEY : VALUE" of /proc/cpuinfo. */
static void read_cpu_model(char *out, size_t size)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[256];

	snprintf(out, size, "unknown CPU");
	if (!file)
		return;
	while (fgets(line, sizeof(line), file)) {
		char *colon = strchr(line, ':');

		if (strncmp(line, "model name", 10) || !colon)
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(out, size, "%s", colon[1] == ' ' ? colon + 2 : colon + 1);
		break;
	}
	fclose(file);
}

/* The first line of a file, or `otherwise`. */
static void read_line(const char *path, const char *otherwise, char *out, size_t size)
{
	FILE *file = fopen(path, "re");

	snprintf(out, size, "%s", otherwise);
	if (!file)
		return;
	if (fgets(out, (int)size, file))
		out[strcspn(out, "\n")] = '\0';
	fclose(file);
}

void bench_describe_machine(char *out, size_t size)
{
	struct utsname kernel;
	char model[128];
	char governor[32];
	char congestion[96];
	char provider[64];

	if (uname(&kernel))
		snprintf(kernel.release, sizeof(kernel.release), "unknown");
	read_cpu_model(model, sizeof(model));
	read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "none visible", governor,
		  sizeof(governor));
	congestion_describe(congestion, sizeof(congestion));
	raw_fabric_describe(provider, sizeof(provider));
	snprintf(out, size, "CPU %s, %ld cores; Linux %s; %s; governor %s; %s", model,
		 sysconf(_SC_NPROCESSORS_ONLN), kernel.release, provider, governor, congestion);
}

/* ---- The table */

/* Columns that hold UTF-8 are padded by characters: printf() counts bytes. */
static int width_of(const char *text)
{
	int width = 0;

	for (; *text; text++)
		width += ((unsigned char)*text & 0xC0U) != 0x80U;
	return width;
}

static void print_left(const char *text, int width)
{
	printf("%s%*s", text, width > width_of(text) ? width - width_of(text) : 0, "");
}

static void print_right(const char *text, int width)
{
	printf("%*s%s", width > width_of(text) ? width - width_of(text) : 0, "", text);
}

/* Three or four significant digits, whatever the size. */
static void print_value(double value, int width)
{
	char text[32];
	double size = fabs(value);

	if (isnan(value))
		snprintf(text, sizeof(text), "-");
	else
		snprintf(text, sizeof(text), "%.*f",
			 size >= 100  ? 0
			 : size >= 10 ? 1
			 : size >= 1  ? 2
				      : 3,
			 value);
	print_right(text, width);
}

/* From the median down to the smallest and up to the largest, in percent of the median. */
static void print_spread(const double *values, unsigned nr, int width)
{
	double median = bench_median(values, nr);
	double low = INFINITY;
	double high = -INFINITY;
	char text[32] = "";

	for (unsigned i = 0; i < nr; i++) {
		low = fmin(low, values[i]);
		high = fmax(high, values[i]);
	}
	if (nr && median > 0)
		snprintf(text, sizeof(text), "-%.0f +%.0f %%", 100 * (median - low) / median,
			 100 * (high - median) / median);
	print_right(text, width);
}

static const char *verdict_of(const struct bench_result *result)
{
	const struct bench_row *row = result->row;
	double ratio = bench_ratio(result);

	if (result->has_failed)
		return "FAILED";
	if (!row->run_ours || result->left_out)
		return "skipped";
	if (isnan(row->bar))
		return "reported";
	if (row->better == BENCH_LOWER)
		return ratio <= row->bar ? "met" : "NOT MET";
	return ratio >= row->bar ? "met" : "NOT MET";
}

static void print_row(const struct bench_result *result, int name_width)
{
	const struct bench_row *row = result->row;
	char bar[32] = "";

	printf("  ");
	print_left(row->name, name_width);
	print_right(row->unit, 7);
	print_value(bench_median(result->ours, result->nr_ours), 10);
	print_spread(result->ours, result->nr_ours, 12);
	print_value(bench_median(result->reference, result->nr_reference), 11);
	print_spread(result->reference, result->nr_reference, 12);
	print_value(bench_ratio(result), 9);
	if (!isnan(row->bar))
		snprintf(bar, sizeof(bar), "%s %g", row->better == BENCH_LOWER ? "≤" : "≥",
			 row->bar);
	print_right(bar, 8);
	printf("  %s\n", verdict_of(result));
	if (result->note[0])
		printf("      %s\n", result->note);
}

static void print_heading(int name_width)
{
	printf("  ");
	print_left("row", name_width);
	print_right("unit", 7);
	print_right("ours", 10);
	print_right("spread", 12);
	print_right("reference", 11);
	print_right("spread", 12);
	print_right("ratio", 9);
	print_right("bar", 8);
	printf("\n");
}

static const char *reference_of(const struct bench_result *result)
{
	return result->left_out ? result->left_out : result->row->reference_is;
}

/* Rows with one reference stand together under its name. */
static bool is_new_reference(const struct bench_result *results, unsigned i)
{
	const char *now = reference_of(&results[i]);
	const char *before = i ? reference_of(&results[i - 1]) : NULL;

	if (!i)
		return true;
	if (!now || !before)
		return now != before;
	return strcmp(now, before) != 0;
}

void bench_print_table(const struct bench_result *results, unsigned nr,
		       const struct bench_surroundings *surroundings)
{
	char machine[512];
	int name_width = 0;

	for (unsigned i = 0; i < nr; i++) {
		if (width_of(results[i].row->name) > name_width)
			name_width = width_of(results[i].row->name);
	}
	bench_describe_machine(machine, sizeof(machine));
	printf("# %s\n", machine);
	if (bench_is_interrupted())
		printf("# interrupted after %u of %u rows\n", nr, surroundings->nr_wanted);
	printf("# medians over repetitions: %u; spread: to the smallest and to the largest\n",
	       surroundings->nr_repetitions);
	printf("# other processes kept %.2f cores busy meanwhile\n", surroundings->others);
	if (surroundings->distance.most_ns > 0)
		printf("# a cache line went from one core to another and back in %.0f to %.0f ns\n",
		       surroundings->distance.least_ns, surroundings->distance.most_ns);
	print_heading(name_width);
	for (unsigned i = 0; i < nr; i++) {
		const char *reference_is = reference_of(&results[i]);

		if (is_new_reference(results, i))
			printf("reference: %s\n", reference_is ? reference_is : "none");
		print_row(&results[i], name_width);
		if (results[i].nr_ours && results[i].nr_ours != surroundings->nr_repetitions)
			printf("      repetitions: %u\n", results[i].nr_ours);
	}
}

/* ---- JSON */

static json_t *json_of_values(const double *values, unsigned nr)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < nr && array; i++) {
		if (json_array_append_new(array, json_real(values[i]))) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

static json_t *json_of_result(const struct bench_result *result)
{
	const struct bench_row *row = result->row;
	json_t *json;

	json = json_pack("{s:s, s:s, s:s, s:o, s:o, s:s?, s:o}", "name", row->name, "unit",
			 row->unit, "better", row->better == BENCH_LOWER ? "lower" : "higher",
			 "ours", json_of_values(result->ours, result->nr_ours), "reference",
			 json_of_values(result->reference, result->nr_reference), "reference_is",
			 reference_of(result), "bar",
			 isnan(row->bar) ? json_null() : json_real(row->bar));
	if (json && bench_is_interrupted() &&
	    json_object_set_new(json, "interrupted", json_true())) {
		json_decref(json);
		return NULL;
	}
	return json;
}

int bench_print_json(const struct bench_result *results, unsigned nr)
{
	json_t *all = json_array();
	int ret;

	for (unsigned i = 0; i < nr && all; i++) {
		if (json_array_append_new(all, json_of_result(&results[i]))) {
			json_decref(all);
			return -ENOMEM;
		}
	}
	if (!all)
		return -ENOMEM;
	ret = json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(all);
	return ret ? -ENOMEM : 0;
}
