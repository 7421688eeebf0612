#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# SIGTERM ends every role with status 0 and leaves nothing but what must outlive it. SIGHUP ends none.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

# Whether or not SIGHUP is ignored where the tests were started.
cat >afard-heeds <<END
#!/bin/sh
exec env --default-signal=HUP "$AFARD" "\$@"
END
chmod +x afard-heeds
AFARD=$PWD/afard-heeds
start_cluster
for name in manager one two; do
	kill -HUP "$(pid_of "$name")"
done
still_works
stop_daemon one
stop_daemon manager
stop_daemon two # whose manager is gone

left=$(cd manager && find . -type f | grep -v '^./manager/' | sort | tr '\n' ' ')
[ "$left" = "./key ./server.key " ] || fail "left in the manager's folder: $left"
left=$(find . -type s -o -type f -name '*.new' | tr '\n' ' ')
[ -z "$left" ] || fail "left behind: $left"

start_daemon all --data all --listen 127.0.0.1:0 --memory 32M
kill -HUP "$(pid_of all)"
AFAR_CLUSTER=$(cat all/cluster)
export AFAR_CLUSTER
still_works
stop_daemon all

# Waiting for a manager that is not there is no reason not to stop.
"$AFARD" --role server --data alone --key manager/server.key --manager 127.0.0.1:1 --memory 32M \
	2>alone.err &
pid_alone=$!
running="$running $pid_alone"
eventually test -d alone/server
stop_daemon alone
