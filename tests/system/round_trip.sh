#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What is put into a region striped over two servers comes back the same, whatever its size.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_cluster
"$AFAR" ns create striped --width 2 --stripe 64K
for size in 1 4095 4096 65536 65537 1048575 1048576 1048577 104857600; do
	random_file "in.$size" "$size"
	"$AFAR" region put "in.$size" "striped:$size" >put.line
	[ "$(wc -l <put.line)" -eq 1 ] || fail "put should say one line: $(cat put.line)"
	"$AFAR" region get "striped:$size" "out.$size" >/dev/null
	same "in.$size" "out.$size"
	"$AFAR" region get "striped:$size" - | cmp - "in.$size" || fail "get to standard output, $size"
	"$AFAR" region rm "striped:$size"
	rm "in.$size" "out.$size"
done
"$AFAR" ns rm striped
