#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A mount on flash outlives its servers, the manager and its own session: programs stop, go on, and lose nothing that
# was durable.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$(dirname "$0")/mounts.sh"

start_flash_cluster
port=$(manager_port)
"$AFAR" fs create f --tier flash
start_mount m f

# A program that makes a file, writes it, syncs it and reads all of it, again and again; ./count says how often.
cat >program.py <<'END'
import os, sys
data = b""
with open("m/log", "w+b", buffering=0) as log:
    number = 0
    while not os.path.exists("stop"):
        line = b"line %d of many\n" % number * 50
        log.write(line)
        os.fsync(log.fileno())
        data += line
        with open("m/new", "wb") as new:
            new.write(line)
            new.flush()
            os.fsync(new.fileno())
        os.rename("m/new", "m/last")
        assert open("m/last", "rb").read() == line
        log.seek(0)
        assert log.read() == data
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
[ "$(grep -c . m/log)" -eq "$(($(cat count) * 50))" ] || fail "$(grep -c . m/log) lines are there of $(cat count) times 50"
sha256sum m/log m/last >sums

# A machine that slept for longer than the lease: the mount goes on with another session.
exec 9<m/log
kill -STOP "$(pid_of m)"
has_no_session() {
	! "$AFAR" status --json | grep -q '"client": "[^"]*afar-mount'
}
eventually has_no_session
kill -CONT "$(pid_of m)"
timeout 60 sha256sum -c --quiet sums || fail "after another session"
[ "$(head -c 6 <&9)" = 'line 0' ] || fail "a file that was open"
exec 9<&-
[ "$(cat m.err)" = "afar: note: mount f at $scratch/m: its session had ended; it goes on with another" ] || fail "it said: $(cat m.err)"
: >m.err
echo new >m/new
"$AFAR" umount m
has_ended_with 0 m
start_mount m f
sha256sum -c --quiet sums || fail "after a new mount"
[ "$(cat m/new)" = new ] || fail "what was written after another session: $(cat m/new)"
end_mount m
still_works
