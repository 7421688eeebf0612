#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# files_tree.sh dram|flash: a tree with all that trees can have goes into a file system and comes back as it was: names, content,
# permissions, times, links and holes. On flash it is there when all daemons were killed.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

tier=$1
nr=${AFAR_TEST_FILES:-1500}
here=$(cd "$(dirname "$0")" && pwd)
tree() {
	python3 "$here/files_tree.py" "$@" || fail "files_tree.py $*"
}

flash_server() {
	if [ "$tier" = dram ]; then
		start_server "$1" 512M
		return
	fi
	[ -e "$1.flash" ] || "$AFAR" flash create --sparse --size 1G "$1.flash" >/dev/null
	start_daemon "$1" --role server --data "$PWD/$1" --name "$1" --data-listen "tcp:$host:0" \
		--key "$PWD/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M --flash "$PWD/$1.flash"
}

start_manager
flash_server one
flash_server two
"$AFAR" fs create home --tier "$tier"
tree make in "$nr"

"$AFAR" put -r -p in /home/
if [ "$tier" = flash ]; then
	port=$(manager_port)
	kill_daemon one
	kill_daemon two
	kill_daemon manager
	start_manager "$port"
	flash_server one
	flash_server two
fi
"$AFAR" get -r -p /home/in out
tree same in out
"$AFAR" find /home --print0 | tr '\n\0' ' \n' | sort >listed
(echo /home && cd in && find . -print0 | tr '\n\0' ' \n' | sed 's|^\.|/home/in|') | sort | diff - listed >difference ||
	fail "find: $(head difference)"
# as_many TEST…: afar find and find agree about how many there are.
as_many() {
	ours=$("$AFAR" find /home/in "$@" --print0 | tr -dc '\0' | wc -c)
	theirs=$(find in "$@" -print0 | tr -dc '\0' | wc -c)
	[ "$ours" -eq "$theirs" ] || fail "find $*: $ours, not $theirs"
}
as_many -type f
as_many -type l
as_many -type d -name '*1*'
as_many -name 'link*'

# Merged with what is there: files are replaced, others stay, and again it is the same.
"$AFAR" put -r -p in/. /home/in
rm -rf out/d0
find out -type f -size -100k -exec truncate -s 0 {} +
"$AFAR" get -r -p /home/in/. out
tree same in out
echo content >"more"
"$AFAR" put "more" /home/in/more
"$AFAR" put -r -p in /home
[ "$("$AFAR" cat /home/in/more)" = content ] || fail "a merge took what was there"
"$AFAR" rm /home/in/more
"$AFAR" find /home -name '.afar-*' >left
[ ! -s left ] || fail "left behind: $(cat left)"

# Without -p: permissions by the umask, times are now.
(umask 027 && "$AFAR" get -r /home/in plain)
find plain ! -type l -perm /027 >loose
[ ! -s loose ] || fail "permissions beyond the umask: $(head loose)"
diff -r --no-dereference in plain >difference || fail "without -p: $(head difference)"

# A kill in the middle leaves nothing under a large file's name; the next put is whole.
random_file large 50000000
"$AFAR" put large /home/large &
putting=$!
running="$running $putting"
# It is under way when there is a file that is not whole yet.
until "$AFAR" ls -a /home | grep -q '^\.afar-' || ! kill -0 "$putting" 2>/dev/null; do
	:
done
kill -9 "$putting" 2>/dev/null || :
wait "$putting" 2>/dev/null || :
forget "$putting"
if "$AFAR" get /home/large back 2>/dev/null; then
	same large back
fi
"$AFAR" put large /home/large
"$AFAR" get /home/large back
same large back

"$AFAR" rm -r /home/in /home/large
"$AFAR" find /home -type d >left
[ "$(cat left)" = /home ] || fail "rm -r left $(cat left)"
# The session of the one that was killed has to end.
eventually "$AFAR" fs rm home --force
still_works
