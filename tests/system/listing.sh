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

# As JSON, the same.
"$AFAR" ns ls --json >listed
python3 - listed <<'END' || fail "ns ls --json: $(cat listed)"
import json, sys
(ns,) = json.load(open(sys.argv[1]))
assert ns == {"name": "scratch", "tier": "dram", "width": 64, "stripe_bytes": 131072, "nr_regions": 2, "max_bytes": 0, "owner": "admin", "rights": "rw", "owner_max_bytes": 0, "owner_reserved_bytes": 0,
              "reserved_bytes": ns["reserved_bytes"], "allocated_bytes": ns["allocated_bytes"]}
assert ns["reserved_bytes"] >= ns["allocated_bytes"] >= 6000000
END
"$AFAR" region ls scratch --json >listed
"$AFAR" region stat scratch:first --json >shown
python3 - listed shown <<'END' || fail "region ls and stat --json: $(cat listed shown)"
import json, sys
first, second = json.load(open(sys.argv[1]))
assert first == {"address": "0x1000", "name": "first", "length_bytes": 3000000, "width": 2, "stripe_bytes": 131072, "nr_references": 0,
                 "is_lost": False, "is_sealed": False, "is_unfinished": False, "has_nic_atomics": False}
assert second["name"] == "a name: with spaces"
assert json.load(open(sys.argv[2])) == first
END
refused 1 'there is none' "$AFAR" region stat scratch:second --json
refused 1 'nothing' "$AFAR" region ls nothing --json
"$AFAR" region put in "scratch:$(printf 'caf\351')" >/dev/null
"$AFAR" region ls scratch --json | python3 -c 'import json, sys
assert [region["name"] for region in json.load(sys.stdin)][2] is None' || fail "a name that is not UTF-8"
"$AFAR" region rm "scratch:$(printf 'caf\351')"

# Fewer servers than the namespace asks for are told of; all of them, and those that a short region needs, are not.
note() {
	[ "$(wc -l <noted)" -eq "$1" ] || fail "not $1 notes: $(cat noted)"
}
"$AFAR" ns create wide --width 4 --stripe 128K 2>noted
note 1
grep -q 'note: .* wide .*4 servers, and 2 are up' noted || fail "ns create: $(cat noted)"
"$AFAR" ns reserve wide 8M 2>noted
note 1
"$AFAR" region put in wide:it 2>noted >/dev/null
note 1
grep -q 'note: wide:it is on 2 of the 4 servers' noted || fail "region put: $(cat noted)"
"$AFAR" region stat wide:it 2>noted >/dev/null
note 1
head -c 300000 in | "$AFAR" region put - wide:short 2>noted >/dev/null
note 0
"$AFAR" ns rm wide --force
"$AFAR" ns create two --width 2 2>noted
"$AFAR" ns reserve two 8M 2>>noted
"$AFAR" region put in two:it 2>>noted >/dev/null
"$AFAR" region stat two:it 2>>noted >/dev/null
"$AFAR" region stat scratch:first 2>>noted >/dev/null
note 0
"$AFAR" ns rm two --force

# Nobody reads any more what it prints: it ends quietly, as SIGPIPE would have ended it.
mkfifo pipe
exec 5<>pipe 6>pipe 5<&-
bench=bench
"$AFAR" bench >/dev/null 2>&1 || bench=status # it has no benchmarks
for command in 'region get scratch:first -' 'region ls scratch' 'region stat scratch:first' 'ns ls' 'key ls' status 'status --json' \
	'top --count 1 --interval 0.1' $bench '--help' 'region put --help' 'region put in scratch:unread'; do
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
