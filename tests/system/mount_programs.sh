#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mount_programs.sh TIER: programs that know nothing of Afar, in a mount: what they make is as on any other file system.
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$(dirname "$0")/mounts.sh"

command -v fio >/dev/null || skip "fio is not there (apt install fio)"
start_flash_cluster
"$AFAR" fs create f --tier "$1"
start_mount m f

# ---- A tree of everything, copied there and back

python3 - <<'END'
import os, random
random.seed(7)
os.makedirs("tree")
for i in range(12):
    folder = "tree/d%d/e%d" % (i % 4, i)
    os.makedirs(folder)
    for j in range(12):
        size = random.choice([0, 1, 100, 4096, 5000, 70000, 300000])
        with open("%s/file %d.%d" % (folder, i, j), "wb") as file:
            file.write(random.randbytes(size))
        os.chmod(file.name, random.choice([0o644, 0o600, 0o755, 0o444]))
        os.utime(file.name, ns=(10**18 + j, 10**18 + i * 1000003 + j))
with open("tree/large", "wb") as file:
    file.write(random.randbytes(9 << 20))
with open("tree/hole", "wb") as file:
    file.seek(5 << 20)
    file.write(b"end")
os.symlink("d1/e1/file 1.1", "tree/link")
os.symlink("nowhere", "tree/dangling")
os.link("tree/large", "tree/large too")
os.mkfifo("tree/fifo")
os.makedirs("tree/empty")
END

# about FOLDER: all that there is to know of a tree.
about() {
	(cd "$1" && find . -printf '%P %y %m %n %l %U:%G ' \( -type d -printf '\n' -o -printf '%s %T@\n' \) | LC_ALL=C sort)
}

cp -a tree m/tree
about tree >there
about m/tree >here
diff there here || fail "the trees differ"
diff -r --no-dereference --exclude=fifo tree m/tree || fail "the copies differ"
cp -a m/tree back
about back >here
diff there here || fail "the trees differ"
(cd tree && find . -type f -exec sha256sum {} + | sort -k 2) >sums
(cd m/tree && sha256sum -c --quiet) <sums || fail "sha256sum"
archive() {
	tar -C "$1" --sort=name --format=posix --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime -cf - .
}
archive tree >tree.tar
archive m/tree | cmp - tree.tar || fail "tar makes another archive of it"
mkdir m/untarred
tar -C m/untarred -xf tree.tar
about m/untarred >here
diff there here || fail "the trees differ"
rm -r m/untarred
[ ! -e m/untarred ] || fail "rm -r"
[ "$(find m/tree -name 'file 3.*' -size +0 | wc -l)" -eq "$(find tree -name 'file 3.*' -size +0 | wc -l)" ] || fail "find"
mv m/tree/d1 m/tree/d0/moved
mv m/tree/d0 m/d0
mv m/tree outside # to another file system
mv m/d0/moved outside/d1
mv m/d0 outside/d0
about outside >here
diff there here || fail "the trees differ"
[ -z "$(ls -A m)" ] || fail "left behind: $(ls -A m)"

# ---- Writing in many ways

for i in 1 2 3 4; do
	(for j in $(seq 200); do echo "$i $j and some more to make it longer"; done >>m/log) &
	running="$running $!"
	writers="${writers:-} $!"
done
for writer in $writers; do
	wait "$writer" || fail "a writer ended with $?"
	forget "$writer"
done
[ "$(wc -l <m/log)" -eq 800 ] || fail "$(wc -l <m/log) lines of 800 were appended"
[ "$(sort -u m/log | wc -l)" -eq 800 ] || fail "lines are torn"
dd if=tree/large of=m/dd bs=100000 conv=fsync status=none
same tree/large m/dd
dd if=tree/large of=m/dd bs=1M oflag=direct conv=notrunc status=none
dd if=m/dd bs=1M iflag=direct status=none | cmp - tree/large || fail "dd with O_DIRECT"
truncate -s 5000 m/dd
head -c 5000 tree/large | cmp - m/dd || fail "truncate"
fallocate -l 3M m/allocated
[ "$(stat -c %s m/allocated)" -eq 3145728 ] || fail "fallocate"
fallocate -p -o 0 -l 1M m/allocated
cp --sparse=always tree/hole m/hole
same tree/hole m/hole
sed -i 's/some/SOME/' m/log
[ "$(grep -c SOME m/log)" -eq 800 ] || fail "sed -i"
flock m/lock -c 'flock -n m/lock -c true && exit 1 || exit 0' || fail "flock"
df m | tail -1 | grep -q "$PWD/m" || fail "df: $(df m)"

python3 - <<'END' || fail "mmap"
import mmap, os
with open("m/mapped", "w+b") as file:
    file.truncate(3 << 20)
    with mmap.mmap(file.fileno(), 0) as memory:
        memory[5000:5005] = b"hello"
        memory[(3 << 20) - 3:] = b"end"
        memory.flush()
with open("m/mapped", "rb") as file:
    data = file.read()
assert len(data) == 3 << 20 and data[5000:5005] == b"hello" and data[-3:] == b"end" and data.count(0) == (3 << 20) - 8
file = open("m/unlinked", "w+b")
os.unlink("m/unlinked")
file.write(b"x" * 100000)
file.flush()
file.seek(0)
assert file.read() == b"x" * 100000 and os.fstat(file.fileno()).st_nlink == 0
END

# ---- Random reads and writes by several, each of which must find what was written last

for engine in psync mmap libaio; do
	flags=--blocksize_unaligned=1
	[ "$engine" != libaio ] || flags=--iodepth=8
	fio --name="$engine" --directory="$PWD/m" --ioengine="$engine" $flags --rw=randrw --bsrange=512-300k --size=6m --numjobs=2 \
		--verify=crc32c --verify_fatal=1 --end_fsync=1 --randseed=5 >fio.out 2>&1 || fail "fio $engine: $(cat fio.out)"
	rm m/"$engine".*
done

# ---- A database

if python3 -c 'import sqlite3' 2>/dev/null; then
	python3 - <<'END' || fail "sqlite"
import sqlite3
for mode in ("delete", "wal", "truncate"):
    base = sqlite3.connect("m/base." + mode)
    assert base.execute("pragma journal_mode=" + mode).fetchone()[0] == mode
    base.execute("create table t (a integer primary key, b text)")
    for i in range(20):
        with base:
            base.executemany("insert into t (b) values (?)", [("row %d %d" % (i, j) * 10,) for j in range(100)])
    try:
        with base:
            base.execute("delete from t")
            raise KeyError
    except KeyError:
        pass
    other = sqlite3.connect("m/base." + mode)
    assert other.execute("select count(*) from t").fetchone()[0] == 2000
    assert other.execute("pragma integrity_check").fetchone()[0] == "ok"
    other.close()
    base.execute("vacuum")
    base.close()
END
fi

# ---- git

if command -v git >/dev/null; then
	git init -q -b main m/repository
	cp -r tree/d0 tree/link m/repository
	(
		cd m/repository
		git config user.name Nobody
		git config user.email nobody@example.invalid
		git add .
		git commit -qm one
		echo further >extra
		git add extra
		git commit -qm two
		git mv extra other
		git commit -qm three
		git gc -q
		git fsck --strict --no-progress
		git diff --exit-code HEAD
		[ -z "$(git status --porcelain)" ]
	) >git.out 2>&1 || fail "git: $(cat git.out)"
	git clone -q m/repository m/clone
	diff -r --no-dereference --exclude=.git m/repository m/clone || fail "the clone differs"
	git -C m/clone fsck --no-progress 2>/dev/null || fail "git fsck"
	[ "$(git -C m/clone log --format=%s | tr '\n' ' ')" = 'three two one ' ] || fail "git log"
fi

# ---- All of it is there after another mount, and in both of two

(cd m && find . -type f -exec sha256sum {} + | sort -k 2) >sums
end_mount m
start_mount m f
start_mount second f --direct
(cd m && sha256sum -c --quiet) <sums || fail "after a new mount"
(cd second && sha256sum -c --quiet) <sums || fail "through the other mount"
for i in $(seq 50); do
	echo "one $i" >>m/both
	echo "other $i" >>second/both
done
[ "$(sort -u m/both | wc -l)" -eq 100 ] || fail "$(wc -l <m/both) lines of 100 were appended by two mounts in turn"
same m/both second/both
end_mount second
rm -rf m/*
[ -z "$(ls -A m)" ] || fail "left behind: $(ls -A m)"
end_mount m
still_works
