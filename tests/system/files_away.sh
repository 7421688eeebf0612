#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# files_away.sh dram|flash: a server is away, and nobody has said that it has ended. What has no bytes there goes on: reading,
# names, new files, room for them. What has fails in one line, and is whole when the server is back, on flash; in memory
# it is lost then.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

tier=$1
start_one() {
	if [ "$tier" = flash ]; then
		start_daemon "$1" --role server --data "$scratch/$1" --name "$1" --data-listen "tcp:$host:0" \
			--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M --flash 512M
	else
		start_server "$1" 384M
	fi
}
is_down() {
	"$AFAR" status | grep -Eq '^two +down '
}
is_up() {
	"$AFAR" status | grep -Eq '^two +up '
}
lost='(server two|store [0-9a-f]{16})' # what is said of a file that cannot be read
# compare: gets each file of ./in; sets $whole, and writes the others' names into ./held.
compare() {
	whole=0
	: >held
	for path in in/*; do
		name=$(basename "$path")
		if timeout $((60 * slowness)) "$AFAR" get "/f/in/$name" back >got.out 2>line; then
			same "$path" back
			whole=$((whole + 1))
		else
			grep -Eq "^afar: .*$lost" line || fail "$name: $(cat line)"
			[ "$(wc -l <line)" -eq 1 ] || fail "$name: $(cat line)"
			echo "$name" >>held
		fi
		rm -f back
	done
	echo "$whole whole, $(wc -l <held) held up"
}

start_manager
for name in one two three; do
	start_one "$name"
done
mkdir in
for i in $(seq 1 24); do
	random_file "in/small$i" $((i * 1000 + 1))
done
random_file in/large 3000005
"$AFAR" fs create f --tier "$tier" --width 3 --stripe 64K
"$AFAR" put -r in /f/ >put.out

kill_daemon two
eventually is_down
compare
[ "$whole" -ge 8 ] || fail "only $whole files can be read while one of three servers is away"
grep -q '^large$' held || fail "what is striped over all servers was read without one"

# A tree is copied but for what is there.
status=0
"$AFAR" get -r /f/in tree >got.out 2>line || status=$?
[ "$status" -eq 1 ] || fail "get -r of what is partly away ended with $status"
[ "$(find tree -type f | wc -l)" -eq "$whole" ] || fail "get -r gets $(find tree -type f | wc -l) files of $whole: $(cat line)"
for path in tree/*; do
	same "$path" "in/$(basename "$path")"
done
rm -r tree

# Names, and new files with room where servers are: more than is free there now.
[ "$("$AFAR" ls /f/in | wc -l)" -eq 25 ] || fail "names are gone"
"$AFAR" mv /f/in/large /f/in/moved
[ "$("$AFAR" stat /f/in/moved --json | grep -c '"size_bytes": 3000005,')" -eq 1 ] || fail "$("$AFAR" stat /f/in/moved --json)"
"$AFAR" mv /f/in/moved /f/in/large
random_file more 180000000
random_file little 5000
"$AFAR" put little more /f/ >put.out
for name in little more; do
	"$AFAR" get "/f/$name" back >got.out
	same $name back
	rm back
done
"$AFAR" put -r in /f/again >put.out
"$AFAR" get -r /f/again again >got.out
diff -r in again || fail "new files differ"
"$AFAR" rm /f/more
"$AFAR" rm -r /f/again
"$AFAR" put -r in /f/again >put.out # what was given back waits for the server that is away in part

start_one two
eventually is_up
cp held held.before
if [ "$tier" = flash ]; then
	compare
	[ ! -s held ] || fail "with all servers back, these cannot be read: $(cat held)"
else
	lost=" are lost, with server"
	compare
	diff held.before held || fail "others are lost than were held up"
fi
rm -rf again
"$AFAR" get -r /f/again again >got.out
diff -r in again || fail "files that were made while a server was away differ"
[ "$("$AFAR" fs check f)" = "f: its records agree" ] || fail "$("$AFAR" fs check f)"
