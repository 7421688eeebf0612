/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends that this session has for itself. While nobody else has a file open, the manager may leave its end to us for half a second after it was
 * told (rpc/end_slot.h). Then writes that make the file longer tell it nothing. They write the end into the file's slot instead, together with the bytes.
 *
 * A write relies on that only if the end was ours when its bytes were posted, and is still when they have arrived. Otherwise it tells the
 * manager, as it does where there is no slot. The manager asks for the end before it tells others of the file.
 */
#ifndef CLIENT_FS_ENDS_H
#define CLIENT_FS_ENDS_H

#include "client/files/fs.h"
#include "client/files/io/file_plan.h"

/* An end that is being written into the slot. One at a time is, or is told to the manager: inode->is_telling. */
struct end_claim {
	uint8_t copy[END_SLOT_COPY_BYTES];
	uint64_t end, layout;
	uint64_t number; /* of the time in which the end is ours */
	uint64_t offset; /* in the pool */
};

/* Begins to write the end into the slot. `end`: as far as a write goes that is about to be posted. False: it cannot be. The lock is held. */
bool end_claim(struct file_inode *inode, uint64_t end, uint64_t layout, struct end_claim *claim);
/* Likewise one that the manager has been told of, whoever has the end: it may forget that. */
bool end_claim_told(struct file_inode *inode, uint64_t end, uint64_t layout,
		    struct end_claim *claim);
/* Likewise end_claim(), with the lock not held. */
bool end_begin_claim(struct file_inode *inode, uint64_t end, uint64_t layout,
		     struct end_claim *claim);
struct target_piece end_piece(struct end_claim *claim);
/* The slot has been written, if that went well, with all that the claim covers. Then the file is that long, if the end is still ours. */
void end_claimed(struct file_inode *inode, const struct end_claim *claim, int status);
/* Writes the end into the slot, and nothing else. */
int end_write(struct file_inode *inode, struct end_claim *claim);

/* Returns whether the manager knows all that the slot says. */
bool end_is_told(struct file_inode *inode);
/* Takes the slot that the manager has given. */
int end_take_slot(struct file_inode *inode, uint64_t slot);
/* Around asking the manager for the end, by the message. The end is not ours meanwhile. Returns the number of that time. */
uint64_t end_begin_asking(struct file_inode *inode, Afar__FileEnd *message);
void end_asked(struct file_inode *inode, uint64_t number, uint64_t asked_at,
	       const Afar__FileEnd *message, bool has_end);

/* An append takes the end without asking the manager, if it is ours and the manager knows that we append. False: it asks. The lock is held. */
bool end_begin_append(struct file_inode *inode);
/* Its bytes have arrived, or never will. */
void end_end_append(struct file_inode *inode);

#endif
