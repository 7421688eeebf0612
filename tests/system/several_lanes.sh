#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Servers with several lanes, and with different ones: what is put over them comes back, and status shows them.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_manager
# shellcheck disable=SC2154 # cluster.sh assigns it
start_daemon both --role server --data "$scratch/both" --name both --data-listen 127.0.0.1:0,tcp:127.0.0.2:0 \
	--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 256M
start_server single
"$AFAR" status >status.out
grep -q "both .* \*tcp 127.0.0.1:[0-9]* ([a-z0-9_-]*) \*tcp 127.0.0.2:[0-9]* (" status.out || fail "status: $(cat status.out)"

"$AFAR" ns create striped --width 2 --stripe 64K
"$AFAR" ns create other --width 1
for size in 1 65537 1048577 20971520; do
	for ns in striped other; do
		random_file "in.$size" "$size"
		"$AFAR" region put "in.$size" "$ns:$size" >/dev/null
		"$AFAR" region get "$ns:$size" "out.$size" >/dev/null
		same "in.$size" "out.$size"
		"$AFAR" region rm "$ns:$size"
	done
	rm "in.$size" "out.$size"
done

start_daemon near --role server --data "$scratch/near" --name near --data-listen local,127.0.0.1:0 \
	--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 256M
"$AFAR" status >status.out
grep -q "near .* \*local tcp 127.0.0.1:[0-9]*" status.out || fail "status: $(cat status.out)"
"$AFAR" --path tcp status >status.out
grep -q "near .* local \*tcp 127.0.0.1:[0-9]*" status.out || fail "status: $(cat status.out)"

"$AFAR" --path tcp region put status.out other:forced >/dev/null
AFAR_PATH=tcp "$AFAR" region get other:forced - | cmp - status.out
refused 1 'no lane over verbs' "$AFAR" --path verbs region get other:forced -
AFAR_PATH=verbs refused 1 'no lane over verbs' "$AFAR" region get other:forced -
refused 1 'no transport' "$AFAR" --path pigeons-with-long-wings status

refused 2 'HOST:PORT' "$AFARD" --data-listen 127.0.0.1:0,
refused 2 'more than 8' "$AFARD" --data-listen h:0,h:0,h:0,h:0,h:0,h:0,h:0,h:0,h:0
refused 2 'HOST:PORT' "$AFARD" --data-listen pigeon:127.0.0.1:0
