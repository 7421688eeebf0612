#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# preload.sh WHAT: programs that know nothing of Afar, under `afar run`, on a mount: the same bytes, and large ones past the mount.
# WHAT: programs, or a part of preload.py.
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/system/cluster.sh
. "$here/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$here/mounts.sh"
AFAR_PRELOAD_VERBOSE=1
export AFAR_PRELOAD_VERBOSE

start_cluster
"$AFAR" fs create f --mode 777
start_mount m f

if [ "$1" != programs ]; then
	timeout $((200 * slowness)) "$AFAR" run python3 -B "$here/preload.py" "$1" m local "$(pid_of m)" 2>preload.said || fail "$1: $(tail -n 20 preload.said)"
	[ ! -s preload.said ] || fail "$1 said: $(cat preload.said)"
	end_mount m
	still_works
	exit
fi

# moved: how many bytes the mount's process has read and written since the start.
moved() {
	awk '/^[rw]char/ { sum += $2 } END { print sum }' "/proc/$(pid_of m)/io"
}
# past WHAT: since the last call the mount has moved next to nothing. through WHAT: it has.
past() {
	now=$(moved)
	[ $((now - last)) -lt 1500000 ] || fail "$1: $((now - last)) bytes went through the mount"
	last=$now
}
through() {
	now=$(moved)
	[ $((now - last)) -gt 8000000 ] || fail "$1: only $((now - last)) bytes went through the mount"
	last=$now
}

random_file x 9000001
last=$(moved)
dd if=x of=m/plain bs=1M status=none
through dd
"$AFAR" run -- dd if=x of=m/x bs=1M status=none
past 'dd to the mount'
"$AFAR" run dd if=m/x of=back bs=1M status=none
past 'dd from the mount'
same x back
"$AFAR" run cat m/x >back
past cat
same x back
"$AFAR" run dd if=x bs=100k status=none >m/redirected
past 'dd to what the shell has opened'
"$AFAR" run python3 -c 'import sys
data = open("x", "rb").read()
open("m/python", "wb", buffering=0).write(data)
sys.exit(open("m/python", "rb").read() != data)' || fail python
past python
"$AFAR" run sh -c 'dd if=x of=m/shell bs=1M status=none && cat m/shell | cmp x -' || fail 'a shell'
past 'a shell'
for copy in m/plain m/x m/redirected m/python m/shell; do
	same x "$copy"
done
last=$(moved)

# What is seen at once: size and time, also while the writer has it open.
"$AFAR" run python3 -c 'import os
fd = os.open("m/seen", os.O_RDWR | os.O_CREAT)
os.utime("m/seen", (1, 1))
for size in 100000, 200000:
    assert os.write(fd, b"a" * 100000) == 100000
    assert os.stat("m/seen").st_size == os.fstat(fd).st_size == size == os.lseek(fd, 0, os.SEEK_CUR)
assert os.stat("m/seen").st_mtime > 1
os.system("test $(stat -c %s m/seen) -eq 200000 || kill $PPID")' || fail 'size and time'

# Many small transfers count, too.
last=$(moved)
"$AFAR" run dd if=x of=m/small bs=4k count=2000 status=none
past 'small writes'
head -c 8192000 x | cmp - m/small || fail 'small writes'

# Nobody is let past a mount that forbids it, nor with a key that is not his; and all works.
start_mount strict f -o no_bypass
last=$(awk '/^[rw]char/ { sum += $2 } END { print sum }' "/proc/$(pid_of strict)/io")
"$AFAR" run dd if=strict/x of=back bs=1M status=none 2>said
same x back
[ "$(awk '/^[rw]char/ { sum += $2 } END { print sum }' "/proc/$(pid_of strict)/io")" -gt $((last + 8000000)) ] || fail 'no_bypass: it goes past the mount'
end_mount strict
last=$(moved)
mv "${AFAR_CLUSTER#*key=}" hidden
"$AFAR" run dd if=m/x of=back bs=1M status=none 2>said
mv hidden "${AFAR_CLUSTER#*key=}"
same x back
[ "$(wc -l <said)" -eq 1 ] && grep -q '^afar: note: descriptor 0 goes through the mount: ' said || fail "without a key: $(cat said)"
AFAR_PRELOAD_VERBOSE=0 "$AFAR" run dd if=m/x of=back bs=1M status=none

# afar run itself.
refused 2 'say which program' "$AFAR" run
refused 2 'unknown flag' "$AFAR" run --frobnicate x
refused 127 'no such program' "$AFAR" run no-such-program
got=0
"$AFAR" run -- sh -c 'exit 7' || got=$?
[ "$got" -eq 7 ] || fail "it ended with $got, not 7"
case $(LD_PRELOAD=libc.so.6 "$AFAR" run sh -c 'echo "$LD_PRELOAD"') in
*/libafar-preload.so:libc.so.6) ;;
*) fail 'LD_PRELOAD of before' ;;
esac
"$AFAR" run yes | head -n 1 >said || fail 'a pipe that nobody reads'

end_mount m
still_works
