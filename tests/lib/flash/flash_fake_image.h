/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of a fake device, for flash_fake.c and flash_fake_log.c. Its pages are made when they
 * are written, over another image that is not touched. Where nobody wrote there are zeros. And dice
 * that fall the same way each time.
 */
#ifndef TESTS_FLASH_FAKE_IMAGE_H
#define TESTS_FLASH_FAKE_IMAGE_H

#include <stdint.h>

/* ---- Dice: splitmix64 of Steele, Lea and Flood */

static inline uint64_t dice_roll(uint64_t *dice)
{
	uint64_t value = *dice += 0x9e3779b97f4a7c15U;

	value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
	value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
	return value ^ (value >> 31);
}

/* Below `nr`, which is not 0. */
static inline uint64_t dice_below(uint64_t *dice, uint64_t nr)
{
	return (uint64_t)(((unsigned __int128)dice_roll(dice) * nr) >> 64);
}

/* ---- Images */

struct image {
	const struct image *below; /* NULL: zeros. Where this one has no page, it may change */
	uint64_t nr_pages;
	uint8_t **pages; /* NULL: as below */
};

/* Returns 0, or -ENOMEM. */
int image_open(struct image *image, const struct image *below, uint64_t size);
void image_close(struct image *image);
/* Back to what is below. */
void image_clear(struct image *image);

void image_read(const struct image *image, uint64_t offset, void *to, uint64_t length);
/* These two return 0, or -ENOMEM, with a part written. */
int image_write(struct image *image, uint64_t offset, const void *from, uint64_t length);
int image_fill(struct image *image, uint64_t offset, uint8_t byte, uint64_t length);

#endif
