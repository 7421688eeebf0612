# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the tests of mounts, after cluster.sh: file systems, mounts of them, and that none is left.
# shellcheck shell=sh disable=SC2154,SC2034 # cluster.sh has the rest, and the tests use it

skip() {
	echo "$*"
	exit 77
}

[ -e "${AFAR_MOUNT:-}" ] || skip "afar-mount was not built: there is no header of libfuse (apt install libfuse3-dev)"
# shellcheck disable=SC2217 # opening it is the question
(exec 3<>/dev/fuse) 2>/dev/null || skip "/dev/fuse cannot be opened here"
[ "$(id -u)" -eq 0 ] || command -v fusermount3 >/dev/null || skip "fusermount3 is not there (apt install fuse3)"

# Takes mounts away before the folder goes, whatever has happened: rm would go on inside them.
end_mounts() {
	status=$?
	trap - EXIT
	trap '' INT TERM HUP
	set +e
	cd /
	for place in $(sed -n "s|^[^ ]* \($scratch/[^ ]*\) fuse.afar .*|\1|p" /proc/self/mounts); do
		if [ "$status" -eq 0 ]; then
			echo "FAILED: a mount is left at $place" >&2
			status=1
		fi
		umount -l "$place" 2>/dev/null || fusermount3 -uz "$place"
	done
	(exit "$status")
	clean_up
}
trap end_mounts EXIT

# start_flash_cluster: two servers with memory and flash.
start_flash_cluster() {
	start_manager
	start_flash_server one
	start_flash_server two
}

# start_flash_server NAME: also again, on what it had.
start_flash_server() {
	start_daemon "$1" --role server --data "$scratch/$1" --name "$1" --data-listen "tcp:$host:0" \
		--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 512M --flash 1G
}

# All programs of a test go past its mounts: AFAR_TEST_PRELOAD is the library.
if [ -n "${AFAR_TEST_PRELOAD:-}" ]; then
	LD_PRELOAD=$AFAR_TEST_PRELOAD
	export LD_PRELOAD
fi

is_mounted() {
	grep -q "^[^ ]* $scratch/$1 fuse.afar " /proc/self/mounts
}

# start_mount NAME FS FLAG…: at ./NAME, by a process that stays ours.
start_mount() {
	name=$1
	fs=$2
	shift 2
	mkdir -p "$scratch/$name"
	"$AFAR" mount "$fs" "$scratch/$name" --foreground --retry 60 "$@" >"$scratch/$name.out" 2>"$scratch/$name.err" &
	eval "pid_$name=$!"
	running="$running $!"
	eventually is_mounted_or_ended "$name"
	is_mounted "$name" || fail "mount $fs $*: $(cat "$scratch/$name.err")"
}

is_mounted_or_ended() {
	is_mounted "$1" || has_ended "$(pid_of "$1")"
}

# has_ended_with STATUS NAME: the mount's process.
has_ended_with() {
	eventually has_ended "$(pid_of "$2")"
	got=0
	wait "$(pid_of "$2")" || got=$?
	forget "$(pid_of "$2")"
	[ "$got" -eq "$1" ] || fail "the mount $2 ended with $got, not $1: $(cat "$scratch/$2.err")"
	! is_mounted "$2" || fail "$2 is still mounted"
}

# end_mount NAME: it must end well, and say nothing.
end_mount() {
	"$AFAR" umount "$scratch/$1" || fail "umount $1"
	has_ended_with 0 "$1"
	[ ! -s "$scratch/$1.err" ] || fail "the mount $1 said: $(cat "$scratch/$1.err")"
}

# ---- A way to the manager that can be cut, as a machine's can: kill_daemon way

# open_way PORT: 0 is any; its port is in ./way.port. The manager's is in $port.
open_way() {
	cat >way.py <<'END'
import os, socket, sys, threading
host, here, there = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((host, here))
listener.listen(8)
def pass_on(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
    except OSError:
        pass
    for end in a, b:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
with open("way", "w") as file:
    file.write("%d\n" % listener.getsockname()[1])
os.rename("way", "way.port")
while True:
    near, _ = listener.accept()
    far = socket.create_connection((host, there))
    threading.Thread(target=pass_on, args=(near, far), daemon=True).start()
    threading.Thread(target=pass_on, args=(far, near), daemon=True).start()
END
	rm -f way.port
	python3 way.py "$host" "$1" "$port" 9<&- >>way.out 2>>way.err &
	eval "pid_way=$!"
	running="$running $!"
	eventually test -s way.port
}
nr_sessions() {
	"$AFAR" status --json | sed -n 's/^ *"nr_sessions": \([0-9]*\).*/\1/p' | tail -n 1
}
has_sessions() {
	[ "$(nr_sessions)" -eq "$1" ]
}
