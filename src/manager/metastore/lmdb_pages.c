/* SPDX-License-Identifier: BSD-3-Clause */
#include "manager/metastore/lmdb_pages.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

/* ---- LMDB's format */

#define MAGIC		0xbeefc0deU
#define VERSION		1U
#define NR_HEADS	2U
#define PAGE_MIN	512U
#define PAGE_MAX	65536U
#define DEPTH_MAX	32U
#define NO_PAGE		UINT64_MAX
#define IS_BRANCH	0x01U
#define IS_LEAF		0x02U
#define IS_OVERFLOW	0x04U
#define IS_HEAD		0x08U
#define VALUE_ELSEWHERE 0x01U /* a node's flag: its value is a page's number */

enum { FREE, PAIRS, NR_TABLES };

struct page {
	uint64_t number;
	uint16_t unused;
	uint16_t flags;
	union {
		struct {
			uint16_t lower; /* where the offsets of nodes end */
			uint16_t upper; /* where nodes begin, which fill the rest */
		};
		uint32_t nr_pages; /* of an overflow */
	};
	uint16_t offsets[];
};

/* In a leaf, `low` and `high` are the value's length; in a branch, with the flags, a page's number. */
struct node {
	uint16_t low, high, flags, key_length;
	uint8_t key[];
};

struct table {
	uint32_t page_bytes; /* of the first table alone */
	uint16_t flags, depth;
	uint64_t nr_branches, nr_leaves, nr_overflows, nr_entries, root;
};

struct head {
	uint32_t magic, version;
	uint64_t address, map_bytes;
	struct table tables[NR_TABLES];
	uint64_t last_page, transaction;
};

/* ---- Walking */

struct level {
	struct page *page;
	struct meta_bytes from,
		to; /* its keys are not before the one, and before the other; data NULL: any */
};

struct walk {
	int fd;
	size_t page_bytes;
	struct head head;
	const struct pages_visitor *visitor;
	uint8_t *taken; /* a bit for each page */
	/* From here on about the tree that is read. */
	const struct table *table;
	bool is_free_tree;
	struct level levels[DEPTH_MAX];
	uint64_t nr_branches, nr_leaves, nr_overflows, nr_entries;
	bool is_whole; /* no fault was found in it */
	struct page *overflow;
	size_t overflow_bytes; /* that there is memory for */
};

__attribute__((format(printf, 2, 3))) static void fault(struct walk *walk, const char *format, ...)
{
	char sentence[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	walk->is_whole = false;
	walk->visitor->fault(walk->visitor->argument, sentence);
}

static bool read_pages(struct walk *walk, uint64_t number, struct page *page, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = pread(walk->fd, (uint8_t *)page + done, bytes - done,
				  (off_t)(number * walk->page_bytes + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			fault(walk, "page %" PRIu64 " cannot be read: %s", number,
			      n < 0 ? strerror(errno) : "the file is too short");
			return false;
		}
		done += (size_t)n;
	}
	return true;
}

/* A page has one use. */
static bool take(struct walk *walk, uint64_t number, uint64_t nr, const char *use)
{
	if (number < NR_HEADS || number > walk->head.last_page ||
	    nr > walk->head.last_page - number + 1) {
		fault(walk, "page %" PRIu64 ", %s, is outside of the file's pages", number, use);
		return false;
	}
	for (uint64_t i = number; i < number + nr; i++) {
		if (walk->taken[i / 8] & 1U << i % 8) {
			fault(walk, "page %" PRIu64 ", %s, has another use, too", i, use);
			return false;
		}
		walk->taken[i / 8] |= (uint8_t)(1U << i % 8);
	}
	return true;
}

/* ---- Nodes */

static size_t nr_nodes(const struct page *page)
{
	return (page->lower - sizeof(*page)) / sizeof(page->offsets[0]);
}

static const struct node *node_at(const struct page *page, size_t i)
{
	return (const struct node *)((const uint8_t *)page + page->offsets[i]);
}

static struct meta_bytes key_of(const struct node *node)
{
	return (struct meta_bytes){node->key, node->key_length};
}

static uint64_t child_of(const struct node *node)
{
	return node->low | (uint64_t)node->high << 16 | (uint64_t)node->flags << 32;
}

static size_t value_length(const struct node *node)
{
	return node->low | (size_t)node->high << 16;
}

/* Returns how many bytes of its page a node takes. */
static size_t node_bytes(const struct page *page, const struct node *node)
{
	size_t bytes = sizeof(*node) + node->key_length;

	if (page->flags == IS_LEAF)
		bytes += node->flags & VALUE_ELSEWHERE ? sizeof(uint64_t) : value_length(node);
	return bytes + bytes % 2;
}

/* True: all nodes lie in the page, and fill what is said to be theirs. */
static bool are_nodes_sound(const struct walk *walk, const struct page *page)
{
	size_t bytes = 0;

	if (page->lower < sizeof(*page) || page->lower % 2 || page->lower > page->upper ||
	    page->upper > walk->page_bytes || nr_nodes(page) < (page->flags == IS_LEAF ? 1 : 2))
		return false;
	for (size_t i = 0; i < nr_nodes(page); i++) {
		size_t offset = page->offsets[i], length;

		if (offset < page->upper || offset % 2 ||
		    offset > walk->page_bytes - sizeof(struct node))
			return false;
		length = node_bytes(page, node_at(page, i));
		if (length > walk->page_bytes - offset ||
		    (page->flags == IS_LEAF && node_at(page, i)->flags & ~VALUE_ELSEWHERE))
			return false;
		bytes += length;
	}
	return bytes == walk->page_bytes - page->upper;
}

/* The order in which the tree keeps keys. */
static int compare(const struct walk *walk, struct meta_bytes left, struct meta_bytes right)
{
	size_t length = left.length < right.length ? left.length : right.length;
	uint64_t a, b;
	int order;

	if (walk->is_free_tree) {
		memcpy(&a, left.data, sizeof(a));
		memcpy(&b, right.data, sizeof(b));
		return a < b ? -1 : a > b;
	}
	order = memcmp(left.data, right.data, length);
	if (order != 0)
		return order;
	return left.length < right.length ? -1 : left.length > right.length;
}

/* A branch's first key is not used. */
static bool are_keys_sound(const struct walk *walk, const struct level *level)
{
	const struct page *page = level->page;
	struct meta_bytes last = level->from;

	for (size_t i = page->flags == IS_BRANCH; i < nr_nodes(page); i++) {
		struct meta_bytes key = key_of(node_at(page, i));
		int order;

		if (walk->is_free_tree ? key.length != sizeof(uint64_t)
				       : key.length == 0 || key.length > METASTORE_KEY_MAX)
			return false;
		order = last.data ? compare(walk, key, last) : 1;
		if (order < 0 || (order == 0 && last.data != level->from.data))
			return false;
		last = key;
	}
	return !last.data || !level->to.data || last.data == level->from.data ||
	       compare(walk, last, level->to) < 0;
}

/* ---- Values */

/* The pages that a transaction freed: how many, and their numbers. */
static void take_free(struct walk *walk, struct meta_bytes key, struct meta_bytes value)
{
	const uint8_t *numbers = (const uint8_t *)value.data + sizeof(uint64_t);
	uint64_t transaction, nr = 0, number;

	memcpy(&transaction, key.data, sizeof(transaction));
	if (value.length >= sizeof(nr))
		memcpy(&nr, value.data, sizeof(nr));
	if (value.length < sizeof(nr) || nr > value.length / sizeof(nr) - 1 ||
	    transaction > walk->head.transaction) {
		fault(walk, "the list of what transaction %" PRIu64 " freed is malformed",
		      transaction);
		return;
	}
	for (uint64_t i = 0; i < nr; i++) {
		memcpy(&number, numbers + i * sizeof(number), sizeof(number));
		if (!take(walk, number, 1, "which is free"))
			return;
	}
}

/* Reads a value that has pages of its own. */
static bool read_value(struct walk *walk, uint64_t number, size_t length, struct meta_bytes *out)
{
	size_t bytes = sizeof(struct page) + length;
	struct page *page;

	if (number > walk->head.last_page ||
	    bytes > (walk->head.last_page - number + 1) * walk->page_bytes) {
		fault(walk,
		      "page %" PRIu64 ", which a value begins in, is outside of the file's pages",
		      number);
		return false;
	}
	if (bytes > walk->overflow_bytes) {
		page = realloc(walk->overflow, bytes);
		if (!page) {
			fault(walk, "page %" PRIu64 ": no memory for a value of %zu bytes", number,
			      length);
			return false;
		}
		walk->overflow = page;
		walk->overflow_bytes = bytes;
	}
	page = walk->overflow;
	if (!read_pages(walk, number, page, bytes))
		return false;
	if (page->number != number || page->flags != IS_OVERFLOW ||
	    page->nr_pages < (bytes + walk->page_bytes - 1) / walk->page_bytes) {
		fault(walk, "page %" PRIu64 " is not the value that it was", number);
		return false;
	}
	walk->nr_overflows += page->nr_pages;
	*out = (struct meta_bytes){page + 1, length};
	return take(walk, number, page->nr_pages, "of a value");
}

static void read_leaf(struct walk *walk, const struct page *page)
{
	for (size_t i = 0; i < nr_nodes(page); i++) {
		const struct node *node = node_at(page, i);
		struct meta_bytes key = key_of(node);
		struct meta_bytes value = {node->key + node->key_length, value_length(node)};
		uint64_t number;

		walk->nr_entries++;
		if (node->flags & VALUE_ELSEWHERE) {
			memcpy(&number, value.data, sizeof(number));
			if (!read_value(walk, number, value.length, &value))
				continue;
		}
		if (walk->is_free_tree)
			take_free(walk, key, value);
		else
			walk->visitor->pair(walk->visitor->argument, key, value);
	}
}

/* ---- Trees */

/* Reads a page of a tree into its level. */
static bool read_page(struct walk *walk, uint64_t number, unsigned depth)
{
	const unsigned wanted = depth + 1 == walk->table->depth ? IS_LEAF : IS_BRANCH;
	const struct level *level = &walk->levels[depth];
	struct page *page = level->page;

	if (!take(walk, number, 1, "of a tree") ||
	    !read_pages(walk, number, page, walk->page_bytes))
		return false;
	if (page->number != number || page->flags != wanted || !are_nodes_sound(walk, page)) {
		fault(walk, "page %" PRIu64 " is not the page of a tree that it was", number);
		return false;
	}
	if (!are_keys_sound(walk, level)) {
		fault(walk, "page %" PRIu64 " has keys that do not belong there", number);
		return false;
	}
	return true;
}

static void read_tree(struct walk *walk, uint64_t number, unsigned depth)
{
	struct level *level = &walk->levels[depth];
	const struct page *page = level->page;

	if (!read_page(walk, number, depth))
		return;
	if (page->flags == IS_LEAF) {
		walk->nr_leaves++;
		read_leaf(walk, page);
		return;
	}
	walk->nr_branches++;
	for (size_t i = 0; i < nr_nodes(page); i++) {
		const struct node *node = node_at(page, i);

		level[1].from = i == 0 ? level->from : key_of(node);
		level[1].to = i + 1 < nr_nodes(page) ? key_of(node_at(page, i + 1)) : level->to;
		read_tree(walk, child_of(node), depth + 1);
	}
}

static void walk_table(struct walk *walk, unsigned index)
{
	const struct table *table = &walk->head.tables[index];

	walk->table = table;
	walk->is_free_tree = index == FREE;
	walk->nr_branches = walk->nr_leaves = walk->nr_overflows = walk->nr_entries = 0;
	walk->is_whole = true;
	walk->levels[0].from = walk->levels[0].to = (struct meta_bytes){0};
	if (table->root != NO_PAGE)
		read_tree(walk, table->root, 0);
	if (walk->is_whole &&
	    (walk->nr_branches != table->nr_branches || walk->nr_leaves != table->nr_leaves ||
	     walk->nr_overflows != table->nr_overflows || walk->nr_entries != table->nr_entries))
		fault(walk,
		      "the tree of %s has %" PRIu64 " entries in %" PRIu64
		      " pages, and should have "
		      "%" PRIu64 " in %" PRIu64,
		      index == FREE ? "free pages" : "records", walk->nr_entries,
		      walk->nr_branches + walk->nr_leaves + walk->nr_overflows, table->nr_entries,
		      table->nr_branches + table->nr_leaves + table->nr_overflows);
}

/* The head that counts. */
static bool read_heads(const uint8_t *heads, size_t length, struct head *out)
{
	for (size_t i = 0; i < NR_HEADS; i++) {
		struct page page;
		struct head head;

		if (length / NR_HEADS < sizeof(page) + sizeof(head))
			return false;
		memcpy(&page, heads + i * (length / NR_HEADS), sizeof(page));
		memcpy(&head, heads + i * (length / NR_HEADS) + sizeof(page), sizeof(head));
		if (page.flags != IS_HEAD || head.magic != MAGIC || head.version != VERSION ||
		    head.tables[FREE].page_bytes != length / NR_HEADS)
			return false;
		if (i == 0 || head.transaction > out->transaction)
			*out = head;
	}
	for (size_t i = 0; i < NR_TABLES; i++)
		if (out->tables[i].depth >= DEPTH_MAX ||
		    (out->tables[i].root == NO_PAGE) != (out->tables[i].depth == 0))
			return false;
	return true;
}

size_t pages_heads_length(const void *start, size_t length)
{
	struct head head;
	size_t bytes;

	if (length < sizeof(struct page) + sizeof(head))
		return 0;
	memcpy(&head, (const uint8_t *)start + sizeof(struct page), sizeof(head));
	bytes = head.tables[FREE].page_bytes;
	if (bytes < PAGE_MIN || bytes > PAGE_MAX || bytes % 2 || bytes * NR_HEADS > length ||
	    !read_heads(start, bytes * NR_HEADS, &head))
		return 0;
	return bytes * NR_HEADS;
}

int pages_walk(int fd, const void *heads, size_t length, const struct pages_visitor *visitor)
{
	struct walk walk = {.fd = fd, .page_bytes = length / NR_HEADS, .visitor = visitor};
	uint8_t *pages = NULL;
	int ret = 0;

	if (pages_heads_length(heads, length) != length || !read_heads(heads, length, &walk.head))
		return error_fail(-EBADMSG, "its first pages are none of LMDB's");
	walk.taken = calloc(walk.head.last_page / 8 + 1, 1);
	pages = calloc(DEPTH_MAX, walk.page_bytes);
	if (walk.taken && pages) {
		for (unsigned i = 0; i < DEPTH_MAX; i++)
			walk.levels[i].page = (struct page *)(void *)(pages + i * walk.page_bytes);
		walk_table(&walk, PAIRS);
		walk_table(&walk, FREE);
	} else {
		ret = error_code(-ENOMEM);
	}
	free(walk.taken);
	if (pages)
		explicit_bzero(pages, DEPTH_MAX * walk.page_bytes); /* they have secrets */
	free(pages);
	free(walk.overflow);
	return ret;
}
