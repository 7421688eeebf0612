/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases from matrices: renaming anything onto anything; anybody doing anything to files of any mode. */
#include <stdio.h>

#include "posix.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

struct thing {
	const char *name;
	const char *make; /* "%s" is its name, all times */
};

static const struct thing things[] = {
	{"nothing", NULL},
	{"file", "mknod %s file 644; "},
	{"file with two names", "mknod %s file 600; link %s other; "},
	{"empty directory", "mkdir %s; "},
	{"full directory", "mkdir %s; mknod %s/x file 644; "},
	{"link to a file", "mknod target file 644; symlink target %s; "},
	{"link to a directory", "mkdir folder; symlink folder %s; "},
	{"dangling link", "symlink nowhere %s; "},
	{"fifo", "mknod %s fifo 644; "},
};

static int make_thing(char *out, size_t size, const struct thing *thing, const char *name)
{
	return thing->make ? snprintf(out, size, thing->make, name, name) : 0;
}

static void generate_renames(posix_take *take)
{
	static const char *const flags[] = {"", "noreplace", "exchange"};
	char name[200], script[1000];

	for (size_t from = 0; from < LENGTH(things); from++) {
		for (size_t to = 0; to < LENGTH(things); to++) {
			for (size_t how = 0; how < LENGTH(flags); how++) {
				int at = snprintf(script, sizeof(script), "mkdir p; mkdir q; ");

				at += make_thing(script + at, sizeof(script) - (size_t)at,
						 &things[from], "p/a");
				/* Helpers of two things of one kind are there already; that fails in both. */
				at += make_thing(script + at, sizeof(script) - (size_t)at,
						 &things[to], "q/b");
				snprintf(script + at, sizeof(script) - (size_t)at,
					 "rename p/a q/b %s; ls p; ls q; lstat p/a; lstat q/b; "
					 "stat p; "
					 "stat q; ls",
					 flags[how]);
				snprintf(name, sizeof(name), "rename: %s onto %s %s",
					 things[from].name, things[to].name, flags[how]);
				take(name, script, false);
			}
		}
	}
}

/* Tries all that is done to a file, or to a name in a directory. All in one script, as one user. */
static void generate_permissions(posix_take *take)
{
	static const struct {
		const char *name, *as;
	} users[] = {
		{"owner", "as 1001 2000"},
		{"group", "as 1002 2000"},
		{"further group", "as 1002 2001 2000"},
		{"other", "as 1003 2003"},
		{"root", "as 0 0"},
	};
	static const unsigned modes[] = {0000, 0100, 0200, 0300,  0400, 0500, 0600,
					 0700, 0007, 0070, 0050,  0020, 0004, 0002,
					 0001, 0640, 0755, 01777, 02770};
	char name[200], script[1000];

	for (size_t user = 0; user < LENGTH(users); user++) {
		for (size_t mode = 0; mode < LENGTH(modes); mode++) {
			snprintf(script, sizeof(script),
				 "open 0 f rw,creat; write 0 abc; close 0; chown f 1001 2000; "
				 "chmod f "
				 "%o; %s; open 0 f r; open 0 f w; open 0 f rw; access f r; access "
				 "f w; "
				 "access f x; truncate f 1; chmod f %o; setxattr f user.a b; "
				 "getxattr f "
				 "user.a; utimens f now now; stat f",
				 modes[mode], users[user].as, modes[mode]);
			snprintf(name, sizeof(name), "permissions: %s of a file of %04o",
				 users[user].name, modes[mode]);
			take(name, script, true);
			snprintf(script, sizeof(script),
				 "mkdir d; mknod d/f file 666; chmod d/f 666; mkdir d/e; chown d "
				 "1001 2000; chmod d %o; %s; ls d; "
				 "stat d/f; stat d/none; open 0 d/f r; open 0 d/g rw,creat; mkdir "
				 "d/h; "
				 "rename d/f d/i; unlink d/i; rmdir d/e; link d/g d/k; symlink x "
				 "d/l; "
				 "chdir d; as 0 0; ls .",
				 modes[mode], users[user].as);
			snprintf(name, sizeof(name), "permissions: %s in a directory of %04o",
				 users[user].name, modes[mode]);
			take(name, script, true);
		}
	}
}

/* Sizes around blocks and stripes: written, cut and made longer, read back. */
static void generate_sizes(posix_take *take)
{
	static const unsigned long sizes[] = {1,       511,	512,	 4095,	 4096,	 4097,
					      8191,    8192,	65535,	 65537,	 131072, 1048575,
					      1048576, 1048577, 2097152, 3145729};
	char name[200], script[1000];

	for (size_t i = 0; i < LENGTH(sizes); i++) {
		const unsigned long n = sizes[i];

		snprintf(script, sizeof(script),
			 "open 0 f rw,creat; fill 0 %lu 0; fstat 0; sum f; ftruncate 0 %lu; sum f; "
			 "ftruncate 0 %lu; sum f; write 0 tail %lu; fstat 0; close 0; sum f; "
			 "truncate f 0; "
			 "stat f; open 1 f rw,append; fill 1 %lu 0 3; sum f; read 1 3 %lu",
			 n, n / 2, n, n + n / 3, n, n - 1);
		snprintf(name, sizeof(name), "size of %lu", n);
		take(name, script, false);
		snprintf(script, sizeof(script),
			 "open 0 f rw,creat; write 0 x %lu; fstat 0; sum f; map 0 %lu r,w; poke 0 "
			 "%lu y; "
			 "msync 0; sum f; fallocate 0 keep,punch %lu %lu; sum f; fstat 0",
			 n, n + 1, n / 2, n / 2, n / 2 + 1);
		snprintf(name, sizeof(name), "one byte at %lu", n);
		take(name, script, false);
	}
}

/* Every way to open a file that is there, that is not, a directory, a link. */
static void generate_opens(posix_take *take)
{
	static const char *const accesses[] = {"r", "w", "rw"};
	static const char *const further[] = {"",	",creat",   ",creat,excl",
					      ",trunc", ",append",  ",creat,trunc",
					      ",dir",	",nofollow"};
	char name[200], script[1000];

	for (size_t access = 0; access < LENGTH(accesses); access++) {
		for (size_t more = 0; more < LENGTH(further); more++) {
			int at =
				snprintf(script, sizeof(script),
					 "open 9 f rw,creat; write 9 abcdef; mkdir d; symlink f l; "
					 "symlink d m; symlink none n; mknod s socket 644; ");
			static const char *const targets[] = {"f", "new", "d", "l",
							      "m", "n",	  "s", "f/"};

			for (size_t i = 0; i < LENGTH(targets); i++)
				at += snprintf(script + at, sizeof(script) - (size_t)at,
					       "open 0 %s %s%s; write 0 xy; read 0 2; ", targets[i],
					       accesses[access], further[more]);
			snprintf(script + at, sizeof(script) - (size_t)at, "ls; stat f; cat f");
			snprintf(name, sizeof(name), "open: %s%s", accesses[access], further[more]);
			take(name, script, false);
		}
	}
}

void posix_generate(posix_take *take)
{
	generate_opens(take);
	generate_sizes(take);
	generate_renames(take);
	generate_permissions(take);
}
