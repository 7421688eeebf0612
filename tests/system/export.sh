#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2034 # exports.sh uses is_read_only
# An exported volume: what clients are told of it, who may have it open beside it, how an export ends, and what is refused.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/exports.sh
. "$(dirname "$0")/exports.sh"

start_manager
start_store one
"$AFAR" volume create f 8M --tier flash
"$AFAR" volume create m 8M

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

# ---- It ends while clients are connected.

start_export first f
stay idle
stay another
end_export first
is_cut_off idle
is_cut_off another
"$AFAR" volume stat f | grep -q '^open  *no$' || fail "stat: $("$AFAR" volume stat f)"

# ---- Taking over: the other one's requests fail, and it ends, also if its clients stay and ask for nothing.

start_export first f
first=$nbd
stay idle
start_export second f --take-over
second=$nbd
nbd=$first
io_fails 'write -P 9 0 4k'
ends_with 1 first
is_cut_off idle
grep -q 'its session has ended, because somebody took the volume over' first.err || fail "taken over: $(cat first.err)"
nbd=$second
io 'read -P 1 0 1M' 'write -P 7 0 1M' 'read -P 7 0 1M' || fail "$(cat io.out)"
stay idle
start_export third f --take-over
ends_with 1 second
is_cut_off idle
[ "$(wc -l <second.err)" -eq 1 ] || fail "taken over: $(cat second.err)"

# ---- Ends of nbdkit that nobody asked for: another one takes its place, at the same address. A client that connects again sees no error.

served=$(nbdkit_of third)
stay idle
mkfifo feed
qemu-io --image-opts "driver=raw,file.driver=nbd,file.server.type=unix,file.server.path=${nbd#*socket=},file.reconnect-delay=60" \
	<feed >patient.out 2>&1 &
patient=$!
running="$running $patient"
exec 5>feed
echo 'write -P 8 1M 1M' >&5
has_written() {
	grep -q wrote patient.out
}
eventually has_written
kill -9 "$served"
is_cut_off idle
echo 'read -P 8 1M 1M' >&5
exec 5>&-
wait "$patient" || fail "the client that stays: $(cat patient.out)"
forget "$patient"
grep -q 'read 1048576/1048576' patient.out || fail "the client that stays: $(cat patient.out)"
! grep -q failed patient.out || fail "the client that stays: $(cat patient.out)"
[ "$(nbdkit_of third)" != "$served" ] || fail "nbdkit outlived kill -9"
[ "$(cat third.err)" = "afar: note: export f: nbdkit ended by signal 9, and its clients are cut off; another one starts at the same \
address" ] || fail "nbdkit was killed: $(cat third.err)"
"$AFAR" volume stat f | grep -Eq "^open  *exclusively, by session .* nbdkit\)$" || fail "stat: $("$AFAR" volume stat f)"
kill -TERM "$(nbdkit_of third)"
ends_with 1 third
grep -q 'somebody ended nbdkit, which has synced: ' third.err || fail "nbdkit was told to end: $(cat third.err)"

# If somebody else has taken the volume over by then, he keeps it.
start_export second f
kill -STOP "$(pid_of second)"
kill -9 "$(nbdkit_of second)"
start_export third f --take-over
kill -CONT "$(pid_of second)"
ends_with 1 second
[ "$(grep -c 'afar: note: .* another one starts' second.err)" -eq 5 ] || fail "tried again: $(cat second.err)"
[ "$(grep -c 'has it open exclusively' second.err)" -eq 5 ] || fail "not in its place: $(cat second.err)"
grep -q 'which makes 6 times in a row: ' second.err || fail "the end: $(cat second.err)"
io 'read -P 7 0 1M' || fail "$(cat io.out)"
end_export third
nothing_is_left
start_export third f --socket third.sock
[ "$nbd" = "nbd+unix:///?socket=$PWD/third.sock" ] || fail "the URI is $nbd"
kill -STOP "$(pid_of third)"
refused 1 'something else is there' "$AFAR" export m --socket third.sock
served=$(nbdkit_of third)
stay idle
kill -9 "$(pid_of third)"
ends_with 137 third
is_cut_off idle
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
kill -TERM "$(pid_of port)"
ends_with 0 port

# ---- An nbdkit that does not serve

mkdir fake
fake() {
	printf '#!/bin/sh\n%s\n' "$1" >fake/nbdkit
	chmod +x fake/nbdkit
}
fake 'exit 3'
refused 1 'nbdkit ended with status 3 before it served' env PATH="$PWD/fake" "$AFAR" export f
fake 'echo "nbdkit: error: all is bad" >&2; exit 1'
refused 1 '^afar: nbdkit: all is bad$' env PATH="$PWD/fake" "$AFAR" export f
fake 'echo $$ >"$0.pid"; exec /bin/sleep 600'
PATH="$PWD/fake:$PATH" "$AFAR" export f >waiting.out 2>waiting.err &
pid_waiting=$!
running="$running $!"
has_begun() {
	[ -s fake/nbdkit.pid ]
}
eventually has_begun
kill -TERM "$pid_waiting"
ends_with 130 waiting
[ ! -s waiting.err ] || fail "an interrupted start said: $(cat waiting.err)"
is_gone "$(cat fake/nbdkit.pid)" || fail "nbdkit is left"
nothing_is_left

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
