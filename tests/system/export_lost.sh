#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# nbdkit and a server of the volume die together, with writes that were answered and not flushed. They are in no log any more, so a
# flush has to say so, once, whichever died first. Nothing else makes one fail.
# shellcheck disable=SC2154 # cluster.sh and exports.sh set some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/exports.sh
. "$(dirname "$0")/exports.sh"

# flush_says ERROR: as NBD numbers it.
flush_says() {
	said=$(timeout 60 python3 "$(dirname "$0")/nbd.py" "${nbd#*socket=}" error 3 0 0) || fail "a flush has no answer: $(cat v.err)"
	[ "$said" = "$1" ] || fail "a flush says $said, not $1, $2: $(cat v.err)"
}

# flush_says_once WHEN
flush_says_once() {
	flush_says 5 "$1"
	flush_says 0 "$1, after it has said so"
}

# end_export_that_said_only PATTERN: it ends well.
end_export_that_said_only() {
	kill -TERM "$(pid_of v)"
	ends_with 0 v
	! grep -v "$1" v.err || fail "the export said: $(cat v.err)"
}

start_manager
start_store one
"$AFAR" volume create v 16M --tier flash

# crash FIRST: both die, FIRST before the other, and the server is back before the next nbdkit starts.
crash() {
	request 1 0 8192
	kill -STOP "$(pid_of v)" # the export starts no other one meanwhile
	old=$(nbdkit_of v)
	[ "$1" = server ] || kill -9 "$old"
	kill_daemon one
	[ "$1" = nbdkit ] || kill -9 "$old"
	start_store one
	kill -CONT "$(pid_of v)"
}

start_export v v --shared
crash nbdkit
flush_says_once 'what is shared'
end_export_that_said_only 'another one starts\|may be lost'

start_export v v
crash nbdkit
flush_says_once 'nbdkit first'
crash server
flush_says_once 'the server first'
request 1 0 8192
kill_daemon one
kill -9 "$(nbdkit_of v)"
start_store one
flush_says_once 'the server was away'
end_export_that_said_only 'another one starts\|may be lost'

# Nothing was lost. What the handle made again after an end of the server is not, either.
start_export v v
request 1 0 8192
kill_daemon one
start_store one
request 3 0 0
kill -9 "$(nbdkit_of v)"
flush_says 0 'all was made again and flushed'
kill -9 "$(nbdkit_of v)"
stop_daemon one
start_store one
flush_says 0 'a clean end of the server'
end_export_that_said_only 'another one starts'

# If no flush asks, the end of the export says so.
start_export v v
crash nbdkit
nbdinfo --size "$nbd" >info || fail "nbdkit did not come back"
kill -TERM "$(pid_of v)"
ends_with 1 v
grep -q 'without a last sync' v.err || fail "what is lost, and nothing said: $(cat v.err)"
nothing_is_left
