#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Names that are unknown, gone, taken or not allowed.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_cluster
random_file in 10000
"$AFAR" ns create gone
"$AFAR" ns rm gone
"$AFAR" ns create here
"$AFAR" region put in here:taken >/dev/null

for name in never gone; do
	refused 1 "$name" "$AFAR" region put in $name:x
	refused 1 "$name" "$AFAR" region get $name:x out
	refused 1 "$name" "$AFAR" region ls $name
	refused 1 "$name" "$AFAR" region stat $name:x
	refused 1 "$name" "$AFAR" region rm $name:x
	refused 1 "$name" "$AFAR" ns reserve $name 1M
	refused 1 "$name" "$AFAR" ns release $name
	refused 1 "$name" "$AFAR" ns rm $name
done

long=$(printf '%0256d' 0)
refused 1 'here' "$AFAR" ns create here
refused 1 '' "$AFAR" ns create .hidden
refused 1 '' "$AFAR" ns create 'a b'
refused 1 '' "$AFAR" ns create 'a/b'
refused 1 '' "$AFAR" ns create 'a:b'
refused 1 '' "$AFAR" ns create "$long"
refused 1 '' "$AFAR" ns create ''
refused 1 '' "$AFAR" ns create "$(printf 'a\033[31mb')"
refused 1 '' "$AFAR" ns create "$(printf 'a\nb')"

refused 1 'nothing' "$AFAR" region get here:nothing out
refused 1 'nothing' "$AFAR" region stat here:nothing
refused 1 'nothing' "$AFAR" region rm here:nothing
refused 1 '' "$AFAR" region stat here:@0x999000
refused 1 '' "$AFAR" region put in "here:$long"
refused 1 '' "$AFAR" region put in "here:$(printf 'a\033[31mb')"
refused 1 'taken.*--replace' "$AFAR" region put in here:taken
refused 2 'not NAMESPACE:NAME' "$AFAR" region put in here
refused 2 'not NAMESPACE:NAME' "$AFAR" region put in here:
refused 2 'not NAMESPACE:NAME' "$AFAR" region put in :x
refused 2 'address' "$AFAR" region put in here:@0x1000
refused 2 'no address' "$AFAR" region stat here:@0xzz
refused 2 'no address' "$AFAR" region stat here:@0x10000000000000000
left=$(find . -maxdepth 1 -name out -o -name '.afar-*')
[ -z "$left" ] || fail "get left behind: $left"
still_works
