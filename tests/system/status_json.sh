#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What `afar status` prints, `afar status --json` says, too, and more; to others than operators less.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

start_cluster
"$AFAR" ns create scratch --stripe 128K
random_file in 3000000
"$AFAR" region put in scratch:first >/dev/null
"$AFAR" key add guest --out guest.key
"$AFAR" ns create hidden

# Sessions that have ended stay in sight until all servers have heard of it, and who is late with what he has counted is shown
# as he was before.
cat >compare.py <<'END'
import json, re, sys

text, status = open(sys.argv[1]).read(), json.load(open(sys.argv[2]))
first, *blocks = text.split("\n\n")
assert first.startswith(f"cluster {status['cluster']}, up ")
servers, namespaces, sessions = ([re.split(r"  +| (?=\*)", line) for line in block.splitlines()[1:]] for block in blocks)

def size(n):
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if n == int(n) else f"{n:.1f} {unit}"
        n /= 1024

assert len(servers) == len(status["servers"]) == status["nr_servers"] == 2
for line, server in zip(servers, status["servers"]):
    lanes = [f"*{lane['transport']} {lane['address']}" for lane in server["lanes"]]
    want = [server["name"], "up " if False else "up"]
    got = " ".join(line)
    assert got.startswith(f"{server['name']} up "), (got, server)
    for field in ("capacity_bytes", "granted_bytes", "clean_bytes", "pool_bytes", "draining_bytes", "dirty_bytes", "huge_bytes"):
        assert size(server[field]) in got, (field, got, server)
    for lane in lanes:
        assert lane in got, (lane, got)
    assert f" {server['nr_connections']} " in got
    assert 0 < server["pool_bytes"] <= server["capacity_bytes"] and server["nr_registrations"] > 0
    assert server["huge_bytes"] <= server["resident_bytes"] + server["granted_bytes"] + server["clean_bytes"]
    assert server["is_up"] and server["down_ms"] is None and server["report_age_ms"] < 60000
    (lane,) = server["lanes"]
    assert lane["state"] == "up" and lane["is_chosen"] and lane["is_bound"] is False
    assert lane["counted_by"] == "transport" and lane["bytes_in"] > 0 and lane["nr_connections"] >= 0
    assert {"numa_node", "bytes_out"} <= lane.keys()
    assert {"server", "incarnation", "control_address", "scrubbed_bytes", "scrub_bytes_per_s", "resident_bytes"} <= server.keys()
# What was put came over the wire, to either of them.
assert sum(s["lanes"][0]["bytes_in"] for s in status["servers"]) >= 3000000

assert len(namespaces) == len(status["namespaces"]) == status["nr_namespaces"] == 2
for line, ns in zip(namespaces, status["namespaces"]):
    assert line[:2] == [ns["name"], ns["tier"]] or line[0] == f"{ns['name']}", (line, ns)
    got = " ".join(line)
    for field in ("stripe_bytes", "reserved_bytes", "allocated_bytes"):
        assert size(ns[field]) in got, (field, got, ns)
    assert got.endswith(f" {ns['nr_regions']}")
    assert {"namespace", "width", "owner", "rights", "grants"} <= ns.keys()

assert len(sessions) == len(status["sessions"]) == status["nr_sessions"] == 1
session = status["sessions"][0]
assert session["client"].endswith(" afar") and session["principal"] == "admin" and session["is_connected"]
assert session["lease_left_ms"] is None and not session["is_ending"] and session["nr_references"] == 0
assert session["use"]["age_ms"] < 60000
assert session["use"]["operations"].keys() == {"read", "write", "atomic", "flush"}
assert {p["principal"]: p["kind"] for p in status["principals"]} == {
    "admin": "operator", "server": "server", "guest": "client"}
assert status["limits"]["lease_ms"] == 1500 and status["limits"]["list_max"] >= 1000
END
says_the_same() {
	"$AFAR" status >status.out
	"$AFAR" status --json >status.json
	python3 compare.py status.out status.json || { cat status.out status.json && false; }
}
eventually says_the_same

# Each of its columns is explained in the manual, by its name.
for column in $(sed -n '/^SERVER/{s/^SERVER//;p}' status.out); do
	grep -q "\*$column\*" "$(dirname "$QUICKSTART")/../docs/man/"afar*.scd || fail "the manual does not say what $column is"
done

# Who is no operator sees the servers, and what is its own.
AFAR_KEY=guest.key "$AFAR" --cluster "$(echo "$AFAR_CLUSTER" | sed 's/?.*//')" status --json >guest.json
python3 - guest.json <<'END' || fail "status --json: $(cat guest.json)"
import json, sys

status = json.load(open(sys.argv[1]))
assert len(status["servers"]) == 2 and status["namespaces"] == [] and status["nr_namespaces"] == 0
assert [s["principal"] for s in status["sessions"]] == ["guest"] and status["nr_sessions"] == 1
assert status["principals"] == []
END

# A server that goes while it holds something: it is down, and since when. A session that goes: how long its lease is.
kill_daemon one
eventually sh -c '"$AFAR" status --json | python3 -c "
import json, sys
one = next(s for s in json.load(sys.stdin)[\"servers\"] if s[\"name\"] == \"one\")
assert not one[\"is_up\"] and one[\"down_ms\"] >= 0 and one[\"report_age_ms\"] is None
assert [lane[\"state\"] for lane in one[\"lanes\"]] == [\"down\"]"'
