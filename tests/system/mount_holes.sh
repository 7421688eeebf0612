#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs write here and there into sparse files. A file that one mount has written alone has as much room as was written, when it is
# closed. Two mounts write into one file, and one of them is killed: what was written is there, and what was not is zeros. A file system that
# is full holds what fits.
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/system/cluster.sh
. "$here/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$here/mounts.sh"

holes() {
	python3 "$here/mount_holes.py" "$@"
}
has_units() {
	[ "$(holes units "$1")" -eq "$2" ]
}
has_written() {
	[ "$(wc -l <"$1")" -ge "$2" ]
}

# kill_both MOUNT WRITER: a mount, and its program, which has the file open.
kill_both() {
	kill -9 "$(pid_of "$1")" "$2"
	wait "$2" || true
	forget "$2"
	forget "$(pid_of "$1")"
	umount -l "$scratch/$1"
}

start_cluster
"$AFAR" fs create f
start_mount here f
start_mount there f

# A file is closed a moment after its program has closed it.
truncate -s 8M here/alone
holes write here/alone alone 2048 3 16
eventually has_units here/alone 128
eventually has_units there/alone 128
holes check there/alone 2048 alone
# Again: it is opened anew, and has parts by now.
holes write here/alone second 2048 5 16
eventually has_units there/alone 256
holes check there/alone 2048 alone second
holes keep here/keep
eventually has_units here/keep 75
python3 - there/keep <<'END' || fail "what was written beside what goes back"
import sys
with open(sys.argv[1], "rb") as file:
    data = file.read()
for unit in range(1024):
    want = (b"%d " % unit).ljust(4096, b"x") if unit < 64 or unit in (500, 505, 510, 1023) else bytes(4096)
    assert data[unit * 4096:][:4096] == want, unit
END

# Two write.
nr=2048
truncate -s $((nr * 4096)) here/sparse
python3 "$here/mount_holes.py" write here/sparse killed $nr 0 2 stay 2>killed.err &
writer=$!
running="$running $writer"
holes write there/sparse whole $nr 1 2 &
other=$!
eventually has_written killed 300
kill_both here "$writer"
wait "$other" || fail "the other mount does not go on"
start_mount again f
for place in again there; do
	holes check $place/sparse $nr killed whole || fail "what is there, by the mount $place"
done

# One writes alone, and is killed: what it had and did not write stays until the file is shorter.
truncate -s 8M again/dead
python3 "$here/mount_holes.py" write again/dead dead 2048 0 4 stay 2>dead.err &
writer=$!
running="$running $writer"
eventually has_written dead 200
kill_both again "$writer"
start_mount last f
holes check last/dead 2048 dead || fail "what a mount wrote that was killed"
truncate -s 0 last/dead
eventually has_units there/dead 0

# Full. What was not written is there for others when the file is closed.
"$AFAR" fs create small --max 2M
start_mount full small
holes fill full/sparse filled 65536
has_written filled 500 || fail "only $(wc -l <filled) units fit in 512"
eventually has_units full/sparse "$(wc -l <filled)"
holes check full/sparse 65536 filled
"$AFAR" fs check f || fail "the file system is damaged"
"$AFAR" fs check small || fail "the full file system is damaged"
end_mount full
end_mount last
end_mount there
still_works
