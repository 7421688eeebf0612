#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Mounting and unmounting: options, the background, who may use it, how it ends, and what is refused.
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$(dirname "$0")/mounts.sh"

start_cluster
"$AFAR" fs create f --mode 777
MOUNT_AFAR=$scratch/mount.afar
ln -s "$AFAR_MOUNT" "$MOUNT_AFAR"

options_of() {
	sed -n "s|^[^ ]* $scratch/$1 fuse.afar \([^ ]*\) .*|,\1,|p" /proc/self/mounts
}

# has_options PLACE OPTION…
has_options() {
	place=$1
	shift
	for option; do
		case $(options_of "$place") in
		*,"$option",*) ;;
		*) fail "$place has not $option: $(options_of "$place")" ;;
		esac
	done
}

# ---- In the background

mkdir place
"$AFAR" mount f place
is_mounted place || fail "nothing is mounted"
has_options place rw nosuid nodev default_permissions
[ "$(id -u)" -ne 0 ] || has_options place allow_other
echo hello >place/greeting
[ "$(cat place/greeting)" = hello ] || fail "it reads $(cat place/greeting)"
stat -f -c %T place | grep -q fuse || fail "no fuse"
refused 1 'is mounted there; unmount it first: afar umount' "$AFAR" mount f place
"$AFAR" umount place
[ -z "$(ls place)" ] || fail "after umount: $(ls place)"
refused 1 'no file system of Afar is mounted there' "$AFAR" umount place
refused 1 'no file system of Afar is mounted there' "$AFAR" umount /
refused 1 'no file system of Afar is mounted there' "$AFAR" umount no/such

# From another folder, by relative names, with a key and the cluster in the URI, as mount(8) does.
mkdir sub
cp "${AFAR_CLUSTER#*key=}" own.key
chmod 600 own.key
(
	cluster=${AFAR_CLUSTER%%\?*}
	unset AFAR_CLUSTER
	cd sub || exit
	"$MOUNT_AFAR" "$cluster/f" ../place -o rw,_netdev,nofail,x-systemd.automount,noatime,key=../own.key
)
has_options place noatime
grep -q "^${AFAR_CLUSTER%%\?*}/f " /proc/self/mounts || fail "the source: $(grep "$scratch" /proc/self/mounts)"
[ "$(cat place/greeting)" = hello ] || fail "it reads $(cat place/greeting)"
"$AFAR" umount place/
"$MOUNT_AFAR" "${AFAR_CLUSTER%%\?*}/f?key=$scratch/own.key" place -v -n -o fsname=named
grep -q "^named $scratch/place " /proc/self/mounts || fail "fsname: $(grep "$scratch" /proc/self/mounts)"
"$AFAR" umount place

# ---- Options

start_mount ro f --read-only
has_options ro ro
[ "$(cat ro/greeting)" = hello ] || fail "it reads $(cat ro/greeting)"
! touch ro/new 2>/dev/null || fail "a file was made through a mount that is read-only"
! (echo x >>ro/greeting) 2>/dev/null || fail "written through a mount that is read-only"
start_mount rw f
# Times that cannot be kept become the nearest that can.
for time in 2446-06-01:2262-04-11 9999-12-31:2262-04-11 1600-01-01:1677-09-21 2262-04-10:2262-04-10; do
	touch -d "${time%:*} UTC" rw/aged
	shown=$(TZ=UTC stat -c %y rw/aged)
	[ "${shown%% *}" = "${time#*:}" ] || fail "a file of ${time%:*} is of $shown"
done
rm rw/aged
mkdir -p rw/a/b
echo deep >rw/a/b/c
ln -s ../../greeting rw/a/out
start_mount part f/a/b
[ "$(cat part/c)" = deep ] || fail "the subdirectory has $(ls part)"
[ "$(ls -a part | tr '\n' ' ')" = '. .. c ' ] || fail "the subdirectory has $(ls -a part)"
end_mount part
start_mount part f -o subdir=/a/b,direct
[ "$(cat part/c)" = deep ] || fail "the subdirectory has $(ls part)"
end_mount part
refused 1 'mount f/none at .*: find the directory none of it: ' "$AFAR" mount f/none place
refused 1 'greeting is no directory' "$AFAR" mount f/greeting place

# What one mount has closed, the other sees when it opens.
echo first >rw/shared
[ "$(cat ro/shared)" = first ] || fail "the other mount has $(cat ro/shared)"
echo second, longer >rw/shared
[ "$(cat ro/shared)" = 'second, longer' ] || fail "the other mount has $(cat ro/shared)"
mv rw/shared rw/renamed
[ "$(ls ro)" = "$(ls rw)" ] || fail "the other mount lists $(ls ro)"
rm rw/renamed
[ ! -e ro/renamed ] || fail "it is still there in the other mount"
end_mount ro

# ---- In use

tail -f rw/greeting >/dev/null &
user=$!
running="$running $!"
has_it_open() {
	readlink "/proc/$user"/fd/* | grep -q "^$scratch/rw/greeting$"
}
eventually has_it_open
refused 1 "in use by tail \\($user\\); end that first, or say --lazy; .*" "$AFAR" umount "$scratch/rw"
kill "$user"
wait "$user" || :
forget "$user"
end_mount rw
start_mount rw f
exec 9>rw/open
echo unsaved >&9
"$AFAR" umount --lazy rw
! is_mounted rw || fail "still there"
echo more >&9
exec 9>&-
has_ended_with 0 rw
start_mount rw f
[ "$(cat rw/open)" = 'unsaved
more' ] || fail "after a lazy umount: $(cat rw/open)"

# ---- Signals: it unmounts, and what is open is kept

exec 9>rw/open
echo kept >&9
kill -TERM "$(pid_of rw)"
has_ended_with 0 rw
! (echo lost >&9) 2>/dev/null || fail "written to a mount that has ended"
exec 9>&-
start_mount rw f
[ "$(cat rw/open)" = kept ] || fail "after SIGTERM: $(cat rw/open)"

# ---- A dead mount is cleared away by the next one, and what programs had written is there

exec 9>>rw/open
echo written >&9
kill -9 "$(pid_of rw)"
wait "$(pid_of rw)" 2>/dev/null || :
forget "$(pid_of rw)"
! ls rw 2>/dev/null || fail "a dead mount lists"
exec 9>&- || :
"$AFAR" mount f rw 2>note
grep -q "^afar: note: $scratch/rw: cleared away a mount whose process had died$" note || fail "note: $(cat note)"
[ "$(cat rw/greeting)" = hello ] || fail "it reads $(cat rw/greeting)"
[ "$(cat rw/open)" = 'kept
written' ] || fail "after a mount was killed: $(cat rw/open)"
"$AFAR" umount rw

# ---- Other users

if [ "$(id -u)" -eq 0 ]; then
	start_mount rw f
	chmod 755 "$scratch"
	mkdir -m 700 rw/private
	setpriv --reuid=1001 --regid=1001 --groups=1002,1003 sh -c 'echo mine >rw/mine; mkdir rw/dir; chgrp 1003 rw/mine' || fail "as another"
	[ "$(stat -c %u:%g rw/mine rw/dir | tr '\n' ' ')" = '1001:1003 1001:1001 ' ] || fail "owners: $(ls -ln rw)"
	! setpriv --reuid=1001 --regid=1001 --clear-groups sh -c 'ls rw/private' 2>/dev/null || fail "private is not"
	! setpriv --reuid=1001 --regid=1001 --clear-groups sh -c 'chgrp 1004 rw/mine' 2>/dev/null || fail "a foreign group"
	setpriv --reuid=0 chown 1001 rw/greeting
	setpriv --reuid=1001 --regid=1001 --clear-groups sh -c 'echo again >>rw/greeting; chmod 600 rw/greeting' || fail "as the owner"
	end_mount rw
	# A user's own mount, by fusermount3, which wants a user with a name, who may at least start the program, and reads /etc/mtab.
	if command -v fusermount3 >/dev/null && [ -e /etc/mtab ] && getent passwd 65534 >/dev/null &&
		setpriv --reuid=65534 --regid=65534 --clear-groups test -w /dev/fuse &&
		setpriv --reuid=65534 --regid=65534 --clear-groups "$AFAR" --version >/dev/null 2>&1; then
		mkdir -m 755 theirs
		refused 1 'the directory is not yours to write' setpriv --reuid=65534 --regid=65534 --clear-groups "$AFAR" mount f theirs --key own.key
		chown 65534 theirs own.key
		refused 1 'allow_other is only for root here; have user_allow_other' \
			setpriv --reuid=65534 --regid=65534 --clear-groups "$AFAR" mount f theirs --key own.key --allow-other
		setpriv --reuid=65534 --regid=65534 --clear-groups "$AFAR" mount f theirs --key own.key || fail "as a user"
		setpriv --reuid=65534 --regid=65534 --clear-groups sh -c 'echo theirs >theirs/new; cat theirs/new' | grep -q theirs || fail "their mount"
		! ls theirs 2>/dev/null || fail "root sees a user's mount"
		setpriv --reuid=65534 --regid=65534 --clear-groups "$AFAR" umount theirs || fail "umount as a user"
		chown 0 own.key
	fi
fi

# ---- Keys

"$AFAR" key add regions --out regions.key
"$AFAR" ns grant f regions rw
why="place: use files as uid $(id -u): the key of 'regions' is not for that; .*--any-uid"
if [ "$(id -u)" -eq 0 ]; then # there may be others whom it is for
	"$AFAR" mount f place --key regions.key 2>said
	grep -q "^afar: note: .*$why.*; only users whom the key is for" said || fail "it said: $(cat said)"
	"$AFAR" umount place
else
	refused 1 "$why" "$AFAR" mount f place --key regions.key
fi
"$AFAR" key add own --uid "$(id -u)" --gid "$(id -G | tr ' ' ,)" --out own-user.key
"$AFAR" ns grant f own rw
"$AFAR" mount f place --key own-user.key 2>said
[ "$(id -u)" -ne 0 ] || grep -q '^afar: note: .*its key is for uid 0 alone.*--any-uid' said || fail "it said: $(cat said)"
ls place >/dev/null || fail "the owner of the key cannot use the mount"
"$AFAR" umount place
"$AFAR" key add any --any-uid --out any.key
"$AFAR" ns grant f any rw
"$AFAR" mount f place --key any.key 2>said
[ ! -s said ] || fail "it said: $(cat said)"
"$AFAR" umount place

# ---- Limits

# room: of the mount of few: bytes in all, and bytes free.
room() {
	python3 -c 'import os; few = os.statvfs("few"); print(few.f_blocks * few.f_frsize, few.f_bavail * few.f_frsize)'
}
# is_room LEAST MOST LEAST-FREE MOST-FREE
is_room() {
	room | {
		read -r whole free
		[ "$1" -le "$whole" ] && [ "$whole" -le "$2" ] && [ "$3" -le "$free" ] && [ "$free" -le "$4" ]
	}
}
"$AFAR" fs create few --max 8M --max-files 3
start_mount few few
head -c 6000000 /dev/zero >few/most
! head -c 4000000 /dev/zero >few/more 2>/dev/null || fail "more than its limit was written"
(head -c 4000000 /dev/zero >few/more) 2>line || grep -q 'Disk quota exceeded' line || fail "beyond its limit: $(cat line)"
is_room 8388608 8388608 0 200000 || fail "a full one has $(room)"
: >few/more
: >few/third
! touch few/fourth 2>line || fail "more files than its limit were made"
"$AFAR" fs set few --max 4M
is_room 6000000 8388608 0 0 || fail "one whose limit was lowered has $(room)"
rm few/most
: >few/more
is_room 4194304 4194304 4194304 4194304 || fail "an empty one has $(room)"
end_mount few
"$AFAR" fs rm few --force

# ---- What is refused

refused 1 "open file system 'nowhere': there is none; see 'afar fs ls'" "$AFAR" mount nowhere place
refused 2 "'10.99.0.1:' is no file system's name; .* is afar://HOST/FS" "$MOUNT_AFAR" 10.99.0.1:/f place
(
	unset AFAR_CLUSTER
	refused 1 'no cluster is named, .*; write afar://HOST/f, or set AFAR_CLUSTER' "$MOUNT_AFAR" f place
)
refused 1 'there is no such directory; make it: mkdir' "$AFAR" mount f no-such-place
refused 1 'it is no directory' "$AFAR" mount f own.key
touch place/occupied
refused 1 'the directory is not empty; choose an empty one, or say -o nonempty' "$AFAR" mount f place
"$AFAR" mount f place -o nonempty
[ ! -e place/occupied ] || fail "what is mounted over is seen"
"$AFAR" umount place
rm place/occupied
refused 2 'unknown option colour' "$AFAR" mount f place -o colour
refused 2 'unknown option colour=blue' "$AFAR" mount f place -o ro,colour=blue
refused 2 'retry=soon is not a number of seconds' "$AFAR" mount f place --retry soon
refused 2 'threads=1 is not a number from 2' "$AFAR" mount f place -o threads=1
refused 2 'age=old is not' "$AFAR" mount f place -o age=old
refused 2 'exclude each other' "$AFAR" mount f place --direct -o cached
refused 2 'names no file system' "$AFAR" mount afar://127.0.0.1 place
refused 2 'names no file system' "$AFAR" mount / place
refused 2 'uri= another' "$AFAR" mount afar://127.0.0.1/f place --cluster afar://127.0.0.1
refused 2 'subdir= another' "$AFAR" mount f/a place --subdir b
refused 2 'too few arguments' "$AFAR" mount f
refused 2 '-o needs a value' "$AFAR" mount f place -o
refused 2 'too few arguments' "$MOUNT_AFAR" f
refused 2 'unmount it, and mount it anew' "$MOUNT_AFAR" f place -o remount,noexec
refused 1 'no file system of Afar is mounted there' "$MOUNT_AFAR" f place -o remount,ro

# It becomes read only, and can be written again, and nothing else of it changes.
if [ "$(id -u)" -eq 0 ]; then
	"$AFAR" mount f place -o noexec
	before=$(options_of place)
	exec 5>place/open
	refused 1 'open to write' "$MOUNT_AFAR" f place -o remount,ro
	exec 5>&-
	eventually "$MOUNT_AFAR" f place -o rw,noauto,remount,ro
	[ "$(options_of place)" = "$(echo "$before" | sed s/,rw,/,ro,/)" ] || fail "mounted anew read only: $(options_of place)"
	! touch place/more 2>touch.err || fail "what is read only can be written"
	[ -e place/open ]
	"$MOUNT_AFAR" f place -o remount,rw
	[ "$(options_of place)" = "$before" ] || fail "mounted anew to be written: $(options_of place)"
	touch place/more
	"$AFAR" umount place
fi
refused 1 "key file '/nowhere/key': does not exist; check its name" "$AFAR" mount f place --key /nowhere/key
"$MOUNT_AFAR" --help | grep -q 'nobody can write through it' || fail "help"

still_works
