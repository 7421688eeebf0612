#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The help, cut at words to the terminal's width; the shells' completion and the manual page, which know each command and flag that
# help shows.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

# ---- Help

"$AFAR" --help >overview
"$AFAR" help | cmp - overview || fail "help is not --help"
"$AFAR" region put --help >put
"$AFAR" help region put | cmp - put || fail "help COMMAND is not COMMAND --help"
grep -q -- '^  --replace ' put || fail "help region put: $(cat put)"
"$AFAR" help up | grep -q 'afard' || fail "help up"
"$AFAR" help bench | grep -q -- '--reps' || fail "help bench"
"$AFAR" help help | grep -q 'afar help' || fail "help help"
"$AFAR" region --help >group
grep -q '^  region seal ' group || fail "region --help: $(cat group)"
! grep -q '^  ns ' group || fail "region --help: $(cat group)"
"$AFAR" help region | cmp - group || fail "help region is not region --help"
refused 2 'frobnicate' "$AFAR" help frobnicate
refused 2 'put, get, ls' "$AFAR" help region frobnicate
refused 2 'unexpected argument' "$AFAR" help region put more

python3 -B - "$(dirname "$0")" <<'END' || fail "the help's layout"
import os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from terminal import show

afar = os.environ["AFAR"]

def text(words, columns=None):
    if columns is None:
        return subprocess.run([afar, *words], stdout=subprocess.PIPE, check=True, text=True).stdout
    return show([afar, *words], columns)

for words in (["help"], ["help", "region"], ["help", "flash", "check"], ["help", "top"], ["region", "put", "--help"], ["help", "up"]):
    plain = text(words)
    for columns in (None, 44, 60, 100, 200):
        wrapped = text(words, columns)
        assert wrapped.split() == plain.split(), (words, columns, wrapped)
        longest = max(len(line) for line in wrapped.splitlines())
        assert longest <= (columns or 80), (words, columns, wrapped)
    assert len(text(words, 200).splitlines()) <= len(plain.splitlines()) <= len(text(words, 44).splitlines())
END

# ---- Completion

# soon COMMAND…: it succeeds, if not at once. Completion does not wait for long, and names nothing when a
# busy machine is late with the names.
soon() {
	for _ in 1 2 3 4 5 6 7 8; do
		"$@" && return
	done
	return 1
}

# offers WANTED WORD…: completing the last word offers WANTED, among others.
offers() {
	wanted=$1
	shift
	soon is_offered "$wanted" "$@" || fail "'$wanted' is not offered for '$*': $(cat offered)"
}

is_offered() {
	offer=$1
	shift
	"$AFAR" complete "$@" >offered 2>complaint || fail "complete $*: it ended with $?"
	[ ! -s complaint ] || fail "complete $*: $(cat complaint)"
	grep -Fqx -- "$offer" offered
}

# offers_only 'CANDIDATE…' WORD…
offers_only() {
	wanted=$1
	shift
	soon is_all "$wanted" "$@" || fail "for '$*' are offered: $(cat offered)"
}

is_all() {
	offer=$1
	shift
	"$AFAR" complete "$@" >offered 2>&1
	[ "$(tr '\n' ' ' <offered)" = "${offer:+$offer }" ]
}

# Commands are what stands at the beginning of a line up to the first word that is no command's.
sed -n 's/^  \([a-z]\)/\1/p' overview | sed 's/ *[^a-z -].*//; s/   *.*//; s/ *$//' >commands
[ "$(wc -l <commands)" -ge 20 ] || fail "not all commands: $(cat commands)"
"$AFAR" complete '' | sort >offered
cut -d' ' -f1 commands | sort -u | diff - offered || fail "the commands' first words"
cp offered groups
while read -r group; do
	"$AFAR" complete help "$group" '' | sort >offered
	sed -n "s/^$group //p" commands | sort | diff - offered || fail "the commands of $group"
done <groups
while read -r group command; do
	# shellcheck disable=SC2086 # a command has one word or two
	"$AFAR" help $group $command | sed -n 's/^  \(-[a-zA-Z]\|--[a-z0-9-]*\)\( .*\|$\)/\1/p' >in_order
	sort in_order >flags
	"$AFAR" complete "$group" ${command:+"$command"} - | sort >offered
	comm -23 flags offered >missing
	[ ! -s missing ] || fail "flags of $group $command: $(cat missing)"
	cat flags >>all_flags
	echo "$group${command:+ $command}" "$([ "$group" = up ] || sed '/^--cluster/,$d' in_order | tr '\n' ' ')" >>for_manual
done <commands
[ "$(wc -l <all_flags)" -ge 100 ] || fail "not all flags: $(cat all_flags)"
python3 - for_manual "$COMPLETIONS"/../../../docs/man/afar*.1.scd <<'END' || fail "the pages of afar(1) have not all that help has"
import re, sys

manual = "".join(open(page).read() for page in sys.argv[2:])
for line in open(sys.argv[1]):
    command = re.sub(" +-.*", "", line).strip()
    entry = re.search(rf"^\*afar {command}\*(?: .*|)$", manual, re.M)
    assert entry, f"afar(1) has no 'afar {command}'"
    for flag in re.findall("(?<= )--?[a-zA-Z0-9-]+", line):
        assert re.search(rf"\*{flag}[* ]", entry[0]), f"afar(1) has no {flag} of 'afar {command}'"
END
offers put region ''
offers put region p
for flag in $(grep -Eo '^  --[a-z-]+' overview); do
	offers "$flag" --
done
offers_only 'ns' n
offers_only 'create' ns c
offers_only '--replace' region put --r
offers_only 'r rw none' ns grant scratch joe ''
offers_only 'dram flash' ns create --tier ''
offers_only ':file' region put ''
offers_only ':file' key add --out ''
offers_only ':file' --key ''
offers_only '' ns create --width ''
offers_only '' ns create some ''
offers_only '' frobnicate ''
offers_only '' region frobnicate ''

# Names are those of the cluster; without one there are none, and no complaint.
offers_only '' region ls ''
start_cluster
random_file in 100000
"$AFAR" ns create scratch
"$AFAR" ns create scratch2
"$AFAR" region put in 'scratch:first' >/dev/null
"$AFAR" region put in 'scratch:a name: with spaces' >/dev/null
"$AFAR" region put in "scratch:$(printf 'caf\351')" >/dev/null
offers_only 'scratch scratch2' ns rm s
offers_only 'scratch: scratch2:' region get ''
offers_only 'scratch:first' region get scratch:f
offers_only ':file' region get scratch:first ''
offers_only 'scratch:first' region put --replace --size 100000 - scratch:f
offers_only '' region get nothing:
"$AFAR" volume create disk 1M
offers_only 'disk' volume stat ''
offers_only 'disk' export d
offers_only 'dram flash' volume create some 1M --tier ''
offers_only ':file' export disk --socket ''
"$AFAR" volume rm disk
"$AFAR" fs create home
"$AFAR" mkdir -p /home/dir/sub
"$AFAR" touch /home/file '/home/two words' "/home/$(printf 'new\nline')"
offers_only 'home' fs stat ''
offers_only '/home/' ls /
offers_only '/home/dir/ /home/file /home/two words' cat /home/
offers_only '/home/dir/sub/' cat /home/file /home/dir/
offers_only ':file' put ''
offers_only ':file' put /home
offers_only '/home/' put file /ho
offers_only ':file' put file more
offers_only ':file' get /home/file ''
offers_only '' cat /nowhere/
"$AFAR" fs rm home --force
offers 'scratch:a name: with spaces' region stat scratch:
[ "$(wc -l <offered)" -eq 2 ] || fail "names that cannot be typed: $(cat offered)"
uri=$AFAR_CLUSTER
(
	unset AFAR_CLUSTER
	offers_only '' ns rm ''
	offers_only 'scratch scratch2' --cluster "$uri" ns rm ''
	offers_only 'scratch scratch2' ns rm --cluster "$uri" ''
)

# What the shells make of it. bash cuts words at colons.
PATH=$(dirname "$AFAR"):$PATH
cat >in_bash <<'END'
source "$COMPLETION"
compopt() { options+=("$*"); }
complete_line() {
	COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=() options=()
	shift
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
	_afar
	echo "${COMPREPLY[*]}|${options[*]}"
}
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
complete_line 'afar re' afar re
complete_line 'afar  region  g' afar region g
complete_line 'afar region put ' afar region put ''
complete_line 'afar ns rm ' afar ns rm ''
complete_line 'afar region get scratch2' afar region get scratch2
complete_line 'afar region get scratch:' afar region get scratch :
complete_line 'afar region get scratch:f' afar region get scratch : f
complete_line 'afar region get scratch:f --' afar region get scratch : f --
COMP_WORDBREAKS=$' \t\n'
complete_line 'afar region get scratch:f' afar region get scratch:f
complete_line 'afar nothing ' afar nothing ''
END
completes() {
	COMPLETION=$1 "$2" ${3:+"$3"} "in_$2" >out 2>&1
	diff wanted out >difference
}
cat >wanted <<'END'
region|
get|
|-o default
scratch scratch2|
scratch2:|-o nospace
first a\ name:\ with\ spaces|
first|
--partial --checked --cluster --key --path --timeout --help|
scratch:first|
|
END
soon completes "$COMPLETIONS/afar.bash" bash || fail "in bash: $(cat difference)"

command -v zsh >/dev/null || exit 0
cat >in_zsh <<'END'
compadd() { shift $@[(i)--]; [[ $# -eq 0 ]] || print -r -- "$*"; }
_files() { print files; }
complete_line() { local -a words=("$@"); local CURRENT=$# PREFIX=$words[-1]; source $COMPLETION; }
complete_line afar re
complete_line afar region put ''
complete_line afar region get scratch2
complete_line afar region get scratch:
complete_line afar nothing ''
END
cat >wanted <<'END'
region
files
scratch2:
scratch:first scratch:a name: with spaces
END
soon completes "$COMPLETIONS/afar.zsh" zsh -f || fail "in zsh: $(cat difference)"
