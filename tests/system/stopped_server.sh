#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# While a server is stopped, whatever waits for it says so: it names that server, not the manager, which is well, and
# says whether it may have been done.
. "$(dirname "$0")/cluster.sh"

# shellcheck disable=SC2154 # cluster.sh assigns them
# waits_for_two PATTERN COMMAND…: it ends by naming server two.
waits_for_two() {
	pattern=$1
	shift
	refused 1 "server '?two'?.*$pattern" "$AFAR" --timeout $((3 + slowness / 4)) "$@"
	if grep -Eq "manager|:$(manager_port)\>|'?one'?" "$scratch/refused.line"; then
		fail "$*: blames somebody else: $(cat "$scratch/refused.line")"
	fi
}

start_cluster
random_file file 8000000
random_file file.large 64000000
"$AFAR" ns create a
"$AFAR" region put file a:r >/dev/null
"$AFAR" ns create b
"$AFAR" ns reserve b 64M

"$AFAR" ns create c
before=$(reserved c)

kill -STOP "$(pid_of two)"
waits_for_two 'outcome unknown' ns reserve c 64M
waits_for_two 'outcome unknown' region put file c:new
waits_for_two 'answer' region put file b:new
waits_for_two 'answer' region get a:r got
waits_for_two 'outcome unknown' region seal a:r
[ ! -e got ] || fail "a file was left behind"

# In the midst of it.
kill -CONT "$(pid_of two)"
"$AFAR" ns create d
mkfifo pipe
{
	head -c 16000000 file.large
	kill -STOP "$(pid_of two)"
	tail -c +16000001 file.large
} >pipe 2>/dev/null &
waits_for_two 'outcome unknown' region put pipe d:new --size 64000000

kill -CONT "$(pid_of two)"
is_as_before() {
	[ "$(reserved c)" = "$before" ]
}
eventually is_as_before # what it does late, for a session that has ended, is undone
"$AFAR" region get a:r got >/dev/null
same file got
"$AFAR" region ls d | grep -q new && fail "half a region was left behind"
still_works
