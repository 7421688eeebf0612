#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# An exported volume: what clients are told of it, who may have it open beside it, how an export ends, and what is refused.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/exports.sh
. "$(dirname "$0")/exports.sh"
requires qemu-io qemu-utils

start_manager
start_store one
"$AFAR" volume create f 8M --tier flash
"$AFAR" volume create m 8M

# io COMMAND…: on the volume at $nbd.
io() {
	for command; do
		set -- "$@" -c "$command"
		shift
	done
	qemu-io -f raw ${is_read_only:+-r} "$@" "$nbd" >io.out 2>&1 && ! grep -Eq 'failed' io.out
}
io_fails() {
	if io "$@"; then
		fail "$*: $(cat io.out)"
	fi
}
# told 'NAME VALUE…': what nbdinfo says.
told() {
	nbdinfo --json "$nbd" >info
	for pair; do
		grep -Eq "\"${pair% *}\": \"?${pair#* }\"?,?$" info || fail "not '$pair': $(cat info)"
	done
}

# ---- What clients are told

start_export first f
case $nbd in
"nbd+unix:///?socket=$XDG_RUNTIME_DIR/afar-export-"*) ;;
*) fail "the URI is $nbd" ;;
esac
socket=${nbd#*socket=}
[ "$(stat -c %a "$socket")" = 700 ] || fail "the socket's mode is $(stat -c %a "$socket")"
[ "$(stat -c %a "$(dirname "$socket")")" = 700 ] || fail "the folder's mode"
told 'export-size 8388608' 'is_read_only false' 'can_flush true' 'can_fua true' 'can_multi_conn true' 'can_trim true' \
	'can_zero true' 'can_fast_zero true' 'is_rotational false' 'can_cache false' 'block_size_minimum 1' 'block_size_preferred 4096'
"$AFAR" volume ls | grep -Eq "^f .* exclusive  session .* of 'admin' \(.* nbdkit\)$" || fail "ls: $("$AFAR" volume ls)"
"$AFAR" volume stat f | grep -Eq "^open  *exclusively, by session .* nbdkit\)$" || fail "stat: $("$AFAR" volume stat f)"
io 'write -P 1 0 8M' || fail "$(cat io.out)"

# ---- Who else may have it open

refused 1 'nbdkit: open volume .f.: session .* nbdkit\) has it open exclusively; .*take it over' "$AFAR" export f
refused 1 'has it open exclusively' "$AFAR" export f --shared
refused 1 'nbdkit\) has it open' "$AFAR" volume rm f
refused 1 'nbdkit\) has it open' "$AFAR" volume resize f 4M
refused 1 'it is a volume' "$AFAR" ns rm f --force
first=$nbd
start_export reader f --read-only
told 'is_read_only true' 'can_multi_conn true'
io_fails 'write -P 2 0 4k'
is_read_only=1
io 'read -P 1 1M 1M' || fail "$(cat io.out)"
is_read_only=
"$AFAR" volume stat f | grep -q 'and to read alone by 1$' || fail "stat: $("$AFAR" volume stat f)"
end_export reader

# A larger one is seen by the next connection.
nbd=$first
"$AFAR" volume resize f 12M
told 'export-size 12582912'
io 'read -P 0 8M 4M' 'write -P 3 11M 1M' 'read -P 3 11M 1M' || fail "$(cat io.out)"
end_export first
nothing_is_left

start_export one_of_two m --shared
told 'can_trim false' 'can_zero true' 'can_fua true'
io 'write -P 5 0 1M' || fail "$(cat io.out)"
start_export two_of_two m --shared
io 'read -P 5 0 1M' 'write -P 6 0 1M' || fail "$(cat io.out)"
"$AFAR" volume stat m | grep -q '^open  *shared by 2, as session' || fail "stat: $("$AFAR" volume stat m)"
refused 1 'has it open to write' "$AFAR" export m
end_export one_of_two
end_export two_of_two

# ---- Taking over: the other one's requests fail, and it ends.

start_export first f
first=$nbd
start_export second f --take-over
second=$nbd
nbd=$first
io_fails 'write -P 9 0 4k'
ends_with 1 first
grep -q 'ended by itself' first.err || fail "taken over: $(cat first.err)"
nbd=$second
io 'read -P 1 0 1M' 'write -P 7 0 1M' 'read -P 7 0 1M' || fail "$(cat io.out)"

# ---- Ends that nobody asked for

kill -9 "$(nbdkit_of second)"
ends_with 1 second
[ "$(cat second.err)" = "afar: export f: nbdkit ended by itself, by signal 9: its clients are cut off; start the export again" ] ||
	fail "nbdkit was killed: $(cat second.err)"
nothing_is_left
# Its session is lost; the next one need not wait for that.
start_export third f --take-over --socket third.sock
[ "$nbd" = "nbd+unix:///?socket=$PWD/third.sock" ] || fail "the URI is $nbd"
kill -STOP "$(pid_of third)"
refused 1 'something else is there' "$AFAR" export m --socket third.sock
served=$(nbdkit_of third)
kill -9 "$(pid_of third)"
ends_with 137 third
eventually is_gone "$served"
[ -S third.sock ] || fail "who removed the socket?"
start_export again f --socket third.sock
io 'read -P 7 0 1M' || fail "$(cat io.out)"
end_export again
[ ! -e third.sock ] || fail "the socket is left"

# ---- TCP

start_export port m --port 0
case $nbd in
nbd://127.0.0.1:[1-9]*) ;;
*) fail "the URI is $nbd" ;;
esac
refused 1 'in use; choose another --port' "$AFAR" export f --port "${nbd##*:}"
told 'export-size 8388608'
end_export port
start_export port m --port 0 --address 0.0.0.0
grep -Eq '^afar: note: NBD over TCP is neither encrypted nor authenticated: .* m$' port.err || fail "no note: $(cat port.err)"
told 'export-size 8388608'
kill -INT "$(pid_of port)" # ignored: the shell starts what is in the background so
kill -HUP "$(pid_of port)"
ends_with 0 port

# ---- A server that goes and comes back

start_export lasting f
io 'write -P 4 0 1M' || fail "$(cat io.out)"
kill_daemon one
io 'write -P 5 1M 1M' 'flush' 'read -P 4 0 1M' 'read -P 5 1M 1M' &
client=$!
start_store one
wait "$client" || fail "over a restart: $(cat io.out)"
end_export lasting
start_export lasting f --retry 0
kill_daemon one
io_fails 'write -P 6 0 4k'
kill -TERM "$(pid_of lasting)"
ends_with 1 lasting
grep -q 'without a last sync' lasting.err || fail "no sync, and nothing said: $(cat lasting.err)"
start_store one

# ---- What is refused

refused 2 'too few arguments' "$AFAR" export
refused 2 'exclude each other' "$AFAR" export f --read-only --shared
refused 2 'exclude each other' "$AFAR" export f --port 1 --socket x
refused 2 'goes with --port' "$AFAR" export f --address 127.0.0.1
refused 2 "port '65536' is not a number from 0 to 65535" "$AFAR" export f --port 65536
refused 2 "threads '0' is not" "$AFAR" export f --threads 0
refused 2 "retry '1m' is not" "$AFAR" export f --retry 1m
refused 2 'needs a path' "$AFAR" export f --socket ''
refused 1 "nowhere" "$AFAR" export nowhere
refused 1 'no-such-folder' "$AFAR" export f --socket no-such-folder/socket
refused 1 'too long; sockets have at most 107' "$AFAR" export f --socket "$(head -c 200 /dev/zero | tr '\0' n)"
refused 1 'no.such.host' "$AFAR" export f --port 0 --address no.such.host.
refused 1 'give an address|choose another' "$AFAR" export f --port 0 --address 192.0.2.1
refused 1 'apt install nbdkit$' env PATH=/nowhere "$AFAR" export f
refused 1 '' "$AFAR" export f --key /dev/null
"$AFAR" ns create space
refused 1 'no volume' "$AFAR" export space
nothing_is_left
"$AFAR" volume rm f
"$AFAR" volume rm m
