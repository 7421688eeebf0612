#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Sealed regions from the command line: written once, then read, compared, freed, and not written by anybody.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

state() {
	"$AFAR" region stat "$1" | awk '$1 == "state" { print $2 }'
}

start_cluster
random_file a 5000001
"$AFAR" ns create sealed
"$AFAR" region put a sealed:a >put.out
refused 1 'is not sealed' "$AFAR" region verify sealed:a
[ "$(state sealed:a)" = ok ] || fail "sealed before its time"
"$AFAR" region seal sealed:a
[ "$(state sealed:a)" = sealed ] || fail "not sealed"
"$AFAR" region ls sealed | grep -q ' sealed  *a$' || fail "the list does not say that it is sealed"
"$AFAR" region seal sealed:a # again: nothing happens
"$AFAR" region get sealed:a back >get.out
same a back
"$AFAR" region verify sealed:a | grep -q 'as they were sealed' || fail "verify says nothing"

# Nobody writes over it; replacing it makes another.
random_file b 70000
refused 1 'there is a region of that name' "$AFAR" region put b sealed:a
"$AFAR" region get sealed:a back >get.out
same a back
"$AFAR" region put b sealed:a --replace --seal >put.out
"$AFAR" region get sealed:a back >get.out
same b back
[ "$(state sealed:a)" = sealed ] || fail "put --seal did not seal"
refused 1 'there is none' "$AFAR" region seal sealed:none
refused 2 'NAMESPACE:NAME' "$AFAR" region seal sealed

# Over the manager's death.
port=$(manager_port)
kill_daemon manager
start_manager "$port"
[ "$(state sealed:a)" = sealed ] || fail "forgotten by a manager that was killed"
eventually "$AFAR" region get sealed:a back # servers come back within moments
same b back
"$AFAR" region verify sealed:a >verify.out
"$AFAR" region rm sealed:a
"$AFAR" ns release sealed >release.out
"$AFAR" ns rm sealed
still_works
