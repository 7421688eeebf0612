#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Devices that a server cannot lend: it says in one line which, why and what to do, and ends.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

# refuses PATTERN FLAG…
refuses() {
	pattern=$1
	shift
	refused 1 "$pattern" "$AFARD" --data "$data" --listen 127.0.0.1:0 --memory 64M --log none "$@"
}

data=data
"$AFAR" flash create good --size 64M >/dev/null

# ---- What is no store

refuses 'open the store none: it is not there' --flash none
refuses 'neither a regular file nor a block device' --flash /dev/null
mkdir folder
refuses 'neither a regular file nor a block device' --flash folder
: >empty
refuses 'smaller than a sector' --flash empty
truncate -s 64M foreign
refuses "open the store foreign: it holds no flash layer; 'afar flash create foreign'" --flash foreign

cp good newer
for at in 8 $(($(stat -c %s newer) - 4096 + 8)); do # the superblock's copy, too
	printf '\377' | dd of=newer bs=1 seek="$at" conv=notrunc 2>/dev/null
done
refuses 'open the store newer: it is of version 255, .* newer program' --flash newer
cp good cut
truncate -s 20M cut
refuses 'open the store cut: .* give it back what was cut off$' --flash cut
cp good damaged
dd if=/dev/urandom of=damaged bs=4096 seek=1 count=2 conv=notrunc 2>/dev/null
refuses "open the store damaged: both anchors are damaged; 'afar flash repair damaged' says what can be done" --flash damaged

# Who may not write it: root may, so another does.
chmod 400 good
if [ "$(id -u)" -ne 0 ]; then
	refuses 'must be readable and writable' --flash good
elif command -v setpriv >/dev/null; then
	chmod 711 .
	mkdir data.other
	chown 65534 data.other
	# Not over local: that would leave a folder for sockets of that user's in /tmp.
	refused 1 'must be readable and writable' setpriv --reuid 65534 --clear-groups \
		"$AFARD" --data data.other --listen 127.0.0.1:0 --data-listen "$host:0" --flash good
fi
chmod 600 good

# ---- Another's, or the same again

refuses 'good: it is given twice' --flash good --flash ./good
ln good linked
refuses 'linked: it is given twice' --flash good --flash linked
cp good copy
refuses 'open the store copy: it is a copy of another that is open' --flash good --flash copy

mkfifo held
flock -F good sh -c 'echo >held; exec sleep 600' &
holder=$!
running="$running $holder"
read -r _ <held
refuses 'open the store good: .* another process has it open for 5 s' --flash good
kill "$holder"
wait "$holder" 2>/dev/null || :
forget "$holder"

# ---- One that is made

refuses 'make the store .*/server/flash: .* too few' --flash 1M
refuses 'no room for' --flash 1000T
[ -z "$(find data/server -name "flash*")" ] || fail "left behind: $(ls data/server)"
refused 2 'second size' "$AFARD" --data data --listen 127.0.0.1:0 --flash 64M --flash 32M
refused 2 'multiple of 4096' "$AFARD" --data data --listen 127.0.0.1:0 --flash 4095

# One that was killed in the middle of that begins anew.
echo half >data/server/flash.new
start_daemon made --data data --listen 127.0.0.1:0 --memory 64M --flash 64M
stop_daemon made
[ "$(ls data/server/flash*)" = data/server/flash ] || fail "left behind: $(ls data/server)"

# ---- Another cluster's

start_daemon first --data first --listen 127.0.0.1:0 --memory 64M --flash good
stop_daemon first
data=second
refuses 'the store on good belongs to cluster [0-9a-f]{32}; start it with' --flash good
start_daemon first --data first --listen 127.0.0.1:0 --memory 64M --flash good
