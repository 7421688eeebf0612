#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A store goes away under a mount, and programs wait for it. When an operator forgets it, they hear that what was there is lost, read
# the rest, and write.
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$(dirname "$0")/mounts.sh"

start_flash_cluster
"$AFAR" fs create home --tier flash --width 2 --stripe 64K --mode 777
mkdir in
for i in $(seq 1 30); do
	random_file "in/small$i" $((i * 100 + 1))
done
random_file in/large 3000005
start_mount seen home --direct
cp -r in seen/
sync -f seen
store=$("$AFAR" store ls --json | python3 -c '
import json, sys
print([s["store"] for s in json.load(sys.stdin) if s["server_name"] == "two"][0])')

kill_daemon two
cat seen/in/large >read.out 2>read.err &
reading=$!
is_waiting() {
	"$AFAR" store ls --json | python3 -c '
import json, sys
sys.exit(all(s["state"] == "up" for s in json.load(sys.stdin)))'
}
eventually is_waiting
[ ! -s read.err ] || fail "before the store is forgotten a program heard: $(cat read.err)"
eventually "$AFAR" store forget "$store" --yes
eventually has_ended "$reading"
code=0
wait "$reading" || code=$?
[ "$code" -eq 1 ] || fail "a program that reads what is lost ended with $code"
grep -q 'Input/output error$' read.err || fail "it heard: $(cat read.err)"

whole=0
for path in in/*; do
	if timeout 60 cat "seen/$path" >back 2>line; then
		same "$path" back
		whole=$((whole + 1))
	else
		grep -q 'Input/output error$' line || fail "$path: $(cat line)"
	fi
done
[ "$whole" -gt 3 ] || fail "only $whole files are whole"
[ "$whole" -lt 31 ] || fail "no file has lost anything"
timeout 60 cp in/large seen/copied || fail "nothing can be written"
same in/large seen/copied
[ "$("$AFAR" fs check home)" = "home: its records agree" ] || fail "$("$AFAR" fs check home)"
: >seen.err # the lines about what is lost
end_mount seen
