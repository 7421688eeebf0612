/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles of file systems: what every call on one begins with. */
#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "client/files/fs.h"

int fs_check_handle(const struct afar_fs *fs)
{
	if (!handle_is(fs, HANDLE_FS))
		return error_fail(-EINVAL, "use a file system: the handle is null or closed");
	return session_check(fs->ns->session);
}

int fs_enter(struct afar_fs *fs)
{
	int ret = fs_check_handle(fs);

	if (ret)
		return ret;
	return handle_enter(&fs->handle)
		       ? 0
		       : error_fail(-EINVAL, "use a file system: it is being closed");
}

int fs_check_writable(const struct afar_fs *fs, const char *asked)
{
	if (!fs->is_read_only)
		return 0;
	return error_fail(-EROFS, "%s in file system '%s': it is open to read alone", asked,
			  fs->ns->name);
}

uint64_t fs_deadline(const struct afar_fs *fs)
{
	uint64_t usual = session_deadline(fs->ns->session);
	uint64_t patient = clock_coarse_ns() + CLOCK_TICK_NS + fs->retry_ns;

	return patient > usual ? patient : usual;
}

int fs_check_name(const struct afar_session *session, const char *name)
{
	int ret = session_check(session);

	if (ret == 0 && (!name || !name[0]))
		return error_fail(-EINVAL, "use a file system: it needs a name");
	return ret;
}
