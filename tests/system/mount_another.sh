#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A mount is cut off for longer than its lease, and opens another session. It finds its cluster again from wherever it was mounted; if
# what has the file system's name is another one by then, programs hear ESTALE, and nothing of the other is read or written.
# shellcheck disable=SC2154,SC2034 # cluster.sh and mounts.sh set some, and use some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$(dirname "$0")/mounts.sh"

# cut_off: the mount's session ends. open_way goes on.
cut_off() {
	way_port=$(cat way.port)
	before=$(nr_sessions)
	kill_daemon way
	eventually has_sessions $((before - 1))
}
here=$(pwd)
start_manager
port=$(manager_port)
start_server one
start_server two
key=${AFAR_CLUSTER#*key=}
"$AFAR" fs create home --mode 777

# ---- The cluster is found by what is in the working directory

open_way 0
mkdir -p user/afar-data
cp "$key" user/own.key
chmod 600 user/own.key
for how in here relative; do
	(
		unset AFAR_CLUSTER
		case $how in
		here) echo "afar://$host:$(cat way.port)?key=own.key" >user/afar-data/cluster ;;
		relative)
			rm user/afar-data/cluster
			AFAR_CLUSTER="afar://$host:$(cat way.port)?key=own.key"
			export AFAR_CLUSTER
			;;
		esac
		cd user || exit
		mkdir -p "$here/m"
		"$AFAR" mount home "$here/m" --options retry=60
	)
	echo hello >m/greeting
	cut_off
	open_way "$way_port"
	[ "$(timeout 60 cat m/greeting)" = hello ] || fail "after another session, by what is $how: $(cat m/greeting 2>&1)"
	"$AFAR" umount m || fail "umount by what is $how"
done

# ---- The file system is another one

cat >holder.py <<'END'
import errno, os, sys
first = os.open("m/old1", os.O_RDWR)
second = os.open("m/old2", os.O_RDWR)
assert os.pread(first, 100, 0) == b"old 1\n"
print("ready", flush=True)
sys.stdin.readline()
def told(what, call):
    try:
        call()
    except OSError as e:
        print(what, errno.errorcode[e.errno], flush=True)
    else:
        print(what, "went well", flush=True)
told("pread", lambda: os.pread(first, 100, 0))
told("pwrite", lambda: (os.pwrite(second, b"CHANGED", 0), os.fsync(second)))
told("open", lambda: os.open("m/new1", os.O_RDONLY))
told("listdir", lambda: os.listdir("m"))
told("create", lambda: os.open("m/fresh", os.O_RDWR | os.O_CREAT))
END
start_mount m "afar://$host:$(cat way.port)/home?key=$key" --direct
for i in 1 2 3; do
	echo "old $i" >m/old$i
done
mkfifo go
python3 holder.py <go >said 2>holder.err &
holder=$!
exec 8>go
is_ready() {
	grep -q ready said
}
eventually is_ready
cut_off
removed() {
	"$AFAR" fs rm home --force
}
eventually removed
"$AFAR" fs create home --mode 777
for i in 1 2 3; do
	echo "another $i" >new
	"$AFAR" put new "/home/new$i" >put.out
done
open_way "$way_port"
echo >&8
exec 8>&-
wait "$holder" || fail "the program that held files open: $(cat holder.err)"
[ "$(grep -c ' ESTALE$' said)" -eq 5 ] || fail "programs heard: $(cat said)"
for i in 1 2 3; do
	[ "$("$AFAR" cat /home/new$i)" = "another $i" ] || fail "a file of the other was changed: $("$AFAR" cat /home/new$i)"
done
[ "$("$AFAR" ls /home | wc -l)" -eq 3 ] || fail "in the other there is $("$AFAR" ls /home)"
grep -q 'what has its name now is another one' m.err || fail "the mount said: $(cat m.err)"
: >m.err
end_mount m
start_mount m home
kill_daemon way
[ "$(cat m/new2)" = "another 2" ] || fail "a new mount reads $(cat m/new2)"
end_mount m

# ---- The cluster is another one

start_mount m home --direct
exec 7<m/new2
for name in manager one two; do
	kill_daemon $name
done
start_daemon manager --role manager --data "$scratch/another" --lease-ms 1500 --listen "$host:$port" --key "$key" 7<&-
start_daemon one --role server --data "$scratch/another-one" --name one --data-listen "tcp:$host:0" \
	--key "$scratch/another/server.key" --manager "$AFAR_CLUSTER" --memory 256M 7<&-
"$AFAR" fs create home --mode 777
echo "of another cluster" >new
"$AFAR" put new /home/new2 >put.out
! timeout 60 cat <&7 >got 2>said || fail "an open file of the cluster before reads $(cat got)"
grep -q 'Stale' said || fail "an open file of the cluster before: $(cat said)"
! timeout 60 cat m/new2 >got 2>said || fail "a file of the cluster before reads $(cat got)"
grep -q 'Stale' said || fail "a file of the cluster before: $(cat said)"
grep -q 'what has its name now is another one' m.err || fail "the mount said: $(cat m.err)"
: >m.err
exec 7<&-
end_mount m
