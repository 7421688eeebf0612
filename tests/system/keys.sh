#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Principals: made, listed, ended; what each may do and not do; what a revoked one still can.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

# as NAME ARGUMENT…: afar with that principal's key.
as() {
	principal=$1
	shift
	"$AFAR" --key "$principal" "$@"
}

# refused_as NAME PATTERN ARGUMENT…: what it may not, in one line.
refused_as() {
	principal=$1 expected=$2
	shift 2
	refused 1 "$expected" "$AFAR" --key "$principal" "$@"
}

# kind NAME: what `key ls` calls it; nothing when it is none.
kind() {
	"$AFAR" key ls | awk -v name="$1" '$1 == name { print $2 }'
}

start_cluster
server_key=$PWD/manager/server.key
[ "$(stat -c %a "$server_key")" = 600 ] || fail "server.key's mode is $(stat -c %a "$server_key")"
grep -Eq '^server:[0-9a-f]{64}$' "$server_key" || fail "what is in server.key"
grep -Eq '^admin:[0-9a-f]{64}$' manager/key || fail "what is in key"

# ---- Made and listed

"$AFAR" key add alice --out alice >added
[ ! -s added ] || fail "key add --out printed: $(cat added)"
[ "$(stat -c %a alice)" = 600 ] || fail "the mode of a key is $(stat -c %a alice)"
grep -Eq '^alice:[0-9a-f]{64}$' alice || fail "what --out wrote"
umask 077
"$AFAR" key add bob >bob
grep -Eq '^bob:[0-9a-f]{64}$' bob || fail "what key add printed"
[ "$(kind admin) $(kind server) $(kind alice) $(kind bob)" = "operator server client client" ] ||
	fail "key ls: $("$AFAR" key ls)"
"$AFAR" key ls --json | python3 -c '
import json, sys
keys = {k["name"]: k for k in json.load(sys.stdin)}
assert sorted(keys) == ["admin", "alice", "bob", "server"]
assert keys["alice"]["kind"] == "client" and keys["alice"]["nr_sessions"] == 0
assert keys["admin"]["nr_sessions"] == 1' || fail "key ls --json: $("$AFAR" key ls --json)"
"$AFAR" key add carol --uid 1234 --gid 5,6 >/dev/null
"$AFAR" key add dave --any-uid >/dev/null
"$AFAR" ns create theirs
"$AFAR" ns grant theirs carol r
"$AFAR" ns grant theirs dave rw
"$AFAR" key ls >listed
grep -Eq '^carol +client +0 +0 B +-  uid 1234 +theirs \(r\)$' listed || fail "key ls: $(cat listed)"
grep -Eq '^dave +client +0 +0 B +-  any uid +theirs \(rw\)$' listed || fail "key ls: $(cat listed)"
grep -Eq '^bob +client +0 +0 B +-  - +-$' listed || fail "key ls: $(cat listed)"
grep -Eq '^admin +operator +1 +- +-  any uid +all$' listed || fail "key ls: $(cat listed)"
"$AFAR" key ls --json | python3 -c '
import json, sys
keys = {k["name"]: k for k in json.load(sys.stdin)}
assert keys["carol"]["uid"] == 1234 and not keys["carol"]["any_uid"]
assert keys["carol"]["namespaces"] == [{"name": "theirs", "rights": "r"}]
assert keys["dave"]["uid"] is None and keys["dave"]["any_uid"]' || fail "key ls --json: $("$AFAR" key ls --json)"
"$AFAR" key revoke carol
"$AFAR" key revoke dave
"$AFAR" ns rm theirs
if "$AFAR" key ls --json | grep -Fq "$(cut -d : -f 2 alice)"; then
	fail "key ls tells a secret"
fi

refused 1 'alice' "$AFAR" key add alice
refused 1 'admin' "$AFAR" key add admin
refused 1 'server' "$AFAR" key add --server server
cp alice before
refused 1 'alice exists' "$AFAR" key add carol --out alice
same before alice
refused 1 'no/such' "$AFAR" key add carol --out no/such/file
refused 1 '' "$AFAR" key add carol --out "$(printf 'no/\033[31m')"
refused 1 'No space' sh -c '"$1" key add carol >/dev/full' sh "$AFAR"
[ -z "$(kind carol)" ] || fail "a key that nobody has was made"
refused 1 'bob' "$AFAR" key add bob --out taken
[ ! -e taken ] || fail "key add left a file of a key that it did not make"
for name in '' 'a b' 'a/b' 'a:b' 'pass/1/2' 'a%b' "$(printf '%033d' 0)" "$(printf 'a\nb')" \
	"$(printf 'a\033[31m')"; do
	refused 1 'A-Z' "$AFAR" key add -- "$name"
done
refused 2 'too few' "$AFAR" key add
refused 2 'unexpected' "$AFAR" key revoke one two
refused 2 'add, ls, set, revoke' "$AFAR" key

# ---- Not an operator

refused_as alice 'operator' key ls
refused_as alice 'operator' key add mallory
refused_as alice 'operator' key add mallory --out mallory
refused_as alice 'operator' key revoke bob
[ ! -e mallory ] || fail "a refused key add left a file"

# ---- Rights on namespaces

random_file in 3000000
as alice ns create hers
as alice ns reserve hers 16M
as alice region put in hers:a >/dev/null
as alice ns ls | grep -Eq '^hers .* rw +alice$' || fail "ns ls: $(as alice ns ls)"
"$AFAR" ns ls | grep -Eq '^hers .* rw +alice$' || fail "ns ls: $("$AFAR" ns ls)"
[ "$(as bob ns ls | wc -l)" -eq 1 ] || fail "bob sees: $(as bob ns ls)"
if as bob status --json | grep -Eq 'hers|alice'; then
	fail "bob's status: $(as bob status --json)"
fi
refused_as bob "namespace 'hers': there is none on which 'bob' has a right" region ls hers
refused_as bob "namespace 'hers': there is none on which 'bob' has a right" region get hers:a out
refused_as bob "namespace 'hers': there is none on which 'bob' has a right" region put in hers:b
refused_as bob "namespace 'hers': there is none on which 'bob' has a right" ns rm hers --force
refused_as bob "namespace 'hers': there is none on which 'bob' has a right" ns grant hers bob rw

as alice ns grant hers bob r
as bob ns ls | grep -Eq '^hers .* r +alice$' || fail "ns ls: $(as bob ns ls)"
as bob region get hers:a out >/dev/null
same in out
refused_as bob 'hers' region put in hers:b
refused_as bob 'hers' region rm hers:a
refused_as bob 'hers' ns reserve hers 1M
refused_as bob 'hers' ns grant hers bob rw

as alice ns grant hers bob rw
as bob region put in hers:b >/dev/null
as bob region rm hers:b
refused_as bob 'hers' ns reserve hers 1M
refused_as bob 'hers' ns release hers
refused_as bob 'hers' ns rm hers --force
refused_as bob 'hers' ns grant hers bob r

as alice ns grant hers bob none
refused_as bob "namespace 'hers': there is none on which 'bob' has a right" region get hers:a out
[ "$(as bob ns ls | wc -l)" -eq 1 ] || fail "bob sees: $(as bob ns ls)"
"$AFAR" ns grant hers bob r # an operator may
as bob region get hers:a out >/dev/null

refused_as alice 'nobody' ns grant hers nobody r
refused_as alice 'a b' ns grant hers 'a b' r
refused_as alice 'server' ns grant hers server r
refused_as alice 'nowhere' ns grant nowhere bob r
refused 2 'r, rw or none' "$AFAR" ns grant hers bob w
refused 2 'too few' "$AFAR" ns grant hers bob

# Rights that are taken away in the middle of a copy end the session that made it.
as alice ns grant hers bob rw
mkfifo feed
as bob region put feed hers:half --size 2M >put.out 2>put.err &
put=$!
running="$running $put"
exec 4>feed
head -c 1000000 /dev/zero >&4
alone() {
	[ "$("$AFAR" status --json | grep -c '"client":')" -eq 1 ]
}
has_open() {
	[ "$(as bob status --json | grep -c '"client":')" -gt 1 ]
}
eventually has_open
as alice ns grant hers bob r
# It answers when that is decided; what ended goes from the list when the servers have heard of it.
eventually alone
head -c 1097152 /dev/zero >&4 2>/dev/null || :
exec 4>&-
if wait "$put"; then
	fail "a copy went on without rights"
fi
[ "$(grep -c '^afar: ' put.err)" -eq 1 ] || fail "the copy complained: $(cat put.err)"
grep -q 'session has ended' put.err || fail "the copy complained: $(cat put.err)"
as bob region get hers:a out >/dev/null

# ---- Ending

refused 1 'nobody' "$AFAR" key revoke nobody
refused 1 'key' "$AFAR" key revoke admin # oneself
refused 1 'key' "$AFAR" key revoke server
[ "$(kind admin) $(kind server)" = "operator server" ] || fail "key ls: $("$AFAR" key ls)"

as alice status >/dev/null
"$AFAR" key revoke alice
refused_as alice 'alice.*key|key.*alice|key' status
[ -z "$(kind alice)" ] || fail "alice is still listed"
refused 1 'alice' "$AFAR" key revoke alice
"$AFAR" region get hers:a out >/dev/null # hers stays, in the hands of the operators
same in out
as bob region get hers:a out >/dev/null
"$AFAR" key add alice --out alice2
refused_as alice 'key' status
as alice2 status >/dev/null

# A revoked principal's session ends, in the middle of what it does.
"$AFAR" ns grant hers bob rw
mkfifo feed2
as bob region put feed2 hers:other --size 2M >put.out 2>put.err &
put=$!
running="$running $put"
exec 4>feed2
head -c 1000000 /dev/zero >&4
eventually has_open
"$AFAR" key revoke bob
eventually alone
head -c 1097152 /dev/zero >&4 2>/dev/null || :
exec 4>&-
if wait "$put"; then
	fail "a copy went on without a key"
fi
[ "$(grep -c '^afar: ' put.err)" -eq 1 ] || fail "the copy complained: $(cat put.err)"
grep -q 'session has ended' put.err || fail "the copy complained: $(cat put.err)"
"$AFAR" ns rm hers --force
still_works

# ---- The wrong kind of key

refused 1 'join key' "$AFAR" --key "$server_key" status
refused 1 'join key' "$AFAR" --key "$server_key" ns create x
# A server that may not join ends, instead of trying for ever.
# refused_join KEY PATTERN: it was never in the cluster.
refused_join() {
	refused 1 "$2" "$AFARD" --role server --data imposter --name imposter --key "$1" \
		--manager "$AFAR_CLUSTER" --memory 32M
}
refused_join alice2 "alice.*join key"
(umask 077 && echo "nobody:$(printf '%064d' 7)" >nobody)
refused_join nobody 'does not accept the key .nobody.*key add --server'
(umask 077 && echo "server:$(printf '%064d' 7)" >wrong)
refused_join wrong 'does not accept the key .server'
# Whether a name has a key is nothing that strangers learn.
for name in alice nobody; do
	(umask 077 && echo "$name:$(printf '%064d' 7)" >guessed)
	refused 1 "does not accept the key .$name.: it knows none of this name, or that one's secret differs" "$AFAR" --key guessed status
	sed "s/$name/NAME/g" refused.line >"guessed.$name"
done
same guessed.alice guessed.nobody
if "$AFAR" status | grep -q imposter; then
	fail "a server joined with a client's key"
fi

# ---- Keys of servers

"$AFAR" key add --server rack-7 --out rack-7
[ "$(kind rack-7)" = server ] || fail "key ls: $("$AFAR" key ls)"
start_daemon three --role server --data three --name three --key rack-7 --manager "$AFAR_CLUSTER" \
	--memory 32M
"$AFAR" status | grep -Eq '^three +up ' || fail "status: $("$AFAR" status)"
refused 1 'join key' "$AFAR" --key rack-7 status

# A server that runs gets another key, and what is in its memory stays. Both are good meanwhile.
# has_joined_with NAME
has_joined_with() {
	[ "$("$AFAR" key ls | awk -v name="$1" '$1 == name { print $3 }')" = 1 ]
}
"$AFAR" ns create kept
"$AFAR" region put in kept:a >/dev/null
"$AFAR" key add --server rack-8 --out new
cat new rack-7 >both
mv both rack-7
kill -HUP "$(pid_of three)"
eventually has_joined_with rack-8
"$AFAR" key revoke rack-7
"$AFAR" region get kept:a out >/dev/null
same in out
# By itself, when the old one is not good any more. It passes over a key that the manager does not know.
rm new
"$AFAR" key add --server rack-9 --out new
cat nobody new >rack-7
"$AFAR" key revoke rack-8
eventually has_joined_with rack-9
"$AFAR" region get kept:a out >/dev/null
same in out
# A file that cannot be read changes nothing.
echo nonsense >rack-7
kill -HUP "$(pid_of three)"
eventually grep -q 'rack-7.*goes on with the key of .rack-9' three.err
has_joined_with rack-9 || fail "key ls: $("$AFAR" key ls)"
"$AFAR" region get kept:a out >/dev/null
"$AFAR" ns rm kept --force

"$AFAR" key revoke rack-9
is_out() { # who held nothing is not listed any more
	"$AFAR" status >shown && ! grep -Eq '^three +up ' shown
}
eventually is_out
# A member tries on when its key is not good any more: it may be again.
eventually grep -q 'did not accept the key' three.err
stop_daemon three

# ---- What a restart of the manager remembers

port=$(manager_port)
stop_daemon manager
start_manager "$port"
as alice2 status >/dev/null
refused_as alice 'key' status
refused_as bob 'key' status
refused 1 'alice' "$AFAR" key add alice

# A data folder of an earlier release has no server.key: it gets one.
stop_daemon manager
stop_daemon one
mv manager/server.key before
start_manager "$port"
[ "$(stat -c %a manager/server.key)" = 600 ] || fail "server.key's mode"
if cmp -s before manager/server.key; then
	fail "the same key twice"
fi
start_server one
still_works
