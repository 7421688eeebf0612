#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Locks between two mounts: ranges and whole files exclude each other, waits end in order and by signals, circles are
# found, and locks go when a process, a mount or a machine ends, but not with the manager.
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$(dirname "$0")/mounts.sh"

# locks PHASE FILE…
locks() {
	timeout $((60 * slowness)) python3 "$locks_py" "$@" 2>locks.said || fail "$*: $(tail -n 3 locks.said)"
}
locks_py=$(cd "$(dirname "$0")" && pwd)/mount_locks.py

# hold_in PLACE: a program that has locked its file.
hold_in() {
	rm -f held told
	mkfifo told
	python3 "$locks_py" hold "$1/file" held told >hold.out 2>hold.err &
	pid_hold=$!
	running="$running $!"
	eventually test -e held
}
# The program ends, and has said STATUS of a write.
end_hold() {
	: >told
	wait "$pid_hold" || fail "the program: $(cat hold.err)"
	forget "$pid_hold"
	[ "$(cat hold.out)" = "$1" ] || fail "a write said $(cat hold.out), not $1"
}

start_cluster
port=$(manager_port)
"$AFAR" fs create f
start_mount a f --options threads=4 # fewer than the programs that wait
start_mount b f --options threads=4
: >a/file

for phase in ranges waits circles wholes counting; do
	locks "$phase" a/file b/file
	locks "$phase" b/file a/file
done

# Python's own tests of fcntl, in a mount.
if python3 -c 'import test.test_fcntl' >/dev/null 2>&1; then
	(cd a && timeout $((60 * slowness)) python3 -m unittest test.test_fcntl) >fcntl.out 2>&1 ||
		fail "test_fcntl: $(tail -n 20 fcntl.out)"
fi

# Its process is killed: the kernel unlocks.
hold_in a
locks tries_in_vain b/file
kill -9 "$pid_hold"
wait "$pid_hold" 2>/dev/null || :
forget "$pid_hold"
locks takes b/file

# The manager is killed: the locks stay.
hold_in a
kill_daemon manager
start_manager "$port"
locks tries_in_vain b/file
locks tries_in_vain a/file
end_hold 0
locks takes b/file

# A mount is killed: its locks go when its session has ended.
hold_in a
locks tries_in_vain b/file
kill_daemon a
locks takes b/file
end_hold -107 # ENOTCONN
umount -l a 2>/dev/null || fusermount3 -uz a
start_mount a f

# A mount whose session has ended, as on a machine that was cut off: others have the lock, and the program that had it
# gets an error instead of what others have changed.
end_mount a
open_way 0
start_mount a "afar://$host:$(cat way.port)/f?key=${AFAR_CLUSTER#*key=}"
way_port=$(cat way.port)
hold_in a
before=$(nr_sessions)
kill_daemon way
locks takes b/file
has_sessions $((before - 1)) || fail "the lock was given before the session had ended"
open_way "$way_port"
end_hold -5 # EIO
locks tries a/file
grep -q 'its session had ended; it goes on with another' a.err || fail "the mount said: $(cat a.err)"
: >a.err

# Without the manager.
start_mount c f --options nolock
start_mount d f --options nolock
locks local c/file d/file
locks local a/file c/file
for place in a b c d; do
	end_mount "$place"
done
kill_daemon way
still_works
