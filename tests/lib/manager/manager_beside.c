/* SPDX-License-Identifier: BSD-3-Clause */
/* See manager_beside.h. */
#include "lib/manager/manager_beside.h"

#include <string.h>
#include <sys/stat.h>

Afar__Request *ask_of(const struct question *question)
{
	Afar__Request *request = ask_stat(question->ino);
	Afar__FileLook *look = request->files_look->operations[0];

	if (question->ask == STAT)
		return request;
	afar__file_stat__free_unpacked(look->stat, NULL);
	switch (question->ask) {
	case MAP:
		look->what_case = AFAR__FILE_LOOK__WHAT_MAP;
		look->map = MESSAGE_NEW(afar__file_map, Afar__FileMap);
		look->map->ino = question->ino;
		look->map->length = 1U << 20;
		break;
	case LIST:
	case LIST_ALL:
		look->what_case = AFAR__FILE_LOOK__WHAT_LIST;
		look->list = MESSAGE_NEW(afar__file_list, Afar__FileList);
		look->list->dir = question->ino;
		look->list->with_attributes = question->ask == LIST_ALL;
		break;
	case LOOKUP:
		look->what_case = AFAR__FILE_LOOK__WHAT_LOOKUP;
		look->lookup = MESSAGE_NEW(afar__file_lookup, Afar__FileLookup);
		look->lookup->dir = question->ino;
		look->lookup->name = strdup(question->name);
		break;
	case WALK:
		look->what_case = AFAR__FILE_LOOK__WHAT_WALK;
		look->walk = MESSAGE_NEW(afar__file_walk, Afar__FileWalk);
		look->walk->path = strdup(question->path);
		break;
	case LINK:
		look->what_case = AFAR__FILE_LOOK__WHAT_READ_LINK;
		look->read_link = MESSAGE_NEW(afar__file_read_link, Afar__FileReadLink);
		look->read_link->ino = question->ino;
		break;
	case XATTR:
		look->what_case = AFAR__FILE_LOOK__WHAT_GET_XATTR;
		look->get_xattr = MESSAGE_NEW(afar__file_get_xattr, Afar__FileGetXattr);
		look->get_xattr->ino = question->ino;
		look->get_xattr->name = strdup(question->name);
		break;
	default:
		look->what_case = AFAR__FILE_LOOK__WHAT_LIST_XATTRS;
		look->list_xattrs = MESSAGE_NEW(afar__file_list_xattrs, Afar__FileListXattrs);
		look->list_xattrs->ino = question->ino;
	}
	return request;
}

Afar__Request *ask_xattr(uint64_t ino, const char *name, const char *value)
{
	Afar__Request *request = ask_size(ino, 0);
	Afar__FileChange *change = change_of(request);

	afar__file_set__free_unpacked(change->set, NULL);
	change->what_case = AFAR__FILE_CHANGE__WHAT_SET_XATTR;
	change->set_xattr = MESSAGE_NEW(afar__file_set_xattr, Afar__FileSetXattr);
	change->set_xattr->ino = ino;
	change->set_xattr->name = strdup(name);
	change->set_xattr->value.data = (uint8_t *)strdup(value);
	change->set_xattr->value.len = strlen(value);
	return request;
}

Afar__Request *ask_no_xattr(uint64_t ino, const char *name)
{
	Afar__Request *request = ask_size(ino, 0);
	Afar__FileChange *change = change_of(request);

	afar__file_set__free_unpacked(change->set, NULL);
	change->what_case = AFAR__FILE_CHANGE__WHAT_REMOVE_XATTR;
	change->remove_xattr = MESSAGE_NEW(afar__file_remove_xattr, Afar__FileRemoveXattr);
	change->remove_xattr->ino = ino;
	change->remove_xattr->name = strdup(name);
	return request;
}

Afar__Request *ask_link_to(uint64_t dir, const char *name, const char *target)
{
	Afar__Request *request = ask_make(dir, name, S_IFLNK, 0, 0);

	change_of(request)->make->target = strdup(target);
	return request;
}

static bool are_same(const Afar__Reply *left, const Afar__Reply *right)
{
	size_t length = afar__reply__get_packed_size(left);
	uint8_t *a = malloc(length + 1), *b = malloc(length + 1);
	bool same = length == afar__reply__get_packed_size(right);

	assert_true(a != NULL && b != NULL);
	if (same) {
		afar__reply__pack(left, a);
		afar__reply__pack(right, b);
		same = memcmp(a, b, length) == 0;
	}
	free(a);
	free(b);
	return same;
}

bool has_told;

struct asked asked[NR_QUESTIONS];
size_t nr_asked;

void add_question(struct question question, bool is_done)
{
	assert_true(nr_asked < NR_QUESTIONS);
	asked[nr_asked++] = (struct asked){
		.question = question,
		.is_done = is_done,
		.before = fixture_ask(&fixture, &other, ask_of(&question)),
	};
}

void ask_beside(void *argument, bool is_done)
{
	(void)argument;
	for (size_t i = 0; i < nr_asked; i++) {
		if (asked[i].is_asked || asked[i].is_done != is_done)
			continue;
		asked[i].is_asked = true;
		asked[i].nr_commits = fixture.store.nr_commits;
		asked[i].is_kept = !fixture_ask_beside(&fixture, &other, ask_of(&asked[i].question),
						       &asked[i].beside);
		/* It was answered, or it was not: nothing else was said. */
		assert_true(asked[i].is_kept == (asked[i].beside == NULL));
	}
}

void run_batch(void (*hold)(void *argument, bool is_done), bool fails)
{
	fixture.store.hold = hold;
	fixture.store.fail_at = fails;
	fixture_pump(&fixture);
	fixture.store.fail_at = 0;
	fixture.store.hold = NULL;
	fixture_pump(&fixture);
}

void check_answers(void)
{
	uint64_t nr_commits = fixture.store.nr_commits;

	for (size_t i = 0; i < nr_asked; i++) {
		Afar__Reply *after = fixture_ask(&fixture, &other, ask_of(&asked[i].question));

		assert_true(!asked[i].is_asked || asked[i].beside != NULL);
		if (asked[i].is_asked && !has_told && asked[i].nr_commits == nr_commits &&
		    !are_same(asked[i].beside, after))
			fail_msg("question %u about '%s' heard what is not committed",
				 asked[i].question.ask, asked[i].question.path);
		if (asked[i].is_asked && !has_told && !asked[i].is_kept &&
		    !are_same(asked[i].beside, asked[i].before))
			fail_msg("question %u about '%s' heard what was not committed yet",
				 asked[i].question.ask, asked[i].question.path);
		drop(asked[i].before);
		if (asked[i].is_asked)
			drop(asked[i].beside);
		drop(after);
	}
	nr_asked = 0;
}

uint64_t ino_of(const char *path)
{
	Afar__FileAttributes attributes;

	assert_int_equal(file_do(&client, ask_walk(path, false), &attributes), 0);
	return attributes.ino;
}

void make_tree(void)
{
	const char *const names[] = {"a", "b"};

	for (size_t i = 0; i < 2; i++) {
		uint64_t dir = must_make(ROOT, names[i], S_IFDIR | 0755);
		uint64_t file = must_make(dir, "f", S_IFREG | 0644);

		FILE_DO(ask_file_open(file, TREE_HANDLE + i), 0);
		FILE_DO(ask_extend(file, 0, 100000), 0);
		FILE_DO(ask_size(file, 50000), 0);
		FILE_DO(ask_xattr(file, "user.x", "value"), 0);
		FILE_DO(ask_link_to(dir, "l", "f"), 0);
	}
	must_make(ROOT, "r", S_IFREG | 0644);
}

struct question about(enum ask ask, const char *path)
{
	return (struct question){ask, path, NULL, ino_of(path)};
}
