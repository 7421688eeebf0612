#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What commands say when they refuse: in the user's own words, with the thing's name, and with what helps.
# shellcheck source=tests/system/cluster.sh disable=SC2154 # cluster.sh sets host, uri and scratch
. "$(dirname "$0")/cluster.sh"

start_daemon all --data afar-data --listen "$host:0" --memory 512M
AFAR_CLUSTER=$uri
export AFAR_CLUSTER
key=$scratch/afar-data/key
random_file in 100000

# ---- Which cluster, and which key

refused 1 "nosuch.invalid: its name cannot be resolved" "$AFAR" --cluster "afar://nosuch.invalid?key=$key" ns ls
refused 1 "key file 'nowhere': does not exist; check its name" "$AFAR" --key nowhere ns ls
"$AFAR" key add alice --out alice
(umask 077 && sed 's/:.*/:'"$(printf '%064d' 7)"'/' alice >wrong && sed s/alice/nobody/ alice >unknown)
refused 1 'does not accept the key "alice": .* that one.s secret differs' "$AFAR" --key wrong ns ls
grep -q 'its secret for the key "alice" is not the one known here' all.err || fail "the manager's log: $(cat all.err)"
refused 1 'does not accept the key "nobody": it knows none of this name' "$AFAR" --key unknown ns ls
grep -q 'its key "nobody" is unknown' all.err || fail "the manager's log: $(cat all.err)"
refused 1 'choose another port .*--listen 127.0.0.1:0' "$AFARD" --data other --listen "$host:$(manager_port)"

# ---- What a namespace, a volume and a file system are called

"$AFAR" fs create home --max 8M
"$AFAR" volume create disk 4M
"$AFAR" ns create plain
"$AFAR" region put in plain:a >/dev/null
refused 1 "all of the file system 'home'; 'afar fs rm' removes" "$AFAR" region rm home:@0x1000
refused 1 "all of the volume 'disk'; 'afar volume rm' removes" "$AFAR" region rm disk:@0x1000
refused 1 "'home': it is a file system, which .*'afar put'" "$AFAR" region put in home:b
refused 1 "'disk': it is a volume, which .*'afar volume resize'" "$AFAR" region put in disk:b
refused 1 "open a region of 'home': it is a file system" "$AFAR" region get home:@0x1000 out
refused 1 "open file system 'none': there is none; see 'afar fs ls'" "$AFAR" ls /none
refused 1 "open file system 'none': there is none" "$AFAR" fs rm none
refused 1 "remove volume 'none': there is none; see 'afar volume ls'" "$AFAR" volume rm none
refused 1 "remove volume 'home': it is a file system; see 'afar fs rm'" "$AFAR" volume rm home
refused 1 "remove namespace 'none': there is none; see 'afar ns ls'" "$AFAR" ns rm none
refused 1 "remove region 'b' in 'plain': there is none; 'afar region ls plain'" "$AFAR" region rm plain:b

# as_alice COMMAND…
refused_to_alice() {
	wanted=$1
	shift
	refused 1 "$wanted" "$AFAR" --key alice "$@"
}
"$AFAR" ns grant plain alice r
"$AFAR" ns grant disk alice r
"$AFAR" ns grant home alice r
refused_to_alice "list keys: only operators may, and 'alice'" key ls
refused_to_alice "add key 'bob': only operators may" key add bob
refused_to_alice "revoke key 'bob': only operators may" key revoke bob
refused_to_alice "check the manager's records: only operators may" manager check
refused_to_alice "remove volume 'disk': 'alice' does not own volume 'disk'" volume rm disk
refused_to_alice "remove file system 'home': 'alice' does not own file system 'home'" fs rm home
refused_to_alice "remove namespace 'plain': 'alice' does not own" ns rm plain
refused_to_alice "make region 'b': 'alice' may not write to namespace 'plain'" region put in plain:b
refused_to_alice "remove region 'a': 'alice' may not write to namespace 'plain'" region rm plain:a

# ---- Grammar, and help where it is looked for

"$AFAR" touch /home/one
refused 1 "it has 1 file or directory; --force" "$AFAR" fs rm home
"$AFAR" touch /home/two
refused 1 "it has 2 files or directories; --force" "$AFAR" fs rm home
"$AFAR" region put --cow in plain:c | grep -q '1 of 1 unit is new' || fail "put --cow"
"$AFAR" ns help >help_of_ns
"$AFAR" help ns | cmp - help_of_ns || fail "ns help is not help ns: $(cat help_of_ns)"

# ---- The terminal's width

python3 -B - "$(dirname "$0")" <<'END' || fail "afar status on a terminal"
import os, re, sys
sys.path.insert(0, sys.argv[1])
from terminal import show

def words(shown):
    return set(re.sub("[0-9.]+", "N", shown).split())

narrow, wide = (show([os.environ["AFAR"], "status"], columns) for columns in (80, 300))
assert max(len(line) for line in narrow.splitlines()) <= 80, narrow
assert words(narrow) == words(wide), (narrow, wide)
END

# ---- Clients and servers that are gone

stop_daemon all
start_manager
start_server one 64M
"$AFAR" fs create home --max 8M
"$AFAR" ns create plain
"$AFAR" region put in plain:a >/dev/null
"$AFAR" put in /home/held
mkfifo pipe
exec 5<>pipe # which nobody reads
"$AFAR" cat /home/held >pipe 5<&- &
reader=$!
eventually sh -c '"$AFAR" fs stat home --json | grep -q "\"nr_clients\": 1"'
kill -9 "$reader"
wait "$reader" 2>/dev/null || :
exec 5<&-
# says PATTERN COMMAND…: it fails, and says so.
says() {
	pattern=$1
	shift
	! "$@" 2>said && grep -Eq "$pattern" said
}
eventually says "its connection is lost, and it ends in [0-9]+ s: try again then" "$AFAR" fs rm home --force
kill_daemon one
eventually says "it has ended, and server 'one', which is down for [0-9]+ s, has not closed its connections: start that" "$AFAR" fs rm home --force
refused 1 'reach server one: it is down, for [0-9]+ s; start it again' "$AFAR" region get plain:a out
start_server one 64M
eventually "$AFAR" fs rm home --force

# ---- The machine's limits

# A sanitizer takes more than that by itself.
if [ "$slowness" -eq 1 ]; then
	(
		# shellcheck disable=SC3045 # dash has it
		ulimit -v 200000
		refused 1 'no room in the address space .*ulimit -v' "$AFARD" --role manager --data small --listen "$host:0"
	)
fi

# A disk of its own, which only the manager sees.
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
	mkdir tight
	cat >afard_in_tight <<'END'
#!/bin/sh
exec unshare --mount sh -c 'mount -t tmpfs -o size=8M none tight && exec "$0" "$@"' "$REAL_AFARD" "$@"
END
	chmod 755 afard_in_tight
	REAL_AFARD=$AFARD
	AFARD=$PWD/afard_in_tight
	export REAL_AFARD
	start_daemon full --role manager --data tight/m --listen "$host:0"
	tight=/proc/$(pid_of full)/root$scratch/tight
	cp "$tight/m/key" key_of_full
	dd if=/dev/zero of="$tight/fill" bs=4k 2>/dev/null || :
	refused 1 "open a session .* the manager's .*: its disk is full; make room" "$AFAR" --cluster "${uri%%\?*}" --key key_of_full ns ls
	rm "$tight/fill"
fi
