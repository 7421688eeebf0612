/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases about what is in files: reading, writing, sizes, holes, room, mappings, locks. */
#include "posix.h"

const struct posix_case posix_file_cases[] = {
	{"write and read",
	 "open 0 f rw,creat; write 0 hello; seek 0 0 set; read 0 100; stat f; read 0 10"},
	{"write nothing", "open 0 f rw,creat; write 0 _; fstat 0; read 0 0; read 0 10"},
	{"write at an offset", "open 0 f rw,creat; write 0 abc 10; stat f; cat f; seek 0 0 cur"},
	{"write over", "open 0 f rw,creat; write 0 abcdefgh; write 0 XY 2; cat f; stat f"},
	{"write across 4096",
	 "open 0 f rw,creat; fill 0 4096 0; write 0 abcdef 4093; stat f; sum f"},
	{"write far", "open 0 f rw,creat; write 0 x 1G; fstat 0; read 0 4 1073741822"},
	/* Gone at once, because whoever copies the folder may write the holes, too. */
	{"write very far", "open 0 f rw,creat; write 0 x 1T; fstat 0; read 0 4 1T; unlink f"},
	{"write through a file opened to read",
	 "mknod f file 644; open 0 f r; write 0 abc; ftruncate 0 5; fallocate 0 0 0 100"},
	{"read through a file opened to write", "open 0 f w,creat; write 0 abc; read 0 3 0"},
	{"read behind the end",
	 "open 0 f rw,creat; write 0 abc; read 0 10 3; read 0 10 1000; read 0 10 1"},
	{"read a hole", "open 0 f rw,creat; write 0 end 100000; read 0 20 50000; sum f"},
	{"write 1 MiB", "open 0 f rw,creat; fill 0 1M 0; fstat 0; sum f"},
	{"write 5 MiB and 3",
	 "open 0 f rw,creat; fill 0 5242883 0; fstat 0; sum f; read 0 10 5242879"},
	{"write in pieces", "open 0 f rw,creat; fill 0 3000 0; fill 0 3000 3000; fill 0 3000 6000; "
			    "fill 0 100000 9000; sum f; stat f"},
	{"write backwards",
	 "open 0 f rw,creat; fill 0 1000 9000; fill 0 1000 5000; fill 0 1000 0; sum f; stat f"},
	{"write in the middle of 1 MiB",
	 "open 0 f rw,creat; fill 0 1M 0; fill 0 70000 500000 9; sum f"},
	{"writev", "open 0 f rw,creat; writev 0 abc _ defg h; cat f"},
	{"two descriptors", "open 0 f rw,creat; open 1 f rw; write 0 abcdef; read 1 10; write 1 X "
			    "2; read 0 10 0; close 0; fstat 1"},
	{"a duplicate shares the offset",
	 "open 0 f rw,creat; dup 0 1; write 0 abc; write 1 def; cat f; close 0; write 1 g; cat f"},
	{"negative offsets",
	 "open 0 f rw,creat; write 0 abc -1; read 0 3 -5; seek 0 -1 set; seek 0 -1 end"},
	{"seek", "open 0 f rw,creat; write 0 abcdef; seek 0 2 set; read 0 1; seek 0 1 cur; read 0 "
		 "1; seek 0 -1 end; read 0 5; seek 0 100 end; write 0 z; fstat 0; seek 0 0 bad"},
	{"append",
	 "open 0 f w,creat,append; write 0 abc; write 0 def; cat f; getflags 0; seek 0 0 cur"},
	{"append ignores the offset",
	 "open 0 f rw,creat,append; write 0 abc; seek 0 0 set; write 0 def; cat f; seek 0 0 cur"},
	{"append ignores pwrite's offset",
	 "open 0 f rw,creat,append; write 0 abcdef; write 0 XY 1; cat f"},
	{"append by two", "open 0 f rw,creat,append; open 1 f rw,append; write 0 aa; write 1 bb; "
			  "write 0 cc; cat f; fstat 1"},
	{"append by one, written by another",
	 "open 0 f rw,creat; open 1 f w,append; write 0 hello; write 1 END; cat f; write 0 "
	 "_middle_; cat f; write 1 2; cat f"},
	{"append after truncate",
	 "open 0 f w,creat,append; write 0 abcdef; truncate f 2; write 0 xy; cat f"},
	{"append set later",
	 "open 0 f rw,creat; write 0 abc; flag 0 append; seek 0 0 set; write 0 def; cat f"},
	{"append taken away",
	 "open 0 f rw,creat,append; write 0 abcdef; flag 0 0; write 0 XY 1; cat f"},
	{"append and read", "open 0 f rw,creat,append; write 0 abc; seek 0 0 set; read 0 10; write "
			    "0 d; read 0 10; read 0 10 0"},
	{"append 3 MiB", "open 0 f w,creat,append; fill 0 1M 0; fill 0 1M 1M; fill 0 1M 2M; sum f"},
	{"open trunc", "open 0 f rw,creat; write 0 abc; open 1 f rw,trunc; fstat 0; write 1 x; cat "
		       "f; read 0 10 0"},
	{"open trunc to read", "open 0 f rw,creat; write 0 abc; open 1 f r,trunc; fstat 0"},
	{"open trunc times", "open 0 f rw,creat; write 0 abc; mark f; open 1 f w,trunc; changed f"},
	{"open trunc an empty file",
	 "mknod f file 644; mark f; open 1 f w,trunc; changed f; stat f"},
	{"truncate shorter",
	 "open 0 f rw,creat; write 0 abcdef; truncate f 3; stat f; cat f; fstat 0"},
	{"truncate longer", "open 0 f rw,creat; write 0 abc; truncate f 10; stat f; cat f"},
	{"truncate to 0 and back",
	 "open 0 f rw,creat; fill 0 10000 0; truncate f 0; fstat 0; truncate f 10000; cat f"},
	{"truncate leaves no old bytes", "open 0 f rw,creat; fill 0 100000 0; truncate f 1000; "
					 "truncate f 100000; sum f; read 0 10 995; read 0 4 50000"},
	{"truncate leaves no old bytes behind 4096",
	 "open 0 f rw,creat; fill 0 20000 0; truncate f 5000; write 0 end 19000; sum f; read 0 8 "
	 "4996; read 0 4 9000"},
	{"truncate leaves no old bytes, 3 MiB",
	 "open 0 f rw,creat; fill 0 3M 0; truncate f 1500000; truncate f 3M; sum f"},
	{"truncate at a block",
	 "open 0 f rw,creat; fill 0 8192 0; truncate f 4096; truncate f 8192; sum f"},
	{"truncate far",
	 "open 0 f rw,creat; truncate f 10G; stat f; read 0 4 5G; truncate f 1; stat f"},
	{"truncate a directory", "mkdir d; truncate d 0"},
	{"truncate nothing", "truncate f 0"},
	{"truncate negative", "mknod f file 644; truncate f -1; open 0 f rw; ftruncate 0 -5"},
	{"truncate a link", "open 0 f rw,creat; write 0 abc; symlink f l; truncate l 1; stat f"},
	{"truncate a fifo", "mknod f fifo 644; truncate f 0"},
	{"truncate times", "open 0 f rw,creat; write 0 abc; mark f; truncate f 1; changed f"},
	{"truncate to the same size: times",
	 "open 0 f rw,creat; write 0 abc; mark f; truncate f 3; changed f"},
	{"ftruncate", "open 0 f rw,creat; write 0 abcdef; ftruncate 0 2; fstat 0; seek 0 0 cur; "
		      "write 0 z; cat f"},
	{"ftruncate a file that may not be written any more",
	 "open 0 f rw,creat; write 0 abc; chmod f 0; ftruncate 0 1; fstat 0; write 0 xx 5; fstat "
	 "0"},
	{"ftruncate times", "open 0 f rw,creat; write 0 abc; mark f; ftruncate 0 1; changed f"},
	{"write times", "open 0 f rw,creat; mark f; write 0 abc; changed f; mark f; write 0 d 0; "
			"changed f; mark f; read 0 3 0; changed f"},
	{"write nothing: times", "open 0 f rw,creat; write 0 a; mark f; write 0 _; changed f"},
	{"truncate while mapped", "open 0 f rw,creat; fill 0 8192 0; map 0 8192 r; truncate f 100; "
				  "peek 0 0 10; peek 0 100 10; touch 0 5000"},
	{"unlink while open", "open 0 f rw,creat; write 0 abc; unlink f; fstat 0; read 0 10 0; "
			      "write 0 def 3; fstat 0; read 0 10 0; ls"},
	{"unlink while open, truncate", "open 0 f rw,creat; fill 0 10000 0; unlink f; ftruncate 0 "
					"100; fstat 0; ftruncate 0 200; read 0 10 95; fsync 0"},
	{"unlink while open, by a second descriptor",
	 "open 0 f rw,creat; open 1 f r; write 0 abc; close 0; unlink f; fstat 1; read 1 10"},
	{"unlink while open, made anew",
	 "open 0 f rw,creat; write 0 old; unlink f; open 1 f rw,creat,excl; write 1 new; read 0 10 "
	 "0; cat f; fstat 0; fstat 1"},
	{"unlink while open, chmod and chown",
	 "open 0 f rw,creat; unlink f; fchmod 0 600; fstat 0; futimens 0 1000.5 2000; fstat 0"},
	{"unlink while open, grown by 1 MiB",
	 "open 0 f rw,creat; unlink f; fill 0 1M 0; fstat 0; read 0 8 1000000"},
	{"unlink while open, append",
	 "open 0 f rw,creat,append; unlink f; write 0 abc; write 0 def; read 0 10 0; fstat 0; flag "
	 "0 0; write 0 X 1; read 0 10 0"},
	{"unlink while mapped", "open 0 f rw,creat; fill 0 4096 0; map 0 4096 r,w; unlink f; close "
				"0; poke 0 10 hello; peek 0 8 10; unmap 0"},
	{"unlink while open, xattr", "open 0 f rw,creat; setxattr f user.a b; unlink f; fstat 0"},
	{"rename over while open",
	 "open 0 f rw,creat; write 0 old; open 1 g rw,creat; write 1 new; rename g f; read 0 10 0; "
	 "fstat 0; write 0 er 3; read 0 10 0; cat f"},
	{"close twice",
	 "open 0 f rw,creat; dup 0 1; close 0; write 1 abc; close 1; cat f; close 1"},
	{"fsync", "open 0 f rw,creat; write 0 abc; fsync 0; fsync 0 data; open 1 . r,dir; fsync 1; "
		  "open 2 f r; fsync 2"},
	{"sync writes",
	 "open 0 f rw,creat,sync; write 0 abc; open 1 f w,dsync; write 1 X 1; cat f; getflags 0"},
	{"holes: seek in an empty file",
	 "open 0 f rw,creat; seek 0 0 data; seek 0 0 hole; seek 0 5 hole"},
	{"holes: seek in data",
	 "open 0 f rw,creat; fill 0 8192 0; fsync 0; seek 0 0 data; seek 0 0 hole; seek 0 100 "
	 "data; seek 0 8192 hole; seek 0 8192 data; seek 0 8191 hole"},
	{"holes: all of it", "open 0 f rw,creat; ftruncate 0 64M; seek 0 0 data; seek 0 0 hole; "
			     "seek 0 1M hole; stat f"},
	{"holes: data at the end", "open 0 f rw,creat; fill 0 4096 64M; fsync 0; seek 0 64M data; "
				   "seek 0 64M hole; seek 0 0 hole; read 0 8 1M"},
	{"holes: write into one", "open 0 f rw,creat; ftruncate 0 64M; write 0 abc 32M; read 0 8 "
				  "33554430; fstat 0; seek 0 32M data"},
	{"holes: negative",
	 "open 0 f rw,creat; fill 0 4096 0; seek 0 -1 data; seek 0 -1 hole; seek 0 4097 data"},
	{"holes: truncated tail", "open 0 f rw,creat; fill 0 4096 0; ftruncate 0 100M; fsync 0; "
				  "seek 0 0 data; seek 0 50M data; sum f"},
	{"fallocate", "open 0 f rw,creat; fallocate 0 0 0 100000; fstat 0; read 0 10 50000"},
	{"fallocate keep size",
	 "open 0 f rw,creat; fallocate 0 keep 0 1M; fstat 0; write 0 abc; fstat 0; cat f"},
	{"fallocate over data",
	 "open 0 f rw,creat; fill 0 10000 0; fallocate 0 0 0 20000; fstat 0; sum f"},
	{"fallocate behind the end",
	 "open 0 f rw,creat; write 0 abc; fallocate 0 0 1M 4096; fstat 0; read 0 5 1M"},
	{"fallocate nothing",
	 "open 0 f rw,creat; fallocate 0 0 0 0; fallocate 0 0 -1 10; fallocate 0 0 0 -1"},
	{"fallocate a directory", "mkdir d; open 0 d r; fallocate 0 0 0 10"},
	{"fallocate times",
	 "open 0 f rw,creat; write 0 a; mark f; fallocate 0 0 0 10000; changed f"},
	{"punch", "open 0 f rw,creat; fill 0 100000 0; fallocate 0 keep,punch 10000 50000; fstat "
		  "0; sum f; read 0 10 9995; read 0 10 59995"},
	{"punch without keep", "open 0 f rw,creat; fill 0 100 0; fallocate 0 punch 0 10; cat f"},
	{"punch within a block",
	 "open 0 f rw,creat; fill 0 4096 0; fallocate 0 keep,punch 100 50; sum f; fstat 0"},
	{"punch whole blocks",
	 "open 0 f rw,creat; fill 0 65536 0; fallocate 0 keep,punch 8192 16384; sum f; fstat 0"},
	{"punch behind the end", "open 0 f rw,creat; fill 0 1000 0; fallocate 0 keep,punch 500 "
				 "100000; fstat 0; sum f; fallocate 0 keep,punch 1M 1M; fstat 0"},
	{"punch all", "open 0 f rw,creat; fill 0 4M 0; fallocate 0 keep,punch 0 4M; fsync 0; sum "
		      "f; seek 0 0 data"},
	{"punch 1 MiB of 4 and write there again", "open 0 f rw,creat; fill 0 4M 0; fallocate 0 "
						   "keep,punch 1M 1M; write 0 abc 1500000; sum f"},
	{"punch through a file opened to read",
	 "mknod f file 644; open 0 f r; fallocate 0 keep,punch 0 10"},
	{"punch mapped", "open 0 f rw,creat; fill 0 16384 0; map 0 16384 r; peek 0 4096 4; "
			 "fallocate 0 keep,punch 4096 4096; peek 0 4096 8; peek 0 8192 4"},
	{"zero range",
	 "open 0 f rw,creat; fill 0 50000 0; fallocate 0 zero 10000 20000; sum f; fstat 0"},
	{"zero range makes it longer",
	 "open 0 f rw,creat; fill 0 1000 0; fallocate 0 zero 500 10000; fstat 0; sum f"},
	{"zero range keeps the size",
	 "open 0 f rw,creat; fill 0 1000 0; fallocate 0 zero,keep 500 10000; fstat 0; sum f"},
	{"copy_file_range", "open 0 f rw,creat; fill 0 300000 0; open 1 g rw,creat; seek 0 100 "
			    "set; copy 0 1 200000; sum g; fstat 1"},
	{"map and read", "open 0 f rw,creat; fill 0 10000 0; map 0 10000 r; peek 0 0 10; peek 0 "
			 "9990 10; peek 0 10000 10"},
	{"map and write", "open 0 f rw,creat; fill 0 8192 0; map 0 8192 r,w; poke 0 4090 "
			  "hello~world; msync 0; unmap 0; sum f; read 0 20 4085"},
	{"map and write without msync", "open 0 f rw,creat; fill 0 8192 0; map 0 8192 r,w; poke 0 "
					"10 hello; read 0 10 8; unmap 0; close 0; sum f"},
	{"map private", "open 0 f rw,creat; fill 0 4096 0; map 0 4096 r,w private; poke 0 10 "
			"hello; peek 0 8 10; sum f"},
	{"map a file opened to read",
	 "open 0 f rw,creat; fill 0 4096 0; open 1 f r; map 1 4096 r; peek 1 0 8; map 1 4096 r,w; "
	 "map 1 4096 r,w private; peek 1 0 4"},
	{"map a file opened to write",
	 "open 0 f w,creat; fill 0 4096 0; map 0 4096 r; map 0 4096 w"},
	{"map sees writes", "open 0 f rw,creat; fill 0 8192 0; map 0 8192 r; peek 0 5000 4; write "
			    "0 abcd 5000; peek 0 4998 8"},
	{"map sees what another descriptor writes",
	 "open 0 f rw,creat; fill 0 8192 0; map 0 8192 r; peek 0 0 4; open 1 f rw; write 1 abcd 0; "
	 "close 1; peek 0 0 6"},
	{"map past the end", "open 0 f rw,creat; fill 0 100 0; map 0 12288 r; peek 0 100 20; touch "
			     "0 4095; touch 0 4096; touch 0 8192"},
	{"map a hole and fill it", "open 0 f rw,creat; ftruncate 0 1M; map 0 1M r,w; poke 0 500000 "
				   "hello; msync 0; read 0 10 499998; fstat 0"},
	{"map nothing", "open 0 f rw,creat; map 0 0 r"},
	{"map a directory", "open 0 . r; map 0 4096 r"},
	{"map and append", "open 0 f rw,creat; fill 0 4096 0; map 0 8192 r,w; write 0 more 4096; "
			   "peek 0 4090 12; poke 0 4100 XX; msync 0; sum f; fstat 0"},
	{"map times", "open 0 f rw,creat; fill 0 4096 0; map 0 4096 r,w; mark f; poke 0 0 x; msync "
		      "0; changed f"},
	{"flock", "open 0 f rw,creat; open 1 f rw; flock 0 ex; flock 1 ex; flock 1 sh; flock 0 sh; "
		  "flock 1 sh; flock 1 ex; flock 0 un; flock 1 ex; close 1; flock 0 wait"},
	{"flock through a file opened to read",
	 "mknod f file 644; open 0 f r; flock 0 ex; flock 0 un"},
	{"locks of ranges",
	 "open 0 f rw,creat; open 1 f rw; lock 0 w 0 100; lock 1 w 50 10; lock 1 w 100 10; lock 1 "
	 "r 0 1; lock 0 u 0 60; lock 1 w 50 10; lock 0 r 0 0"},
	{"locks and permissions",
	 "mknod f file 644; open 0 f r; lock 0 w 0 10; lock 0 r 0 10; open 1 f w; lock 1 r 20 10"},
	{"read only a little of 1 MiB", "open 0 f rw,creat; fill 0 1M 0; close 0; open 1 f r; read "
					"1 1 1048575; read 1 3 524287; read 1 5 0"},
	{"same bytes after a new open",
	 "open 0 f rw,creat; fill 0 300001 0; close 0; open 1 f r; sum f; fstat 1"},
	{"growing while read", "open 0 f w,creat; open 1 f r; read 1 10; write 0 abc; read 1 10; "
			       "write 0 def; read 1 10; read 1 10"},
	{"shrinking while read", "open 0 f rw,creat; fill 0 10000 0; open 1 f r; seek 1 9000 set; "
				 "truncate f 5000; read 1 10; seek 1 4990 set; read 1 100"},
	{"a fifo", "mknod p fifo 600; open 0 p rw; write 0 through; read 0 7; fstat 0"},
	{0},
};
