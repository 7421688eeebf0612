#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What flash info shows, and what it does not take for a layer.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

"$AFAR" flash create it --size 64M >/dev/null
cp it before
"$AFAR" flash info it >shown
grep -Eq '^capacity +[0-9.]+ MiB$' shown || fail "$(cat shown)"
grep -Eq '^used +0 B$' shown || fail "$(cat shown)"
"$AFAR" flash info it --json | python3 -c '
import json, sys, uuid
info = json.load(sys.stdin)
assert info["device"] == "it" and info["version"] == 1, info
assert info["size_bytes"] == 64 << 20, info
assert 0 < info["capacity_bytes"] == info["free_bytes"] < info["size_bytes"], info
assert info["used_bytes"] == 0, info
assert sum(info["segments"].values()) == info["nr_segments"], info
uuid.UUID(info["uuid"])' || fail "$("$AFAR" flash info it --json)"
same it before # looking writes nothing

refused 2 'too few' "$AFAR" flash info
refused 2 'unknown flag' "$AFAR" flash info it --data
refused 1 'No such file' "$AFAR" flash info none
mkdir folder
refused 1 'neither' "$AFAR" flash info folder
: >empty
refused 1 'empty' "$AFAR" flash info empty
random_file foreign 1000000
refused 1 'holds none' "$AFAR" flash info foreign
refused 1 'holds none' "$AFAR" flash check foreign
truncate -s 1M zeros
refused 1 'holds none' "$AFAR" flash info zeros

# Of tomorrow, or cut off.
cp it newer
for at in 8 $(($(stat -c %s newer) - 4096 + 8)); do # the superblock's copy, too
	printf '\002' | dd of=newer bs=1 seek="$at" conv=notrunc status=none
done
refused 1 'version 2' "$AFAR" flash info newer
refused 1 'version 2' "$AFAR" flash check newer
cp it cut
truncate -s 60M cut
refused 1 'cut off' "$AFAR" flash info cut
refused 1 'cut off' "$AFAR" flash check cut
truncate -s 8K cut
refused 1 'cut off' "$AFAR" flash info cut
truncate -s 5000 cut
refused 1 'cut' "$AFAR" flash info cut
cp it odd # not a multiple of the sector: what is more is left out
printf 'more' >>odd
"$AFAR" flash info odd >/dev/null
