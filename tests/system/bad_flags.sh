#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Command lines that are not understood.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

refused 2 'no command' "$AFAR"
refused 2 'frobnicate' "$AFAR" frobnicate
refused 2 'create, ls, stat, set, grant, rm' "$AFAR" ns
refused 2 'create, ls, stat, set, grant, rm' "$AFAR" ns frobnicate
refused 2 'put, get, ls, stat, seal, verify, resize, rm' "$AFAR" region
refused 2 'unknown flag' "$AFAR" --frobnicate status
refused 2 'unknown flag --frobnicate' "$AFAR" status --frobnicate
refused 2 'unknown flag -x' "$AFAR" status -x
refused 2 'unexpected argument' "$AFAR" status more
refused 2 'too few' "$AFAR" ns create
refused 2 'too few' "$AFAR" region put file
refused 2 'needs a value' "$AFAR" ns create x --stripe
refused 2 'value is missing' "$AFAR" --cluster
refused 2 '--timeout' "$AFAR" --timeout soon status
refused 2 '--timeout' "$AFAR" --timeout 0 status
refused 2 'no --cluster' "$AFAR" --cluster afar://127.0.0.1 up
refused 1 'no transport "rdma".*tcp, local or verbs' "$AFAR" --path rdma status
refused 1 'no transport "tcpp".*tcp, local or verbs' env AFAR_PATH=tcpp "$AFAR" status
refused 1 'cluster' "$AFAR" --cluster nonsense status
refused 1 'cluster' "$AFAR" --cluster afar://127.0.0.1:99999 status
refused 1 'cluster' "$AFAR" --cluster "$(printf 'afar://a\033[31m')" status

refused 2 'unknown flag' "$AFARD" --frobnicate
refused 2 'unknown flag' "$AFARD" -x
refused 2 'unknown flag' "$AFAR" up --frobnicate
# Where it is installed the daemon is in sbin, which a user's PATH need not have.
mkdir -p installed/bin installed/sbin
cp "$AFAR" installed/bin/afar
cp "$AFARD" installed/sbin/afard
refused 2 'unknown flag' env PATH=/usr/bin:/bin installed/bin/afar up --frobnicate
refused 2 'unexpected argument' "$AFARD" more
refused 2 'needs a value' "$AFARD" --role
refused 2 'no role' "$AFARD" --role king
refused 2 'HOST:PORT' "$AFARD" --listen 7411
refused 2 'HOST:PORT' "$AFARD" --listen 127.0.0.1:99999
refused 2 'HOST:PORT' "$AFARD" --listen '127.0.0.1:1?key=a'
refused 2 'HOST:PORT' "$AFARD" --manager ''
refused 2 'HOST:PORT' "$AFARD" --control :0
refused 2 'HOST:PORT' "$AFARD" --data-listen here
refused 2 'not a size' "$AFARD" --memory much
refused 2 'too small' "$AFARD" --memory 0
refused 2 'more than this machine' "$AFARD" --memory 1000T
refused 2 'not fit 64 bits' "$AFARD" --memory 20E
refused 2 'no transport' "$AFARD" --transport pigeon
refused 2 'number from' "$AFARD" --progress 0
refused 2 'number from' "$AFARD" --spin-us -1
refused 2 'no level' "$AFARD" --log loud
refused 2 'open descriptor' "$AFARD" --ready-fd 77
[ ! -e afar-data ] || fail "a refused afard made its folder"

"$AFAR" --help | grep -q 'region put' || fail "--help"
"$AFAR" region put --help | grep -q -- '--replace' || fail "region put --help"
"$AFAR" --version | grep -Eq '^afar [0-9]' || fail "--version"
"$AFARD" --help | grep -q -- '--ready-fd' || fail "afard --help"
"$AFARD" --version | grep -Eq '^afard [0-9]' || fail "afard --version"
