/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the bytes that a file system has lost; see fs_lost.h. */
#include "client/files/pool/fs_lost.h"

#include <errno.h>
#include <stdio.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/files/inode/fs_call.h"

#define NAMES_MAX	65536U /* of a file: a manager allows 65000 */
#define HOLDER_TEXT_MAX 192

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
			*out = (struct fs_loss){pool_offset, at.length, at.lost->lost_server,
						at.lost->lost_store};
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

/* A server by its name, if the session has known it. */
static void describe_holder(struct afar_session *session, const struct fs_loss *loss,
			    char out[HOLDER_TEXT_MAX])
{
	const struct peer *peer;
	const char *name = "";

	if (loss->store != 0) {
		snprintf(out, HOLDER_TEXT_MAX,
			 "store %016llx, which an operator has given up, or which has lost them",
			 (unsigned long long)loss->store);
		return;
	}
	pthread_mutex_lock(&session->lock);
	cds_list_for_each_entry (peer, &session->peers, node)
		if (peer->server == loss->server && peer->store == 0)
			name = peer->name;
	snprintf(out, HOLDER_TEXT_MAX,
		 "server %llu%s%.64s%s, which held them in memory and has ended",
		 (unsigned long long)loss->server, *name ? " '" : "", name, *name ? "'" : "");
	pthread_mutex_unlock(&session->lock);
}

int inode_fail_lost(struct file_inode *inode, const char *verb, uint64_t offset,
		    const struct file_piece *piece, int status)
{
	struct afar_fs *fs = inode->fs;
	char holder[HOLDER_TEXT_MAX];
	struct fs_loss loss;

	if (status != -AFAR_ELOST || !fs_find_loss(fs, piece->pool_offset, piece->length, &loss))
		return status;
	offset += loss.pool_offset - piece->pool_offset;
	describe_holder(fs->ns->session, &loss, holder);
	return error_fail(-EIO,
			  "%s inode %llu of '%s': %llu bytes at %llu are lost, with %s; write the "
			  "file anew or remove it (see "
			  "'afar fs check %s --lost')",
			  verb, (unsigned long long)inode->ino, fs->ns->name,
			  (unsigned long long)loss.length, (unsigned long long)offset, holder,
			  fs->ns->name);
}

/* ---- Which files have lost something */

struct lost_listing {
	struct afar_fs *fs;
	afar_fs_say_lost say;
	void *argument;
	uint64_t after;	  /* the inode told of last */
	uint32_t nr_told; /* names of it */
	int64_t nr;
};

static int tell(struct lost_listing *listing, const Afar__FileLost *lost)
{
	const struct afar_lost_file file = {
		.size = sizeof(file),
		.ino = lost->ino,
		.lost_bytes = lost->bytes,
		.dir = lost->dir,
		.name = lost->name,
		.path = lost->path,
	};

	/* Its names may go on in the next answer, but not for ever. */
	if (lost->ino < listing->after || lost->ino == 0 ||
	    (lost->ino == listing->after && listing->nr_told >= NAMES_MAX))
		return error_fail(
			-AFAR_EMALFORMED,
			"list files that have lost bytes: they do not ascend, or one has more "
			"than %u names; the manager is faulty",
			NAMES_MAX);
	listing->nr_told = lost->ino == listing->after ? listing->nr_told + 1 : 1;
	listing->after = lost->ino;
	listing->nr++;
	listing->say(listing->argument, &file);
	return 0;
}

/* Asks for what follows, and tells it. `*is_over`: that was all. */
static int list_some(struct lost_listing *listing, bool *is_over)
{
	Afar__FileSystemLost message = AFAR__FILE_SYSTEM_LOST__INIT;
	const Afar__FileResult *result;
	struct fs_answer answer;
	int ret;

	message.after = listing->after;
	message.names = listing->nr_told;
	ret = fs_look_one(listing->fs, NULL, FILE_LOOK(LOST, lost, &message), &answer);
	if (ret)
		return ret;
	result = answer.results[0];
	*is_over = !result->is_more || result->n_lost == 0;
	for (size_t i = 0; i < result->n_lost && ret == 0; i++)
		ret = tell(listing, result->lost[i]);
	fs_answer_free(&answer);
	return ret;
}

PUBLIC_CALL(int64_t, afar_fs_list_lost,
	    (struct afar_fs *fs, afar_fs_say_lost say, void *argument), (fs, say, argument))
{
	struct lost_listing listing = {.fs = fs, .say = say, .argument = argument};
	bool is_over = false;
	int ret = fs_enter(fs);

	if (ret)
		return ret;
	if (!say)
		ret = error_fail(-EINVAL,
				 "list files that have lost bytes: there is nobody to tell");
	while (ret == 0 && !is_over)
		ret = list_some(&listing, &is_over);
	handle_unuse(&fs->handle);
	return ret ? ret : listing.nr;
}
