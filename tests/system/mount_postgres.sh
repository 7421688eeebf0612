#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# PostgreSQL in a mount on flash, whose processes, manager and servers are killed in turn: it recovers, its tables and
# indexes are whole, and no transaction is missing whose commit a client was told of.
# AFAR_ROUNDS: so many kills, with all checks after each. By default all are killed at once; with
# AFAR_NIGHTLY=1 each kind by itself, too. All checks are at the end then.
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/system/cluster.sh
. "$here/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$here/mounts.sh"

postgres=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
[ -x "$postgres/pg_amcheck" ] || skip "PostgreSQL is not there (apt install postgresql)"

# It refuses to run as root.
if [ "$(id -u)" -eq 0 ]; then
	user=postgres
	id $user >/dev/null 2>&1 || user=nobody
	as_user="setpriv --reuid=$user --regid=$(id -g $user) --clear-groups"
else
	user=$(id -u)
	as_user=
fi
# sql COMMAND: as one of its users.
sql() {
	"$postgres/psql" -h "$scratch/socket" -qAtX -v ON_ERROR_STOP=1 -c "$1" postgres
}

# ---- The database server

start_postgres() {
	# Little memory, so that it writes pages and makes checkpoints all the time.
	# shellcheck disable=SC2086 # words, or none
	$as_user "$postgres/postgres" -D "$scratch/m/data" -k "$scratch/socket" -c listen_addresses= -c shared_buffers=1MB \
		-c checkpoint_timeout=30s -c min_wal_size=32MB -c max_wal_size=32MB -c checkpoint_completion_target=0 \
		-c bgwriter_delay=10ms -c wal_writer_delay=10ms -c log_min_messages=log >>postgres.out 2>>postgres.err &
	pid_postgres=$!
	running="$running $!"
}

# answers: as a supervisor would, starts it again if it has given up.
answers() {
	if has_ended "$pid_postgres"; then
		wait "$pid_postgres" || :
		forget "$pid_postgres"
		start_postgres
	fi
	sql 'select 1'
}

# kill_postgres: all of its processes at once. They are gone when their last calls have ended, which may wait for servers.
kill_postgres() {
	kill -STOP "$pid_postgres"
	children=$(children "$pid_postgres")
	# shellcheck disable=SC2086 # words
	kill -9 "$pid_postgres" $children 2>/dev/null || :
}
start_postgres_again() {
	for child in "$pid_postgres" $children; do
		eventually has_ended "$child"
	done
	wait "$pid_postgres" 2>/dev/null || :
	forget "$pid_postgres"
	start_postgres
}

# kill_backend: the process of one connection. The others end then, too, and it recovers by itself.
kill_backend() {
	for backend in $(children "$pid_postgres"); do
		if grep -qs '\[local\]' "/proc/$backend/cmdline"; then
			kill -9 "$backend" 2>/dev/null || :
			return
		fi
	done
}

# ---- Its clients

has_more() {
	[ "$(wc -l <acknowledged)" -gt "$((before + 40))" ] || has_ended "$pid_clients"
}
# goes_on: transactions are committed again.
goes_on() {
	eventually answers
	before=$(wc -l <acknowledged)
	eventually has_more
	! has_ended "$pid_clients" || fail "the clients ended: $(cat clients.err)"
}

# check_commits: what was acknowledged is there, and no transaction in part.
check_commits() {
	sort acknowledged >told
	sql 'select client, number from log' | tr '|' ' ' | sort >there
	comm -23 told there >missing
	[ ! -s missing ] || fail "$(wc -l <missing) of $(wc -l <told) acknowledged transactions are missing: $(head -n 3 missing | tr '\n' ';')"
	torn=$(sql 'select count(*) from counters c where number <> (select coalesce(max(number), 0) from log l where l.client = c.client)')
	[ "$torn" = 0 ] || fail "$torn clients' transactions are there in part"
}

# check_tables: everything fits together.
check_tables() {
	"$postgres/pg_amcheck" -h "$scratch/socket" --install-missing --heapallindexed --schema=public postgres >amcheck.out 2>&1 ||
		fail "pg_amcheck: $(head -n 20 amcheck.out)"
	sums=$(sql 'select (select sum(abalance) from pgbench_accounts), (select sum(bbalance) from pgbench_branches),
		(select sum(tbalance) from pgbench_tellers), (select coalesce(sum(delta), 0) from pgbench_history)')
	[ "$(echo "$sums" | tr '|' '\n' | sort -u | wc -l)" -eq 1 ] || fail "pgbench's sums differ: $sums"
}

# ---- The test

slowness=$((slowness * 4)) # to recover takes a while
start_flash_cluster
port=$(manager_port)
"$AFAR" fs create f --tier flash --uid "$(id -u "$user")" --gid "$(id -g "$user")"
start_mount m f
chmod 711 "$scratch"
mkdir socket
chmod 777 socket
: >acknowledged
# shellcheck disable=SC2086 # words, or none
$as_user "$postgres/initdb" -D "$scratch/m/data" -U "$(id -un)" -A trust --data-checksums --wal-segsize=1 --no-sync >initdb.out 2>&1 ||
	fail "initdb: $(cat initdb.out)"
start_postgres
eventually answers
sql 'create table log (client int, number int, filler text, primary key (client, number));
	create table counters (client int primary key, number int);
	insert into counters select i, 0 from generate_series(0, 3) i'
"$postgres/pgbench" -h "$scratch/socket" -i -q postgres >pgbench.out 2>&1 || fail "pgbench -i: $(cat pgbench.out)"
python3 "$here/postgres_clients.py" "$postgres/psql" "$scratch/socket" >clients.out 2>clients.err &
pid_clients=$!
running="$running $!"
goes_on
if [ "${AFAR_ROUNDS:-}" ]; then
	kinds=$(seq "$AFAR_ROUNDS")
elif [ "${AFAR_NIGHTLY:-}" ]; then
	kinds='1 2 3 4 5 6'
else
	kinds=6 # all at once
fi
nr_kills=0
for round in $kinds; do
	"$postgres/pgbench" -h "$scratch/socket" -n -c 4 -T 600 postgres >pgbench.out 2>&1 &
	pid_bench=$!
	goes_on
	case $((round % 6)) in
	1) kill_postgres && start_postgres_again ;;
	2) kill_daemon one && start_flash_server one ;;
	3) kill_daemon manager && start_manager "$port" ;;
	4) kill_backend ;;
	5) kill_daemon two && start_flash_server two ;;
	0)
		kill_postgres
		kill_daemon one
		kill_daemon manager
		kill_daemon two
		start_manager "$port"
		start_flash_server one
		start_flash_server two
		start_postgres_again
		;;
	esac
	goes_on
	kill "$pid_bench" 2>/dev/null || :
	wait "$pid_bench" 2>/dev/null || :
	check_commits
	[ -z "${AFAR_ROUNDS:-}" ] || check_tables
	nr_kills=$((nr_kills + 1))
done
touch stop
wait "$pid_clients" || fail "the clients: $(cat clients.err)"
forget "$pid_clients"
check_commits
check_tables
echo "$(wc -l <acknowledged) transactions were acknowledged over $nr_kills kills"
kill -INT "$pid_postgres"
wait "$pid_postgres" || fail "PostgreSQL ended with $?: $(tail postgres.err)"
forget "$pid_postgres"
! grep -v 'a server, or its device, failed before what was written since the last sync was durable' m.err || fail "the mount said something else"
: >m.err
end_mount m
still_works
