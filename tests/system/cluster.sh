# SPDX-License-Identifier: BSD-3-Clause
# Sourced by every test here: a cluster of real daemons in a folder of its own, and what to assert.
# Everything a test starts ends with it, and its folder goes with it. AFAR and AFARD are the programs.
# shellcheck shell=sh

set -eu
: "${AFAR:?the path of afar}" "${AFARD:?the path of afard}"
unset AFAR_CLUSTER AFAR_KEY AFAR_LOG
LC_ALL=C.UTF-8
export LC_ALL

slowness=${AFAR_SLOWNESS:-1} # how many times as long things may take here

scratch=$(mktemp -d "${TMPDIR:-/tmp}/afar-test-XXXXXX")
HOME=$scratch
export HOME
running= # pids of what runs in the background
# Where its daemons listen. Each test has another, so a port stays the test's while nothing listens there: what takes any
# port that is free, as each connection does, takes one of 127.0.0.1.
host=127.$((64 + $$ / 65536 % 128)).$(($$ / 256 % 256)).$(($$ % 256))
cd "$scratch"

# Whatever a test was about, daemons that still run must end well: sanitizers speak then.
end_daemons() {
	for pid in $running; do
		if kill -TERM "$pid" 2>/dev/null && ! wait "$pid"; then
			echo "FAILED: a daemon did not end well after the test" >&2
			status=1
		fi
	done
}

clean_up() {
	status=$?
	trap - EXIT
	trap '' INT TERM HUP # nothing may cut this short
	[ "$status" -ne 0 ] || end_daemons
	for pid in $running; do
		kill -9 "$pid" 2>/dev/null || :
	done
	wait
	if [ "$status" -ne 0 ]; then
		for log in "$scratch"/*.err; do
			if [ -s "$log" ]; then
				echo "--- $(basename "$log")" >&2
				tail -n 20 "$log" >&2
			fi
		done
	fi
	cd /
	rm -rf "$scratch"
	exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

fail() {
	echo "FAILED: $*" >&2
	exit 1
}

# ---- Daemons

# start_daemon NAME FLAG…: starts afard and waits until it is ready. $uri is what it announced.
start_daemon() {
	name=$1
	shift
	rm -f "$scratch/$name.ready"
	mkfifo "$scratch/$name.ready"
	# 4 is what a test feeds a put through: the daemon must not keep that open.
	"$AFARD" --ready-fd 3 "$@" 3>"$scratch/$name.ready" 4>&- >"$scratch/$name.out" \
		2>>"$scratch/$name.err" &
	eval "pid_$name=$!"
	running="$running $!"
	read -r uri <"$scratch/$name.ready" || fail "afard $name did not start"
}

# start_manager [PORT]: keeps its store in ./manager over restarts.
# shellcheck disable=SC2120 # the tests pass the port
start_manager() {
	start_daemon manager --role manager --data "$scratch/manager" --lease-ms "${AFAR_TEST_LEASE_MS:-1500}" \
		--listen "$host:${1:-0}"
	AFAR_CLUSTER=$uri
	export AFAR_CLUSTER
}

# start_server NAME [SIZE]: lends SIZE, over the transport that ../transport.h tells of.
start_server() {
	case ${AFAR_TEST_TRANSPORT:-tcp} in
	local) lane=local ;;
	*) lane=${AFAR_TEST_TRANSPORT:-tcp}:${AFAR_TEST_HOST:-$host}:0 ;;
	esac
	start_daemon "$1" --role server --data "$scratch/$1" --name "$1" --data-listen "$lane" \
		--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory "${2:-256M}"
}

start_cluster() {
	start_manager
	start_server one "${1:-256M}"
	start_server two "${1:-256M}"
}

pid_of() {
	eval "echo \$pid_$1"
}

# forget PID: it has ended, and its number may be somebody else's.
forget() {
	others=
	for pid in $running; do
		[ "$pid" = "$1" ] || others="$others $pid"
	done
	running=$others
}

# kill_daemon NAME: as a crash would.
kill_daemon() {
	kill -9 "$(pid_of "$1")"
	wait "$(pid_of "$1")" 2>/dev/null || :
	forget "$(pid_of "$1")"
}

# stop_daemon NAME: by SIGTERM; it must end well.
stop_daemon() {
	kill -TERM "$(pid_of "$1")"
	wait "$(pid_of "$1")" || fail "afard $1 ended with $? after SIGTERM"
	forget "$(pid_of "$1")"
}

# has_ended PID: a child's, whether the shell has heard of it yet or not.
has_ended() {
	[ "$(cut -d ' ' -f 3 "/proc/$1/stat" 2>&1)" = Z ] || [ ! -d "/proc/$1" ]
}

# children PID: their pids, in one line.
children() {
	cat /proc/"$1"/task/*/children 2>/dev/null || :
}

manager_port() {
	echo "$AFAR_CLUSTER" | sed 's/^afar:..[^:]*:\([0-9]*\).*/\1/'
}

# ---- Assertions

# refused STATUS PATTERN COMMAND…: it ends with STATUS, prints nothing, and complains in exactly one
# line that begins with the program's name and matches PATTERN.
refused() {
	want=$1 pattern=$2
	shift 2
	got=0
	timeout $((60 * slowness)) "$@" >"$scratch/refused.out" 2>"$scratch/refused.line" </dev/null || got=$?
	[ "$got" -eq "$want" ] || fail "$* ended with $got, not $want: $(cat "$scratch/refused.line")"
	[ "$(wc -l <"$scratch/refused.line")" -eq 1 ] ||
		fail "$* should complain in one line: $(cat "$scratch/refused.line")"
	grep -Eq '^afard?: ' "$scratch/refused.line" || fail "$*: $(cat "$scratch/refused.line")"
	grep -Eq -- "$pattern" "$scratch/refused.line" ||
		fail "$*: '$pattern' is not in: $(cat "$scratch/refused.line")"
	if LC_ALL=C grep -q '[^ -~]' "$scratch/refused.line"; then
		fail "$*: control characters in: $(cat -v "$scratch/refused.line")"
	fi
	[ ! -s "$scratch/refused.out" ] || fail "$* should print nothing: $(cat "$scratch/refused.out")"
}

# eventually COMMAND…: it succeeds within a while.
eventually() {
	attempts=0
	until "$@" >"$scratch/eventually.out" 2>&1; do
		attempts=$((attempts + 1))
		[ "$attempts" -lt $((300 * slowness)) ] || fail "never: $*: $(cat "$scratch/eventually.out")"
		sleep 0.1
	done
}

random_file() {
	head -c "$2" /dev/urandom >"$1"
}

same() {
	cmp "$1" "$2" || fail "$1 and $2 differ"
}

# still_works: whatever was done to the cluster, others can use it.
still_works() {
	random_file "$scratch/still" 300000
	"$AFAR" ns create still.works --width 1
	"$AFAR" region put "$scratch/still" still.works:a >/dev/null
	"$AFAR" region get still.works:a "$scratch/still.back" >/dev/null
	same "$scratch/still" "$scratch/still.back"
	"$AFAR" region rm still.works:a
	"$AFAR" ns rm still.works
}

# reserved NAMESPACE: what `ns ls` says, in words.
reserved() {
	"$AFAR" ns ls | awk -v name="$1" '$1 == name { print $6, $7 }'
}
