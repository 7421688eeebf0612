#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Making flash layers: where there is nothing, where there is something, and where there cannot be one.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

"$AFAR" flash create new --size 64M | grep -Eq '^new: .* in segments of 1020 KiB$' || fail "create"
[ "$(stat -c '%s %a' new)" = "67108864 600" ] || fail "the file: $(stat -c '%s %a' new)"
"$AFAR" flash create small --size 64M --segment 256K | grep -q '252 KiB' || fail "--segment"

# A file has all its blocks, so that nothing is written there for the first time; a sparse one has next to none.
[ "$(stat -c %b new)" -ge 131072 ] || fail "blocks are missing: $(stat -c %b new)"
"$AFAR" flash create thin --size 1G --sparse >/dev/null
[ "$(stat -c %s thin)" -eq 1073741824 ] || fail "the sparse file: $(stat -c %s thin)"
[ "$(stat -c %b thin)" -lt 65536 ] || fail "the sparse file has $(stat -c %b thin) blocks"
rm thin

# An interrupt ends the writing, and leaves nothing.
"$AFAR" flash create slow --size 3G >/dev/null &
creator=$!
until [ -s slow ] || ! kill -0 "$creator" 2>/dev/null; do :; done
kill -TERM "$creator"
! wait "$creator" || fail "it was not interrupted"
[ ! -e slow ] || fail "an interrupted creation left its file"

# A file that is there, with its size; and over what is there.
truncate -s 48M there
"$AFAR" flash create there >/dev/null
[ "$(stat -c %s there)" -eq 50331648 ] || fail "the size changed"
refused 1 'one already' "$AFAR" flash create there
"$AFAR" flash create there --force >/dev/null
"$AFAR" flash create there --force --size 48M >/dev/null
refused 1 'a size of its own' "$AFAR" flash create there --force --size 64M
random_file foreign 50000000
cp foreign before
refused 1 'something already' "$AFAR" flash create foreign
same foreign before
"$AFAR" flash create foreign --force >/dev/null
"$AFAR" flash check foreign --data >/dev/null

# What is misspelt.
refused 2 'too few' "$AFAR" flash create
refused 2 'unexpected' "$AFAR" flash create a b
refused 2 'at least 1 byte' "$AFAR" flash create none --size 0
refused 2 'multiple of 4096' "$AFAR" flash create none --size 100000001
refused 2 'sparse is for a file' "$AFAR" flash create there --sparse
refused 2 'not fit 64 bits' "$AFAR" flash create none --size 20E
refused 2 'multiple of 4096' "$AFAR" flash create none --size 15E
refused 2 'not a size' "$AFAR" flash create none --size 1X
refused 2 'multiple of 4096' "$AFAR" flash create none --size 64M --segment 5000
refused 2 'multiple of 4096' "$AFAR" flash create none --size 64M --segment 8G
refused 2 'not a cluster' "$AFAR" --cluster afar://nowhere flash create none --size 64M
refused 2 'create, info' "$AFAR" flash

# What cannot be one. Nothing stays of a file that was made for it.
refused 1 'no such file' "$AFAR" flash create none
refused 1 'too few' "$AFAR" flash create none --size 64K
refused 1 'too few' "$AFAR" flash create none --size 4096
# The room is asked for before any is taken: others would have none for as long as it takes to find that it is too little.
refused 1 'no room' sh -c 'ulimit -f 1000; exec "$0" flash create none --size 15T' "$AFAR"
refused 1 'large|room' sh -c 'ulimit -f 1000; exec "$0" flash create none --size 64M' "$AFAR"
refused 1 'No such file' "$AFAR" flash create no/such/folder --size 64M
[ ! -e none ] || fail "a file was left"
: >empty
refused 1 'larger' "$AFAR" flash create empty
head -c 1000 /dev/zero >tiny
refused 1 'tiny' "$AFAR" flash create tiny
[ "$(stat -c %s tiny)" -eq 1000 ] || fail "a file that was there is gone"
mkdir folder
refused 1 'neither' "$AFAR" flash create folder
mkfifo pipe
refused 1 'neither' "$AFAR" flash create pipe
refused 1 'neither' "$AFAR" flash create /dev/null
refused 1 '' "$AFAR" flash create "$(printf 'no/\033[31m')"
# As somebody else, who may at least start the program.
if [ "$(id -u)" -eq 0 ] && setpriv --reuid 65534 --clear-groups "$AFAR" --version >/dev/null 2>&1; then
	chmod 711 .
	chmod 600 there
	refused 1 'Permission denied' setpriv --reuid 65534 --clear-groups "$AFAR" flash create there --force
	refused 1 'Permission denied' setpriv --reuid 65534 --clear-groups "$AFAR" flash info there
fi
