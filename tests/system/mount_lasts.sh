#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A mount on flash outlives its servers, the manager and its own session: programs stop, go on, and lose nothing that
# was durable.
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$(dirname "$0")/mounts.sh"

start_flash_cluster
port=$(manager_port)
"$AFAR" fs create f --tier flash
start_mount m f

# A program that writes, syncs, renames and reads, again and again; ./count says how often. A sync that fails tells that
# what was written since the last one may be lost, so that is written again.
cat >program.py <<'END'
import errno, os

def keep(file, at, data):
    for attempt in range(10):
        try:
            assert os.pwrite(file, data, at) == len(data)
            os.fsync(file)
            return
        except OSError as error:
            if error.errno != errno.EIO:
                raise
    raise OSError("it never ends well")

data = b""
log = os.open("m/log", os.O_RDWR | os.O_CREAT)
number = 0
while not os.path.exists("stop"):
    line = b"line %d of many\n" % number * 50
    keep(log, len(data), line)
    data += line
    new = os.open("m/new", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    keep(new, 0, line)
    os.close(new)
    os.rename("m/new", "m/last")
    assert open("m/last", "rb").read() == line
    assert os.pread(log, len(data) + 1, 0) == data
    number += 1
    with open("count.new", "w") as count:
        count.write("%d\n" % number)
    os.rename("count.new", "count")
END
echo 0 >count
python3 program.py >program.out 2>program.err &
pid_program=$!
running="$running $!"

# goes_on: the program does something more.
goes_on() {
	count=$(cat count)
	eventually has_more
}
has_more() {
	[ "$(cat count)" -gt "$((count + 3))" ] || has_ended "$pid_program"
}
is_well() {
	! has_ended "$pid_program" || fail "the program ended: $(cat program.err)"
}

goes_on
is_well
for name in one two one; do
	kill_daemon "$name"
	start_flash_server "$name"
	goes_on
	is_well
done
kill_daemon manager
start_manager "$port"
goes_on
is_well
kill_daemon one
kill_daemon manager
kill_daemon two
start_manager "$port"
start_flash_server two
start_flash_server one
goes_on
is_well
touch stop
wait "$pid_program" || fail "the program: $(cat program.err)"
forget "$pid_program"
! grep -v 'a server, or its device, failed before what was written since the last sync was durable' m.err || fail "it said something else"
: >m.err
[ "$(grep -c . m/log)" -eq "$(($(cat count) * 50))" ] || fail "$(grep -c . m/log) lines are there of $(cat count) times 50"
sha256sum m/log m/last >sums

# Unmounting waits for a manager that is away, and says for whom. There is something to tell the manager: a file was closed.
exec 8<m/log
kill -STOP "$(pid_of manager)"
exec 8<&-
kill_daemon manager
"$AFAR" umount m 2>umount.err &
pid_umount=$!
running="$running $!"
eventually grep -q "waiting for process $(pid_of m), which syncs" umount.err
start_manager "$port"
wait "$pid_umount" || fail "umount: $(cat umount.err)"
forget "$pid_umount"
has_ended_with 0 m

# A mount waits for a manager that is not there yet: for as long as it is told to, and from fstab.
stop_daemon manager
refused 1 'nobody answers there' "$AFAR" mount f "$scratch/m"
ln -s "$AFAR_MOUNT" mount.afar
for how in "$AFAR mount --retry 60" ./mount.afar; do
	mkdir -p m
	# That of the round before is not to be read: the shell may open the file for the new mount later than that.
	rm -f early.err
	# shellcheck disable=SC2086 # words
	$how f m 2>early.err &
	pid_early=$!
	running="$running $!"
	eventually grep -q 'waiting for its cluster, at most [0-9]* s: open a session' early.err
	[ "$(wc -l <early.err)" -eq 1 ] || fail "it said: $(cat early.err)"
	start_manager "$port"
	wait "$pid_early" || fail "a mount before the manager: $(cat early.err)"
	forget "$pid_early"
	is_mounted m || fail "it is not mounted: $(cat early.err)"
	[ -s m/log ] || fail "nothing is there"
	"$AFAR" umount m
	stop_daemon manager
done
start_manager "$port"

# What was synced outlives the manager and the mount, also if whoever synced it had the file open to read, and another
# one had written it, who has not closed it yet.
start_mount m f
cat >reader.py <<'END'
import os, time
writer = os.open("m/told", os.O_WRONLY | os.O_CREAT)
os.write(writer, b"told\n" * 1000)
os.fsync(os.open("m/told", os.O_RDONLY))
print("synced", flush=True)
while True:
    time.sleep(60)
END
python3 reader.py >reader.out 2>reader.err &
pid_reader=$!
running="$running $!"
is_synced() {
	[ -s reader.out ] || has_ended "$pid_reader"
}
eventually is_synced
[ -s reader.out ] || fail "the reader: $(cat reader.err)"
kill_daemon manager
kill_daemon m
kill_daemon reader
umount -l m 2>/dev/null || fusermount3 -uz m
start_manager "$port"
start_mount m f
[ "$(grep -c told m/told)" -eq 1000 ] || fail "$(grep -c told m/told) lines of 1000 are there that were synced"
end_mount m

# A machine that was cut off for longer than the lease: the mount goes on with another session.
open_way 0
start_mount m "afar://$host:$(cat way.port)/f?key=${AFAR_CLUSTER#*key=}"
exec 9<m/log
way_port=$(cat way.port)
before=$(nr_sessions)
kill_daemon way
eventually has_sessions $((before - 1))
open_way "$way_port"
timeout 60 sha256sum -c --quiet sums || fail "after another session"
[ "$(head -c 6 <&9)" = 'line 0' ] || fail "a file that was open"
# What the old session wrote, and nobody synced, the first sync of the new one makes durable: it asks all stores.
nr_syncs() {
	"$AFAR" store ls --json | python3 -c 'import json, sys; print(sum(store["nr_syncs"] for store in json.load(sys.stdin)))'
}
was=$(nr_syncs)
sync m/last
have_both_synced() {
	[ "$(nr_syncs)" -ge $((was + 2)) ]
}
eventually have_both_synced
exec 9<&-
[ "$(cat m.err)" = "afar: note: mount afar://$host:$way_port/f?key=${AFAR_CLUSTER#*key=} at $scratch/m: its session had ended; it goes on with another" ] || fail "it said: $(cat m.err)"
: >m.err
echo new >m/new
end_mount m
start_mount m f
sha256sum -c --quiet sums || fail "after a new mount"
[ "$(cat m/new)" = new ] || fail "what was written after another session: $(cat m/new)"
end_mount m
kill_daemon way

# Servers that are away for good are given up: who waits for them gets an error.
start_mount m f
kill_daemon one
kill_daemon two
sha256sum m/log >waits.out 2>&1 &
pid_waits=$!
running="$running $!"
has_opened() {
	readlink /proc/"$pid_waits"/fd/* | grep -qx "$scratch/m/log"
}
eventually has_opened
names_it() {
	"$AFAR" umount m 2>umount.err && fail "it was unmounted"
	grep -q 'in use by sha256sum .* --force' umount.err
}
eventually names_it
"$AFAR" umount m --force || fail "umount --force"
has_ended_with 137 m
! wait "$pid_waits" || fail "it read $(cat waits.out)"
forget "$pid_waits"

# A process whose mount is gone, and which waits for its servers, is not taken for the next mount, which gets its device.
start_flash_server one
start_flash_server two
start_mount m f
device=$(stat -c %d m)
echo unsynced >m/unsynced
kill_daemon one
kill_daemon two
umount -l m 2>/dev/null || fusermount3 -uz m
for flag in '' --force; do
	pid_old=$(pid_of m)
	start_mount again f
	[ "$(stat -c %d again)" = "$device" ] || echo "the next mount has another device: nothing is shown"
	# shellcheck disable=SC2086 # one word, or none
	timeout 60 "$AFAR" umount again $flag || fail "umount $flag waits for another mount's process"
	has_ended_with "$([ "$flag" ] && echo 137 || echo 0)" again
	! has_ended "$pid_old" || fail "umount $flag has ended another mount's process"
done
kill_daemon m
start_flash_server one
start_flash_server two
still_works
