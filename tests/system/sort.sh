#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# `afar sort`: what it writes is what `LC_ALL=C sort` writes, byte for byte, whatever the items are. What it refuses.
# Memory that it took is given back.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_cluster
"$AFAR" ns create s

# Files, each of which is a difficulty of its own.
python3 - <<'END'
import random

r = random.Random(21)
words = [bytes(r.choices(b"abcdefgh -", k=r.randint(0, 30))) for _ in range(20000)]
lines = {
    "random": words,
    "sorted": sorted(words),
    "reversed": sorted(words, reverse=True),
    "few": [r.choice(words[:3]) for _ in range(20000)],
    "equal": [b"the same line again and again"] * 20000,
    "skewed": [words[min(int(r.paretovariate(0.5)), 19999)] for _ in range(20000)],
    "prefixes": [b"http://www.example.com/a/very/long/path/" * 8 + b"%x" % r.randrange(5000) for _ in range(8000)],
    "bytes": [r.randbytes(r.randint(0, 40)).replace(b"\n", b"\0") for _ in range(15000)],
    "zeros": [b"\0" * r.randint(0, 30) + r.choice([b"", b"a"]) for _ in range(10000)],
    "empty_lines": [b""] * 30000,
    "long": [r.choice([b"x", b"y"]) * r.choice([3, 5000, 70000, 1500000]) for _ in range(12)] + words[:20],
    "alone": [b"alone"],
}
for name, items in lines.items():
    open(name, "wb").write(b"".join(item + b"\n" for item in items))
open("unended", "wb").write(b"\n".join(words[:5000]) + b"\nlast")
open("unended_alone", "wb").write(b"no end")
open("huge", "wb").write(b"z" * 3000000 + b"\na\n")

records = {
    "r_random": [r.randbytes(100) for _ in range(10000)],
    "r_keys": [r.choice([b"a" * 10, b"a" * 9 + b"b", b"\0" * 10]) + r.randbytes(90) for _ in range(10000)],
    "r_equal": [b"r" * 100] * 10000,
    "r_late": [b"k" * 99 + r.randbytes(1) for _ in range(20000)],
    "r_one": [b"q" * 100],
}
for name, items in records.items():
    open(name, "wb").write(b"".join(items))
    open(name + ".sorted", "wb").write(b"".join(sorted(items)))
END
mkdir expected
for name in random sorted reversed few equal skewed prefixes bytes zeros empty_lines long alone unended unended_alone huge; do
	LC_ALL=C sort "$name" >"expected/$name"
done

# sorts_regions EXPECTED INPUT FLAG…: from a region into a region.
sorts_regions() {
	want=$1 from=$2
	shift 2
	"$AFAR" region put "$from" s:in >/dev/null
	"$AFAR" sort run s:in s:out "$@" >said || fail "sort run $from $*"
	grep -Eq '^sorting .* takes .* of s, and about ' said || fail "it says $(cat said)"
	"$AFAR" region get s:out out >/dev/null
	cmp "$want" out || fail "$from $* into a region"
	"$AFAR" region rm s:in
	"$AFAR" region rm s:out
}
# sorts_files EXPECTED INPUT FLAG…: from a file into a file, which is another way in and another way out.
sorts_files() {
	want=$1 from=$2
	shift 2
	"$AFAR" sort run "$from" file_out --ns s "$@" >/dev/null || fail "sort run $from $* to a file"
	cmp "$want" file_out || fail "$from $* into a file"
	rm file_out
}

for name in random sorted reversed few equal skewed prefixes bytes zeros empty_lines long alone unended unended_alone huge; do
	sorts_regions "expected/$name" "$name" --lines --workers 3 --bucket 64K
done
for name in skewed bytes empty_lines long unended unended_alone; do
	sorts_files "expected/$name" "$name" --lines --workers 3 --bucket 64K
done
for name in equal long; do
	sorts_regions "expected/$name" "$name" --lines --workers 1
	sorts_files "expected/$name" "$name" --lines --workers 7 --bucket 4K
done
for name in r_random r_keys r_equal r_late r_one; do
	sorts_regions "$name.sorted" "$name" --workers 3 --bucket 64K
	sorts_files "$name.sorted" "$name"
done
# A file over itself; into one that is there; by a path that has a colon.
cp random ./a:b
"$AFAR" sort run ./a:b ./a:b --lines --ns s >/dev/null
same expected/random ./a:b
: >nothing
"$AFAR" sort run nothing file_out --ns s --workers 3 >/dev/null
same nothing file_out
"$AFAR" sort run nothing file_out --ns s --lines >/dev/null
same nothing file_out
[ "$(find . -name '*.part')" = "" ] || fail "left: $(find . -name '*.part')"

# Records that it made are lines, too.
"$AFAR" sort generate made --records 20000 --seed 3 >/dev/null
"$AFAR" sort generate s:made --records 20000 --seed 3 >/dev/null
"$AFAR" region get s:made - | cmp - made || fail "equal seeds make other records"
"$AFAR" sort generate skewed_records --records 20000 --skew >/dev/null
[ "$(cut -c 1-6 <skewed_records | sort | uniq -c | sort -rn | awk 'NR == 1 { print $1 }')" -gt 4000 ] || fail "no skew"
for name in made skewed_records; do
	LC_ALL=C sort "$name" >wanted
	sorts_files wanted "$name" --workers 3 --bucket 64K
	sorts_regions wanted "$name" --lines --workers 2
done

# What verify sees.
"$AFAR" sort run s:made s:out >/dev/null
"$AFAR" sort verify s:out --against made >said
grep -q '^s:out: 20000 items in order, 0 equal .* as expected$' said || fail "verify says $(cat said)"
"$AFAR" sort verify s:out --lines --against s:made >/dev/null
refused 1 'less than the one before, the first of them item' "$AFAR" sort verify s:made
refused 1 'has 20000 items, but r_one has 1' "$AFAR" sort verify s:out --against r_one
refused 1 'items are not those' "$AFAR" sort verify s:out --against skewed_records
{ head -c 100 wanted && head -c 100 wanted; } >twice
"$AFAR" sort verify twice | grep -q '2 items in order, 1 equal' || fail "two equal records"

# What cannot be.
head -c 250 made >short
refused 1 'whole records of 100: 50 are left over' "$AFAR" sort run short s:x
refused 1 'whole records of 100: 50 are left over' "$AFAR" sort verify short
refused 1 'is empty, and a region' "$AFAR" sort run nothing s:x
refused 1 'need a namespace; name one with --ns' "$AFAR" sort run made file_out
refused 1 'No such file' "$AFAR" sort run missing s:x
refused 1 'no ordinary file' "$AFAR" sort run . s:x
refused 1 's:missing' "$AFAR" sort run s:missing s:x
refused 1 'into itself' "$AFAR" sort run s:made s:made
refused 1 'nowhere' "$AFAR" sort run made nowhere:x
refused 2 'from 1 to' "$AFAR" sort run made s:x --workers 0
refused 2 'from 1 to' "$AFAR" sort run made s:x --workers many
refused 2 'from 1 to 1024' "$AFAR" sort run made s:x --workers 1025
refused 2 'go together' "$AFAR" sort run made s:x --worker 0/2
refused 2 'is not I/N' "$AFAR" sort run made s:x --worker 2/2 --job j
refused 2 'no name' "$AFAR" sort run made s:x --worker 0/2 --job a/b
refused 2 'Give --records' "$AFAR" sort generate s:x
refused 2 'from 1 to' "$AFAR" sort generate s:x --records 0
refused 1 'there is a region of that name' "$AFAR" sort generate s:made --records 1

# failed PATTERN COMMAND…: it fails with that line, after having said what it needs.
failed() {
	pattern=$1
	shift
	! "$@" >said 2>line </dev/null || fail "$* should fail"
	{ [ "$(wc -l <line)" -eq 1 ] && grep -Eq "^afar: .*$pattern" line; } || fail "$*: '$pattern' is not the line $(cat line)"
}
failed 'there is a region of that name' "$AFAR" sort run made s:out
"$AFAR" sort run made s:out --replace >/dev/null
"$AFAR" sort verify s:out --against made >/dev/null
"$AFAR" ns create small --max 2M
failed 'bytes ready in small: .*small' "$AFAR" sort run made file_out --ns small
"$AFAR" ns create narrow --max 4M
"$AFAR" region put made narrow:in >/dev/null
failed 'bytes ready in narrow: ' "$AFAR" sort run narrow:in narrow:out
"$AFAR" region ls narrow >listed
[ "$(wc -l <listed)" -eq 2 ] || fail "left in narrow: $(cat listed)"
[ "$(reserved narrow)" = "2 MiB" ] || fail "narrow has $(reserved narrow)"
[ "$(reserved small)" = "0 B" ] || fail "small has $(reserved small)"

# All that it took has been given back: two regions of 2 MB are left.
"$AFAR" region rm s:made
"$AFAR" region rm s:out
[ "$("$AFAR" region ls s | wc -l)" -eq 1 ] || fail "left: $("$AFAR" region ls s)"
"$AFAR" sort generate s:made --records 10 >/dev/null
before=$(reserved s)
"$AFAR" sort run r_random file_out --ns s --workers 3 >/dev/null
[ "$(reserved s)" = "$before" ] || fail "s has $(reserved s), not $before"
