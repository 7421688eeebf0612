#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A server with memory ends, and a file system goes on: every file is whole or answers EIO, and others can be made. Those
# that have lost something are listed and removed.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

# field FS NAME: of what `fs stat` tells.
field() {
	"$AFAR" fs stat "$1" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$2"
}
# compare FS: gets each file of ./in; sets $whole, and writes the others' paths into ./broken.
compare() {
	whole=0
	: >broken
	for path in in/*; do
		name=$(basename "$path")
		if "$AFAR" get "/$1/in/$name" back >got.out 2>line; then
			same "$path" back
			whole=$((whole + 1))
		else
			grep -Eq "^afar: .*read inode [0-9]+ of '$1': [0-9]+ bytes at [0-9]+ are lost, with server [0-9]+" line ||
				fail "$name: $(cat line)"
			[ "$(wc -l <line)" -eq 1 ] || fail "$name: $(cat line)"
			[ ! -e back ] || fail "a part of $name was left"
			echo "/$1/in/$name" >>broken
		fi
		rm -f back
	done
}
# listed FS: the paths that have lost something.
listed() {
	"$AFAR" fs check "$1" --lost --json | python3 -c '
import json, sys
for file in json.load(sys.stdin):
    assert file["lost_bytes"] > 0 and file["lost_bytes"] % 4096 == 0 and file["ino"] > 1, file
    print(file["path"])' | sort
}
agrees() {
	[ "$("$AFAR" fs check "$1")" = "$1: its records agree" ] || fail "fs check $1: $("$AFAR" fs check "$1")"
}

start_manager
for name in one two three; do
	start_server "$name" 384M
done
mkdir in
for i in $(seq 1 30); do
	random_file "in/small$i" $((i * 200 + 1))
done
for i in 1 2 3; do
	random_file "in/large$i" $((i * 1000000 + 5))
done
# One is told to go by a restart, and one by an operator. The second pool has an end that is not its servers'.
"$AFAR" fs create f --width 3 --stripe 64K
"$AFAR" fs create g --width 3 --stripe 4K --max 128M
for fs in f g; do
	"$AFAR" put -r in "/$fs/" >put.out
	[ "$("$AFAR" fs check $fs --lost)" = "$fs: no file has lost anything" ] || fail "$("$AFAR" fs check $fs --lost)"
	[ "$(field $fs lost_bytes)" -eq 0 ] || fail "$fs has lost something already"
done
"$AFAR" ln /f/in/large1 /f/other-name

refused 2 'goes with --lost' "$AFAR" fs check f --remove
refused 2 'goes with --lost' "$AFAR" fs check f --json
refused 2 'goes with --remove' "$AFAR" fs check f --lost --yes
refused 2 'do not go together' "$AFAR" fs check f --lost --remove --json

kill_daemon two
start_server two 384M

compare f
nr_broken=$(wc -l <broken)
echo "f: $whole whole, $nr_broken broken"
[ "$whole" -gt 10 ] || fail "of f only $whole files are whole"
[ "$nr_broken" -gt 3 ] || fail "of f only $nr_broken files are broken"
echo /f/other-name >>broken
sort broken >expected
listed f >found
diff expected found || fail "fs check --lost lists others"
agrees f
# A tree is copied but for what is lost, though small files travel together.
status=0
"$AFAR" get -r /f/in tree >got.out 2>line || status=$?
[ "$status" -eq 1 ] || fail "get -r of what has lost something ended with $status"
[ "$(find tree -type f | wc -l)" -eq "$whole" ] || fail "get -r gets $(find tree -type f | wc -l) files of $whole"
for path in tree/*; do
	same "$path" "in/$(basename "$path")"
done
[ "$(grep -c 'are lost, with server' line)" -eq "$nr_broken" ] || fail "get -r says: $(cat line)"
lost=$(field f lost_bytes)
"$AFAR" fs check f --lost >shown
grep -q "^ *LOST  PATH$" shown || fail "$(cat shown)"
grep -Eq "^ +[0-9.]+ (K|M)?iB  /f/in/large2$" shown || fail "$(cat shown)"
grep -q "^f: $nr_broken files have lost " shown || fail "$(cat shown)"
[ "$lost" -gt 2000000 ] || fail "f has lost $lost bytes"
"$AFAR" fs stat f | grep -q "^lost  *$lost (" || fail "$("$AFAR" fs stat f)"
"$AFAR" fs ls | grep -Eq '^f .* MiB .* ok ' || fail "$("$AFAR" fs ls)"
agrees g

# Names stay, and what has lost something can be used for what needs no bytes of it.
[ "$("$AFAR" ls /f/in | wc -l)" -eq 33 ] || fail "names are gone: $("$AFAR" ls /f/in)"
"$AFAR" mv /f/in/large3 /f/in/moved
"$AFAR" stat /f/in/moved --json | grep -q '"size_bytes": 3000005,' || fail "$("$AFAR" stat /f/in/moved --json)"
"$AFAR" mv /f/in/moved /f/in/large3
"$AFAR" put in/large2 /f/in/large2 >put.out # whole again, and elsewhere
"$AFAR" get /f/in/large2 back >got.out
same in/large2 back
rm back
[ "$(field f lost_bytes)" -lt "$lost" ] || fail "what was replaced is counted still"

# More than what is free fits in: the pool grows without what it has lost.
random_file more 150000000
"$AFAR" put more /f/more >put.out
"$AFAR" get /f/more back >got.out
same more back
rm back
agrees f

# A restart of the manager forgets nothing of that.
listed f >before
port=$(manager_port)
stop_daemon manager
start_manager "$port"
eventually "$AFAR" fs check f
agrees f
listed f >found
diff before found || fail "after a restart others are lost"

# Removing says what it would do first.
status=0
"$AFAR" fs check f --lost --remove >said.out 2>said.err || status=$?
[ "$status" -eq 1 ] || fail "--remove without --yes ended with $status"
grep -q 'nothing is done yet.*--yes' said.err || fail "it says: $(cat said.err)"
grep -q '/f/other-name$' said.out || fail "it says: $(cat said.out)"
listed f | diff before - || fail "--remove without --yes did something"
"$AFAR" fs check f --lost --remove --yes >said.out
grep -q "^f: removed $(wc -l <before) names" said.out || fail "it says: $(cat said.out)"
[ "$("$AFAR" fs check f --lost)" = "f: no file has lost anything" ] || fail "$("$AFAR" fs check f --lost)"
[ "$("$AFAR" fs check f --lost --json)" = "[]" ] || fail "$("$AFAR" fs check f --lost --json)"
[ "$(field f lost_bytes)" -eq 0 ] || fail "it has lost $(field f lost_bytes) bytes still"
agrees f
"$AFAR" get /f/more back >got.out
same more back
rm back
"$AFAR" put -r in /f/again >put.out
"$AFAR" get -r /f/again again >got.out
diff -r in again || fail "new files differ"
"$AFAR" rm -r /f/again /f/more /f/in
agrees f

# ---- A server that an operator removes, on a pool of at most 128 MiB

"$AFAR" rm -r /g/in
"$AFAR" put -r in /g/ >put.out
kill_daemon one
is_down() {
	"$AFAR" status | grep -Eq '^one +down '
}
eventually is_down
"$AFAR" server rm one --yes >said.out
compare g
sort broken >expected
listed g >found
diff expected found || fail "fs check --lost lists others"
[ -s broken ] || fail "nothing was lost with a server"
"$AFAR" fs check g --lost --remove --yes >said.out
agrees g
random_file more 60000000
"$AFAR" put more /g/more >put.out
"$AFAR" get /g/more back >got.out
same more back
agrees g
for fs in f g; do
	"$AFAR" fs rm "$fs" --force
done
[ "$("$AFAR" fs ls --json)" = "[]" ] || fail "file systems are left"
