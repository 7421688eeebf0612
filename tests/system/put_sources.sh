#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Where a put may take its bytes from, and what it refuses.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_cluster
"$AFAR" ns create from
random_file in 9000000
random_file other 5000

"$AFAR" region put - from:file <in >/dev/null
head -c 9000000 in | "$AFAR" region put - from:pipe >/dev/null
head -c 9000000 in | "$AFAR" region put - from:sized --size 9000000 >/dev/null
for name in file pipe sized; do
	"$AFAR" region get from:$name out >/dev/null
	same in out
done
# From where the descriptor stands.
(dd bs=1000000 count=1 of=/dev/null 2>/dev/null && "$AFAR" region put - from:rest) <in >/dev/null
"$AFAR" region get from:rest - | cmp - in 0 1000000 || fail "the rest of a file"

# --replace, whatever the old length was; who replaces nothing just puts.
"$AFAR" region put other from:file --replace >/dev/null
"$AFAR" region get from:file out >/dev/null
same other out
"$AFAR" region put other from:new --replace >said
# The transfer, and all with it: scripts read the first.
grep -Eq '^from:new: [0-9.]+ [KM]iB in [0-9.]+ s, [0-9.]+ [GM]B/s; [0-9.]+ s in all$' said || fail "put says: $(cat said)"
[ "$("$AFAR" region ls from | grep -c ' file$')" -eq 1 ] || fail "two regions of one name"
# A replacement for which there is no room leaves the old region alone.
truncate -s 1G huge
refused 1 '' "$AFAR" region put huge from:file --replace
"$AFAR" region get from:file out >/dev/null
same other out

# Several at once: the last one to make its region has the name, and who lost it says so.
mkfifo feed
"$AFAR" region put - from:one --replace --size 5000 <feed 2>lost.err >/dev/null &
lost=$!
exec 5>feed
eventually "$AFAR" region stat from:one
"$AFAR" region put other from:one --replace >/dev/null
head -c 5000 in >&5
exec 5>&-
got=0
wait $lost || got=$?
[ $got -eq 1 ] || fail "a put whose region was replaced ended with $got"
grep -q 'another put with --replace.*has freed' lost.err || fail "it says: $(cat lost.err)"
"$AFAR" region get from:one - | cmp - other || fail "the put that replaced it"
put_again() {
	for _ in 1 2 3 4 5 6 7 8; do
		"$AFAR" region put "$1" from:one --replace >/dev/null 2>>"$1.err" || [ -s "$1.err" ] || fail "a put said nothing"
	done
}
cp other another
put_again other &
first=$!
put_again another &
second=$!
put_again in
wait $first $second
! grep -v 'has freed' in.err other.err another.err || fail "several puts at once"
"$AFAR" region stat from:one >/dev/null

: >empty
refused 1 'empty' "$AFAR" region put empty from:x
refused 1 'empty' "$AFAR" region put - from:x
refused 1 'missing: No such file' "$AFAR" region put missing from:x
refused 1 'folder' "$AFAR" region put . from:x
refused 2 'replace' "$AFAR" region put in from:file --replace --nic-atomics
if [ "${AFAR_TEST_TRANSPORT:-tcp}" = tcp ]; then
	refused 1 'no transport.*has atomics' "$AFAR" region put in from:nic --nic-atomics
	refused 1 'there is none' "$AFAR" region stat from:nic
fi
refused 1 'not the 10 of --size' "$AFAR" region put in from:x --size 10
refused 2 'not a size' "$AFAR" region put in from:x --size ten
refused 1 'ended before' sh -c 'head -c 10 in | "$AFAR" region put - from:x --size 1M'
refused 1 'more than' sh -c 'cat in | "$AFAR" region put - from:x --size 1M'
refused 1 'TMPDIR' sh -c 'cat in | TMPDIR=/nonexistent "$AFAR" region put - from:x'
"$AFAR" region ls from | grep -q ' x$' && fail "a refused put left a region"
still_works
