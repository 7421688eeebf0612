/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps on directories that change while they are read, and on deep ones. See posix.h. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "steps.h"

/* ---- Directories that change while they are read */

/* many PREFIX NUMBER */
static void step_many(struct posix_run *run, int nr, char **words)
{
	char name[64];
	long failed = 0;

	(void)run;
	(void)nr;
	for (long i = 0; i < word_number(words[1]); i++) {
		snprintf(name, sizeof(name), "%.32s%04ld", words[0], i);
		failed += mknod(name, S_IFREG | 0644, 0) != 0;
	}
	posix_note(" %ld failed", failed);
}

static void step_unlink_many(struct posix_run *run, int nr, char **words)
{
	char name[64];
	long failed = 0;

	(void)run;
	(void)nr;
	for (long i = 0; i < word_number(words[1]); i++) {
		snprintf(name, sizeof(name), "%.32s%04ld", words[0], i);
		failed += unlink(name) != 0;
	}
	posix_note(" %ld failed", failed);
}

static void step_opendir(struct posix_run *run, int nr, char **words)
{
	run->folder = opendir(nr ? words[0] : ".");
	note_result(run->folder ? 0 : -1);
}

/* next NUMBER: reads so many entries, whatever they are. */
static void step_next(struct posix_run *run, int nr, char **words)
{
	long n = word_number(words[0]), seen = 0;

	(void)nr;
	while (seen < n && readdir(run->folder))
		seen++;
	posix_note(" %ld", seen);
}

static unsigned short seen_times[100000];

static void count_rest(DIR *folder, const char *prefix)
{
	const struct dirent *entry;
	size_t length = strlen(prefix);

	while ((entry = readdir(folder))) {
		if (strncmp(entry->d_name, prefix, length) == 0)
			seen_times[(unsigned)atoi(entry->d_name + length) % 100000]++;
	}
}

/* count PREFIX NUMBER: reads from here to the end, and notes how often names came. */
static void step_count(struct posix_run *run, int nr, char **words)
{
	long times[3] = {0}, n = word_number(words[1]);

	(void)nr;
	memset(seen_times, 0, sizeof(seen_times));
	count_rest(run->folder, words[0]);
	for (long i = 0; i < n; i++)
		times[seen_times[i] > 1 ? 2 : seen_times[i]]++;
	posix_note(" never %ld, once %ld, more often %ld", times[0], times[1], times[2]);
}

/* counted PREFIX NUMBER STEPS: the same from the beginning, while names of "t" are removed and names of "n" made. */
static void step_count_changing(struct posix_run *run, int nr, char **words)
{
	long times[3] = {0}, n = word_number(words[1]);
	size_t length = strlen(words[0]);
	const struct dirent *entry;
	char name[64];
	int at = 0;

	(void)nr;
	memset(seen_times, 0, sizeof(seen_times));
	while ((entry = readdir(run->folder))) {
		if (strncmp(entry->d_name, words[0], length) == 0)
			seen_times[(unsigned)atoi(entry->d_name + length) % 100000]++;
		snprintf(name, sizeof(name), "t%04d", at);
		unlink(name);
		snprintf(name, sizeof(name), "a%04d", at++);
		if (at < 3000)
			mknod(name, S_IFREG | 0644, 0);
	}
	for (long i = 0; i < n; i++)
		times[seen_times[i] > 1 ? 2 : seen_times[i]]++;
	posix_note(" never %ld, once %ld, more often %ld", times[0], times[1], times[2]);
}

static void step_tell(struct posix_run *run, int nr, char **words)
{
	(void)nr;
	(void)words;
	run->tell = telldir(run->folder);
}

/* Goes to where tell was, and notes whether the same names follow as followed then. */
static void step_seekdir(struct posix_run *run, int nr, char **words)
{
	char first[8][256];
	const struct dirent *entry;
	bool is_same = true;

	(void)nr;
	(void)words;
	for (int i = 0; i < 8; i++) {
		entry = readdir(run->folder);
		snprintf(first[i], sizeof(first[i]), "%s", entry ? entry->d_name : "");
	}
	seekdir(run->folder, run->tell);
	for (int i = 0; i < 8; i++) {
		entry = readdir(run->folder);
		is_same &= strcmp(first[i], entry ? entry->d_name : "") == 0;
	}
	posix_note(" %s", is_same ? "the same" : "others");
}

static void step_rewind(struct posix_run *run, int nr, char **words)
{
	(void)nr;
	(void)words;
	rewinddir(run->folder);
}

/* deep NUMBER: directories in each other, and back. */
static void step_deep(struct posix_run *run, int nr, char **words)
{
	long depth = word_number(words[0]), done = 0, back = 0;

	(void)run;
	(void)nr;
	while (done < depth && mkdir("deep", 0755) == 0 && chdir("deep") == 0)
		done++;
	for (long i = 0; i < done; i++)
		back += chdir("..") == 0 && rmdir("deep") == 0;
	posix_note(" %ld down, %ld back", done, back);
}

/* chain NUMBER: symbolic links s1 -> s0, s2 -> s1, and so on. */
static void step_chain(struct posix_run *run, int nr, char **words)
{
	char from[32], to[32];
	long failed = 0;

	(void)run;
	(void)nr;
	for (long i = 1; i <= word_number(words[0]); i++) {
		snprintf(from, sizeof(from), "s%ld", i - 1);
		snprintf(to, sizeof(to), "s%ld", i);
		failed += symlink(from, to) != 0;
	}
	posix_note(" %ld failed", failed);
}

const struct posix_step posix_steps_folders[] = {
	{"many", 2, step_many},	      {"unlink-many", 2, step_unlink_many},
	{"opendir", 0, step_opendir}, {"next", 1, step_next},
	{"count", 2, step_count},     {"count-changing", 2, step_count_changing},
	{"tell", 0, step_tell},	      {"seekdir", 0, step_seekdir},
	{"rewind", 0, step_rewind},   {"deep", 1, step_deep},
	{"chain", 1, step_chain},     {0},
};
