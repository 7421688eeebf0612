/* SPDX-License-Identifier: BSD-3-Clause */
/* See fs_ends.h. */
#include "client/files/io/fs_ends.h"

#include "base/clock.h"
#include "base/error.h"
#include "rpc/manager_features.h"

#define KEPT_NS ((uint64_t)END_KEPT_MS * 1000000U)

static bool is_ours(const struct file_ends *ends)
{
	return ends->until > clock_ns();
}

/* ---- Writing the slot */

bool end_claim(struct file_inode *inode, uint64_t end, uint64_t layout, struct end_claim *claim)
{
	return is_ours(&inode->ends) && end_claim_told(inode, end, layout, claim);
}

bool end_claim_told(struct file_inode *inode, uint64_t end, uint64_t layout,
		    struct end_claim *claim)
{
	struct file_ends *ends = &inode->ends;
	struct end_slot slot = {.ino = inode->ino, .layout = layout};

	if (ends->slot == 0 || inode->is_telling || layout != inode->layout)
		return false;
	/* Threads that wait for their ends to be told have written their bytes. */
	slot.end = end > inode->wanted ? end : inode->wanted;
	if (inode->end > slot.end)
		slot.end = inode->end;
	*claim = (struct end_claim){
		.end = slot.end,
		.layout = layout,
		.number = ends->number,
		.offset = (ends->slot - 1) * FILE_UNIT + ends->turn * END_SLOT_COPY_BYTES,
	};
	end_slot_write(claim->copy, &slot);
	ends->turn = (ends->turn + 1) % END_SLOT_COPIES;
	inode->is_telling = true;
	return true;
}

bool end_begin_claim(struct file_inode *inode, uint64_t end, uint64_t layout,
		     struct end_claim *claim)
{
	bool is_begun;

	pthread_mutex_lock(&inode->lock);
	is_begun = end_claim(inode, end, layout, claim);
	pthread_mutex_unlock(&inode->lock);
	return is_begun;
}

struct target_piece end_piece(struct end_claim *claim)
{
	return (struct target_piece){
		.memory = {.addr = claim->copy, .length = sizeof(claim->copy)},
		.offset = claim->offset,
	};
}

void end_claimed(struct file_inode *inode, const struct end_claim *claim, int status)
{
	struct file_ends *ends = &inode->ends;

	pthread_mutex_lock(&inode->lock);
	inode->is_telling = false;
	if (status) {
		/* The manager is told from now on, until it gives a slot again. */
		ends_stop(ends);
		ends->slot = 0;
		ends->has_failed = true;
	} else if (ends->number == claim->number && is_ours(ends) &&
		   inode->layout == claim->layout) {
		if (claim->end > inode->end)
			inode->end = claim->end;
		if (claim->end > ends->untold)
			ends->untold = claim->end;
		inode_take_size(inode, claim->end);
	}
	pthread_cond_broadcast(&inode->told);
	pthread_mutex_unlock(&inode->lock);
}

int end_write(struct file_inode *inode, struct end_claim *claim)
{
	struct target_piece piece = end_piece(claim);

	return target_transfer_pieces(fs_pool(inode->fs), AFAR_OP_WRITE, 0, &piece, 1);
}

bool end_is_told(struct file_inode *inode)
{
	bool is_told;

	pthread_mutex_lock(&inode->lock);
	is_told = inode->ends.untold == 0 && !inode->ends.has_failed;
	pthread_mutex_unlock(&inode->lock);
	return is_told;
}

/* ---- Whose the end is */

int end_take_slot(struct file_inode *inode, uint64_t slot)
{
	struct afar_target *pool = fs_pool(inode->fs);
	int ret = 0;

	/* An older write of the slot may land behind the next one. */
	if (target_is_in_doubt(pool))
		return 0;
	/* Another session may have made the pool larger. */
	if (slot > pool->length / FILE_UNIT)
		ret = target_look(pool);
	if (ret == 0 && slot > pool->length / FILE_UNIT)
		ret = error_fail(-AFAR_EMALFORMED,
				 "make inode %llu longer: the manager gave a slot that is not in "
				 "the pool",
				 (unsigned long long)inode->ino);
	if (ret)
		return ret;
	pthread_mutex_lock(&inode->lock);
	if (inode->ends.slot != slot)
		ends_stop(&inode->ends);
	inode->ends.slot = inode->ends.has_failed ? 0 : slot;
	pthread_mutex_unlock(&inode->lock);
	return 0;
}

uint64_t end_begin_asking(struct file_inode *inode, Afar__FileEnd *message)
{
	const bool may = session_has_feature(inode->fs->ns->session, RPC_FEATURE_ENDS);
	struct file_ends *ends = &inode->ends;
	uint64_t number;

	pthread_mutex_lock(&inode->lock);
	/* An append of ours relies on what was ours. The manager must not give that to others before it has arrived. */
	message->wants_end = may && ends->slot != 0 && !ends->is_appending && ends->nr_giving == 0;
	if (message->wants_end)
		ends_stop(ends);
	message->voids_slot = ends->has_failed;
	message->asks_to_append = !ends->has_appended;
	number = ends->number;
	pthread_mutex_unlock(&inode->lock);
	return number;
}

void end_asked(struct file_inode *inode, uint64_t number, uint64_t asked_at,
	       const Afar__FileEnd *message, bool has_end)
{
	struct file_ends *ends = &inode->ends;

	pthread_mutex_lock(&inode->lock);
	/* Else it was asked for since. */
	if (has_end && ends->number == number && ends->slot != 0) {
		ends->until = asked_at + KEPT_NS;
		ends->may_append = !message->asks_to_append;
	}
	pthread_mutex_unlock(&inode->lock);
}

/* ---- Appending */

bool end_begin_append(struct file_inode *inode)
{
	struct file_ends *ends = &inode->ends;

	ends->has_appended = true;
	ends->is_appending = ends->slot != 0 && ends->may_append && is_ours(ends);
	return ends->is_appending;
}

void end_end_append(struct file_inode *inode)
{
	pthread_mutex_lock(&inode->lock);
	inode->ends.is_appending = false;
	pthread_cond_broadcast(&inode->told);
	pthread_mutex_unlock(&inode->lock);
}
