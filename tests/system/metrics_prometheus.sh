#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154 # cluster.sh sets some
# Debian's Prometheus scrapes a cluster that works: each expression of the shipped dashboard and of the alerts has data, and
# an alert says what is wrong.
if ! command -v prometheus >/dev/null; then
	echo "prometheus is not here: install Debian's prometheus"
	exit 77
fi
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
here=$(dirname "$0")/metrics

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
random_file in 20000 # longer reads go past the cache
mkfifo orders
"$MOVER" 400000 4096 <orders >moving 2>mover.err &
mover=$!
running="$running $mover"
exec 5>orders
eventually grep -q moving moving

promtool check rules "$METRICS_SHARE/afar-alerts.yml" >rules.out || fail "the alerts: $(cat rules.out)"
cat >prometheus.yml <<END
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ["$METRICS_SHARE/afar-alerts.yml"]
scrape_configs:
  - job_name: afar
    static_configs: [{targets: ["$(address manager)", "$(address one)", "$(address two)"]}]
END
promtool check config prometheus.yml >config.out || fail "the configuration: $(cat config.out)"
# It takes a port that is given, and tells none that it took.
port=$(python3 -c "import socket; s = socket.socket(); s.bind(('$host', 0)); print(s.getsockname()[1])")
prometheus --config.file=prometheus.yml --storage.tsdb.path="$scratch/tsdb" --web.listen-address="$host:$port" 2>prometheus.log 5>&- &
prometheus=$!
running="$running $prometheus"
# The store is written and read meanwhile, and a session ends each time.
(
	while [ ! -e enough ]; do
		"$AFAR" region put in disk:one >/dev/null && "$AFAR" region get disk:one out >/dev/null && "$AFAR" region rm disk:one || exit
	done
) 5>&- &
user=$!
python3 "$here/expressions.py" "$host:$port" "$METRICS_SHARE" 3 || fail "expressions: $(tail -5 prometheus.log)"
touch enough
wait "$user" || fail 'a program failed meanwhile'
exec 5>&-
wait "$mover" || fail "the mover: $(cat mover.err)"
forget "$mover"
kill_daemon two
python3 "$here/expressions.py" "$host:$port" "$METRICS_SHARE" two || fail 'an alert'
kill -TERM "$prometheus"
wait "$prometheus" || :
forget "$prometheus"
