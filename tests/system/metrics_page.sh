#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154 # cluster.sh sets some
# The status page in a browser: on a desk and on a phone, light and dark, while all is well and while it is not. The
# pictures go to the folder of AFAR_PICTURES, for people to look at.
if ! command -v chromium >/dev/null; then
	echo "chromium is not here: install Debian's chromium"
	exit 77
fi
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
here=$(dirname "$0")/metrics

address() {
	sed -n 's|^afard: metrics at http://\([^/]*\)/.*|\1|p' "$scratch/$1.out"
}

start_daemon manager --role manager --data "$scratch/manager" --lease-ms 1500 --listen "$host:0" --metrics "$host:0"
export AFAR_CLUSTER="$uri"
# A name that would be a program, if the page took it for HTML.
for name in one two three; do
	start_daemon $name --role server --data "$scratch/$name" --name "$name<img src=x onerror=document.title='taken'>" \
		--data-listen "tcp:127.0.0.1:0" --key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 256M --flash 64M \
		--cache 8M --metrics "$host:0"
done
"$AFAR" ns create moved --width 3
"$AFAR" ns reserve moved 32M
"$AFAR" ns create a.long.name.of.a.namespace.that.a.phone.has.no.room.for.in.one.line.at.all --tier flash
mkfifo orders
"$MOVER" 4000000 4096 <orders >moving 2>mover.err &
mover=$!
running="$running $mover"
exec 5>orders
eventually grep -q moving moving

mkdir "$scratch/browser"
mkfifo said answered
AFAR_PICTURES=${AFAR_PICTURES:-$scratch} python3 "$here/page.py" "$(address manager)" "$(address one)" "$scratch/browser" >said <answered 5>&- &
watcher=$!
exec 6<said 7>answered
# It says what it wants to happen.
while read -r wish <&6; do
	case $wish in
	rest)
		exec 5>&-
		wait "$mover" || fail "the mover: $(cat mover.err)"
		forget "$mover"
		;;
	lose) kill_daemon three ;;
	stop) kill -STOP "$(pid_of manager)" ;;
	go) kill -CONT "$(pid_of manager)" ;;
	esac
	echo "$wish" >&7
done
wait "$watcher" || fail 'the page'
