#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# An older copy of the manager's folder is put back. Its records lead to bytes that are others' by now, so servers and stores that
# have seen later ones stay away until an operator accepts that.
# shellcheck source=tests/system/cluster.sh disable=SC2154,SC2034 # cluster.sh has host, scratch and uri
. "$(dirname "$0")/cluster.sh"
: "${MOVER:?the path of mover}"

nr_up() {
	[ "$("$AFAR" status --json | python3 -c 'import json, sys; print(sum(s["is_up"] for s in json.load(sys.stdin)["servers"]))')" -eq "$1" ]
}
nr_newer() {
	[ "$("$AFAR" status --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)["newer"]))')" -eq "$1" ]
}

# change: what was made before the copy goes, and other things take its room.
change() {
	"$AFAR" rm /home/a
	"$AFAR" region rm kept:a
	"$AFAR" put b /home/b >/dev/null
	"$AFAR" region put b kept:b >put.out 2>&1
}

# is_kept_out NUMBER WHO: so many have seen later records; nobody reads what was a's.
is_kept_out() {
	eventually nr_newer "$1"
	"$AFAR" status >out
	grep -q '^OLDER RECORDS: ' out || fail "status says nothing of older records: $(cat out)"
	grep -q "^  $2" out || fail "status does not tell who: $(cat out)"
	for target in /home/a kept:a; do
		code=0
		case $target in
		/*) "$AFAR" --timeout 1 get "$target" back >got.out 2>line || code=$? ;;
		*) "$AFAR" --timeout 1 region get "$target" back >got.out 2>line || code=$? ;;
		esac
		[ "$code" -eq 1 ] || fail "get $target through older records ended with $code"
		rm -f back
	done
	code=0
	"$AFAR" manager accept-older >out 2>line || code=$?
	[ "$code" -eq 1 ] || fail "accept-older without --yes ended with $code"
	grep -q 'nothing is done yet' line || fail "accept-older: $(cat line)"
	[ "$(wc -l <out)" -eq "$1" ] || fail "accept-older: $(cat out)"
}

# is_suspect NUMBER: nothing is read through older records that were accepted, before each namespace is.
is_suspect() {
	"$AFAR" status >out
	grep -q '^RECORDS OF AN OLDER COPY: ' out || fail "status says nothing of an older copy: $(cat out)"
	grep -Eq '^  home$' out && grep -Eq '^  kept$' out || fail "status does not tell what is suspect: $(cat out)"
	refused 1 "older copy's, .*afar ns accept-older" "$AFAR" get /home/a back
	refused 1 "older copy's, .*afar ns accept-older" "$AFAR" region get kept:a back
	refused 1 "older copy's, .*afar ns accept-older" "$AFAR" put b /home/c
	refused 1 "older copy's, .*afar ns accept-older" "$AFAR" region put b kept:c
	"$AFAR" ns create "fresh$1" --tier "$2"
	"$AFAR" region put b "fresh$1:b" >put.out 2>&1
	"$AFAR" region get "fresh$1:b" back >got.out 2>&1
	same b back
	"$AFAR" ns rm "fresh$1" --force
	refused 1 'nothing is done yet' "$AFAR" ns accept-older home
	refused 1 'there is no namespace' "$AFAR" ns accept-older nothing --yes
	refused 1 'nobody.s word' "$AFAR" ns accept-older "$3" --yes
}
# accept NAME: an operator says that others' bytes may be read there.
accept() {
	"$AFAR" ns accept-older "$1" --yes >out
	grep -q "^accepted: $1" out || fail "ns accept-older: $(cat out)"
	"$AFAR" status >out
	if grep -Eq "^  $1\$" out; then
		fail "$1 is suspect still: $(cat out)"
	fi
}

random_file a 3000000
random_file b 3000000

# ---- Memory, whose servers live on

start_cluster
port=$(manager_port)
"$AFAR" fs create home --width 2
"$AFAR" ns create kept
"$AFAR" put a /home/a >/dev/null
"$AFAR" region put a kept:a >put.out 2>&1
refused 1 'there is nothing to accept' "$AFAR" manager accept-older --yes
"$AFAR" ns create moved --width 1
"$AFAR" ns reserve moved 16M >reserve.out
stop_daemon manager
cp -r manager/manager copy
start_manager "$port"
eventually nr_up 2
change
stop_daemon manager
mv manager/manager newest
cp -r copy manager/manager
start_manager "$port"
is_kept_out 2 "server one"
grep -q 'older than what server two has seen' manager.err || fail "the manager's log: $(cat manager.err)"

# The newest is put back, and nothing has happened.
stop_daemon manager
rm -r manager/manager
mv newest manager/manager
start_manager "$port"
eventually nr_up 2
nr_newer 0 || fail "the newest records are told to be older"
eventually "$AFAR" get /home/b back
same b back

# A program writes to a region that the copy does not know, and is stopped in the middle of that.
start_mover() {
	mkfifo "gate$1" "mouth$1"
	"$MOVER" 4194304 65536 <"gate$1" >"mouth$1" 2>"mover$1.err" &
	mover=$!
	running="$running $mover"
	exec 5>"gate$1" 6<"mouth$1"
	read -r said <&6
	[ "$said" = moving ] || fail "the mover says $said: $(cat "mover$1.err")"
	kill -STOP "$mover"
}
# end_mover: it goes on, and reaches nothing any more.
end_mover() {
	kill -CONT "$mover" 2>/dev/null || true # it may have gone on, and ended
	eventually has_ended "$mover"
	exec 5>&- 6<&-
	forget "$mover"
}
start_mover 1

# It is lost, and an operator goes on with the copy.
stop_daemon manager
rm -r manager/manager
cp -r copy manager/manager
start_manager "$port"
is_kept_out 2 "server two"
"$AFAR" manager accept-older --yes >out
grep -q '^accepted: ' out || fail "accept-older --yes: $(cat out)"
# Over shared memory its server waits for it.
[ "${AFAR_TEST_TRANSPORT:-tcp}" != local ] || kill -CONT "$mover"
eventually nr_up 2
nr_newer 0 || fail "what was accepted is still told"
# What was the mover's is another's now.
random_file c 14000000
"$AFAR" region put c moved:c >put.out 2>&1
end_mover
grep -q '^mover: ' mover1.err || fail "the mover goes on"
"$AFAR" region get moved:c back >got.out 2>&1
same c back
"$AFAR" ns rm moved --force
"$AFAR" ns create empty
is_suspect 1 dram empty
stop_daemon manager
start_manager "$port"
eventually nr_up 2
is_suspect 2 dram empty
accept home
"$AFAR" put b /home/c >/dev/null
refused 1 "older copy's" "$AFAR" region get kept:a back
stop_daemon manager
start_manager "$port"
eventually nr_up 2
eventually "$AFAR" get /home/c back
same b back
for name in one two manager; do
	stop_daemon "$name"
done

# ---- Flash, whose store knows it after a restart of all

start_all() {
	start_daemon all --role all --data "$scratch/all" --listen "$host:0" --memory 64M --flash 256M --name all
	AFAR_CLUSTER=$uri
}
start_all
"$AFAR" fs create home --tier flash
"$AFAR" ns create kept --tier flash
"$AFAR" put a /home/a >/dev/null
"$AFAR" region put a kept:a >put.out 2>&1
stop_daemon all
rm -r copy
cp -r all/manager copy
start_all
change
stop_daemon all
rm -r all/manager
cp -r copy all/manager
start_all
is_kept_out 1 'the store on '
"$AFAR" manager accept-older --yes >out
eventually nr_up 1
"$AFAR" ns create empty
is_suspect 1 flash empty
# Without anybody's word there is one thing more to do with it.
"$AFAR" ns rm kept --force
accept home
eventually "$AFAR" get /home/a back
"$AFAR" put b /home/c >/dev/null
stop_daemon all
start_all
nr_newer 0 || fail "what was accepted is told again after a restart"
"$AFAR" get /home/c back
same b back
