/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines about requests that took long: whose, about what, and where the time went. */
#include "manager/connections/slow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUBJECTS_MAX 16U
#define KIND_MAX     48U

/* The kind of a request, and the things that it names. */
struct slow_subject {
	char kind[KIND_MAX];
	struct log_field fields[SUBJECTS_MAX];
	size_t nr;
};

/* ---- Times */

void slow_begin(const struct core *core, struct event *event)
{
	if (event->times.came != 0 && event->times.begun == 0)
		event->times.begun = core_now(core);
}

void slow_run(const struct core *core, struct event *event)
{
	if (event->times.came != 0)
		event->times.run = core_now(core);
}

void slow_ran(const struct core *core, struct event *event)
{
	if (event->times.came != 0)
		event->times.ran = core_now(core);
}

/* ---- What it is about */

static const void *member(const void *message, const ProtobufCFieldDescriptor *field)
{
	return (const char *)message + field->offset;
}

/* Returns the request's own message, and of which kind it is; NULL: it has none. */
static const ProtobufCMessage *body_of(const Afar__Request *request, char kind[KIND_MAX])
{
	const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
		&afar__request__descriptor, (unsigned)request->call_case);

	snprintf(kind, KIND_MAX, "%s", field ? field->name : "request");
	if (!field || field->type != PROTOBUF_C_TYPE_MESSAGE)
		return NULL;
	return *(const ProtobufCMessage *const *)member(request, field);
}

/* Adds a number of the message that has this name, if it has one. */
static void add_number(struct slow_subject *subject, const ProtobufCMessage *message,
		       const char *name)
{
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
	uint64_t number;

	if (!field || field->type != PROTOBUF_C_TYPE_UINT64 ||
	    field->label == PROTOBUF_C_LABEL_REPEATED || subject->nr == SUBJECTS_MAX)
		return;
	number = *(const uint64_t *)member(message, field);
	if (number != 0)
		subject->fields[subject->nr++] = LOG_NUMBER(name, number);
}

/* Returns the first of what the request has many of: an operation on files. NULL: there is none. */
static const ProtobufCMessage *first_operation(const ProtobufCMessage *message)
{
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field_by_name(message->descriptor, "operations");

	if (!field || field->label != PROTOBUF_C_LABEL_REPEATED ||
	    field->type != PROTOBUF_C_TYPE_MESSAGE ||
	    *(const size_t *)((const char *)message + field->quantifier_offset) == 0)
		return NULL;
	return (*(const ProtobufCMessage *const *const *)member(message, field))[0];
}

/* Returns the one message that an operation consists of, and appends which it is to the kind. */
static const ProtobufCMessage *only_part(const ProtobufCMessage *operation, char kind[KIND_MAX])
{
	const ProtobufCMessageDescriptor *descriptor = operation->descriptor;

	for (unsigned i = 0; i < descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
		const size_t length = strlen(kind);

		if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) ||
		    field->type != PROTOBUF_C_TYPE_MESSAGE ||
		    *(const uint32_t *)((const char *)operation + field->quantifier_offset) !=
			    field->id)
			continue;
		snprintf(kind + length, KIND_MAX - length, ".%s", field->name);
		return *(const ProtobufCMessage *const *)member(operation, field);
	}
	return NULL;
}

static void describe(const Afar__Request *request, struct slow_subject *out)
{
	static const char *const names[] = {"namespace", "fs",	       "ino",	"dir",
					    "region",	 "generation", "store", "server"};
	const ProtobufCMessage *message = body_of(request, out->kind);

	out->nr = 0;
	for (int depth = 0; message && depth < 3; depth++) {
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			add_number(out, message, names[i]);
		message = depth == 0 ? first_operation(message) : only_part(message, out->kind);
	}
}

/* Without memory the line says less. */
void slow_keep(struct event *event)
{
	if (event->times.came == 0 || event->times.subject)
		return;
	event->times.subject = calloc(1, sizeof(*event->times.subject));
	if (event->times.subject)
		describe(event->request, event->times.subject);
}

void slow_free(struct event *event)
{
	free(event->times.subject);
}

/* ---- The line */

static uint64_t us_between(uint64_t from, uint64_t to)
{
	return to > from ? (to - from) / 1000U : 0;
}

static void write_line(const struct core *core, const struct event *event,
		       const struct slow_subject *subject, uint64_t now, uint64_t ran)
{
	const struct core_environment *environment = &core->environment;
	const char *principal = environment->principal(environment->context, event->peer);
	const char *peer =
		environment->address ? environment->address(environment->context, event->peer) : "";
	struct log_field fields[SUBJECTS_MAX + 9];
	char session[20], about[256] = "";
	size_t nr = subject->nr, length = 0;
	const uint64_t queued = us_between(event->times.came, event->times.begun),
		       waited = us_between(event->times.begun, event->times.run),
		       worked = us_between(event->times.run, ran), committed = us_between(ran, now),
		       total = us_between(event->times.came, now);

	memcpy(fields, subject->fields, sizeof(subject->fields));
	for (size_t i = 0; i < nr && length < sizeof(about); i++)
		length += (size_t)snprintf(about + length, sizeof(about) - length, "%s%s %" PRIu64,
					   i ? ", " : " of ", fields[i].name, fields[i].number);
	snprintf(session, sizeof(session), "%016" PRIx64, event->session);
	principal = principal ? principal : "";
	fields[nr++] = LOG_TEXT("kind", subject->kind);
	fields[nr++] = LOG_TEXT("session", session);
	fields[nr++] = LOG_TEXT("principal", principal);
	fields[nr++] = LOG_TEXT("peer", peer);
	fields[nr++] = LOG_NUMBER("total_us", total);
	fields[nr++] = LOG_NUMBER("queued_us", queued);
	fields[nr++] = LOG_NUMBER("waited_us", waited);
	fields[nr++] = LOG_NUMBER("worked_us", worked);
	fields[nr++] = LOG_NUMBER("committed_us", committed);
	slow_write(__FILE__, now, fields, nr,
		   "slow: %s%s for %s at %s (session %s) took %" PRIu64 " us: queued %" PRIu64
		   ", waited %" PRIu64 ", worked %" PRIu64 ", committed %" PRIu64,
		   subject->kind, about, principal, peer, session, total, queued, waited, worked,
		   committed);
}

void slow_answer(const struct core *core, const struct event *event)
{
	struct slow_subject own = {.kind = "request"};
	const struct slow_subject *subject = event->times.subject;
	uint64_t now, took;

	if (event->times.run == 0)
		return;
	now = core_now(core);
	slow_tell(now);
	took = event->times.begun - event->times.came + (now - event->times.run);
	if (!slow_is(took))
		return;
	if (!subject && event->request)
		describe(event->request, &own);
	write_line(core, event, subject ? subject : &own, now,
		   event->times.ran != 0 ? event->times.ran : now);
}
