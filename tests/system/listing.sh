#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# ls, stat and rm of regions and namespaces: by name, by address, twice.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_cluster
"$AFAR" ns create scratch --stripe 128K
random_file in 3000000
"$AFAR" region put in scratch:first >/dev/null
"$AFAR" region put in 'scratch:a name: with spaces' >/dev/null

"$AFAR" region ls scratch >listed
grep -Eq '^0x1000 .* first$' listed || fail "ls: $(cat listed)"
grep -Eq 'a name: with spaces$' listed || fail "ls: $(cat listed)"
[ "$(wc -l <listed)" -eq 3 ] || fail "ls: $(cat listed)"

"$AFAR" region stat scratch:first >shown
grep -Eq '^length +3000000 ' shown || fail "stat: $(cat shown)"
grep -Eq '^stripe +128 KiB$' shown || fail "stat: $(cat shown)"
grep -Eq '^state +ok$' shown || fail "stat: $(cat shown)"
grep -Eq "^atomics +by the servers' processors$" shown || fail "stat: $(cat shown)"
"$AFAR" region get scratch:@0x1000 out >/dev/null
same in out

"$AFAR" ns ls >listed
grep -Eq '^scratch +dram +all +128 KiB ' listed || fail "ns ls: $(cat listed)"
"$AFAR" status >shown
grep -Eq '^one +up ' shown || fail "status: $(cat shown)"
grep -Eq '^two +up ' shown || fail "status: $(cat shown)"
grep -Eq '^scratch +dram ' shown || fail "status: $(cat shown)"
"$AFAR" status --json | python3 -c '
import json, sys
status = json.load(sys.stdin)
assert sorted(s["name"] for s in status["servers"]) == ["one", "two"]
assert [n["name"] for n in status["namespaces"]] == ["scratch"]
assert status["namespaces"][0]["nr_regions"] == 2' || fail "status --json"

# Nobody reads any more what it prints: it ends quietly, as SIGPIPE would have ended it.
mkfifo pipe
exec 5<>pipe 6>pipe 5<&-
for command in 'region get scratch:first -' 'region ls scratch' 'region stat scratch:first' 'ns ls' 'key ls' status 'status --json' \
	'top --count 1 --interval 0.1' bench '--help' 'region put --help' 'region put in scratch:unread'; do
	got=0
	# shellcheck disable=SC2086 # words
	"$AFAR" $command >&6 2>complaint 6>&- || got=$?
	[ "$got" -eq 141 ] || fail "$command without a reader ended with $got"
	[ ! -s complaint ] || fail "$command without a reader complained: $(cat complaint)"
done
exec 6>&-
refused 1 'write the result: No space' sh -c '"$AFAR" ns ls >/dev/full'
"$AFAR" region rm scratch:unread

refused 1 'has regions' "$AFAR" ns rm scratch
"$AFAR" region rm scratch:@0x1000
refused 1 'first' "$AFAR" region rm scratch:first
refused 1 '1000' "$AFAR" region rm scratch:@0x1000
"$AFAR" ns rm scratch --force
refused 1 'scratch' "$AFAR" ns rm scratch
[ "$("$AFAR" ns ls | wc -l)" -eq 1 ] || fail "the namespace is still listed"
still_works
