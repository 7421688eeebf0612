/* SPDX-License-Identifier: BSD-3-Clause */
/* Findings, printed as they come, or gathered for JSON. */
#include <stdarg.h>
#include <stdio.h>

#include "doctor.h"

static const char *const verdict_names[] = {
	[VERDICT_OK] = "ok", [VERDICT_WARN] = "warn", [VERDICT_BAD] = "bad"};

static void gather(json_t *findings, enum verdict verdict, const char *check, const char *remedy,
		   const char *text)
{
	json_array_append_new(findings,
			      json_pack("{s:s, s:s, s:o, s:o}", "check", check, "verdict",
					verdict_names[verdict], "text", cli_json_text(text),
					"remedy", cli_json_text(remedy ? remedy : "")));
}

void doctor_say(struct doctor *doctor, enum verdict verdict, const char *check, const char *remedy,
		const char *format, ...)
{
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	doctor->nr[verdict]++;
	if (doctor->findings) {
		gather(doctor->findings, verdict, check, remedy, text);
		return;
	}
	printf("%-4s %s: ", verdict_names[verdict], check);
	cli_print(text);
	printf("%s%s\n", remedy ? "; " : "", remedy ? remedy : "");
	fflush(stdout); /* the next one may take its time */
}
