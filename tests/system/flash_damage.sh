#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A flipped byte is found where it is, wherever that is; what is whole is said to be.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

# flip OFFSET: one byte of `it`.
flip() {
	byte=$(od -An -tu1 -j "$1" -N 1 it)
	printf "\\$(printf %o $((byte ^ 64)))" | dd of=it bs=1 seek="$1" conv=notrunc status=none
}

# finds AREA FLAG…: exactly this area has findings.
finds() {
	area=$1
	shift
	got=0
	"$AFAR" flash check it "$@" >found 2>line || got=$?
	[ "$got" -eq 1 ] || fail "flash check $* ended with $got: $(cat found line)"
	[ "$(wc -l <line)" -eq 1 ] || fail "it should complain in one line: $(cat line)"
	grep -Eq "^$area +0x" found || fail "$area: $(cat found)"
	awk -v area="$area" 'seen && $NF > 0 { print $1 } $1 == "AREA" { seen = 1 }' found >areas
	[ "$(cat areas)" = "$area" ] || fail "$area, but found in: $(cat areas)"
}

"$AFAR" flash create it --size 64M --segment 256K >/dev/null
mkfifo end
"$FLASH_WRITER" it write <end >written 2>writer.err &
writer=$!
running="$running $writer"
exec 5>end
until [ "$(wc -l <written)" -gt 300 ]; do
	kill -0 "$writer" 2>/dev/null || fail "the writer ended: $(cat writer.err)"
	sleep 0.1
done
exec 5>&-
wait "$writer" || fail "the writer: $(cat writer.err)"
"$AFAR" flash check it --data >found || fail "$(cat found)"
cp it whole

# A block that is in use, which only --data reads: the last that was put.
last=$(tail -n 1 written)
at=$(python3 - "$last" <<'END'
import struct, sys
block = struct.pack("<Q", int(sys.argv[1]) + 1) * 512
it = open("it", "rb").read()
# Where one can be: the end of one block and the beginning of the next may look like it.
print(next(at for at in range(0, len(it), 4096) if it[at:at + 4096] == block))
END
)
flip $((at + 1000))
"$AFAR" flash check it >found || fail "it should not look at data: $(cat found)"
finds data --data
grep -Eq "^data +0x$(printf %x $((last % 2000)))" found || fail "not block $((last % 2000)): $(cat found)"
"$AFAR" flash check it --data --json 2>/dev/null >found && fail "it should fail"
python3 -c '
import json, sys
report = json.load(open("found"))
assert not report["is_clean"], report
assert [f["area"] for f in report["findings"]] == ["data"], report
assert report["findings"][0]["at"] == int(sys.argv[1]) % 2000, report
assert all(a["nr_examined"] or a["area"] in ("journal", "ranges") for a in report["areas"]), report
' "$last" || fail "$(cat found)"

# What stands at fixed places.
cp whole it
flip 40
finds superblock
cp whole it
flip $((67108864 - 4096 + 40))
finds superblock
flip 40
refused 1 'and so is its copy' "$AFAR" flash check it
cp whole it
flip 4126
flip 8222
got=0
"$AFAR" flash check it >found 2>line || got=$?
[ "$got" -eq 1 ] || fail "without anchors: $got"
grep -Eq '^anchor +0x1' found || fail "$(cat found)"
grep -Eq '^recovery +0x' found || fail "$(cat found)"
grep -q "repair' cannot help" found || fail "$(cat found)"
refused 1 'both anchors are damaged.*not repaired' "$AFAR" flash repair it
refused 1 'both anchors are damaged.*not repaired' "$AFAR" flash repair it --yes

# What has another copy is repaired, if that shall be.
"$AFAR" flash repair whole >found || fail "$(cat found)"
grep -q 'nothing to repair' found || fail "$(cat found)"
cp whole it
flip 3
flip 4126
cp it damaged
"$AFAR" flash check it >found 2>line && fail "it should fail"
grep -q "repair' mends .* gives up 0 B" found || fail "$(cat found)"
"$AFAR" flash repair it >found 2>line && fail "it should not repair without --yes"
grep -q ': nothing is done yet; 2 can be repaired, .*--yes' line || fail "$(cat line)"
same it damaged
exec 6<it
flock -x 6
refused 1 'another has it open' "$AFAR" flash repair it --yes
exec 6<&-
"$AFAR" flash repair it --yes >found 2>line || fail "$(cat line)"
[ "$(cat found line | cut -d: -f1 | tr -s ' ')" = "superblock 0x0
anchor 0x1
2 repaired, 0 B given up" ] || fail "$(cat found line)"
"$AFAR" flash check it --data >found || fail "$(cat found)"
# Where there was no layer, none is made.
head -c 1000000 /dev/zero >none
cp none none.before
refused 1 'holds none' "$AFAR" flash repair none --yes
same none none.before
cp whole it
"$AFAR" flash check it --data >/dev/null

# Slowly, and interrupted.
refused 2 'is of --data' "$AFAR" flash check it --rate 1M
refused 2 'not a size' "$AFAR" flash check it --data --rate fast
"$AFAR" flash check it --data --rate 1K >found 2>line &
checker=$!
# Once it has opened the file, it has begun.
it=$(realpath it)
has_it() {
	[ -n "$(find "/proc/$checker/fd" -lname "$it")" ]
}
eventually has_it
kill -TERM "$checker"
got=0
wait "$checker" || got=$?
[ "$got" -eq 130 ] || fail "interrupted: $got"
same it whole
