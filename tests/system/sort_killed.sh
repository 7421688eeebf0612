#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A sort whose worker, first worker or server is killed or stopped, and one that is interrupted: it says so in one line,
# or ends as interrupts do, and leaves nothing. Workers that are started one by one.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

AFAR_TEST_LEASE_MS=${AFAR_TEST_LEASE_MS:-500} # many sessions end by being killed
start_cluster
"$AFAR" ns create s
"$AFAR" ns create one --width 1
"$AFAR" sort generate s:in --records 800000 >/dev/null
"$AFAR" sort generate file --records 800000 >/dev/null
empty=$(reserved s)

# soon COMMAND: looks without a pause, because a sort takes less than a second.
soon() {
	until "$1"; do
		:
	done
}

# sort_in_background OUTPUT FLAG…: returns when its other workers are there.
sort_in_background() {
	target=$1
	shift
	"$AFAR" sort run s:in "$target" --workers 3 "$@" >sort.said 2>sort.line &
	sorting=$!
	running="$running $sorting"
	soon has_children
}

has_children() {
	[ "$(children "$sorting" | wc -w)" -eq 2 ] || has_ended "$sorting"
}

# A sort was quicker than this test: its output goes, with the room that it had.
forget_output() {
	"$AFAR" region rm "s:out" 2>/dev/null || rm fileout
	eventually released
}

# When all have met, the region that they meet in has no name any more.
has_met() {
	! "$AFAR" region ls s | grep -q ' sort-' || has_ended "$sorting"
}

# has_made OUTPUT: it is whole, so the sort is over but for its processes.
has_made() {
	case $1 in
	s:*) "$AFAR" region ls s | grep -q " ok  *${1#s:}\$" ;;
	*) [ -e "$1" ] ;;
	esac
}

# catch_sort OUTPUT FLAG…: starts one, and stops worker 0 when $when is true: no sort ends without that one. A sort that
# was quicker is tried again. So is one that gave up workers which came later than its --timeout, on a machine that is busy
# with others. $peers are the other workers.
catch_sort() {
	for _ in 1 2 3 4 5 6 7 8 9; do
		sort_in_background "$@"
		soon "$when"
		peers=$(children "$sorting")
		if kill -STOP "$sorting" && ! has_ended "$sorting" && [ "$(echo "$peers" | wc -w)" -eq 2 ] && ! has_made "$1"; then
			return
		fi
		kill -CONT "$sorting" || :
		if wait_for_sort; then
			forget_output
		else
			grep -q 'have not come' sort.line || fail "the sort failed: $(cat sort.line)"
			eventually released
		fi
	done
	fail "every sort was too quick, or its workers did not meet"
}

# peer N: one of the other workers.
peer() {
	echo "$peers" | tr -s ' ' '\n' | sed -n "$1p"
}

go_on() {
	kill -CONT "$sorting"
}

# hit SIGNAL N PATTERN OUTPUT FLAG…: sends a signal to one of the others, in the midst of a sort, which then fails with that
# line. A worker that had done its part by then is not missed, and the sort is tried again.
hit() {
	signal=$1 number=$2 line=$3
	shift 3
	for _ in 1 2 3 4 5 6 7 8 9; do
		catch_sort "$@"
		kill "-$signal" "$(peer "$number")"
		go_on
		eventually has_ended "$sorting"
		if ! wait_for_sort; then
			break
		fi
		"$AFAR" sort verify "$1" --against s:in >/dev/null
		forget_output
	done
	[ "$status" -eq 1 ] || fail "the sort ended with $status: $(cat sort.line)"
	{ [ "$(wc -l <sort.line)" -eq 1 ] && grep -Eq "^afar: .*($line)" sort.line; } || fail "'$line' is not the line $(cat sort.line)"
	leaves 1
	gives_back
}

wait_for_sort() {
	status=0
	wait "$sorting" || status=$?
	forget "$sorting"
	return "$status"
}

# leaves NUMBER: only so many regions in s; nor a file.
leaves() {
	eventually is_left "$1"
	no_parts
}

no_parts() {
	[ "$(find . -name '*.part')" = "" ] || fail "left: $(find . -name '*.part')"
}

# mend OUTPUT: a sort goes well after one that was killed.
mend() {
	"$AFAR" sort run s:in "$1" >/dev/null
	"$AFAR" sort verify "$1" --against s:in >/dev/null
	forget_output
}

# names NAME…: those regions are in s.
names() {
	[ "$("$AFAR" region ls s | awk 'NR > 1 { print $NF }' | sort | tr '\n' ' ')" = "$* " ]
}

is_left() {
	"$AFAR" region ls s
	[ "$("$AFAR" region ls s | wc -l)" -eq $((1 + $1)) ]
}

gives_back() {
	[ "$(reserved s)" = "$empty" ] || fail "s has $(reserved s), not $empty"
}

# released: what nobody uses is given back.
released() {
	"$AFAR" ns release s
	[ "$(reserved s)" = "$empty" ]
}

# After they have met; at full length before that, too.
for when in ${AFAR_LONG:+has_children} has_met; do
	hit 9 2 'worker [12] of 3 was killed by signal 9' s:out
	hit 9 1 'worker [12] of 3 was killed by signal 9' fileout
	[ ! -e fileout ] || fail "a killed sort left fileout"
	# One that stands still is given up.
	hit STOP 2 'not been heard of for 2 s|have not come|did not answer' s:out --timeout 2

	# Interrupts: all of it ends.
	for _ in 1 2 3 4 5 6 7 8 9; do
		catch_sort s:out
		kill -TERM "$sorting"
		go_on
		eventually has_ended "$sorting"
		wait_for_sort || break
		forget_output
	done
	{ [ "$status" -eq 130 ] && [ ! -s sort.line ]; } || fail "after SIGTERM it ended with $status: $(cat sort.line)"
	leaves 1
	gives_back
	for peer in $peers; do
		has_ended "$peer" || fail "worker $peer runs on"
	done

	# The first worker, too, and all of them. What it has reserved stays. So does the file, if nobody else knew of it by
	# then, until the next sort.
	for target in s:out fileout; do
		for killed in first all; do
			catch_sort "$target"
			kill -9 "$sorting"
			for peer in $peers; do
				[ "$killed" = first ] || kill -9 "$peer" || :
			done
			wait "$sorting" 2>/dev/null || :
			forget "$sorting"
			for peer in $peers; do
				eventually has_ended "$peer"
			done
			eventually is_left 1
			eventually released
			mend "$target"
			no_parts
		done
	done
done

# Memory that was free first is not given back in place of that which is not yet: their extents need not make the sum.
mkfifo held
"$AFAR" sort run s:in s:out --worker 0/2 --job alone >said 2>line &
sorting=$!
running="$running $sorting"
eventually names alone alone-exchange in out
"$AFAR" region get s:alone-exchange --partial - >held 2>/dev/null &
holder=$!
running="$running $holder"
exec 5<held
head -c 1 <&5 >/dev/null
kill -TERM "$sorting"
eventually names in
kill -9 "$holder"
wait "$holder" 2>/dev/null || :
forget "$holder"
exec 5<&-
wait_for_sort || :
{ [ "$status" -eq 130 ] && [ ! -s line ]; } || fail "after SIGTERM it ended with $status: $(cat line)"
gives_back

# Two sorts into one file.
"$AFAR" sort run s:in fileout --worker 0/2 --job alone >said 2>line &
sorting=$!
running="$running $sorting"
eventually names alone alone-exchange in
"$AFAR" sort run s:in fileout >said 2>other && fail "two sorts make one file"
grep -Eq '^afar: write fileout: another program makes fileout.afar-sort.part' other || fail "it says $(cat other)"
[ "$(wc -l <other)" -eq 1 ] || fail "it says $(cat other)"
kill -TERM "$sorting"
wait_for_sort || :
leaves 1
gives_back

# Machines: three processes that only know the job's name, in any order.
for target in s:out fileout; do
	workers=
	for i in 2 0 1; do
		"$AFAR" sort run s:in "$target" --worker $i/3 --job together >worker.$i 2>&1 &
		workers="$workers $!"
	done
	for worker in $workers; do
		wait "$worker" || fail "a worker failed: $(cat worker.?)"
	done
	"$AFAR" sort verify "$target" --against s:in >/dev/null
done
"$AFAR" region rm s:out
rm fileout
refused 1 'worker 0 of the job alone has not come' "$AFAR" sort run s:in s:out --worker 1/2 --job alone --timeout 1
"$AFAR" sort run s:in s:out --worker 0/2 --job alone --timeout 1 >said 2>line && fail "a worker alone has sorted"
grep -Eq '^afar: .*not come' line || fail "a worker alone says $(cat line)"
leaves 1
# One that is told something else ends the sort for all, and each says why.
"$AFAR" sort run file s:out --worker 1/2 --job apart --lines >worker.1 2>&1 &
other=$!
status=0
"$AFAR" sort run file s:out --worker 0/2 --job apart >said 2>line || status=$?
[ "$status" -eq 1 ] || fail "workers that sort records and lines"
grep -Eq '^afar: .*worker 1 has' line || fail "worker 0 says $(cat line)"
status=0
wait "$other" || status=$?
[ "$status" -eq 1 ] || fail "worker 1 ended with $status"
grep -Eq '^afar: .*worker 0 sorts records; give all workers --lines, or none' worker.1 || fail "worker 1 says $(cat worker.1)"
leaves 1

# A server. The buckets are on it.
when=has_met
catch_sort s:out --ns one
kill_daemon one
kill_daemon two
go_on
eventually has_ended "$sorting"
wait "$sorting" && fail "it has sorted without servers"
# What a server has that is away may not be free yet; that is said, too.
[ "$(grep -vc 'stay reserved' sort.line)" -eq 1 ] || fail "it says $(cat sort.line)"
