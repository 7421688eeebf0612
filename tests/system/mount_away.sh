#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mount_away.sh dram|flash: a server is away under a mount. Programs that use what is elsewhere go on, also while others wait for
# what is there; those end well when it is back. On flash it is killed, in memory it is stopped.
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$(dirname "$0")/mounts.sh"

tier=$1
start_manager
for name in one two three; do
	start_flash_server "$name"
done
"$AFAR" fs create f --tier "$tier" --width 3 --stripe 64K --mode 777
start_mount place f --direct
mkdir in
for i in $(seq 1 24); do
	random_file "in/small$i" $((i * 1000 + 1))
done
random_file in/large 3000005
cp -r in place/
sync place/in/* # a sync has to wait for what was written there

if [ "$tier" = flash ]; then
	kill_daemon two
else
	kill -STOP "$(pid_of two)"
fi
is_down() {
	"$AFAR" status | grep -Eq '^two +down '
}
# More wait for the server than there are threads for blocking calls, or for requests of the kernel.
readers=
for i in $(seq 1 40); do
	cat place/in/large >"waiting$i" 2>"waiting$i.err" &
	readers="$readers $!"
	running="$running $!"
done
if [ "$tier" = flash ]; then
	eventually is_down # the manager does not hear of one that is stopped
fi

# All that is elsewhere can be read; the rest waits, too.
others=
for i in $(seq 1 24); do
	cat "place/in/small$i" >"small$i" 2>"small$i.err" &
	others="$others $i:$!"
	running="$running $!"
done
# count_read: sets $nr.
count_read() {
	nr=0
	for other in $others; do
		i=${other%:*}
		if has_ended "${other#*:}"; then
			cmp -s "in/small$i" "small$i" || fail "small$i: $(cat "small$i.err")"
			nr=$((nr + 1))
		fi
	done
	[ "$nr" -ge 8 ]
}
eventually count_read
echo "$nr of 24 read while a server is away"
mkdir place/new
for i in $(seq 1 12); do
	if [ "$tier" = flash ]; then
		timeout $((20 * slowness)) dd if="in/small$i" "of=place/new/small$i" bs=64K conv=fsync 2>dd.err ||
			fail "new/small$i: $(cat dd.err)"
		same "in/small$i" "place/new/small$i"
	else
		timeout $((20 * slowness)) mkdir "place/new/small$i"
	fi
done
mv place/new/small1 place/new/moved
rm -r place/new/moved
[ "$(find place | wc -l)" -eq 39 ] || fail "names are gone: $(find place)"
for pid in $readers; do
	has_ended "$pid" && fail "a read of what is away has ended: $(cat waiting*.err)"
done

if [ "$tier" = flash ]; then
	start_flash_server two
else
	kill -CONT "$(pid_of two)"
fi
for other in $others; do
	i=${other%:*}
	wait "${other#*:}" || fail "small$i, which was away, cannot be read: $(cat "small$i.err")"
	forget "${other#*:}"
	same "in/small$i" "small$i"
done
i=0
for pid in $readers; do
	i=$((i + 1))
	wait "$pid" || fail "a read of what was away failed: $(cat "waiting$i.err")"
	forget "$pid"
	same in/large "waiting$i"
done
diff -r in place/in || fail "files differ"
[ "$("$AFAR" fs check f)" = "f: its records agree" ] || fail "$("$AFAR" fs check f)"
end_mount place
