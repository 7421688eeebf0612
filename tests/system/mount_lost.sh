#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A server with memory ends under mounts: programs that have files open, or open them later, read them whole or get EIO;
# never zeros, another file's bytes, or no answer.
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$(dirname "$0")/mounts.sh"

start_manager
for name in one two three; do
	start_server "$name" 384M
done
"$AFAR" fs create f --width 3 --stripe 64K --mode 777
start_mount first f
start_mount second f --direct
mkdir in
for i in $(seq 1 40); do
	random_file "in/small$i" $((i * 100 + 1))
done
for i in 1 2 3 4; do
	random_file "in/large$i" $((i * 1000000 + 5))
done
cp -r in first/

# What has files open while the server ends. It is told to go on by a line on standard input, and says what it found.
cat >holder.py <<'END'
import errno, mmap, os, sys
place = sys.argv[1]
names = sorted(os.listdir("in"))
good = {name: open("in/" + name, "rb").read() for name in names}
held = {name: os.open(place + "/in/" + name, os.O_RDWR) for name in names}
for fd in held.values():
    os.pread(fd, 1, 0)
print("ready", flush=True)
sys.stdin.readline()
nr_whole = nr_lost = nr_written = 0
for name in names:
    lost = []
    for at in range(0, len(good[name]), 4096):
        want = good[name][at:at + 4096]
        try:
            assert os.pread(held[name], 4096, at) == want, (name, at)
        except OSError as error:
            assert error.errno == errno.EIO, error
            lost.append(at)
        else:
            continue
        try:
            os.pwrite(held[name], want, at)
            os.fsync(held[name])
            nr_written += 1
        except OSError as error:
            assert error.errno == errno.EIO, error
    # One read of all fails if a part of it is lost.
    try:
        got = os.pread(held[name], 1 << 23, 0)
        assert not lost and got == good[name], name
    except OSError as error:
        assert lost and error.errno == errno.EIO, (name, error)
    nr_whole += not lost
    nr_lost += bool(lost)
    assert os.fstat(held[name]).st_size == len(good[name]), name
assert nr_written == 0, nr_written # nowhere was a write taken that nobody reads again
print(nr_whole, nr_lost, flush=True)
END
mkfifo go
python3 holder.py second <go >second.held 2>second.fault &
holder=$!
running="$running $holder"
exec 5>go
is_ready() {
	grep -q ready second.held
}
eventually is_ready

kill_daemon two
is_down() {
	"$AFAR" status | grep -Eq '^two +down '
}
eventually is_down
# One that reads before anybody knows what has become of the server gets its answer when that is known.
cat first/in/large1 >early 2>early.err &
early=$!
running="$running $early"
start_server two 384M
if wait "$early"; then
	same in/large1 early
else
	grep -q 'Input/output error' early.err || fail "$(cat early.err)"
fi
forget "$early"
echo go >&5
exec 5>&-
wait "$holder" || fail "with open files: $(cat second.fault)"
forget "$holder"
read -r whole lost <<END
$(tail -n 1 second.held)
END
echo "$whole whole, $lost lost"
[ "$lost" -gt 3 ] || fail "only $lost files have lost something"
[ "$whole" -gt 10 ] || fail "only $whole files are whole"

# Later opens find the same, here and in a mount that is new.
start_mount third f
for place in first second third; do
	nr=0
	for path in in/*; do
		if cat "$place/$path" >back 2>line; then
			same "$path" back
			nr=$((nr + 1))
		else
			grep -q 'Input/output error' line || fail "$place: $(cat line)"
		fi
	done
	[ "$nr" -eq "$whole" ] || fail "through $place $nr files are whole, and not $whole"
done
grep -q 'bytes at [0-9]* are lost, with server [0-9]* .two.' first.err || fail "first says: $(cat first.err)"
status=0
python3 -c '
import mmap
file = open("first/in/large2", "rb")
pages = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
print(sum(pages[at] for at in range(0, len(pages), 4096)))' >mapped.out 2>mapped.err || status=$?
[ "$status" -eq 135 ] || fail "a program that maps what is lost ended with $status, and not by SIGBUS"

# What needs no lost bytes works: names, sizes, making it anew.
[ "$(find first/in -type f | wc -l)" -eq 44 ] || fail "names are gone"
mv first/in/large2 first/in/moved
[ "$(stat -c %s second/in/moved)" -eq 2000005 ] || fail "a size has changed"
: >first/in/moved
cp in/large2 first/in/moved
same in/large2 second/in/moved
# Also to an end in the middle of a block that is lost, and further.
inside=$(python3 -c '
import os
fd = os.open("first/in/large3", os.O_RDONLY)
for at in reversed(range(0, 3000000, 4096)):
    try:
        os.pread(fd, 4096, at)
    except OSError:
        print(at + 100)
        break')
for bytes in "$inside" 65636 4097 1; do
	truncate -s "$bytes" first/in/large3
	[ "$(stat -c %s second/in/large3)" -eq "$bytes" ] || fail "it cannot be made $bytes bytes long"
done
truncate -s 10000 first/in/large3
[ "$(tail -c +4097 second/in/large3 | tr -d '\0' | wc -c)" -eq 0 ] || fail "what was cut off shows again"
rm first/in/large4
cp -r in first/new
diff -r in second/new || fail "new files differ"
fallocate -p -o 0 -l 1000005 first/in/large1 2>/dev/null || fallocate -p -o 0 -l 1003520 first/in/large1
dd if=in/large1 of=first/in/large1 bs=1M conv=notrunc 2>dd.err || fail "what was punched cannot be written: $(cat dd.err)"
same in/large1 second/in/large1
"$AFAR" fs check f --lost --remove --yes >said.out
[ "$("$AFAR" fs check f)" = "f: its records agree" ] || fail "$("$AFAR" fs check f)"
for path in first/in/*; do
	cat "$path" >back || fail "$path has lost something still"
done
for place in first second third; do
	: >"$place.err" # the lines about what was lost
	end_mount "$place"
done
