/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases about attributes: modes, times, extended ones; and those that need several users. */
#include "posix.h"

const struct posix_case posix_attribute_cases[] = {
	{"chmod", "mknod f file 644; chmod f 600; stat f; chmod f 0; stat f; chmod f 777; stat f"},
	{"chmod high bits", "mknod f file 755; chmod f 4755; stat f; chmod f 2755; stat f; chmod f "
			    "1755; stat f; chmod f 7777; stat f"},
	{"chmod a directory", "mkdir d; chmod d 2750; stat d; chmod d 1777; stat d"},
	{"chmod nothing", "chmod f 600; chmod _ 600; chmod @256 600"},
	{"chmod below a file", "mknod f file 644; chmod f/g 600"},
	{"chmod a link", "mknod f file 644; symlink f l; chmod l 600; stat f; lstat l"},
	{"chmod times",
	 "mknod f file 644; mark f; chmod f 600; changed f; mark f; chmod f 600; changed f"},
	{"fchmod", "open 0 f rw,creat; fchmod 0 640; stat f; unlink f; fchmod 0 600; fstat 0"},
	{"fchmod a directory", "mkdir d; open 0 d r,dir; fchmod 0 700; stat d"},
	{"access",
	 "mknod f file 644; access f f; access f r; access f w; access none f; access f/x f"},
	{"utimens", "mknod f file 644; utimens f 1000.000000001 2000.999999999; times f"},
	{"utimens before 1970", "mknod f file 644; utimens f -5 -100000; times f"},
	{"utimens zero", "mknod f file 644; utimens f 0 0; times f"},
	{"utimens after 2038", "mknod f file 644; utimens f 4102444800 5000000000; times f"},
	{"utimens omit", "mknod f file 644; utimens f 1000 2000; utimens f omit 3000; times f; "
			 "utimens f 4000 omit; times f; utimens f omit omit; times f"},
	{"utimens now", "mknod f file 644; utimens f 1000 2000; utimens f now omit; times f; "
			"utimens f omit now; times f; utimens f 1 2; utimens f now now; times f"},
	{"utimens and ctime", "mknod f file 644; mark f; utimens f omit 1000; changed f"},
	{"utimens a link", "mknod f file 644; symlink f l; utimens l 1000 2000 nofollow; times l; "
			   "utimens l 3000 4000; times f; readlink l"},
	{"utimens a directory",
	 "mkdir d; utimens d 1000 2000; times d; mknod d/f file 644; times d"},
	{"utimens nothing", "utimens f 1 1"},
	{"utimens then write",
	 "open 0 f rw,creat; write 0 abc; futimens 0 1000 2000; times f; write 0 d; times f"},
	{"utimens then close",
	 "open 0 f rw,creat; write 0 abc; futimens 0 1000 2000; close 0; times f"},
	{"utimens then read",
	 "open 0 f rw,creat; write 0 abc; utimens f 1000 2000; mark f; read 0 3 0; changed f"},
	{"utimens with a file opened to read",
	 "mknod f file 644; open 0 f r; futimens 0 1000 2000; times f"},
	{"xattr", "mknod f file 644; setxattr f user.one value; getxattr f user.one; listxattr f; "
		  "removexattr f user.one; getxattr f user.one; listxattr f"},
	{"xattr create and replace",
	 "mknod f file 644; setxattr f user.a 1 replace; setxattr f user.a 1 create; setxattr f "
	 "user.a 2 create; setxattr f user.a 3 replace; getxattr f user.a"},
	{"xattr sizes", "mknod f file 644; setxattr f user.a hello; getxattr f user.a 0; getxattr "
			"f user.a 3; getxattr f user.a 5; listxattr f 0; listxattr f 3"},
	{"xattr empty value",
	 "mknod f file 644; setxattr f user.a _; getxattr f user.a; listxattr f"},
	{"xattr long value",
	 "mknod f file 644; setxattr-long f user.a 2000; getxattr f user.a; getxattr f user.a 0"},
	{"xattr of more than 64 KiB", "mknod f file 644; setxattr-long f user.a 65537"},
	{"xattr several",
	 "mknod f file 644; setxattr f user.a 1; setxattr f user.b 22; setxattr f user.c 333; "
	 "listxattr f; removexattr f user.b; listxattr f; getxattr f user.c"},
	{"xattr none", "mknod f file 644; getxattr f user.a; removexattr f user.a; listxattr f"},
	{"xattr of nothing",
	 "getxattr f user.a; setxattr f user.a b; listxattr f; removexattr f user.a"},
	{"xattr bad names", "mknod f file 644; setxattr f user. b; setxattr f user b; setxattr f "
			    "nonsense.a b; getxattr f nonsense.a"},
	{"xattr long names", "mknod f file 644; setxattr f user.@300 b; setxattr f @256 b"},
	{"xattr of a directory", "mkdir d; setxattr d user.a b; getxattr d user.a; listxattr d"},
	{"xattr of a link", "symlink f l; setxattr l user.a b; getxattr l user.a; listxattr l"},
	{"xattr of a fifo", "mknod p fifo 644; setxattr p user.a b; getxattr p user.a"},
	{"xattr and times", "mknod f file 644; mark f; setxattr f user.a b; changed f; mark f; "
			    "removexattr f user.a; changed f"},
	{"xattr and rename", "mknod f file 644; setxattr f user.a b; rename f g; getxattr g "
			     "user.a; link g h; getxattr h user.a"},
	{"xattr and a new file of the name",
	 "mknod f file 644; setxattr f user.a b; unlink f; mknod f file 644; listxattr f"},
	{"umask 0",
	 "umask 0; mkdir d 777; mknod f file 666; open 0 g rw,creat 666; stat d; stat f; stat g"},
	{"umask 777", "umask 777; mkdir d 777; mknod f file 666; stat d; stat f"},
	{0},
};

/* Run as users 1001 and 1002, who share group 2000, and 1003, who does not. */
const struct posix_case posix_user_cases[] = {
	{"chown", "mknod f file 644; chown f 1001 2000; stat f; chown f -1 2001; stat f; chown f "
		  "1002 -1; stat f; chown f -1 -1; stat f"},
	{"chown a directory", "mkdir d; chown d 1001 2000; stat d"},
	{"chown a link", "mknod f file 644; symlink f l; lchown l 1001 2000; lstat l; stat f; "
			 "chown l 1002 2000; stat f; lstat l"},
	{"chown large ids", "mknod f file 644; chown f 4000000000 4000000001; stat f"},
	{"chown by the owner",
	 "chmod . 777; as 1001 2000 2001; mknod f file 644; stat f; chown f 1002 -1; chown f 1001 "
	 "-1; chown f -1 2001; stat f; chown f -1 2002; stat f"},
	{"chown by another",
	 "mknod f file 666; as 1001 2000; chown f 1001 -1; chown f -1 2000; chown f -1 -1"},
	{"chown times", "mknod f file 644; mark f; chown f 1001 2000; changed f"},
	{"chown drops setuid", "mknod f file 755; chmod f 6755; chown f 1001 2000; stat f"},
	{"chown keeps setgid without x", "mknod f file 644; chmod f 2644; chown f 1001 2000; stat "
					 "f; chmod f 6644; chown f 1002 2000; stat f"},
	{"chown of a directory keeps its bits", "mkdir d; chmod d 6755; chown d 1001 2000; stat d"},
	{"chown by the owner drops setuid", "mknod f file 755; chown f 1001 2000; chmod f 6755; as "
					    "1001 2000 2001; chown f -1 2001; stat f"},
	{"chown -1 -1 and setuid",
	 "mknod f file 755; chown f 1001 2000; chmod f 6755; as 1001 2000; chown f -1 -1; stat f"},
	{"fchown",
	 "open 0 f rw,creat; fchown 0 1001 2000; stat f; unlink f; fchown 0 1002 2000; fstat 0"},
	{"chmod by the owner", "mknod f file 644; chown f 1001 2000; as 1001 2000; chmod f 600; "
			       "stat f; chmod f 4755; stat f"},
	{"chmod by another",
	 "mknod f file 666; chown f 1001 2000; as 1002 2000; chmod f 777; stat f"},
	{"chmod setgid by the owner of another group",
	 "mknod f file 755; chown f 1001 2000; as 1001 2001; chmod f 2755; stat f; as 1001 2001 "
	 "2000; chmod f 2755; stat f"},
	{"chmod sticky by a user",
	 "mknod f file 644; chown f 1001 2000; as 1001 2000; chmod f 1644; stat f"},
	{"write drops setuid", "open 0 f rw,creat; write 0 abc; chown f 1001 2000; chmod f 6777; "
			       "as 1001 2000; open 1 f w; write 1 x; stat f"},
	{"write by another drops setuid",
	 "open 0 f rw,creat; write 0 abc; chown f 1001 2000; chmod f 6777; as 1003 2003; open 1 f "
	 "w; write 1 x; stat f; cat f"},
	{"write by root keeps setuid",
	 "open 0 f rw,creat; write 0 abc; chmod f 6777; write 0 x; stat f"},
	{"append by another drops setuid",
	 "open 0 f rw,creat; write 0 abc; chown f 1001 2000; chmod f 6777; as 1003 2003; open 1 f "
	 "w,append; write 1 x; stat f"},
	{"append by another drops setuid each time",
	 "open 0 f rw,creat; write 0 abc; chown f 1001 2000; chmod f 6777; as 1003 2003; open 1 f "
	 "w,append; write 1 x; stat f; as 0 0; chmod f 6777; as 1003 2003; write 1 y; stat f; cat "
	 "f"},
	{"truncate drops setuid", "open 0 f rw,creat; write 0 abc; chown f 1001 2000; chmod f "
				  "6777; as 1001 2000; truncate f 1; stat f"},
	{"truncate by another drops setuid", "open 0 f rw,creat; write 0 abc; chown f 1001 2000; "
					     "chmod f 6777; as 1003 2003; truncate f 1; stat f"},
	{"open trunc by another drops setuid",
	 "open 0 f rw,creat; write 0 abc; chown f 1001 2000; chmod f 6777; as 1003 2003; open 1 f "
	 "w,trunc; stat f"},
	{"fallocate by another drops setuid",
	 "open 0 f rw,creat; write 0 abc; chown f 1001 2000; chmod f 6777; as 1003 2003; open 1 f "
	 "w; fallocate 1 0 0 5000; stat f"},
	{"new files belong to their maker",
	 "chmod . 777; as 1001 2000; mknod f file 644; mkdir d; symlink f l; open 0 g rw,creat; "
	 "stat f; stat d; lstat l; fstat 0"},
	{"setgid directory",
	 "mkdir d; chown d 0 2005; chmod d 2777; as 1001 2000; mknod d/f file 644; mkdir d/e; open "
	 "0 d/g rw,creat; symlink x d/l; stat d/f; stat d/e; stat d/g; lstat d/l"},
	{"setgid directory: a directory's directory",
	 "mkdir d; chown d 0 2005; chmod d 2777; mkdir d/e; mkdir d/e/f; stat d/e/f; chmod d/e "
	 "755; stat d/e; mkdir d/e/g; stat d/e/g"},
	{"setgid file made by one of another group",
	 "mkdir d; chown d 0 2005; chmod d 2777; umask 0; as 1001 2000; mknod d/f file 2777; stat "
	 "d/f; open 0 d/g rw,creat 2777; stat d/g; as 1001 2000 2005; mknod d/h file 2777; stat "
	 "d/h"},
	{"setuid file made", "chmod . 777; as 1001 2000; umask 0; mknod f file 6755; stat f; open "
			     "0 g rw,creat 6755; stat g"},
	{"sticky: others' files stay",
	 "mkdir d; chmod d 1777; as 1001 2000; mknod d/f file 666; as 1002 2000; unlink d/f; "
	 "rename d/f d/g; as 1001 2000; unlink d/f"},
	{"sticky: others' directories stay",
	 "mkdir d; chmod d 1777; as 1001 2000; mkdir d/e 777; as 1002 2000; rmdir d/e; rename d/e "
	 "d/g; as 1001 2000; rmdir d/e"},
	{"sticky: the directory's owner may", "mkdir d; chown d 1002 2000; chmod d 1777; as 1001 "
					      "2000; mknod d/f file 644; as 1002 2000; unlink d/f"},
	{"sticky: no renaming over others' files",
	 "mkdir d; chmod d 1777; as 1001 2000; mknod d/f file 666; as 1002 2000; mknod d/g file "
	 "666; rename d/g d/f; rename d/g d/f exchange; ls d"},
	{"sticky: root may",
	 "mkdir d; chmod d 1777; as 1001 2000; mknod d/f file 644; as 0 0; unlink d/f"},
	{"no x in a directory",
	 "mkdir d; mknod d/f file 666; chown d 1001 2000; chmod d 600; as 1001 2000; stat d/f; "
	 "open 0 d/f r; ls d; mknod d/g file 644; unlink d/f"},
	{"no r in a directory",
	 "mkdir d; mknod d/f file 666; chmod d 711; as 1001 2000; ls d; stat d/f; open 0 d/f r"},
	{"no w in a directory",
	 "mkdir d; mknod d/f file 666; as 1001 2000; mknod d/g file 644; unlink d/f; rename d/f "
	 "d/h; mkdir d/e; symlink a d/l; link d/f d/m; open 0 d/n rw,creat; open 1 d/f rw"},
	{"root reads all", "open 0 f rw,creat 0; write 0 abc; open 1 f rw; read 1 3; mkdir d 0; "
			   "mknod d/f file 0; ls d"},
	{"root runs only what is x", "open 0 f rw,creat 644; access f x; chmod f 100; access f x"},
	{"access by users",
	 "mknod f file 640; chown f 1001 2000; as 1001 2001; access f r; access f w; access f x; "
	 "as 1002 2000; access f r; access f w; as 1003 2003; access f r"},
	{"open with the mode of the owner",
	 "mknod f file 077; chown f 1001 2000; as 1001 2000; open 0 f r; open 0 f w; as 1002 2000; "
	 "open 0 f rw; as 1003 2003; open 0 f rw"},
	{"open with the mode of the group",
	 "mknod f file 707; chown f 1001 2000; chmod f 707; as 1002 2000; open 0 f r; as 1002 2001 "
	 "2000; open 0 f r; as 1003 2003; open 0 f rw"},
	{"open by a further group", "mknod f file 660; chown f 0 2000; chmod f 660; as 1003 2003; "
				    "open 0 f r; as 1003 2003 2000; open 0 f rw; write 0 abc"},
	{"open trunc needs w", "open 0 f rw,creat; write 0 abc; as 1001 2000; open 1 f r,trunc; "
			       "open 2 f w,trunc; stat f"},
	{"create in one's own, then lose it",
	 "mkdir d; chown d 1001 2000; as 1001 2000; open 0 d/f rw,creat 0; write 0 abc; open 1 d/f "
	 "r; read 0 3 0; as 0 0; chmod d 0; as 1001 2000; read 0 3 0; write 0 z 3; fstat 0; stat "
	 "d/f"},
	{"O_NOATIME by another",
	 "mknod f file 666; as 1001 2000; open 0 f r,noatime; as 0 0; open 0 f r,noatime"},
	{"utimens by the owner", "mknod f file 400; chown f 1001 2000; as 1001 2000; utimens f "
				 "1000 2000; times f; utimens f now now"},
	{"utimens by a writer", "mknod f file 666; chown f 1001 2000; chmod f 666; as 1002 2000; "
				"utimens f 1000 2000; utimens f now now; utimens f now omit"},
	{"utimens by a reader",
	 "mknod f file 644; as 1002 2000; utimens f 1000 2000; utimens f now now; times f none"},
	{"link another's file", "chmod . 777; mknod f file 600; as 1001 2000; link f g; ls"},
	{"rename another's directory",
	 "mkdir a; mkdir b; mkdir a/d; chown a 1001 2000; chown b 1001 2000; chmod a/d 755; as "
	 "1001 2000; rename a/d b/d; ls a; ls b"},
	{"rename one's own directory",
	 "mkdir a; mkdir b; chown a 1001 2000; chown b 1001 2000; as 1001 2000; mkdir a/d; rename "
	 "a/d b/d; ls b; stat a; stat b"},
	{"rename into a directory without w", "mkdir a; chown a 1001 2000; mkdir b; as 1001 2000; "
					      "mknod a/f file 644; rename a/f b/f; rename b/x a/y"},
	{"mknod devices by root", "mknod c char 600 1 3; stat c; mknod b block 600 7 200; stat b"},
	{"mknod devices by a user", "chmod . 777; as 1001 2000; mknod c char 600 1 3; mknod p fifo "
				    "644; mknod s socket 644; ls"},
	{"xattr by a reader", "mknod f file 644; setxattr f user.a b; as 1001 2000; getxattr f "
			      "user.a; setxattr f user.a c; removexattr f user.a; listxattr f"},
	{"xattr without r",
	 "mknod f file 600; setxattr f user.a b; as 1001 2000; getxattr f user.a; listxattr f"},
	{"xattr by a writer",
	 "mknod f file 666; chmod f 666; as 1001 2000; setxattr f user.a b; getxattr f user.a"},
	{"xattr of a sticky directory",
	 "mkdir d; chmod d 1777; as 1001 2000; setxattr d user.a b; as 0 0; setxattr d user.a b"},
	{"xattr trusted",
	 "mknod f file 666; setxattr f trusted.a b; getxattr f trusted.a; listxattr f; as 1001 "
	 "2000; getxattr f trusted.a; setxattr f trusted.b c; listxattr f"},
	{"xattr security",
	 "mknod f file 644; setxattr f security.a b; getxattr f security.a; listxattr f; as 1001 "
	 "2000; getxattr f security.a; setxattr f security.b c"},
	{"exec", "open 0 f w,creat 755; write 0 #!/bin/true; close 0; exec f; chmod f 644; exec f"},
	{"exec what cannot be read",
	 "mkdir d; open 0 d/f w,creat 755; write 0 nonsense; close 0; chmod d/f 711; as 1001 2000; "
	 "exec d/f; as 0 0; chmod d/f 644; as 1001 2000; exec d/f"},
	{"chdir without x", "mkdir d; chmod d 644; as 1001 2000; chdir d; as 0 0; chmod d 711; as "
			    "1001 2000; chdir d; ls"},
	{"rmdir by another", "mkdir d; chmod d 777; mkdir d/e; as 1001 2000; rmdir d/e; mkdir d/f; "
			     "as 1002 2000; rmdir d/f; ls d"},
	{0},
};
