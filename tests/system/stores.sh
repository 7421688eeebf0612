#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Stores as an operator sees them: what status tells, what is said of one that is away, and how one is forgotten: with it go the
# regions that were in it, and no others.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

# start_flash NAME FLAG…: a server that lends flash.
start_flash() {
	flash=$1
	shift
	# shellcheck disable=SC2154 # cluster.sh assigns it
	start_daemon "$flash" --role server --data "$scratch/$flash" --name "$flash" --data-listen 127.0.0.1:0 \
		--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M "$@"
}

# stores EXPRESSION [ARGUMENT…]: of `stores`, a dictionary by path's last part, in Python; prints it.
stores() {
	"$AFAR" status --json | python3 -c '
import json, os, sys
stores = {os.path.basename(s["path"]): s for s in json.load(sys.stdin)["stores"]}
print(eval(sys.argv[1]))' "$@"
}

start_manager
refused 1 'cluster has no store' sh -c '"$0" ns create early --tier flash && "$0" ns reserve early 4M' "$AFAR"
"$AFAR" store ls | grep -q '^(none' || fail "store ls without stores"
if "$AFAR" status | grep -q '^STORE'; then
	fail "status has a table of no stores"
fi

# A server with two, and one with one in its folder, which it finds again without being told.
"$AFAR" flash create left --size 64M >/dev/null
"$AFAR" flash create right --size 64M >/dev/null
digit() { # of its number, the first
	"$AFAR" flash info "$1" --json | python3 -c '
import json, sys, uuid
print("%x" % (uuid.UUID(json.load(sys.stdin)["uuid"]).bytes[7] >> 4))'
}
first=$(digit left)
until [ "$(digit right)" = "$first" ]; do
	"$AFAR" flash create right --force >/dev/null
done
start_flash two --flash left --flash right
"$AFAR" ns create kept --tier flash
random_file in 6000000
head -c 100000 in >small
"$AFAR" region put small kept:a >/dev/null # on the only server there is
start_flash one --flash 128M
[ "$(stores 'sorted(stores)')" = "['flash', 'left', 'right']" ] || fail "stores: $("$AFAR" store ls)"

"$AFAR" ns create wide --tier flash --stripe 64K
"$AFAR" region put in wide:a >/dev/null
"$AFAR" region get wide:a out >/dev/null
same in out

"$AFAR" ns create three --tier flash --width 3 2>note
[ ! -s note ] || fail "there are three: $(cat note)"
"$AFAR" ns create four --tier flash --width 4 2>note
grep -q 'asks for 4 stores, and 3 are up' note || fail "it should note: $(cat note)"

# ---- What is told

cat >compare.py <<'END2'
import json, sys, uuid

text, status, alone = open(sys.argv[1]).read(), json.load(open(sys.argv[2])), json.load(open(sys.argv[3]))
stores = status["stores"]
assert len(stores) == status["nr_stores"] == 3
assert [s["store"] for s in alone] == [s["store"] for s in stores]
(block,) = [b for b in text.split("\n\n") if b.startswith("STORE")]
for line, store in zip(block.splitlines()[1:], stores):
    assert line.split()[:2] == [store["store"], store["server_name"]] and line.endswith(store["path"]), (line, store)
    assert " ok " in line, line
    assert int.from_bytes(uuid.UUID(store["uuid"]).bytes[:8], "little") == int(store["store"], 16) != 0
    assert store["state"] == "up" and store["down_ms"] is None and store["failure"] is None and store["refusal"] is store["refusal_ms"] is None
    assert store["opening"] == 1 and store["nr_orphans"] == store["orphan_bytes"] == store["releasing_bytes"] == 0
    assert 2 << 20 <= store["granted_bytes"] < store["capacity_bytes"] < 128 << 20
    # A third of it is in each, and came over its lane.
    assert 1900000 < store["used_bytes"] < 2300000, store
    assert store["bytes_in"] > 1900000 and store["bytes_out"] > 1900000 and store["map_bytes"] > 0
    assert store["nr_errors"] == 0 and store["nr_syncs"] > 0 and store["nr_connections"] >= 0
    assert store["address"].startswith("127.0.0.1:")
# They are no lanes to memory.
assert all(len(server["lanes"]) == 1 for server in status["servers"])
END2
tells() {
	"$AFAR" status >status.out
	"$AFAR" status --json >status.json
	"$AFAR" store ls --json >stores.json
	python3 compare.py status.out status.json stores.json || { cat status.out status.json && false; }
}
eventually tells
"$AFAR" store ls >ls.out
[ "$(wc -l <ls.out)" -eq 4 ] || fail "store ls: $(cat ls.out)"
for column in $(sed -n '/^STORE/p' ls.out); do
	grep -q "\*$column\*" "$(dirname "$QUICKSTART")/../docs/man/"afar*.scd || fail "the manual does not say what $column is"
done
shows_rates() {
	"$AFAR" region get wide:a out >/dev/null &
	"$AFAR" top --interval 0.2 --count 1 >top.out
	wait $!
	[ "$(grep -Ec '^ +[0-9a-f]{16} +up +store +127.0.0.1:' top.out)" -eq 3 ]
}
eventually shows_rates

# What flash cannot do, and more than there is: one line, and nothing is left of it.
refused 1 'on flash, and only regions in memory' "$AFAR" region seal wide:a
refused 1 'leave --seal out' "$AFAR" region put in wide:b --seal
refused 1 'on flash, where network cards' "$AFAR" region put in wide:b --nic-atomics
refused 1 'the stores have .* of the missing 1024 MiB free' "$AFAR" ns reserve wide 1G
refused 1 'the stores have' sh -c 'head -c 400M /dev/zero | "$0" region put - wide:b --size 400M' "$AFAR"
[ "$("$AFAR" region ls wide | wc -l)" -eq 2 ] || fail "left behind: $("$AFAR" region ls wide)"
"$AFAR" region stat wide:a | grep -q '^atomics *none' || fail "$("$AFAR" region stat wide:a)"

# ---- One is away

number=$(stores 'stores["flash"]["store"]')
refused 1 'it is up' "$AFAR" store forget "$number"
refused 1 'which is connected' "$AFAR" store forget "$number" --yes
refused 1 '[23] begin with this; give more' "$AFAR" store forget "$(stores 'stores["left"]["store"][0]')"
refused 2 'no store.s number' "$AFAR" store forget one
refused 2 'no store.s number' "$AFAR" store forget "${number}0"
refused 2 'too few' "$AFAR" store forget
kill_daemon one
is_away() {
	[ "$(stores 'stores["flash"]["state"], stores["flash"]["down_ms"] is not None, stores["flash"]["used_bytes"]')" = \
		"('away', True, None)" ]
}
eventually is_away
"$AFAR" store ls | grep -Eq "^$number one .* away for [0-9]+ s " || fail "$("$AFAR" store ls)"
refused 1 "reach store $number: it is away, for [0-9]+ s; start server one" "$AFAR" region get wide:a back
[ ! -e back ] || fail "something was got"
"$AFAR" region get kept:a out >/dev/null
same small out
[ "$("$AFAR" complete store forget "${number%????????}")" = "$number" ] || fail "complete: $("$AFAR" complete store forget '')"

# It comes back by itself, without the flag.
start_flash one
"$AFAR" region get wide:a out >/dev/null
same in out
[ "$(stores 'stores["flash"]["opening"], stores["flash"]["state"]')" = "(2, 'up')" ] || fail "$("$AFAR" store ls --json)"

# ---- One is gone for good

stop_daemon one
eventually is_away
status=0
"$AFAR" store forget "${number%??????}" >said.out 2>said.err || status=$?
[ "$status" -eq 1 ] || fail "store forget without --yes ended with $status"
[ "$(wc -l <said.err)" -eq 1 ] || fail "it says: $(cat said.err)"
grep -q 'nothing is done yet.*--yes' said.err || fail "it says: $(cat said.err)"
grep -Eq '^wide +0x1000 +5.7 MiB +a$' said.out || fail "it says: $(cat said.out)"
grep -Eq "^1 region is lost with store $number, .*'one'.*, is away for .*holds" said.out || fail "it says: $(cat said.out)"
is_away || fail "store forget without --yes did something"
"$AFAR" key add bob --out bob
refused 1 'operator' "$AFAR" --key bob store forget "$number" --yes

"$AFAR" store forget "$number" --yes >said.out
grep -q "^forgot store $number, and with it 1 region$" said.out || fail "it says: $(cat said.out)"
[ "$(stores 'sorted(stores)')" = "['left', 'right']" ] || fail "stores: $("$AFAR" store ls)"
refused 1 'there is none' "$AFAR" store forget "$number" --yes
"$AFAR" region stat wide:a | grep -Eq '^state +lost$' || fail "what was in it is not lost"
refused 1 'was forgotten' "$AFAR" region get wide:a back
"$AFAR" region rm wide:a
"$AFAR" region get kept:a out >/dev/null
same small out

# A device that is found again is let in; what is on it is kept, and nobody's.
start_flash one
has_orphans() {
	"$AFAR" store ls | grep -Eq "^$number one .* [1-9][0-9]* orphans? \([0-9.]+ MiB\)"
}
eventually has_orphans
"$AFAR" region put in wide:a >/dev/null
"$AFAR" region get wide:a out >/dev/null
same in out

# ---- What is nobody's is freed by an operator, and by nobody else

refused 1 'operator' "$AFAR" --key bob store free-orphans "$number" --yes
status=0
"$AFAR" store free-orphans "$number" >said.out 2>said.err || status=$?
[ "$status" -eq 1 ] || fail "free-orphans without --yes ended with $status"
grep -Eq "^store $number has [1-9][0-9]* orphans?, [0-9.]+ MiB" said.out || fail "it says: $(cat said.out)"
grep -q 'nothing is done yet.*--yes' said.err || fail "it says: $(cat said.err)"
has_orphans || fail "free-orphans without --yes did something"

# Its server is killed in between: what is left is kept, and freed by the next try.
"$AFAR" store free-orphans "$number" --yes >said.out 2>said.err &
freeing=$!
kill_daemon one
wait "$freeing" || :
start_flash one
"$AFAR" store free-orphans "$number" --yes >said.out || fail "free-orphans: $(cat said.out)"
has_no_orphans() {
	[ "$(stores 'stores["flash"]["nr_orphans"], stores["flash"]["orphan_bytes"]')" = "(0, 0)" ]
}
has_no_orphans || fail "orphans are left: $("$AFAR" store ls)"
"$AFAR" store free-orphans "$number" --yes | grep -q 'has 0 orphans' || fail "free-orphans without orphans"

# They are gone for good, their room can be had, and nothing else has gone.
kill_daemon one
start_flash one
has_no_orphans || fail "orphans have come back: $("$AFAR" store ls)"
"$AFAR" region get wide:a out >/dev/null
same in out
"$AFAR" region get kept:a out >/dev/null
same small out
"$AFAR" ns create all --tier flash --width 1
free=$(stores '(stores["flash"]["capacity_bytes"] - stores["flash"]["granted_bytes"]) >> 20')
"$AFAR" ns reserve all "$((free / 2 * 2))M"
