#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The plugin in the hands of nbdkit itself: its parameters, in the background too, and what it refuses while that can be seen.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/exports.sh
. "$(dirname "$0")/exports.sh"

start_manager
start_store one
"$AFAR" volume create f 8M --tier flash

# says PATTERN PARAMETER…: nbdkit is refused, with one line.
says() {
	pattern=$1
	shift
	! timeout 60 nbdkit -U "$PWD/none.socket" "$NBDKIT_PLUGIN" "$@" --run true >plugin.err 2>&1 || fail "$* is taken"
	[ "$(grep -c '^nbdkit: error: ' plugin.err)" -eq 1 ] || fail "$*: $(cat plugin.err)"
	grep -Eq -- "$pattern" plugin.err || fail "$*: '$pattern' is not in $(cat plugin.err)"
}
says 'no volume is named'
says 'no volume is named' volume=
says 'names have at most 255' "$(head -c 256 /dev/zero | tr '\0' n)"
says 'no such mode; use exclusive, shared or read-only' f mode=mine
says 'retry=4294968: give a number of seconds from 0 to 4294967' f retry=4294968
says 'retry' f retry=-1
says 'timeout=0' f timeout=0
says 'much' f log=much
says 'perhaps' f take-over=perhaps
says 'replaces=later: give the number of a session' f replaces=later
for mark in '' a ';' 'a,b;' 'a,b:;' 'a,b:c' 'a,b:c;d' 'a,b:10000000000000000;'; do
	says 'open volume .f. with the mark .*: it is none; give one as' f "mark=$mark"
done
says 'ready-fd=77: it is not open' f ready-fd=77
says 'colour=blue: there is no such parameter' f colour=blue
says "nowhere" nowhere
says 'key' f key=/nowhere/key
says 'nowhere' f cluster=afar://nowhere.invalid "key=${AFAR_CLUSTER#*key=}" timeout=2
says 'log of .* bytes' f retry=1 log=4E
nbdkit "$NBDKIT_PLUGIN" --help >help
for word in volume cluster key mode take-over replaces mark retry log path timeout ready-fd; do
	grep -q "^$word=" help || fail "no $word in $(cat help)"
done
nbdkit "$NBDKIT_PLUGIN" --dump-plugin | grep -q '^max_thread_model=parallel$' || fail "dump-plugin"

# From the background, which is in another folder, with names that are relative to ours.
cp "${AFAR_CLUSTER#*key=}" own.key
(
	cluster=${AFAR_CLUSTER%%\?*}
	unset AFAR_CLUSTER
	nbdkit -U "$PWD/socket" -P "$PWD/pid" "$NBDKIT_PLUGIN" f "cluster=$cluster" key=own.key
) 2>daemon.err || fail "in the background: $(cat daemon.err)"
nbd="nbd+unix:///?socket=$PWD/socket"
is_served() {
	nbdinfo --size "$nbd"
}
eventually is_served
daemon=$(cat pid)
qemu-io -f raw -c 'write -P 8 100 5000' -c flush "$nbd" >io.out || fail "$(cat io.out)"
# What can be known before it goes there is refused before.
! nbdkit -U "$PWD/second" "$NBDKIT_PLUGIN" f 2>plugin.err || fail "twice: $(cat plugin.err)"
grep -q 'has it open exclusively' plugin.err || fail "twice: $(cat plugin.err)"
stay idle
kill "$daemon"
eventually is_gone "$daemon"
is_cut_off idle

# shellcheck disable=SC2016 # nbdkit expands it
nbdkit -U - "$NBDKIT_PLUGIN" volume=f mode=read-only retry=5 log=1M \
	--run 'qemu-io -r -f raw -c "read -P 8 100 5000" -c "read -P 0 0 100" "$uri"' >io.out 2>&1 || fail "$(cat io.out)"
! grep -q 'Pattern verification failed' io.out || fail "$(cat io.out)"
"$AFAR" volume rm f
