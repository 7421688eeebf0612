/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Key files: parsing, reading and making them. Called at start by the daemons and when a session is
 * opened. Secrets pass through here and nowhere else on their way from the disk. Every buffer that
 * held one is wiped. No sentence of an error repeats any of a file's content.
 */
#include "base/key.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define FILE_BYTES_MAX (1U << 20)
#define LINE_BYTES_MAX (KEY_IDENTITY_MAX + 1 + 2 * KEY_BYTES + 1)

static bool is_identity(const char *text, size_t length)
{
	if (length < 1 || length > KEY_IDENTITY_MAX)
		return false;
	for (size_t i = 0; i < length; i++) {
		if (text[i] <= ' ' || text[i] > '~' || text[i] == ':')
			return false;
	}
	return true;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static bool parse_secret(const char *hex, size_t length, uint8_t *out)
{
	if (length != 2 * (size_t)KEY_BYTES)
		return false;
	for (size_t i = 0; i < KEY_BYTES; i++) {
		const int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		out[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

/* Parses a line. Returns NULL, or what is wrong with it. */
static const char *parse_line(const char *line, size_t length, struct key *out)
{
	const char *colon = memchr(line, ':', length);
	const size_t identity_length = colon ? (size_t)(colon - line) : length;

	memset(out, 0, sizeof(*out)); /* so that keys compare as a whole, and leak no old bytes */
	if (!colon)
		return "is not IDENTITY:KEY";
	if (!is_identity(line, identity_length))
		return "the identity is not 1 to 63 visible characters";
	if (!parse_secret(colon + 1, length - identity_length - 1, out->secret))
		return "the key is not 64 hexadecimal digits";
	memcpy(out->identity, line, identity_length);
	return NULL;
}

static bool has_identity(const struct key *keys, size_t nr_keys, const char *identity)
{
	for (size_t i = 0; i < nr_keys; i++) {
		if (!strcmp(keys[i].identity, identity))
			return true;
	}
	return false;
}

int key_parse(const char *text, size_t length, const char *path, struct key *out, size_t max)
{
	const char *at = text, *const end = text + length;
	const char *wrong = NULL;
	unsigned line = 0;
	size_t found = 0;

	while (at < end && found < max && !wrong) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const size_t line_length = (size_t)((newline ? newline : end) - at);

		line++;
		if (line_length) {
			wrong = parse_line(at, line_length, &out[found]);
			if (!wrong && has_identity(out, found, out[found].identity))
				wrong = "the identity is in the file twice";
			found++;
		}
		at = newline ? newline + 1 : end;
	}
	if (!wrong)
		return (int)found;
	OPENSSL_cleanse(out, found * sizeof(*out));
	return error_fail(-EINVAL, "key file '%s', line %u: %s", path, line, wrong);
}

bool key_list_find(void *context, const char *identity, uint8_t secret[KEY_BYTES])
{
	const struct key_list *list = context;

	for (size_t i = 0; i < list->nr_keys; i++) {
		if (strcmp(list->keys[i].identity, identity) != 0)
			continue;
		memcpy(secret, list->keys[i].secret, KEY_BYTES);
		return true;
	}
	return false;
}

bool key_is_principal(const char *name)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789._@-";
	size_t length = strlen(name);

	return length > 0 && length <= KEY_PRINCIPAL_MAX && strspn(name, allowed) == length;
}

/* Opens a key file nobody else can read, and tells its size. */
static int open_private(const char *path, size_t *size)
{
	struct stat stat;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), ret;

	if (fd < 0 && errno == ENOENT)
		return error_fail(-ENOENT,
				  "key file '%s': does not exist; check its name, or name the "
				  "cluster's with ?key=FILE or AFAR_KEY",
				  path);
	if (fd < 0)
		return error_fail(-errno, "key file '%s': cannot be opened: %s", path,
				  afar_strerror(errno));
	if (fstat(fd, &stat) < 0)
		ret = error_fail(-errno, "key file '%s': %s", path, afar_strerror(errno));
	else if (!S_ISREG(stat.st_mode))
		ret = error_fail(-EINVAL, "key file '%s': is not a regular file", path);
	else if (stat.st_mode & (S_IRWXG | S_IRWXO))
		ret = error_fail(
			-EPERM,
			"key file '%s': others than its owner can use it (mode %04o); "
			"chmod 600 it, and make a new key if it was not meant to be shared",
			path, (unsigned)stat.st_mode & 07777U);
	else if (stat.st_size > FILE_BYTES_MAX)
		ret = error_fail(-EINVAL, "key file '%s': is larger than a key file can be", path);
	else {
		*size = (size_t)stat.st_size;
		return fd;
	}
	close(fd);
	return ret;
}

/* Up to `size` bytes; how many there were, or a negative code. */
static ssize_t read_all(int fd, char *out, size_t size)
{
	size_t length = 0;

	while (length < size) {
		const ssize_t taken = read(fd, out + length, size - length);

		if (taken < 0 && errno == EINTR)
			continue;
		if (taken < 0)
			return -errno;
		if (!taken)
			break;
		length += (size_t)taken;
	}
	return (ssize_t)length;
}

int key_load(const char *path, struct key *out, size_t max)
{
	size_t size = 0;
	ssize_t length;
	char *text;
	int fd, ret;

	fd = open_private(path, &size);
	if (fd < 0)
		return fd;
	text = malloc(size + 1);
	if (!text) {
		ret = error_code(-ENOMEM);
		goto out_close;
	}
	length = read_all(fd, text, size);
	if (length < 0)
		ret = error_fail((int)length, "key file '%s': cannot be read: %s", path,
				 afar_strerror((int)length));
	else
		ret = key_parse(text, (size_t)length, path, out, max);
	if (!ret)
		ret = error_fail(-EINVAL, "key file '%s': has no key in it", path);
	OPENSSL_cleanse(text, size);
	free(text);
out_close:
	close(fd);
	return ret;
}

int key_load_principals(const char *path, struct key *out, size_t max)
{
	int found = key_load(path, out, max);

	for (int i = 0; i < found; i++) {
		if (key_is_principal(out[i].identity))
			continue;
		error_line("key file '%s': '%s' is no principal's name; use 1 to %d of A-Z a-z 0-9 "
			   ". _ @ -",
			   path, out[i].identity, KEY_PRINCIPAL_MAX);
		OPENSSL_cleanse(out, (size_t)found * sizeof(*out));
		return -EINVAL;
	}
	return found;
}

static int write_all(int fd, const char *text, size_t length)
{
	while (length) {
		const ssize_t written = write(fd, text, length);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return -errno;
		text += written;
		length -= (size_t)written;
	}
	return 0;
}

/* A line with a fresh random key for `identity`, into `line` of LINE_BYTES_MAX + 1 bytes. */
static int make_line(const char *identity, char *line)
{
	uint8_t secret[KEY_BYTES];
	int length;

	if (RAND_bytes(secret, sizeof(secret)) != 1)
		return error_fail(-EIO, "making a key: the system has no random numbers");
	length = sprintf(line, "%s:", identity);
	for (size_t i = 0; i < sizeof(secret); i++)
		length += sprintf(line + length, "%02x", secret[i]);
	line[length++] = '\n';
	line[length] = 0;
	OPENSSL_cleanse(secret, sizeof(secret));
	return 0;
}

/* Makes the name of the file as lasting as its content. */
static int sync_folder_of(const char *path)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int fd, ret = 0;

	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path + 1) : 1,
		 slash ? path : ".");
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Some file systems cannot sync a folder, and need not. */
	if (fsync(fd) < 0 && errno != EINVAL)
		ret = -errno;
	close(fd);
	return ret;
}

/*
 * Links a file with `line` into place under `path`, whole and private or not at all. If another
 * process was faster, its file is the one, and that is no failure.
 */
static int publish(const char *path, const char *line)
{
	char aside[PATH_MAX];
	int fd, ret;

	if (snprintf(aside, sizeof(aside), "%s.XXXXXX", path) >= (int)sizeof(aside))
		return -ENAMETOOLONG;
	fd = mkostemp(aside, O_CLOEXEC); /* with mode 0600 from birth */
	if (fd < 0)
		return -errno;
	ret = write_all(fd, line, strlen(line));
	if (!ret && fsync(fd) < 0)
		ret = -errno;
	if (!ret && link(aside, path) < 0 && errno != EEXIST)
		ret = -errno;
	close(fd);
	unlink(aside);
	return ret ? ret : sync_folder_of(path);
}

static int make(const char *path, const char *identity)
{
	char line[LINE_BYTES_MAX + 1];
	int ret;

	if (!is_identity(identity, strlen(identity)))
		return error_fail(-EINVAL,
				  "key file '%s': the identity '%s' is not 1 to 63 visible "
				  "characters without ':'",
				  path, identity);
	ret = make_line(identity, line);
	if (ret)
		return ret;
	ret = publish(path, line);
	OPENSSL_cleanse(line, sizeof(line));
	if (ret)
		return error_fail(ret, "key file '%s': cannot be made: %s", path,
				  afar_strerror(ret));
	return 0;
}

int key_load_or_make(const char *path, const char *identity, struct key *out)
{
	int ret = key_load(path, out, 1);

	if (ret == -ENOENT) {
		ret = make(path, identity);
		if (!ret)
			ret = key_load(path, out, 1);
	}
	return ret < 0 ? ret : 0;
}
