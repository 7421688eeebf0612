#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What another daemon has: its port, its data folder. The one that runs does not notice.
# shellcheck source=tests/system/cluster.sh disable=SC2154 # cluster.sh sets host
. "$(dirname "$0")/cluster.sh"

start_cluster
port=$(manager_port)
refused 1 'has the port|in use' "$AFARD" --role manager --data other --listen "$host:$port"
refused 1 'has the port|in use' "$AFARD" --role all --data other --listen "$host:$port" --memory 32M
mkdir -m 700 third
cp manager/server.key third
refused 1 'has the port|in use' "$AFARD" --role server --data third --manager "$AFAR_CLUSTER" --memory 32M \
	--control "$host:$port"
refused 1 'has the port|in use' "$AFARD" --role server --data third --manager "$AFAR_CLUSTER" --memory 32M \
	--data-listen "$host:$port"
[ ! -e other/cluster ] || fail "announced although it did not start"
refused 1 'another afard runs in it' "$AFARD" --role manager --data manager --listen 127.0.0.1:0
refused 1 'another afard runs in it' "$AFARD" --role server --data one \
	--manager "$AFAR_CLUSTER" --memory 32M
: >file
refused 1 'file' "$AFARD" --role manager --data file --listen 127.0.0.1:0
refused 1 'no/such' "$AFARD" --role manager --data no/such/folder --listen 127.0.0.1:0
still_works
