#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A computation of graphs whose worker, first worker or server is killed or stopped, and one that is interrupted: it says so
# in one line, or ends as interrupts do, and leaves nothing.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_cluster
"$AFAR" ns create g
"$AFAR" ns create mail --width 1
"$AFAR" graph rmat g:graph --scale 12 --weights 9 >/dev/null
empty=$(reserved mail)

has_children() {
	[ "$(children "$computing" | wc -w)" -eq 2 ]
}

# When all have met, the region that they meet in has no name any more.
has_met() {
	has_children && ! "$AFAR" region ls mail | grep -q ' graph-'
}

# begin FLAG…: ranks that nobody lives to see, by three workers. $peers are the other two, when $when is true.
begin() {
	"$AFAR" graph pagerank g:graph --steps 1000000 --workers 3 --ns mail -o ranks "$@" >said 2>line &
	computing=$!
	running="$running $computing"
	eventually "$when"
	peers=$(children "$computing")
}

# ended STATUS: it ends, and how.
ended() {
	eventually has_ended "$computing"
	status=0
	wait "$computing" || status=$?
	forget "$computing"
	[ "$status" -eq "$1" ] || fail "it ended with $status, not $1: $(cat line)"
	for peer in $peers; do
		has_ended "$peer" || fail "worker $peer runs on"
	done
	[ ! -e ranks ] || fail "it wrote ranks"
}

says() {
	{ [ "$(wc -l <line)" -eq 1 ] && grep -Eq "^afar: .*($1)" line; } || fail "'$1' is not the line $(cat line)"
}

leaves_nothing() {
	[ "$("$AFAR" region ls mail | wc -l)" -eq 1 ] || fail "left: $("$AFAR" region ls mail)"
	[ "$(reserved mail)" = "$empty" ] || fail "mail has $(reserved mail), not $empty"
}

# peer N: one of the other workers.
peer() {
	echo "$peers" | tr -s ' ' '\n' | sed -n "$1p"
}

for when in has_children has_met; do
	for number in 1 2; do
		begin
		kill -9 "$(peer $number)"
		ended 1
		says "graph g:graph: worker $number of 3 was killed by signal 9"
		leaves_nothing
	done
done

# One that stands still is given up.
begin --timeout 2
kill -STOP "$(peer 2)"
ended 1
says 'worker 2 has not been heard of for 2 s|did not answer'
leaves_nothing

# An interrupt ends all.
begin
kill -TERM "$computing"
ended 130
[ ! -s line ] || fail "it says $(cat line)"
leaves_nothing

# The first worker. The others end with it; what it has reserved is released by whoever wants to.
released() {
	"$AFAR" ns release mail
	[ "$(reserved mail)" = "$empty" ]
}
begin
kill -9 "$computing"
wait "$computing" 2>/dev/null || :
forget "$computing"
for peer in $peers; do
	eventually has_ended "$peer"
done
[ "$("$AFAR" region ls mail | wc -l)" -eq 1 ] || fail "left: $("$AFAR" region ls mail)"
eventually released

# Workers of several machines: the first one is killed, and the other says so.
appears() {
	"$AFAR" region ls mail | grep -q ' apart$'
}
goes() {
	! appears
}
"$AFAR" graph pagerank g:graph --steps 1000000 --ns mail --worker 0/2 --job apart >first.said 2>first &
first=$!
running="$running $first"
eventually appears
"$AFAR" graph pagerank g:graph --steps 1000000 --ns mail --worker 1/2 --job apart --timeout 2 >said 2>line &
computing=$!
running="$running $computing"
eventually goes
kill -9 "$first"
wait "$first" 2>/dev/null || :
forget "$first"
peers=
ended 1
says 'worker 0 has not been heard of for 2 s|worker 0 has ended early|did not answer'
eventually released

# The servers.
begin --timeout 5
kill_daemon one
kill_daemon two
ended 1
# What a server has that is away may not be free yet; that is said, too.
[ "$(grep -vc 'stay reserved' line)" -eq 1 ] || fail "it says $(cat line)"
grep -Eq '^afar: .*(one|two)' line || fail "it names no server: $(cat line)"
