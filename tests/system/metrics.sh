#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# `afard --metrics`: what it shows is right, in both formats, and nobody who asks badly keeps it from others.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
here=$(dirname "$0")/metrics

# address NAME: where the daemon shows its metrics.
address() {
	sed -n 's|^afard: metrics at http://\([^/]*\)/.*|\1|p' "$scratch/$1.out"
}

start_daemon manager --role manager --data "$scratch/manager" --lease-ms 1500 --listen "$host:0" --metrics "$host:0"
export AFAR_CLUSTER="$uri"
for name in one two; do
	start_daemon $name --role server --data "$scratch/$name" --name $name --data-listen "tcp:127.0.0.1:0" \
		--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 256M --flash 64M --cache 8M --metrics "$host:0"
done
"$AFAR" ns create moved --width 2
"$AFAR" ns reserve moved 32M
"$AFAR" ns create disk --tier flash
random_file in 3000000
"$AFAR" region put in disk:first >/dev/null
"$AFAR" region get disk:first out >/dev/null
"$AFAR" volume create a.volume 4M

# A program that goes on, because one that has ended tells no more.
mkfifo orders
"$MOVER" 4000000 4096 <orders >moving 2>mover.err &
mover=$!
running="$running $mover"
exec 5>orders
eventually grep -q moving moving

python3 "$here/shown.py" "$(address manager)" "$(address one)" "$AFAR" || fail 'what is shown'

# promtool says whether the names and the text are as Prometheus wants them.
if command -v promtool >promtool.path; then
	for name in manager one; do
		python3 "$here/ask.py" "$(address $name)" /metrics >$name.metrics
		promtool check metrics <$name.metrics >promtool.out 2>&1 || fail "promtool: $(cat promtool.out)"
		[ ! -s promtool.out ] || fail "promtool: $(cat promtool.out)"
	done
else
	echo "promtool is not here (Debian's prometheus): the text was not checked by it"
fi

# A crowd, and those who never end their request or never read.
python3 "$here/crowd.py" "$(address manager)" || fail 'a crowd'

# A server that is stopped: the manager tells what it knows, at once, and how old that is.
kill -STOP "$(pid_of two)"
python3 "$here/stopped.py" "$(address manager)" two || fail 'a stopped server'
kill -CONT "$(pid_of two)"

# A server without its manager is not well, and says so. It may take a while to see it.
[ "$(python3 "$here/ask.py" "$(address one)" /health)" = ok ] || fail 'a healthy server'
exec 5>&-
wait "$mover" || fail "the mover: $(cat mover.err)"
forget "$mover"
kill_daemon manager
eventually sh -c "python3 '$here/ask.py' '$(address one)' /health 503 | grep -q 'not in the cluster'"

# Bad addresses.
refused 2 "metrics: 'nowhere' is not HOST:PORT" "$AFARD" --metrics nowhere
refused 2 "metrics: '99999' is not HOST:PORT" "$AFARD" --metrics 99999
refused 1 "show the metrics at $(address one): something else listens there; give --metrics another port" \
	"$AFARD" --role manager --data other --listen "$host:0" --metrics "$(address one)"
refused 1 'show the metrics at 192.0.2.1:7480: .*give --metrics an address of this machine' \
	"$AFARD" --role manager --data other --listen "$host:0" --metrics 192.0.2.1:7480

# A port alone is one of this machine alone; other addresses have to be named, and then the line says so.
start_daemon plain --role manager --data "$scratch/plain" --listen "$host:0" --metrics 0
address plain | grep -q '^127.0.0.1:' || fail "a port alone: $(cat plain.out)"
! grep -q 'for all' plain.out || fail "a port alone: $(cat plain.out)"
start_daemon open --role manager --data "$scratch/open" --listen "$host:0" --metrics 0.0.0.0:0
grep -q '^afard: metrics at http://0.0.0.0:[0-9]*/, for all who reach that address$' open.out || fail "an open one: $(cat open.out)"
