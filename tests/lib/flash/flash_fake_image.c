/* SPDX-License-Identifier: BSD-3-Clause */
/* Images: see the header. */
#include "lib/flash/flash_fake_image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096U

int image_open(struct image *image, const struct image *below, uint64_t size)
{
	uint64_t nr_pages = size / PAGE + (size % PAGE != 0);

	*image = (struct image){.below = below, .nr_pages = nr_pages};
	image->pages = calloc(nr_pages, sizeof(image->pages[0]));
	return image->pages ? 0 : -ENOMEM;
}

void image_clear(struct image *image)
{
	for (uint64_t i = 0; i < image->nr_pages; i++) {
		free(image->pages[i]);
		image->pages[i] = NULL;
	}
}

void image_close(struct image *image)
{
	if (image->pages)
		image_clear(image);
	free(image->pages);
	*image = (struct image){0};
}

/* NULL: zeros. */
static const uint8_t *find_page(const struct image *image, uint64_t page)
{
	for (; image; image = image->below) {
		if (image->pages[page])
			return image->pages[page];
	}
	return NULL;
}

static uint8_t *own_page(struct image *image, uint64_t page)
{
	const uint8_t *before = find_page(image, page);
	uint8_t *own = image->pages[page];

	if (own)
		return own;
	own = before ? malloc(PAGE) : calloc(1, PAGE);
	if (own && before)
		memcpy(own, before, PAGE);
	image->pages[page] = own;
	return own;
}

/* From `offset` to the end of its page, `length` at most. */
static uint64_t part_of_page(uint64_t offset, uint64_t length)
{
	uint64_t part = PAGE - offset % PAGE;

	return part < length ? part : length;
}

void image_read(const struct image *image, uint64_t offset, void *to, uint64_t length)
{
	uint8_t *at = to;

	while (length > 0) {
		uint64_t part = part_of_page(offset, length);
		const uint8_t *page = find_page(image, offset / PAGE);

		if (page)
			memcpy(at, page + offset % PAGE, part);
		else
			memset(at, 0, part);
		at += part;
		offset += part;
		length -= part;
	}
}

int image_write(struct image *image, uint64_t offset, const void *from, uint64_t length)
{
	const uint8_t *at = from;

	while (length > 0) {
		uint64_t part = part_of_page(offset, length);
		uint8_t *page = own_page(image, offset / PAGE);

		if (!page)
			return -ENOMEM;
		memcpy(page + offset % PAGE, at, part);
		at += part;
		offset += part;
		length -= part;
	}
	return 0;
}

int image_fill(struct image *image, uint64_t offset, uint8_t byte, uint64_t length)
{
	while (length > 0) {
		uint64_t part = part_of_page(offset, length);
		uint8_t *page = own_page(image, offset / PAGE);

		if (!page)
			return -ENOMEM;
		memset(page + offset % PAGE, byte, part);
		offset += part;
		length -= part;
	}
	return 0;
}
