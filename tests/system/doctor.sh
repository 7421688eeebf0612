#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What `afar doctor` finds: each check on a machine that is laid out in a folder, once as it should be and once not; and a real cluster,
# whole and with a server down.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

root=$scratch/root

# lay PATH [LINE…]: a file of the machine's.
lay() {
	mkdir -p "$root/$(dirname "$1")"
	file=$root/$1
	shift
	printf '%s\n' "$@" >"$file"
}

# doctor STATUS FLAG…: it ends so. What it said is in ./said.
doctor() {
	want=$1
	shift
	got=0
	"$AFAR" doctor "$@" >said 2>&1 || got=$?
	[ "$got" -eq "$want" ] || fail "doctor $* ended with $got, not $want: $(cat said)"
}

# says PATTERN: a line of it.
says() {
	grep -Eq -- "^$1" said || fail "'$1' is not in: $(cat said)"
}

# finds STATUS PATTERN: of the machine in the folder.
finds() {
	doctor "$1" --root "$root"
	says "$2"
}

port_line() { # PORT in hexadecimal
	echo "   0: 0100007F:$1 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0"
}

limits() { # LOCKED DESCRIPTORS
	echo 'Limit                     Soft Limit           Hard Limit           Units'
	echo "Max open files            1024                 $2               files"
	echo "Max locked memory         8388608              $1              bytes"
}

# ---- A machine as it should be

lay run/systemd/timesync/synchronized
lay sys/devices/system/clocksource/clocksource0/current_clocksource tsc
lay proc/sys/kernel/osrelease 6.12.1-afar
lay proc/sys/kernel/io_uring_disabled 0
lay proc/sys/net/ipv4/tcp_congestion_control bbr
lay proc/sys/net/ipv4/tcp_allowed_congestion_control 'reno cubic'
lay proc/sys/net/ipv4/ip_local_port_range '32768	60999'
lay proc/sys/net/ipv4/ip_local_reserved_ports ''
lay proc/net/tcp "$(port_line 0016)"
lay sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages 512
lay sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages 500
lay sys/kernel/mm/transparent_hugepage/enabled 'always madvise [never]'
lay dev/fuse
lay dev/disk
chmod 600 "$root/dev/disk"
lay proc/meminfo 'MemTotal:       16777216 kB' 'MemFree:         1 kB' 'MemAvailable:   12582912 kB'
lay proc/self/limits "$(limits unlimited 524288)"
lay proc/self/cgroup 0::/user.slice/shell
lay etc/afar/manager.ini '[afard]' 'role = manager' 'data = /var/lib/afar/manager' '[manager]' 'listen = m1:7411'
lay etc/afar/server.ini '[afard]' 'role = server' 'data = /var/lib/afar/server' 'key = /etc/afar/server.key' \
	'[server]' 'manager = m1' 'memory = 8G' 'flash = /dev/disk' 'flash = 1G' 'control = m1:7412' \
	'data-listen = local,tcp:m1:7413' 'flash-port = 7420'
lay var/lib/afar/manager/key secret
lay etc/afar/server.key secret
chmod 600 "$root/var/lib/afar/manager/key" "$root/etc/afar/server.key"
mkdir "$root/var/lib/afar/server"
chmod 700 "$root/var/lib/afar/manager" "$root/var/lib/afar/server"

doctor 0 --root "$root" --strict
grep -Ev '^ok   ' said && fail "this machine is as it should be"
for line in 'clock: synchronised' 'clock-source: tsc' 'kernel: 6.12' 'congestion: bbr' 'huge-pages: 512 of 2 MiB, 500 free' \
	'io_uring: allowed' 'fuse: ' 'locked-memory: this shell: no limit' 'descriptors: this shell: at least 16384' \
	'memory: .*/server.ini lends 8 GiB of 16' 'folder: .*/manager$' 'keys: .*/etc/afar/server.key' 'keys: .*/manager/key' \
	'ports: manager 7411: free' 'ports: control 7412: free' 'ports: lane 7413: free' 'ports: store 7420: free' \
	'devices: .*/dev/disk can be opened' 'cluster: none is named'; do
	says "ok   $line"
done
cp -a "$root" good

# wrong STATUS PATTERN: so it is with what was changed, which is put back.
wrong() {
	finds "$1" "$2"
	[ "$1" -ne 0 ] || doctor 1 --root "$root" --strict
	rm -r "$root"
	cp -a good "$root"
}

# ---- One thing wrong at a time

rm "$root/run/systemd/timesync/synchronized"
wrong 0 'warn clock: nothing synchronises it, .*; run chrony'
lay sys/devices/system/clocksource/clocksource0/current_clocksource hpet
wrong 0 'warn clock-source: hpet, .*clocksource=tsc'
lay proc/sys/kernel/osrelease 5.10.0
wrong 0 'warn kernel: 5.10.0, which is older'
lay proc/sys/net/ipv4/tcp_allowed_congestion_control 'bbr'
wrong 0 'warn congestion: bbr, .*; add cubic to net.ipv4.tcp_allowed_congestion_control'
lay sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages 0
wrong 0 'warn huge-pages: .*; set vm.nr_hugepages'
lay proc/sys/kernel/io_uring_disabled 2
wrong 1 'bad  io_uring: .* nobody, and stores of flash need it; set kernel.io_uring_disabled to 0'
rm "$root/dev/fuse"
wrong 0 'warn fuse: no /dev/fuse, .*; modprobe fuse'
lay proc/self/limits "$(limits 8388608 524288)"
finds 0 'ok   locked-memory: this shell: at most 8 MiB, which tcp and local do not need'
mkdir -p "$root/sys/class/infiniband/mlx5_0"
finds 0 'warn locked-memory: this shell: .*LimitMEMLOCK=infinity'
lay etc/afar/server.ini '[afard]' 'role = server' '[server]' 'transport = verbs'
wrong 1 'bad  locked-memory: .*verbs'
lay proc/self/limits "$(limits unlimited 1024)"
wrong 0 'warn descriptors: this shell: at most 1024, .*768 connections; set LimitNOFILE=524288'
lay proc/meminfo 'MemTotal:       16777216 kB' 'MemAvailable:   4194304 kB'
wrong 0 'warn memory: .*lends 8 GiB, and 4 GiB are available'
lay proc/meminfo 'MemTotal:        4194304 kB' 'MemAvailable:   4194304 kB'
wrong 1 'bad  memory: .*more than the machine.s 4'
lay sys/fs/cgroup/user.slice/memory.max 1073741824
wrong 1 'bad  memory: .*control group has at most 1 GiB.*; raise MemoryMax'
chmod 755 "$root/var/lib/afar/server"
wrong 1 'bad  folder: .*/server has mode 0755, .*; chmod 700 it'
chmod 644 "$root/etc/afar/server.key"
wrong 1 'bad  keys: .*/server.key has mode 0644, .*; chmod 600 it'
rm "$root/etc/afar/server.key"
wrong 1 'bad  keys: .*/server.key does not exist'
lay proc/net/tcp6 "$(port_line 1CF3 | sed 's/0100007F/00000000000000000000000000000000/')"
wrong 1 'bad  ports: manager 7411: another program has it'
lay proc/sys/net/ipv4/ip_local_port_range '7415 60999'
finds 0 'warn ports: store 7420: a connection may take it before afard starts; add it to net.ipv4.ip_local_reserved_ports'
lay proc/sys/net/ipv4/ip_local_reserved_ports '80,7418-7421'
finds 0 'ok   ports: store 7420: free'
rm -r "$root"
cp -a good "$root"
rm "$root/dev/disk"
wrong 1 'bad  devices: .*/dev/disk: No such file'
rm "$root/dev/disk"
mkdir "$root/dev/disk"
wrong 1 'bad  devices: .*/dev/disk is neither a block device nor a file'
lay etc/afar/server.ini '[afard' 'role = server'
wrong 1 'bad  configuration: .*/server.ini: line 1 is not understood'
if [ "$(id -u)" -eq 0 ]; then
	chown -R 12345 "$root/var/lib/afar/server" "$root/dev/disk"
	finds 1 'bad  keys: .*/server.key belongs to user 0, and afard, which runs as user 12345'
	chown 0 "$root/dev/disk"
	wrong 1 'bad  devices: .*cannot be written by afard, which runs as user 12345'
fi

# A daemon that runs: its limits count, not the shell's; and it may listen.
lay proc/77/comm afard
lay proc/77/limits "$(limits 65536 4096)"
lay proc/77/cgroup 0::/afard
lay proc/78/comm other
lay proc/net/tcp "$(port_line 1CF3)"
finds 0 'warn descriptors: afard 77: at most 4096'
says 'ok   locked-memory: afard 77: at most 64 KiB'
says 'ok   ports: manager 7411: afard listens'
grep -q 'this shell' said && fail "the shell's limits do not matter: $(cat said)"

# ---- As JSON, and what it takes

doctor 0 --root "$root" --json
python3 -c '
import json, sys
told = json.load(open("said"))
by_check = {f["check"]: f for f in told["findings"]}
assert by_check["descriptors"]["verdict"] == "warn" and by_check["descriptors"]["remedy"], told
assert by_check["fuse"] == {"check": "fuse", "verdict": "ok", "text": "/dev/fuse is there", "remedy": None}, told
assert told["nr_bad"] == 0 and told["nr_warn"] == 1 and told["nr_ok"] == len(told["findings"]) - 1, told
' || fail "$(cat said)"
doctor 1 nowhere.ini
says 'bad  configuration: nowhere.ini cannot be read'
refused 2 'unknown flag --loudly' "$AFAR" doctor --loudly

# ---- A cluster

start_cluster
doctor 1 --cluster "afar://$host:1?key=$scratch/manager/key" --timeout 1
says 'bad  cluster: '
doctor 0
for line in 'cluster: the manager answers .admin' 'clock-offset: ' "versions: the manager has [0-9]" 'servers: one is up' \
	'versions: server two has [0-9]' 'reach: one: control 127' 'reach: two: lane tcp 127'; do
	says "ok   $line"
done
"$AFAR" status --json | grep -Eq '"version": "[0-9]+\.[0-9]+\.[0-9]+"' || fail "$("$AFAR" status --json)"
# A server goes. One that held nothing would be forgotten.
"$AFAR" ns create kept
"$AFAR" ns reserve kept 8M
kill_daemon one
is_down() {
	"$AFAR" status | grep -q '^one .*down'
}
eventually is_down
doctor 1
says 'bad  servers: one is down; start afard there'
says 'ok   servers: two is up'
doctor 1 --json
python3 -m json.tool said >/dev/null || fail "$(cat said)"
