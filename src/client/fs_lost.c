/* SPDX-License-Identifier: BSD-3-Clause */
/* What a file system in memory has lost: see fs_lost.h. */
#include "client/fs_lost.h"

#include <errno.h>
#include <stdio.h>

#include "base/error.h"

#define SERVER_TEXT_MAX 128

bool fs_find_loss(struct afar_fs *fs, uint64_t pool_offset, uint64_t length, struct fs_loss *out)
{
	struct binding *binding = target_binding(fs_pool(fs));
	uint64_t end = pool_offset + length;
	bool is_found = false;

	while (pool_offset < end && pool_offset < binding->layout->length && !is_found) {
		const struct layout_piece at =
			layout_piece_at(binding->layout, pool_offset, end - pool_offset);

		is_found = at.lost;
		if (is_found)
			*out = (struct fs_loss){pool_offset, at.length, at.lost->lost_server};
		pool_offset += at.length;
	}
	binding_unref(binding);
	return is_found;
}

uint64_t fs_lost_bytes(struct afar_fs *fs)
{
	struct binding *binding = target_binding(fs_pool(fs));
	uint64_t bytes = layout_lost_bytes(binding->layout);

	binding_unref(binding);
	return bytes;
}

/* By its name, if the session has known it. */
static void describe_server(struct afar_session *session, uint64_t number,
			    char out[SERVER_TEXT_MAX])
{
	const struct peer *peer;

	snprintf(out, SERVER_TEXT_MAX, "server %llu", (unsigned long long)number);
	pthread_mutex_lock(&session->lock);
	cds_list_for_each_entry (peer, &session->peers, node) {
		if (peer->server == number && peer->store == 0)
			snprintf(out, SERVER_TEXT_MAX, "server %llu '%s'",
				 (unsigned long long)number, peer->name);
	}
	pthread_mutex_unlock(&session->lock);
}

int inode_fail_lost(struct file_inode *inode, const char *verb, uint64_t offset,
		    const struct file_piece *piece, int status)
{
	struct afar_fs *fs = inode->fs;
	char server[SERVER_TEXT_MAX];
	struct fs_loss loss;

	if (status != -AFAR_ELOST || !fs_find_loss(fs, piece->pool_offset, piece->length, &loss))
		return status;
	offset += loss.pool_offset - piece->pool_offset;
	describe_server(fs->ns->session, loss.server, server);
	return error_fail(-EIO,
			  "%s inode %llu of '%s': %llu bytes at %llu are lost, with %s, which held "
			  "them in memory and has ended; write the file anew or remove it (see "
			  "'afar fs check %s --lost')",
			  verb, (unsigned long long)inode->ino, fs->ns->name,
			  (unsigned long long)loss.length, (unsigned long long)offset, server,
			  fs->ns->name);
}
