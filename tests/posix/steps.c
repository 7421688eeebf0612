/* SPDX-License-Identifier: BSD-3-Clause */
/* What all steps of scripts use, and the steps of who makes the calls. See posix.h and steps.h. */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steps.h"

/* ---- Words and results */

long word_number(const char *word)
{
	char *end;
	long value = strtol(word, &end, 0);

	switch (*end) {
	case 'K':
		return value << 10;
	case 'M':
		return value << 20;
	case 'G':
		return value << 30;
	case 'T':
		return value << 40;
	default:
		return value;
	}
}

mode_t word_mode(const char *word)
{
	return (mode_t)strtoul(word, NULL, 8);
}

int *word_slot(struct posix_run *run, const char *word)
{
	return &run->fds[(unsigned)atoi(word) % FILES_MAX];
}

int word_fd(struct posix_run *run, const char *word)
{
	return *word_slot(run, word);
}

int word_bits(const struct bit *bits, const char *word)
{
	char copy[128], *rest, *name;
	int value = 0;

	snprintf(copy, sizeof(copy), "%s", word);
	for (name = strtok_r(copy, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
		const struct bit *bit = bits;

		while (bit->name && strcmp(bit->name, name) != 0)
			bit++;
		if (!bit->name && strcmp(name, "0") != 0) {
			fprintf(stderr, "no such flag: %s\n", name);
			exit(2);
		}
		value |= bit->name ? bit->value : 0;
	}
	return value;
}

const char *error_name(void)
{
	const char *name = strerrorname_np(errno);

	return name ? name : "?";
}

void note_result(long ret)
{
	if (ret < 0)
		posix_note(" -> %s", error_name());
	else
		posix_note(" -> %ld", ret);
}

void note_data(const unsigned char *data, size_t length)
{
	size_t at = 0;
	int nr = 0;

	posix_note(" \"");
	while (at < length && nr++ < 40) {
		size_t same = 1;

		while (at + same < length && data[at + same] == data[at])
			same++;
		if (data[at] >= ' ' && data[at] < 0x7f)
			posix_note("%c", data[at]);
		else
			posix_note("\\%u", data[at]);
		if (same > 3) {
			posix_note("*%zu", same);
			at += same;
		} else {
			at++;
		}
	}
	posix_note(at < length ? "...\"" : "\"");
}

/* ---- Who */

/* as UID GID [GROUP]: by the effective ids, so that root can come back. */
static void step_as(struct posix_run *run, int nr, char **words)
{
	gid_t groups[1] = {nr > 2 ? (gid_t)word_number(words[2]) : 0};

	(void)run;
	if (seteuid(0) || setgroups(nr > 2 ? 1 : 0, groups) ||
	    setegid((gid_t)word_number(words[1])) || seteuid((uid_t)word_number(words[0])))
		posix_note(" cannot: %s", error_name());
}

/* Runs a program of the directory. */
static void step_exec(struct posix_run *run, int nr, char **words)
{
	char *arguments[] = {words[0], NULL};
	int status = 0;
	pid_t pid = fork();

	(void)run;
	(void)nr;
	if (pid == 0) {
		uid_t uid = geteuid();
		gid_t gid = getegid();

		/* exec looks at the effective ids, and sh wants them to be the real ones. */
		if (seteuid(0) == 0 && (setgid(gid) || setuid(uid)))
			_exit(99);
		execv(words[0], arguments);
		_exit(errno == EACCES ? 98 : errno == ENOENT ? 97 : 96);
	}
	waitpid(pid, &status, 0);
	posix_note(" status %d", WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status);
}

const struct posix_step posix_steps_who[] = {
	{"as", 2, step_as},
	{"exec", 1, step_exec},
	{0},
};
