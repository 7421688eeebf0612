#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A file becomes version after version of a copy-on-write region: each put replaces the units that differ, and nothing else.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_cluster
"$AFAR" ns create v --stripe 64K
random_file in 1100000 # 17 units, of which the last is not full
"$AFAR" region put --cow in v:model >put.line
grep -q 'v:model: version 2, 17 of 17 units are new' put.line || fail "the first put: $(cat put.line)"
"$AFAR" region get v:model out >/dev/null
same in out

printf x | dd of=in bs=1 seek=200000 conv=notrunc status=none
printf y | dd of=in bs=1 seek=1099999 conv=notrunc status=none
"$AFAR" region put --cow - v:model <in >put.line
grep -q 'version 3, 2 of 17 units are new' put.line || fail "the second put: $(cat put.line)"
"$AFAR" region get v:model out >/dev/null
same in out
"$AFAR" region put --cow in v:model >put.line
grep -q 'version 4, 0 of 17 units are new' put.line || fail "the same again: $(cat put.line)"

# Memory: each unit once, and the page of the newest version's number.
"$AFAR" ns ls --json | grep -q '"allocated_bytes": 1105920' || fail "memory: $("$AFAR" ns ls --json)"
"$AFAR" region ls v | grep -q ' cow  *model' || fail "ls: $("$AFAR" region ls v)"
"$AFAR" region stat v:model >stat
grep -q '^version  *4$' stat && grep -q '^older ones  *0, open 0 times$' stat && grep -q '^writer  *none$' stat ||
	fail "stat: $(cat stat)"
"$AFAR" region stat v:model --json | grep -q '"version": 4' || fail "stat --json"

# Zeros of a new region take no memory.
truncate -s 1100000 zeros
"$AFAR" region put --cow zeros v:zeros >put.line
grep -q 'version 2, 0 of 17 units are new' put.line || fail "zeros: $(cat put.line)"
"$AFAR" region get v:zeros out >/dev/null
same zeros out

refused 1 'has 5 bytes, and the region has 1100000' sh -c 'printf 12345 | "$AFAR" region put --cow - v:model'
"$AFAR" region put zeros v:plain >/dev/null
refused 1 'not copy-on-write' "$AFAR" region put --cow zeros v:plain
refused 1 'v:model.*--replace' "$AFAR" region put zeros v:model
refused 1 'copy-on-write' "$AFAR" region seal v:model
for flag in --replace --seal --nic-atomics --checked; do
	refused 2 'leave other flags out' "$AFAR" region put --cow $flag zeros v:model
done
"$AFAR" region get v:model out >/dev/null
same in out

for name in model zeros plain; do
	"$AFAR" region rm "v:$name"
done
"$AFAR" ns ls --json | grep -q '"allocated_bytes": 0' || fail "after rm: $("$AFAR" ns ls --json)"
"$AFAR" ns rm v
