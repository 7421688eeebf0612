#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The commands on file systems and files: what each does, and how it refuses what cannot be.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_manager
start_daemon one --role server --data "$PWD/one" --name one --data-listen "tcp:$host:0" \
	--key "$PWD/manager/server.key" --manager "$AFAR_CLUSTER" --memory 256M --flash 96M
start_server two 256M

# is WANTED COMMAND…: what it prints.
is() {
	wanted=$1
	shift
	"$AFAR" "$@" >printed || fail "$* ended with $?"
	[ "$(cat printed)" = "$wanted" ] || fail "$* printed '$(cat printed)', not '$wanted'"
}
# field PATH NAME: of the JSON.
field() {
	"$AFAR" stat "$1" --json | sed -n "s/^ *\"$2\": \"*\([^\",]*\)\"*,*$/\1/p"
}
is_field() {
	[ "$(field "$1" "$2")" = "$3" ] || fail "$2 of $1 is $(field "$1" "$2"), not $3"
}

# ---- File systems

is '' ls
[ "$("$AFAR" fs ls --json)" = "[]" ] || fail "file systems before there are any"
"$AFAR" fs create home
"$AFAR" fs create team --tier flash --stripe 64K --width 1 --max 64M --uid 7 --gid 8 --mode 1777
is 'home
team' ls
is 'home
team' ls /
"$AFAR" fs ls | grep -Eq '^home .* dram .* rw ' || fail "fs ls: $("$AFAR" fs ls)"
"$AFAR" fs stat team >shown
grep -q '^tier *flash$' shown || fail "fs stat: $(cat shown)"
grep -q '^stripe *64 KiB$' shown || fail "fs stat: $(cat shown)"
grep -q '^max *67108864 (64 MiB)$' shown || fail "fs stat: $(cat shown)"
"$AFAR" fs stat team --json | python3 -c '
import json, sys
fs = json.load(sys.stdin)
assert fs["name"] == "team" and fs["max_bytes"] == 64 << 20 and fs["tier"] == "flash" and not fs["is_lost"], fs' || fail "fs stat --json"
"$AFAR" fs ls --json | python3 -c '
import json, sys
assert [fs["name"] for fs in json.load(sys.stdin)] == ["home", "team"]' || fail "fs ls --json"
is_field /team uid 7
is_field /team gid 8
is_field /team mode 1777
is_field /home mode 0755
is_field /home type directory
refused 1 'home' "$AFAR" fs create home
refused 2 'too few' "$AFAR" fs create
refused 2 'no tier' "$AFAR" fs create bad --tier tape
refused 2 'power of two' "$AFAR" fs create bad --stripe 5000
refused 2 'octal' "$AFAR" fs create bad --mode 888
refused 2 'octal' "$AFAR" fs create bad --mode 10000
refused 2 'not a number' "$AFAR" fs create bad --uid me
refused 2 'not a size' "$AFAR" fs create bad --max much
refused 2 'not a number' "$AFAR" fs create bad --max-files 0

# Limits, which stay when the manager starts again.
"$AFAR" fs create few --max-files 2
"$AFAR" mkdir /few/one
echo two | "$AFAR" put - /few/two
refused 1 'may have' "$AFAR" mkdir /few/three
kill_daemon manager
start_manager "$(manager_port)"
refused 1 'may have' "$AFAR" touch /few/three
"$AFAR" fs set few --max-files 3
"$AFAR" mkdir /few/three
"$AFAR" fs set few --max-files 1
refused 1 'may have' "$AFAR" mkdir /few/four
"$AFAR" fs set few --max 64M --max-files none
"$AFAR" mkdir /few/four
refused 1 'may have' sh -c 'head -c 100000000 /dev/zero | "$AFAR" put - /few/five'
[ "$("$AFAR" fs stat few --json | python3 -c 'import json, sys; fs = json.load(sys.stdin); print(fs["max_bytes"], fs["max_inodes"])')" = '67108864 0' ] || fail "fs set: $("$AFAR" fs stat few --json)"
refused 2 'say what' "$AFAR" fs set few
refused 1 'nothing' "$AFAR" fs set nothing --max 1G
"$AFAR" fs rm few --force
for name in '' .. .hidden a/b 'two words' "$(head -c 256 /dev/zero | tr '\0' n)"; do
	refused 1 '' "$AFAR" fs create "$name"
done
refused 1 'nowhere' "$AFAR" fs stat nowhere
refused 1 'nowhere' "$AFAR" fs check nowhere
"$AFAR" fs check team | grep -q "records agree" || fail "fs check"
refused 1 'nowhere' "$AFAR" fs rm nowhere
refused 1 'nowhere' "$AFAR" ls /nowhere
refused 1 'nowhere' "$AFAR" df nowhere
refused 2 'create, ls, stat, check, set, set-layout, shrink, rm' "$AFAR" fs
"$AFAR" df | grep -q '^home ' || fail "df: $("$AFAR" df)"
[ "$("$AFAR" df /home/any | wc -l)" -eq 2 ] || fail "df of one"

# They share their names with namespaces and volumes, and are told apart.
"$AFAR" ns create space
refused 1 'exist' "$AFAR" fs create space
refused 1 'space' "$AFAR" ls /space
refused 1 'space' "$AFAR" fs rm space
refused 1 '' "$AFAR" volume stat home
"$AFAR" ns rm space

# ---- One file

random_file in 3000000
echo small >small
: >empty
"$AFAR" put small /home
"$AFAR" put in /home/a.large
"$AFAR" put empty /home/
is small cat /home/small
is '' cat /home/empty
"$AFAR" get /home/a.large out
same in out
"$AFAR" cat /home/small /home/a.large /home/small >joined
cat small in small | cmp - joined || fail "cat of several"
"$AFAR" put - /home/stream <in
"$AFAR" get /home/stream - | cmp - in || fail "standard input and output"
mkfifo feed
"$AFAR" put - /home/broken <feed &
broken=$!
running="$running $broken"
exec 9>feed
cat in >&9 # most of which has been read then
kill -TERM $broken
wait $broken && fail "standard input: a put that was interrupted has succeeded"
[ $? -eq 130 ] || fail "standard input: interrupted"
exec 9>&-
"$AFAR" cat /home/a.large >feed &
broken=$!
running="$running $broken"
exec 9<feed
head -c 1 <&9 >/dev/null
kill -TERM $broken
wait $broken && fail "standard output: a cat that was interrupted has succeeded"
[ $? -eq 130 ] || fail "standard output: interrupted"
exec 9<&-
rm feed
"$AFAR" put small in /home
mkdir several
"$AFAR" get /home/small /home/in several
same in several/in
same small several/small
is 'a.large
empty
in
small
stream' ls /home
is_field /home/in size_bytes 3000000
is_field /home/empty size_bytes 0
[ "$(field /home/in allocated_bytes)" -ge 3000000 ] || fail "allocated: $(field /home/in allocated_bytes)"

# Replaced: by a new file, with the permissions that it had; into a name that is a link, too.
"$AFAR" chmod 640 /home/small
ino=$(field /home/small ino)
echo other >other
"$AFAR" put other /home/small
is other cat /home/small
is_field /home/small mode 0640
[ "$(field /home/small ino)" != "$ino" ] || fail "it was written in place"
"$AFAR" put in /home/small
"$AFAR" get /home/small out
same in out
is_field /home/small mode 0640
chmod 600 out
ln -s out link
"$AFAR" put other /home/small
"$AFAR" get /home/small link
[ -L link ] || fail "the link went"
same other out
[ "$(stat -c %a out)" = 600 ] || fail "the file's permissions went"
"$AFAR" get /home/a.large /dev/null
mkfifo fifo
cat fifo >out &
reading=$!
running="$running $reading"
"$AFAR" get /home/a.large fifo
wait "$reading"
forget "$reading"
same in out

# Modes and times, with -p and without.
chmod 751 small
touch -d '2001-02-03 04:05:06.123456789 UTC' small
"$AFAR" put -p small /home/kept
is_field /home/kept mode 0751
is_field /home/kept mtime_ns 981173106123456789
"$AFAR" get -p /home/kept kept
[ "$(stat -c '%a %.9Y' kept)" = '751 981173106.123456789' ] || fail "get -p: $(stat -c '%a %.9Y' kept)"
(umask 077 && "$AFAR" put small /home/masked)
is_field /home/masked mode 0700

refused 1 'nothing: ' "$AFAR" put nothing /home
refused 1 "put nodir: it is a directory; -r" sh -c 'mkdir -p nodir && "$AFAR" put nodir /home'
refused 1 'no such file or directory' "$AFAR" put small /home/no/name
refused 1 'no such file or directory' "$AFAR" put small /home/none/
refused 1 'not a directory' "$AFAR" put small /home/kept/name
refused 1 'no file, directory' "$AFAR" put fifo /home
refused 1 'is a directory; name a file' "$AFAR" put - /home
refused 2 'not /FS/path' "$AFAR" put small other
refused 2 'not /FS/path' "$AFAR" put small /
refused 2 'too few' "$AFAR" put small
refused 1 'nowhere' "$AFAR" put small /nowhere/x
refused 1 '/home/none: there is no such file' "$AFAR" get /home/none out
refused 1 '/home/none: there is no such file' "$AFAR" cat /home/none
refused 1 'is a directory' "$AFAR" cat /home
refused 1 'is a directory; -r' "$AFAR" get /home out
refused 1 'No such file' "$AFAR" get /home/kept nowhere/file
refused 1 'no such folder' "$AFAR" get /home/kept nowhere/
refused 1 'no folder' "$AFAR" get -r /home kept
refused 1 'No space' sh -c '"$AFAR" cat /home/a.large >/dev/full'
got=0
"$AFAR" put nothing small nowhere /home 2>complaint || got=$?
[ "$got" -eq 1 ] && [ "$(wc -l <complaint)" -eq 2 ] || fail "of three: $got, $(cat complaint)"
is small cat /home/small

# ---- Directories and names

"$AFAR" mkdir /home/d /home/e
"$AFAR" mkdir -p /home/d/1/2/3 /home/d
"$AFAR" mkdir -m 700 /home/d/private
is_field /home/d/private mode 0700
refused 1 'something of that name' "$AFAR" mkdir /home/d
refused 1 '-p makes' "$AFAR" mkdir /home/none/d
refused 1 'not a directory' "$AFAR" mkdir -p /home/kept/d
refused 2 'octal' "$AFAR" mkdir -m rwx /home/f
refused 1 'last part is no name' "$AFAR" mkdir /home/d/..
refused 1 'is not empty' "$AFAR" rmdir /home/d
refused 1 '' "$AFAR" rmdir /home/kept
"$AFAR" rmdir /home/e /home/d/private
refused 1 'no such' "$AFAR" rmdir /home/e

"$AFAR" mv /home/stream /home/d/1/moved
refused 1 'no such' "$AFAR" stat /home/stream
"$AFAR" mv /home/masked /home/empty /home/d
is '1
empty
masked' ls /home/d
"$AFAR" mv /home/d/1 /home/one
refused 1 'something of that name' "$AFAR" mv -n /home/d/masked /home/kept
"$AFAR" mv /home/d/masked /home/kept
is_field /home/kept mode 0700
refused 1 'file systems' "$AFAR" mv /home/kept /team
refused 1 'into itself' "$AFAR" mv /home/one /home/one/2/it
refused 1 'no directory' "$AFAR" mv /home/kept /home/in /home/small
refused 1 'last part is no name' "$AFAR" mv /home /home/d

"$AFAR" ln /home/kept /home/d
is_field /home/kept nr_links 2
[ "$(field /home/kept ino)" = "$(field /home/d/kept ino)" ] || fail "ln made another file"
refused 1 'one name alone' "$AFAR" ln /home/d /home/again
refused 1 'file system' "$AFAR" ln /home/kept /team/kept
refused 1 'something of that name' "$AFAR" ln /home/kept /home/in
"$AFAR" ln -s ../kept /home/d/link
"$AFAR" ln -s nowhere /home/broken
is_field /home/d/link target ../kept
is small cat /home/d/link
refused 1 'no such' "$AFAR" cat /home/broken
is_field /home/broken type link
"$AFAR" ln -s loop /home/loop
refused 1 'symbolic links' "$AFAR" cat /home/loop
"$AFAR" ls -l /home/d >shown
grep -Eq '^lrwxrwxrwx .* link -> \.\./kept$' shown || fail "ls -l: $(cat shown)"
grep -Eq '^-rwx------   2 .* kept$' shown || fail "ls -l: $(cat shown)"
"$AFAR" rm /home/loop /home/broken

"$AFAR" touch /home/new /home/kept
is_field /home/new size_bytes 0
[ "$(field /home/kept mtime_ns)" -gt 1500000000000000000 ] || fail "touch: $(field /home/kept mtime_ns)"
refused 1 'no such' "$AFAR" touch /home/none/new
"$AFAR" chmod -R 700 /home/d
is_field /home/d mode 0700
is_field /home/d/empty mode 0700
refused 2 'octal' "$AFAR" chmod u+x /home/new
refused 1 'no such' "$AFAR" chmod 600 /home/none
if [ "$(id -u)" -eq 0 ]; then
	"$AFAR" chown 12:34 /home/new
	is_field /home/new uid 12
	is_field /home/new gid 34
	"$AFAR" chown -R :35 /home/d
	is_field /home/d/empty gid 35
	is_field /home/d/empty uid 0
fi
refused 2 'neither a user' "$AFAR" chown no.such.user /home/new
refused 2 'neither a group' "$AFAR" chown :no.such.group /home/new

# Names that a terminal should not see as they are.
"$AFAR" touch "/home/$(printf 'new\nline \033[31m')" '/home/with space' /home/.hidden '/home/ünï'
"$AFAR" ls /home >shown
grep -Fqx 'new\x0aline \x1b[31m' shown || fail "ls: $(cat -v shown)"
grep -Fqx 'ünï' shown || fail "ls: $(cat -v shown)"
! grep -q hidden shown || fail "ls shows what is hidden"
"$AFAR" ls -a /home | grep -Fqx .hidden || fail "ls -a"
"$AFAR" find /home --print0 -name 'new*line*' | tr '\0' '@' | grep -q '^line ' || fail "find --print0"
refused 1 '255 bytes' "$AFAR" touch "/home/$(head -c 256 /dev/zero | tr '\0' n)"

# ---- What looks at trees

is '/home/one
/home/one/2
/home/one/moved
/home/one/2/3' find /home/one
is '/home/one/moved' find /home/one/ -type f
is '/home/one
/home/one/2
/home/one/2/3' find /home/one --type d
is '/home/d/kept' find /home/d -name 'ke*' -type f
refused 2 'f, d or l' "$AFAR" find /home -type x
is '/home/one:
2
moved

/home/one/2:
3

/home/one/2/3:' ls -R /home/one
is /home/one ls -d /home/one
"$AFAR" ls --json /home/one | python3 -c '
import json, sys
assert [(f["name"], f["type"]) for f in json.load(sys.stdin)] == [("2", "directory"), ("moved", "file")]' || fail "ls --json"
"$AFAR" du /home/one >shown
[ "$(wc -l <shown)" -eq 3 ] && tail -n 1 shown | grep -Eq ' /home/one$' || fail "du: $(cat shown)"
[ "$("$AFAR" du -s --bytes /home/one | awk '{ print $1 }')" -ge 3000000 ] || fail "du: $("$AFAR" du -s --bytes /home/one)"

# ---- Trees

mkdir -p tree/sub
echo 1 >tree/one
echo 2 >tree/sub/two
mkfifo tree/fifo
"$AFAR" put -r tree /home/trees 2>noted
[ "$(wc -l <noted)" -eq 1 ] && grep -q 'note: .*tree/fifo: skipped' noted || fail "special files: $(cat noted)"
is '/home/trees
/home/trees/one
/home/trees/sub
/home/trees/sub/two' find /home/trees
"$AFAR" put -r tree /home/trees 2>noted
is 2 cat /home/trees/tree/sub/two
refused 1 'no directory' "$AFAR" put -r tree /home/kept
"$AFAR" put empty /home/trees/tree/full
echo x >tree/full
mkdir tree/one.d
"$AFAR" mkdir /home/trees/tree/blocked
echo x >tree/blocked
got=0
"$AFAR" put -r tree /home/trees 2>complaint || got=$?
[ "$got" -eq 1 ] && grep -v note: complaint | grep -q 'blocked: it is a directory' || fail "blocked: $got, $(cat complaint)"
[ "$(wc -l <complaint)" -eq 2 ] || fail "blocked: $(cat complaint)"
is x cat /home/trees/tree/full
"$AFAR" get -r /home/trees got
is_tree() {
	[ "$(cat "$1/one" "$1/sub/two" | tr '\n' ' ')" = '1 2 ' ] || fail "$1: $(find "$1")"
}
is_tree got
is_tree got/tree
"$AFAR" get -r /home/trees got
is_tree got/trees
"$AFAR" get -r /home/trees/. other.got
is_tree other.got
# A tree cannot write through a link that it has brought.
"$AFAR" mkdir /home/trap /home/trap/out
"$AFAR" touch /home/trap/out/file
mkdir -p trapped/trap outside
ln -s ../../outside trapped/trap/out
refused 1 'no directory' "$AFAR" get -r /home/trap trapped
[ ! -e outside/file ] || fail "it left its folder"

refused 1 'is a directory; -r' "$AFAR" rm /home/trees
refused 1 'afar fs rm home' "$AFAR" rm -r /home
refused 1 'last part is no name' "$AFAR" rm -r /home/trees/.
refused 1 'no such' "$AFAR" rm /home/none
"$AFAR" rm -f /home/none
got=0
"$AFAR" rm /home/none /home/new 2>complaint || got=$?
[ "$got" -eq 1 ] && [ "$(wc -l <complaint)" -eq 1 ] || fail "rm of two: $got, $(cat complaint)"
refused 1 'no such' "$AFAR" stat /home/new
"$AFAR" rm -r /home/trees /home/one /home/kept
refused 1 'no such' "$AFAR" ls /home/trees

# ---- Users, and rights

if [ "$(id -u)" -eq 0 ]; then
	# The folder where this was built may be closed to that user.
	mkdir joes
	cp "$AFAR" joes
	ldd "$AFAR" | awk '$1 ~ /^libafar/ { print $3 }' | xargs -I '{}' cp '{}' joes
	chmod 755 "$PWD" joes
	"$AFAR" key add joe --uid 1234 --gid 1234 --out joe.key
	chown 1234 joe.key
	joe() {
		LD_LIBRARY_PATH=$PWD/joes setpriv --reuid 1234 --regid 1234 --clear-groups joes/afar --key joe.key --cluster "${AFAR_CLUSTER%%\?*}" "$@"
	}
	refused 1 "'joe' has a right" env "LD_LIBRARY_PATH=$PWD/joes" setpriv --reuid 1234 --regid 1234 --clear-groups \
		joes/afar --key joe.key ls /home
	"$AFAR" ns grant home joe rw
	joe ls /home >/dev/null
	"$AFAR" chmod 755 /home/d
	[ "$(joe cat /home/in | cksum)" = "$(cksum <in)" ] || fail "joe cannot read"
	got=0
	joe touch /home/joes 2>complaint || got=$?
	[ "$got" -eq 1 ] && grep -q 'uid 1234 may not' complaint || fail "joe may write: $got, $(cat complaint)"
	"$AFAR" mkdir -m 777 /home/open
	joe touch /home/open/joes
	is_field /home/open/joes uid 1234
	"$AFAR" chmod 600 /home/in
	got=0
	joe cat /home/in 2>complaint || got=$?
	[ "$got" -eq 1 ] && grep -q 'uid 1234 may not' complaint || fail "joe may read: $got, $(cat complaint)"
	"$AFAR" ns grant home joe r
	joe ls /home >/dev/null
	got=0
	joe touch /home/open/more 2>complaint || got=$?
	[ "$got" -eq 1 ] || fail "joe may write with the right to read"
fi

# ---- The end

refused 1 'force' "$AFAR" fs rm home
"$AFAR" fs rm home --force
"$AFAR" fs rm team
is '' ls
"$AFAR" ns ls | awk 'NR > 1 { exit 1 }' || fail "left: $("$AFAR" ns ls)"
still_works
