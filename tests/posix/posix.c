/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * posix TRUSTED TESTED [PATTERN]: runs each case in a new directory of both, and compares what came of it.
 * With a PATTERN (of fnmatch) only the cases whose names match, and shows their transcripts. Prints
 * both transcripts of a case that differs. Exit status: 0 if all agree.
 */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "posix.h"

#define TRANSCRIPT_MAX (64U << 10)
#define TIMEOUT_S      120

static const char *trusted, *tested, *pattern;
static int nr_run, nr_different, nr_skipped;

/* ---- Transcripts */

static char transcript[TRANSCRIPT_MAX];
static size_t transcript_length;

void posix_note(const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(transcript + transcript_length, TRANSCRIPT_MAX - transcript_length,
			   format, arguments);
	va_end(arguments);
	transcript_length += (size_t)length;
	if (transcript_length >= TRANSCRIPT_MAX)
		transcript_length = TRANSCRIPT_MAX - 1;
}

/* ---- Scripts */

/* Makes what a word stands for; it is never freed, for the process ends soon. */
static char *expand(char *word)
{
	size_t length = 0;
	char *text;

	if (strcmp(word, "_") == 0)
		return strdup("");
	if (word[0] == '@') {
		bool is_path = word[1] == '@';

		length = strtoul(word + 1 + is_path, NULL, 10);
		text = malloc(length + 1);
		memset(text, 'n', length);
		/* "././/f": a path of any length that leads to f. */
		for (size_t i = 0; is_path && i + 1 < length; i++)
			text[i] = i % 2 || i + 2 == length ? '/' : '.';
		if (is_path)
			text[length - 1] = 'f';
		text[length] = '\0';
		return text;
	}
	for (text = word; *text; text++) {
		if (*text == '~')
			*text = ' ';
	}
	return word;
}

/* NULL: there is none. */
static const struct posix_step *find_step(const char *name)
{
	const struct posix_step *const tables[] = {posix_steps_names, posix_steps_files,
						   posix_steps_folders, posix_steps_who};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		for (const struct posix_step *step = tables[i]; step->name; step++) {
			if (strcmp(step->name, name) == 0)
				return step;
		}
	}
	return NULL;
}

static void run_step(struct posix_run *run, char *text)
{
	const struct posix_step *step;
	char *words[WORDS_MAX + 1], *rest, *word;
	int nr = 0;

	posix_note("    %s", text + strspn(text, " "));
	for (word = strtok_r(text, " ", &rest); word && nr <= WORDS_MAX;
	     word = strtok_r(NULL, " ", &rest)) {
		words[nr] = nr ? expand(word) : word;
		nr++;
	}
	if (!nr)
		return;
	step = find_step(words[0]);
	if (step && nr - 1 >= step->min_words) {
		step->run(run, nr - 1, words + 1);
		posix_note("\n");
		return;
	}
	fprintf(stderr, "posix: bad step: %s\n", words[0]);
	exit(2);
}

static void run_script(const char *script)
{
	struct posix_run run;
	char *copy = strdup(script), *rest, *step;

	memset(&run, 0, sizeof(run));
	memset(run.fds, -1, sizeof(run.fds));
	umask(022);
	for (step = strtok_r(copy, ";", &rest); step; step = strtok_r(NULL, ";", &rest))
		run_step(&run, step);
}

/* Runs it in a process of its own, in a new directory of `where`. Returns the transcript, allocated. */
static char *run_in(const char *where, int number, const char *script)
{
	char *text = calloc(1, TRANSCRIPT_MAX + 64), folder[4096];
	size_t length = 0;
	ssize_t taken;
	int fds[2], status;
	pid_t pid;

	snprintf(folder, sizeof(folder), "%s/case%d", where, number);
	if (mkdir(folder, 0755) || pipe(fds)) {
		fprintf(stderr, "posix: %s: %s\n", folder, strerror(errno));
		exit(2);
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		alarm(TIMEOUT_S);
		if (chdir(folder))
			_exit(2);
		run_script(script);
		for (size_t at = 0; at < transcript_length; at += (size_t)taken) {
			taken = write(fds[1], transcript + at, transcript_length - at);
			if (taken <= 0)
				_exit(2);
		}
		_exit(0);
	}
	close(fds[1]);
	while ((taken = read(fds[0], text + length, TRANSCRIPT_MAX - length)) > 0)
		length += (size_t)taken;
	close(fds[0]);
	waitpid(pid, &status, 0);
	if (status)
		sprintf(text + length, "    ended with status %#x\n", (unsigned)status);
	return text;
}

/* Prints the lines of both; those that differ twice. */
static void show(char *ours, char *theirs)
{
	char *rest_a, *rest_b, *a = strtok_r(theirs, "\n", &rest_a),
			       *b = strtok_r(ours, "\n", &rest_b);

	while (a || b) {
		if (a && b && strcmp(a, b) == 0) {
			printf("%s\n", a);
		} else {
			printf("  trusted %s\n  tested  %s\n", a ? a : "", b ? b : "");
		}
		a = a ? strtok_r(NULL, "\n", &rest_a) : NULL;
		b = b ? strtok_r(NULL, "\n", &rest_b) : NULL;
	}
}

static void run_case(const char *name, const char *script, bool needs_root)
{
	char *theirs, *ours;

	if (pattern && fnmatch(pattern, name, 0) != 0)
		return;
	if (needs_root && geteuid() != 0) {
		nr_skipped++;
		return;
	}
	nr_run++;
	theirs = run_in(trusted, nr_run, script);
	ours = run_in(tested, nr_run, script);
	if (strcmp(theirs, ours) != 0) {
		nr_different++;
		printf("DIFFERENT: %s\n", name);
		show(ours, theirs);
	} else if (pattern) {
		printf("%s\n%s", name, ours);
	}
	free(theirs);
	free(ours);
}

static void run_table(const struct posix_case *table, bool needs_root)
{
	for (; table->name; table++)
		run_case(table->name, table->script, needs_root);
}

int main(int argc, char **argv)
{
	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: posix TRUSTED TESTED [PATTERN]\n");
		return 2;
	}
	trusted = argv[1];
	tested = argv[2];
	pattern = argv[3];
	if (geteuid() == 0 && setgroups(0, NULL))
		return 2;
	run_table(posix_name_cases, false);
	run_table(posix_file_cases, false);
	run_table(posix_attribute_cases, false);
	run_table(posix_user_cases, true);
	posix_generate(run_case);
	printf("%d cases, %d different, %d skipped (they need root)\n", nr_run, nr_different,
	       nr_skipped);
	return nr_different ? 1 : 0;
}
