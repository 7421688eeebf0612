#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# How `afar` runs afar-sort and afar-graph: from PATH where they do not lie beside it, with the words that it was given. Where they are not
# installed, it says so in one line.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

mkdir alone bin
cp "$AFAR" alone/afar
LD_LIBRARY_PATH=$(dirname "$AFAR")/../client
export LD_LIBRARY_PATH
for program in sort graph; do
	refused 1 "$program: its program, afar-$program, is not installed" alone/afar "help" "$program" "$([ $program = sort ] && echo run || echo bfs)"
	printf '#!/bin/sh\nprintf "<%%s>" "$@"\nexit 7\n' >bin/afar-$program
	chmod +x bin/afar-$program
done
alone/afar sort --help | grep -q '^  sort run ' || fail 'no help without the program'
alone/afar complete sort '' | grep -qx run || fail 'no completion without the program'

# told STATUS WORDS COMMAND…: it ends with STATUS, and says WORDS.
told() {
	want=$1 words=$2 status=0
	shift 2
	PATH=$PWD/bin:$PATH "$@" >said 2>line || status=$?
	[ "$status" -eq "$want" ] || fail "$*: ended with $status, not $want: $(cat line)"
	[ "$(cat said)" = "$words" ] || fail "$*: says: $(cat said)"
}
told 7 '<run><a b><c><--workers><3>' alone/afar sort run 'a b' c --workers 3
told 7 '<--cluster><afar://x><--key><k><--path><tcp><--timeout><5><bfs><g:a><--from><0>' \
	alone/afar --cluster afar://x --key k --path tcp --timeout=5 graph bfs g:a --from 0
told 7 '<verify><--help>' alone/afar help sort verify

# By itself each takes what follows its name.
bin=$(dirname "$AFAR")/../../apps
told 0 "$("$AFAR" sort run --help)" "$bin/sort/afar-sort" run --help
told 0 "$("$AFAR" graph rmat --help)" "$bin/graph/afar-graph" rmat --help
refused 2 'sort: say what to do: run, generate, verify' "$bin/sort/afar-sort"
refused 2 "'graph sort' is no command" "$bin/graph/afar-graph" sort
