#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Files and directories whose last name goes while a program of a mount uses them: between finding a name and opening it, by an O_PATH
# descriptor, as a working directory. They stay as on a local disk, whoever removes them, also over a restart of the manager, and go when nobody uses them any more.
# shellcheck disable=SC2154,SC2034 # cluster.sh and mounts.sh set some, and use some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$(dirname "$0")/mounts.sh"

start_cluster
port=$(manager_port)
"$AFAR" fs create work --mode 777
start_mount near work
start_mount far work

nr_inodes() {
	"$AFAR" fs stat work | sed -n 's/^inodes *//p'
}
has_inodes() {
	[ "$(nr_inodes)" -eq "$1" ]
}

# ---- One that is known by its number alone

cat >holder.py <<'END'
import os, sys
near, far = sys.argv[1:]
def same(what, is_so, should_be):
    assert is_so == should_be, "%s: %r, and not %r" % (what, is_so, should_be)
def fails(what, error, call, *arguments, **more):
    try:
        call(*arguments, **more)
    except error:
        return
    sys.exit("%s: it went well" % what)
for there in near, far:
    path, tmp, folder = near + "/value", there + "/tmp", near + "/folder"
    with open(path, "w") as file:
        file.write("old")
    os.mkdir(folder)
    known = os.open(path, os.O_PATH)
    with open(tmp, "w") as file:
        file.write("new")
    os.rename(tmp, there + "/value")
    open_folder = os.open(folder, os.O_RDONLY)
    os.chdir(folder)
    os.rmdir(there + "/folder")
    for answer in "before", "after":
        same("links", os.fstat(known).st_nlink, 0)
        with open("/proc/self/fd/%d" % known) as file:
            same("its bytes", file.read(), "old")
        same("links of a folder", os.fstat(open_folder).st_nlink, 0)
        same("names of it", os.listdir("."), [])
        os.stat(".")
        os.fsync(open_folder)
        fails("find a name in it", FileNotFoundError, os.stat, "x")
        fails("make a file in it", FileNotFoundError, open, "x", "w")
        fails("make a folder in it", FileNotFoundError, os.mkdir, "x")
        fails("remove a name of it", FileNotFoundError, os.unlink, "x", dir_fd=open_folder)
        if answer == "before":
            print(flush=True)
            sys.stdin.readline()
    with open(path) as file:
        same("what replaced it", file.read(), "new")
    os.chdir("/")
    os.close(known)
    os.close(open_folder)
    print(flush=True)
    sys.stdin.readline()
    os.unlink(path)
END
mkfifo said go
python3 holder.py "$scratch/near" "$scratch/far" <go >said &
holder=$!
exec 8>go 9<said
for there in near far; do
	read -r _ <&9 || fail "what is removed by $there is not as it was"
	# Besides the root and the new file: what is in use.
	eventually has_inodes 4
	if [ $there = far ]; then
		kill_daemon manager
		start_manager "$port"
	fi
	echo >&8
	read -r _ <&9 || fail "what is removed by $there is not as it was, after a while"
	eventually has_inodes 2
	echo >&8
done
wait $holder || fail "the programs of two mounts"
exec 8>&- 9<&-
eventually has_inodes 1

# ---- Replacing, while others open

cat >replace.py <<'END'
import os, sys
there, here = sys.argv[1:]
with open(there + "/value", "w") as file:
    file.write("0")
writer = os.fork()
if writer == 0:
    for i in range(100):
        with open(there + "/tmp", "w") as file:
            file.write(str(i))
        os.rename(there + "/tmp", there + "/value")
    os._exit(0)
while os.waitpid(writer, os.WNOHANG) == (0, 0):
    with open(here + "/value") as file:
        assert file.read().isdigit()
    assert os.stat(here + "/value").st_size > 0
END
for here in near far; do
	python3 replace.py near $here || fail "opening by $here what near replaces"
done
rm near/value

# ---- Removing one tree thrice at once

mkdir near/tree
for dir in 1 2 3 4; do
	mkdir near/tree/$dir
	(cd near/tree/$dir && touch 1 2 3 4 5 6 7 8 9 10 11 12)
done
rm -rf near/tree &
first=$!
rm -rf far/tree &
second=$!
rm -rf near/tree || fail "removing a tree while others do"
wait $first || fail "removing a tree, the first of three"
wait $second || fail "removing a tree, by the other mount"
[ ! -e near/tree ] || fail "the tree is still there"
# A name that was looked for, and not found, in a directory that the other mount had just removed keeps that in the kernel's cache until
# memory is short. Some 1 of 50 of these trees has one.
has_inodes_when_memory_is_short() {
	echo 2 >/proc/sys/vm/drop_caches
	has_inodes "$1"
}
eventually has_inodes_when_memory_is_short 1
"$AFAR" fs check work >/dev/null || fail "fs check"
# At the limit of files, what was removed just now makes room.
"$AFAR" fs create few --max-files 3
start_mount limited few
touch limited/a limited/b limited/c
for name in d e; do
	rm limited/a
	touch limited/$name || fail "a file after another was removed, at the limit"
	mv limited/$name limited/a
done
mkdir limited/more 2>/dev/null && fail "more files than the limit allows"
# And at that of bytes.
"$AFAR" fs set few --max 8M --max-files none
for round in 1 2 3 4 5 6 7 8 9 10; do
	head -c 12M /dev/zero >limited/big 2>/dev/null && fail "more bytes than the limit allows"
	rm limited/big
	head -c 6M /dev/zero >limited/big || fail "a file after another was removed, at the limit of bytes, in round $round"
	rm limited/big
done
end_mount limited
end_mount near
end_mount far
