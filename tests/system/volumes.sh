#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Volumes at the command line: what is made is listed and shown, sizes change, rights hold, and what cannot be is refused with
# a line.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_manager
start_daemon one --role server --data "$PWD/one" --name one --data-listen "tcp:$host:0" \
	--key "$PWD/manager/server.key" --manager "$AFAR_CLUSTER" --memory 128M --flash 96M
start_server two 128M

# column VOLUME N: a word of the list.
column() {
	"$AFAR" volume ls | awk -v name="$1" -v n="$2" '$1 == name { print $n }'
}
# field VOLUME NAME: of the JSON.
field() {
	"$AFAR" volume stat "$1" --json | sed -n "s/^ *\"$2\": \"*\([^\",]*\)\"*,*$/\1/p"
}
is_field() {
	[ "$(field "$1" "$2")" = "$3" ] || fail "$2 of $1 is $(field "$1" "$2"), not $3"
}

[ "$("$AFAR" volume ls | wc -l)" -eq 1 ] || fail "volumes before there are any: $("$AFAR" volume ls)"
[ "$("$AFAR" volume ls --json)" = "[]" ] || fail "volumes before there are any"

# ---- Making

"$AFAR" volume create m 12M --width 2 --stripe 4K
"$AFAR" volume create f 16M --tier flash
"$AFAR" volume create odd 4096
"$AFAR" volume stat m >shown
grep -q '^size *12582912 (12 MiB)$' shown || fail "stat: $(cat shown)"
grep -q '^tier *dram$' shown || fail "stat: $(cat shown)"
grep -q '^stripe *4 KiB$' shown || fail "stat: $(cat shown)"
grep -q '^open *no$' shown || fail "stat: $(cat shown)"
is_field m width 2
is_field m size_bytes 12582912
is_field f tier flash
is_field f owner admin
is_field f rights rw
is_field f holder null
is_field odd width 1
[ "$("$AFAR" volume ls | awk 'NR > 1 { printf "%s ", $1 }')" = "f m odd " ] || fail "ls: $("$AFAR" volume ls)"
"$AFAR" volume ls --json | python3 -c '
import json, sys
assert [v["name"] for v in json.load(sys.stdin)] == ["f", "m", "odd"]' || fail "ls --json"

refused 1 "exist" "$AFAR" volume create m 12M
refused 2 'multiple of 4096 bytes; use 8192' "$AFAR" volume create bad 5000
refused 2 'use 12582912' "$AFAR" volume create bad 12582911
refused 2 'multiple of 4096' "$AFAR" volume create bad 18446744073709551615
refused 2 'at least 1 byte' "$AFAR" volume create bad 0
refused 2 'not a size' "$AFAR" volume create bad 10Q
refused 2 'not fit 64 bits' "$AFAR" volume create bad 20E
refused 2 'too few arguments' "$AFAR" volume create bad
refused 2 'unexpected' "$AFAR" volume create bad 4M more
refused 2 'no tier' "$AFAR" volume create bad 4M --tier tape
refused 2 'power of two' "$AFAR" volume create bad 4M --stripe 5000
refused 2 'number up to' "$AFAR" volume create bad 4M --width 65
refused 2 'say what to do: create' "$AFAR" volume
refused 2 'create, ls, stat, resize, rm' "$AFAR" volume frobnicate
for name in '' .. .hidden a/b 'two words' "$(printf 'caf\351')" "$(head -c 256 /dev/zero | tr '\0' n)" "$(printf 'a\033[31mb')"; do
	refused 1 '' "$AFAR" volume create "$name" 4M
	refused 1 '' "$AFAR" volume stat "$name"
	refused 1 '' "$AFAR" volume rm "$name"
	refused 1 '' "$AFAR" volume resize "$name" 4M
done
refused 1 'bad' "$AFAR" volume create -- -bad 4M

# What does not fit leaves nothing behind.
for tier in dram flash; do
	refused 1 '' "$AFAR" volume create large 1T --tier $tier
	refused 1 '' "$AFAR" volume create large 15E --tier $tier
	refused 1 '' "$AFAR" volume resize odd 1T
done
[ "$("$AFAR" volume ls | wc -l)" -eq 4 ] || fail "more than was made: $("$AFAR" volume ls)"

# ---- Volumes and namespaces share their names, and are told apart.

"$AFAR" ns create space
refused 1 'exist' "$AFAR" volume create space 4M
refused 1 'no volume' "$AFAR" volume stat space
refused 1 'no volume' "$AFAR" volume rm space
refused 1 'no volume' "$AFAR" volume resize space 4M
refused 1 'afar volume rm' "$AFAR" ns rm m --force
refused 1 'volume' "$AFAR" region put "$0" m:file
[ -z "$(column space 1)" ] || fail "a namespace is listed as a volume"
"$AFAR" ns rm space

# ---- Sizes

"$AFAR" volume resize f 20M
is_field f size_bytes 20971520
"$AFAR" volume resize f 4M
is_field f size_bytes 4194304
"$AFAR" volume resize f 4M
"$AFAR" volume resize m 16M
is_field m size_bytes 16777216
refused 2 'multiple of 4096 bytes; use 4096' "$AFAR" volume resize f 1
refused 2 'at least 1 byte' "$AFAR" volume resize f 0
refused 1 'nowhere' "$AFAR" volume resize nowhere 4M
refused 1 'nowhere' "$AFAR" volume stat nowhere
refused 1 "remove volume 'nowhere': there is none; see 'afar volume ls'" "$AFAR" volume rm nowhere

# ---- Others see what they are granted.

"$AFAR" key add joe --out joe.key
joe() {
	"$AFAR" --key joe.key --cluster "${AFAR_CLUSTER%%\?*}" "$@"
}
[ "$(joe volume ls | wc -l)" -eq 1 ] || fail "joe sees $(joe volume ls)"
refused 1 "" "$AFAR" --key joe.key volume stat m
"$AFAR" ns grant m joe r
joe volume stat m | grep -q '^rights *r$' || fail "joe's rights: $(joe volume stat m)"
joes="--key joe.key --cluster ${AFAR_CLUSTER%%\?*}"
# shellcheck disable=SC2086 # two flags
{
	refused 1 "remove volume 'm': 'joe' does not own volume 'm'; ask its owner 'admin'" "$AFAR" $joes volume rm m
	refused 1 "resize volume 'm' to 33554432 bytes: .* 'joe' may not write to volume 'm'; ask" "$AFAR" $joes volume resize m 32M
}

# ---- A creator that dies leaves what can be removed.

kill -STOP "$(pid_of two)"
"$AFAR" volume create half 100M --width 2 >create.out 2>create.err &
creating=$!
running="$running $creating"
is_unfinished() {
	[ "$(field half is_unfinished)" = true ]
}
eventually is_unfinished
kill -9 "$creating"
wait "$creating" || :
forget "$creating"
kill -CONT "$(pid_of two)"
refused 1 'half' "$AFAR" volume create half 4M
[ "$(column half 7)" = unfinished ] || fail "ls: $("$AFAR" volume ls)"
"$AFAR" volume rm half

# An interrupted one takes back what it has made.
kill -STOP "$(pid_of two)"
"$AFAR" volume create half 100M --width 2 >create.out 2>create.err &
creating=$!
running="$running $creating"
eventually is_unfinished
kill -TERM "$creating"
kill -CONT "$(pid_of two)"
status=0
wait "$creating" || status=$?
forget "$creating"
[ "$status" -eq 130 ] || fail "the interrupted one ended with $status: $(cat create.err)"
[ -z "$(column half 1)" ] || fail "it is still there: $("$AFAR" volume ls)"

for name in m f odd; do
	"$AFAR" volume rm $name
done
[ "$("$AFAR" volume ls | wc -l)" -eq 1 ] || fail "left: $("$AFAR" volume ls)"
"$AFAR" ns ls | awk 'NR > 1 { exit 1 }' || fail "left: $("$AFAR" ns ls)"
still_works
