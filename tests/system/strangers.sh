#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What a key learns of namespaces, volumes and file systems on which it has no right, and of servers' disks: nothing. Each command
# is run while there is nothing of the name, and while there is; both must say the same.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_manager
start_daemon one --role server --data "$scratch/one" --name one --data-listen "tcp:$host:0" --flash 64M \
	--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M
"$AFAR" key add alice --out alice
"$AFAR" key add bob --uid "$(id -u)" --gid "$(id -g)" --out bob
"$AFAR" ns create bobs --max 4M
"$AFAR" ns grant bobs bob rw
mkdir place
echo 1 2 >file
without_key=${AFAR_CLUSTER%%\?*}

# as_bob ARGUMENT…: completion takes its key from the environment alone.
as_bob() {
	AFAR_CLUSTER=$without_key AFAR_KEY=bob timeout $((60 * slowness)) "$AFAR" "$@" </dev/null
}

# Of what bob has no right to, whatever kind it is.
names='secret.ns secret.volume secret.fs'
# NAME is one of them.
cat >commands <<'END'
ns create NAME
ns grant NAME bob r
ns stat NAME
ns set NAME --max 1M
ns rm NAME --force
ns reserve NAME 2M
ns release NAME
ns accept-older NAME --yes
region put file NAME:a
region get NAME:a -
region ls NAME
region stat NAME:a
region resize NAME:a 5M
region seal NAME:a
region verify NAME:a
region rm NAME:a
volume create NAME 1M
volume stat NAME
volume resize NAME 8M
volume rm NAME
export NAME
export NAME --read-only
fs create NAME
fs stat NAME
fs check NAME
fs check NAME --lost
fs set NAME --max 1M
fs set-layout /NAME --default
fs shrink NAME
fs rm NAME --force
put file /NAME/f
get /NAME/f -
cat /NAME/f
ls /NAME
stat /NAME/f
find /NAME
du /NAME
df NAME
mkdir /NAME/d
rm /NAME/f
rmdir /NAME/d
mv /NAME/f /NAME/g
ln -s /NAME/f /NAME/g
touch /NAME/f
chmod 600 /NAME/f
chown 0 /NAME/f
mount NAME place
sort run NAME:a bobs:b
sort generate NAME:a --records 10
sort verify NAME:a
graph import file NAME:a
graph rmat NAME:a --scale 2
graph pagerank NAME:a
graph components NAME:a
graph bfs NAME:a --from 0
graph sssp NAME:a --from 0
graph path NAME:a --from 0 --to 1
END
# They name nothing of the kind (or only oneself does), or list, which is looked at below.
others='up init join status top doctor ns ls volume ls fs ls umount run key add key ls key set key revoke manager accept-older manager check server rm store ls store add store rm
	store forget store free-orphans bench flash create flash info flash check flash repair help'

# Each command that there is is in one of the two.
"$AFAR" help | sed -n 's/^  \([a-z][a-z-]*\( [a-z][a-z-]*\)\{0,1\}\) .*/\1/p' | sort -u >known
[ "$(wc -l <known)" -gt 40 ] || fail "help: $("$AFAR" help)"
while read -r command; do
	grep -q "^$command " commands && continue
	case " $(echo "$others" | tr -s '\n\t' '  ') " in *" $command "*) continue ;; esac
	fail "what does a stranger learn by 'afar $command'?"
done <known

# ask_all FOLDER: what bob is answered, a file for each name: all commands' lines and statuses.
ask_all() {
	mkdir "$1"
	for name in $names; do
		while read -r line; do
			case $name:$line in
			*:*create*) continue ;;
			secret.ns:* | *:ns* | *:volume* | *:fs* | *:export* | *:mount* | *:region?put* | *:put* | *:ls*) ;;
			*) continue ;; # what they have in common is seen above
			esac
			echo "--- $line"
			# shellcheck disable=SC2046 # words
			as_bob $(echo "$line" | sed "s/NAME/$name/g") 2>&1 && echo succeeded || echo "failed: $?"
		done <commands >"$1/$name"
	done
}

ask_all before
"$AFAR" --key alice ns create secret.ns
"$AFAR" --key alice ns reserve secret.ns 4M
"$AFAR" --key alice region put file secret.ns:a >/dev/null
"$AFAR" --key alice volume create secret.volume 1M >/dev/null
"$AFAR" --key alice fs create secret.fs >/dev/null
ask_all there
for name in $names; do
	diff "before/$name" "there/$name" || fail "bob learns of $name"
	if grep -Eq '^(succeeded|failed: (0|2|124|13[0-9]))$' "there/$name"; then
		fail "not all commands were carried out, and refused: $(cat "there/$name")"
	fi
done

# A name that is taken is taken; nobody hears whose it is, or what.
for name in $names; do
	for command in 'ns create NAME' 'volume create NAME 1M' 'fs create NAME'; do
		# shellcheck disable=SC2046 # words
		refused 1 "'$name': the name is taken; take another$" "$AFAR" --key bob $(echo "$command" | sed "s/NAME/$name/")
	done
done

# Lists leave them out; operators see all.
lists() {
	for list in 'status' 'status --json' 'ns ls' 'volume ls' 'fs ls' 'df' 'ls' 'store ls' 'store ls --json' 'complete ns rm s' \
		'complete region get secret.ns:' 'complete volume stat s' 'complete ls /s'; do
		# shellcheck disable=SC2086 # words
		"$@" $list
	done
}
lists "$AFAR" >all
for word in secret.ns secret.volume secret.fs alice "$scratch/one"; do
	grep -q "$word" all || fail "an operator does not see $word: $(cat all)"
done
lists as_bob >bobs
grep -q bobs bobs || fail "bob does not see his own: $(cat bobs)"
if grep -E "secret|alice|$scratch/one" bobs; then
	fail "bob sees what he has no right to"
fi
