/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks the cluster's health by its status. All names in it come from peers. */
#include <string.h>

#include "doctor.h"
#include "tools/stores/stores.h"

#define OFFSET_NS    INT64_C(1000000000)
#define SILENCE_MANY 30 /* seconds; one that says nothing for 10 s is a report late */

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

/* ---- The clock */

/* The manager told its time between `before` and `after`. */
static void check_offset(struct doctor *doctor, const json_t *status, int64_t before, int64_t after)
{
	const json_t *told = json_object_get(status, "time_ns");
	const int64_t time = json_integer_value(told);
	const int64_t offset = time < before ? time - before : time > after ? time - after : 0;

	if (!json_is_integer(told))
		return; /* an older manager */
	if (offset > OFFSET_NS || offset < -OFFSET_NS)
		doctor_say(doctor, VERDICT_WARN, "clock-offset",
			   "synchronise the clocks of both machines",
			   "the manager's clock is %.1f s %s this machine's",
			   (double)(offset < 0 ? -offset : offset) / 1e9,
			   offset < 0 ? "behind" : "ahead of");
	else
		doctor_say(doctor, VERDICT_OK, "clock-offset", NULL,
			   "the manager's differs by less than 1 s");
}

/* ---- Versions */

static void check_version(struct doctor *doctor, const char *kind, const char *name,
			  const json_t *version)
{
	const char *told = json_string_value(version);

	if (!told)
		doctor_say(doctor, VERDICT_WARN, "versions", "upgrade it",
			   "%s%s does not tell its own, so it is older than this "
			   "program's " AFAR_PROGRAM_VERSION,
			   kind, name);
	else if (strcmp(told, AFAR_PROGRAM_VERSION) != 0)
		doctor_say(doctor, VERDICT_WARN, "versions", "upgrade the older",
			   "%s%s has %s, this program " AFAR_PROGRAM_VERSION, kind, name, told);
	else
		doctor_say(doctor, VERDICT_OK, "versions", NULL, "%s%s has %s", kind, name, told);
}

/* ---- Servers and stores */

static void check_server(struct doctor *doctor, const json_t *server)
{
	const char *name = text_of(server, "name");
	const unsigned long long silent = silent_seconds(server);

	if (!json_is_true(json_object_get(server, "is_up"))) {
		doctor_say(doctor, VERDICT_BAD, "servers", "start afard there, or see its log",
			   "%s is down", name);
		return;
	}
	if (silent >= SILENCE_MANY)
		doctor_say(doctor, VERDICT_WARN, "servers", "see whether it was stopped or cut off",
			   "%s is silent for %llu s", name, silent);
	else
		doctor_say(doctor, VERDICT_OK, "servers", NULL, "%s is up", name);
	check_version(doctor, "server ", name, json_object_get(server, "version"));
}

static void check_store(struct doctor *doctor, const json_t *store)
{
	const char *number = text_of(store, "store");
	const char *failure = text_of(store, "failure"), *refusal = text_of(store, "refusal");

	if (strcmp(text_of(store, "state"), "up") != 0)
		doctor_say(doctor, VERDICT_BAD, "stores", "start the server that has its device",
			   "%s is away", number);
	else if (*failure)
		doctor_say(doctor, VERDICT_BAD, "stores", "replace its device",
			   "%s: its device is beyond use: %s", number, failure);
	else if (*refusal)
		doctor_say(doctor, VERDICT_BAD, "stores", "see afar store ls",
			   "%s refuses every change: %s", number, refusal);
	else if (json_is_integer(json_object_get(store, "slow_ms")))
		doctor_say(doctor, VERDICT_WARN, "stores", "see whether its device fails",
			   "%s: an operation at its device has taken %lld ms", number,
			   (long long)json_integer_value(json_object_get(store, "slow_ms")));
	else
		doctor_say(doctor, VERDICT_OK, "stores", NULL, "%s is up", number);
}

void doctor_status(struct doctor *doctor, const json_t *status, int64_t before, int64_t after)
{
	const json_t *servers = json_object_get(status, "servers"), *entry;
	size_t i;

	check_offset(doctor, status, before, after);
	check_version(doctor, "the manager", "", json_object_get(status, "version"));
	if (json_array_size(json_object_get(status, "newer")) > 0)
		doctor_say(doctor, VERDICT_BAD, "manager", "see afar manager accept-older",
			   "its records are older than what servers have seen");
	if (json_array_size(servers) == 0)
		doctor_say(doctor, VERDICT_WARN, "servers", "start one: afar join, or afard",
			   "there are none, so nothing can be stored");
	json_array_foreach(servers, i, entry) check_server(doctor, entry);
	json_array_foreach(json_object_get(status, "stores"), i, entry) check_store(doctor, entry);
}
