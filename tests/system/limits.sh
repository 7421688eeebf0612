#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What may be reserved: for a namespace, and for all that a principal owns, in memory and on flash; who sets that, who sees it,
# and whom it stops. And status, which does not show all namespaces.
# shellcheck source=tests/system/cluster.sh disable=SC2154 # cluster.sh sets scratch
. "$(dirname "$0")/cluster.sh"

# as NAME ARGUMENT…: afar with that principal's key.
as() {
	principal=$1
	shift
	"$AFAR" --key "$principal" "$@"
}

refused_as() {
	principal=$1 expected=$2
	shift 2
	refused 1 "$expected" "$AFAR" --key "$principal" "$@"
}

# own: what alice has reserved, and may have.
own() {
	"$AFAR" key ls | awk '$1 == "alice" { print $4, $5, $6, $7 }'
}

start_server_one() {
	start_daemon one --role server --data "$scratch/one" --name one --data-listen "tcp:$host:0" \
		--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 200M --flash 200M
}

start_manager
port=$(manager_port)
start_server_one
me=$(id -u)
"$AFAR" key add alice --uid "$me" --gid "$(id -g)" --max 48M --out alice
"$AFAR" key add bob --uid "$me" --gid "$(id -g)" --out bob
refused 2 'a server owns nothing' "$AFAR" key add rack --server --max 1M
refused 2 'not a size' "$AFAR" key add rack --max much
refused 2 'say what to set' "$AFAR" key set alice
refused 2 'at least 1 byte' "$AFAR" key set alice --max 0
refused 2 'say what to set' "$AFAR" ns set a
[ "$(own)" = "0 B 48 MiB" ] || fail "key ls: $("$AFAR" key ls)"

# ---- All that one owns: regions, in memory and on flash

random_file in 3000000
as alice ns create a
as alice ns reserve a 32M
as alice ns create b --tier flash
refused_as alice "reserve 20 MiB for 'b': the limit of its owner 'alice' is 48 MiB, and all that 'alice' owns has 32 MiB; .*afar key set --max" ns reserve b 20M
refused 1 "owner 'alice' is 48 MiB" "$AFAR" ns reserve b 20M # an operator, for her
as alice ns reserve b 8M
head -c 12M /dev/zero >large
as alice ns create c
refused_as alice "owner 'alice' is 48 MiB" region put large c:r
as alice region put in c:r >put.out
[ "$(own)" = "44 MiB 48 MiB" ] || fail "key ls: $("$AFAR" key ls)"
as alice ns rm c --force
# Others have no limit.
as bob ns create bobs
as bob ns reserve bobs 64M
as bob ns rm bobs

# ---- Volumes, and file systems, whoever writes to them

refused_as alice "owner 'alice' is 48 MiB" volume create v 10M
[ "$(as alice volume ls | wc -l)" -eq 1 ] || fail "a volume is left: $(as alice volume ls)"
as alice volume create v 2M >volume.out
refused_as alice "owner 'alice' is 48 MiB" volume resize v 12M
as alice volume resize v 4M >volume.out
as alice volume rm v
as alice fs create f # with what is left, 8 MiB
[ "$(own)" = "48 MiB 48 MiB" ] || fail "key ls: $("$AFAR" key ls)"
as alice put in /f/1 >put.out
"$AFAR" ns grant f bob rw
refused_as bob 'may have no more' put large /f/2
"$AFAR" --key alice get /f/1 back >get.out
same in back
available() {
	as alice df f | awk '$1 == "f" { print int($6) }'
}
[ "$(available)" -lt 8 ] || fail "df: $(as alice df f)"
refused_as alice "owner 'alice' is 48 MiB" fs create g
[ "$(as alice fs ls | wc -l)" -eq 2 ] || fail "a file system is left: $(as alice fs ls)"
# Room is what the limit leaves, and it is used to the end.
"$AFAR" key set alice --max 60M
room=$(available)
[ "$room" -ge 12 ] && [ "$room" -lt 20 ] || fail "df: $(as alice df f)"
as bob put large /f/2 >put.out
as bob put in /f/3 >put.out
refused_as bob 'may have no more' put large /f/4
as alice fs rm f --force

# ---- Many at once

reservers=
for i in 1 2 3 4 5 6; do
	as alice ns create "n$i"
	as alice ns reserve "n$i" 8M 2>"n$i.err" &
	reservers="$reservers $!"
	running="$running $!"
done
good=0
for pid in $reservers; do
	! wait "$pid" || good=$((good + 1))
	forget "$pid"
done
[ "$good" -eq 2 ] || fail "$good of 6 have got 8 MiB, with 20 to be had"
[ "$(grep -l "the limit of its owner 'alice' is 60 MiB" n*.err | wc -l)" -eq 4 ] || fail "they say: $(cat n*.err)"
[ "$(own)" = "56 MiB 60 MiB" ] || fail "key ls: $("$AFAR" key ls)"

# ---- Who may set it, and what is durable

refused_as alice "limit key 'alice': only operators may" key set alice --max none
refused 1 "limit key 'nobody': there is none" "$AFAR" key set nobody --max 1M
refused 1 "it is an operator's" "$AFAR" key set admin --max 1M
refused 1 "it is a server's" "$AFAR" key set server --max 1M
refused_as bob "namespace 'a': there is none on which 'bob' has a right" ns set a --max none
"$AFAR" ns grant a bob rw
refused_as bob "'bob' does not own namespace 'a'" ns set a --max none
"$AFAR" key set bob --max 1000
refused_as bob "owner 'bob' is 1000 bytes, and all that 'bob' owns has 0 MiB" volume create v 1M
"$AFAR" key set bob --max none
# Lower than what there is: that stays, and nothing grows.
"$AFAR" key set alice --max 16M
as alice ns set a --max 8M
kill_daemon manager
start_manager "$port"
is_back() {
	"$AFAR" status | grep -Eq '^one +up '
}
eventually is_back
[ "$(own)" = "56 MiB 16 MiB" ] || fail "key ls: $("$AFAR" key ls)"
refused_as alice "owner 'alice' is 16 MiB, and all that 'alice' owns has 56 MiB" ns reserve b 2M
refused_as alice "'a': its limit is 8 MiB, and it has 32 MiB" ns reserve a 2M
as alice ns stat a >shown
grep -Eq '^max +8388608 \(8 MiB\)$' shown && grep -Eq '^reserved +33554432 \(32 MiB\)$' shown || fail "ns stat: $(cat shown)"
grep -Eq '^owner +alice, who has 56 MiB reserved and may have 16 MiB$' shown || fail "ns stat: $(cat shown)"
as bob ns stat a | grep -Eq '^owner +alice$' || fail "ns stat: $(as bob ns stat a)"
"$AFAR" ns ls | grep -Eq '^a +dram .* 32 MiB +8 MiB ' || fail "ns ls: $("$AFAR" ns ls)"
"$AFAR" ns ls | grep -Eq '^b +flash .* 8 MiB +- ' || fail "ns ls: $("$AFAR" ns ls)"
as alice ns stat a --json >stat.json
"$AFAR" key ls --json >keys.json
"$AFAR" status --json >status.json
python3 - <<'END' || fail "JSON: $(cat stat.json keys.json status.json)"
import json

MIB = 1 << 20
a = json.load(open("stat.json"))
assert (a["name"], a["reserved_bytes"], a["max_bytes"]) == ("a", 32 * MIB, 8 * MIB)
assert (a["owner_reserved_bytes"], a["owner_max_bytes"]) == (56 * MIB, 16 * MIB)
keys = {k["name"]: k for k in json.load(open("keys.json"))}
assert (keys["alice"]["reserved_bytes"], keys["alice"]["max_bytes"]) == (56 * MIB, 16 * MIB)
assert (keys["bob"]["reserved_bytes"], keys["bob"]["max_bytes"]) == (0, 0)
status = json.load(open("status.json"))
alice, = [p for p in status["principals"] if p["principal"] == "alice"]
assert (alice["reserved_bytes"], alice["max_bytes"]) == (56 * MIB, 16 * MIB)
a, = [n for n in status["namespaces"] if n["name"] == "a"]
assert a["max_bytes"] == 8 * MIB
END
"$AFAR" key set alice --max none
as alice ns set a --max none
as alice ns reserve a 64M
[ "$(own)" = "120 MiB - uid" ] || fail "key ls: $("$AFAR" key ls)"

# ---- More namespaces than status shows

if "$AFAR" status | grep -q 'more namespaces'; then
	fail "status: $("$AFAR" status)"
fi
nr=$("$AFAR" ns ls | sed 1d | wc -l)
"$NAMESPACES" many $((1003 - nr))
"$AFAR" status | grep -q "^… and 3 more namespaces; see all with 'afar ns ls'$" || fail "status: $("$AFAR" status | tail -n 5)"
[ "$("$AFAR" ns ls | sed 1d | wc -l)" -eq 1003 ] || fail "ns ls shows $("$AFAR" ns ls | sed 1d | wc -l) of 1003"
