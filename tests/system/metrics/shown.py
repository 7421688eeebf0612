#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""shown.py MANAGER SERVER AFAR: what a manager and a server show is right, and as `afar status --json` has it."""

import base64
import hashlib
import json
import re
import subprocess
import sys
import time

from ask import ask
from text import families, value

manager, server, afar = sys.argv[1:]
OPEN = {"Accept": "application/openmetrics-text; version=1.0.0"}


def eventually(check):
    deadline = time.monotonic() + 60
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)


def check_cluster():
    text, headers = ask(manager, "/metrics", **OPEN)
    assert headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    shown = families(text)
    assert value(shown, "afar_cluster_servers", state="up") == 2 and value(shown, "afar_cluster_servers", state="down") == 0
    assert value(shown, "afar_cluster_stores", state="up") == 2
    assert value(shown, "afar_cluster_server_up", server="one") == 1
    assert value(shown, "afar_cluster_server_report_age_seconds", server="two") < 60
    assert value(shown, "afar_cluster_sessions", state="connected") >= 1
    assert value(shown, "afar_cluster_server_memory_capacity_bytes", server="one") == (256 - 8) << 20
    assert value(shown, "afar_cluster_store_user_written_bytes") >= 3000000
    assert value(shown, "afar_cluster_store_device_written_bytes") >= value(shown, "afar_cluster_store_user_written_bytes")
    assert value(shown, "afar_cluster_lane_received_bytes", server="one") > 0
    for name, tier, kind in (("moved", "dram", "regions"), ("disk", "flash", "regions"), ("a.volume", "dram", "volume")):
        assert value(shown, "afar_namespace_regions", namespace=name, tier=tier, kind=kind) == 1
    assert value(shown, "afar_namespace_allocated_bytes", namespace="disk") >= 3000000
    # The mover writes and reads the same number of times, 4 KiB each.
    for kind in ("read", "write"):
        assert value(shown, "afar_client_operations", kind=kind) > 1000
        assert value(shown, "afar_client_operation_duration_seconds", kind=kind) > 0
        assert value(shown, "afar_client_failures", kind=kind) == 0
    assert value(shown, "afar_client_bytes", kind="write") >= 4096 * 1000
    assert value(shown, "afar_manager_call_duration_seconds", call="region_alloc") >= 2
    assert value(shown, "afar_manager_commit_duration_seconds") > 5
    assert value(shown, "afar_manager_commit_failures") == 0
    assert value(shown, "afar_manager_sessions_opened") >= 4
    assert not any(name.startswith(("afar_server", "afar_store")) for name in shown), "a manager is no server"
    assert "disk:first" not in text and 'first"' not in text, "a label for a region"
    return shown


def check_server():
    shown = families(ask(server, "/metrics", **OPEN)[0])
    assert value(shown, "afar_server_joined") == 1
    assert value(shown, "afar_store_request_duration_seconds", kind="write", tier="flash") + value(
        shown, "afar_store_request_duration_seconds", kind="durable_write") > 0
    assert value(shown, "afar_store_request_duration_seconds", kind="read") > 0
    assert value(shown, "afar_store_request_duration_seconds", kind="sync") >= 0
    assert value(shown, "afar_store_received_bytes") > 0
    assert not any(name.startswith(("afar_cluster", "afar_manager", "afar_client", "afar_namespace")) for name in shown), "a server is no manager"


first = eventually(check_cluster)
eventually(check_server)
second = eventually(check_cluster)
for name, (kind, samples) in first.items():
    for key, before in samples.items():
        if kind in ("counter", "histogram") and key in second[name][1]:
            assert second[name][1][key] >= before, f"{name}{key} has shrunk"

# The older format, for whoever does not ask.
text, headers = ask(manager, "/metrics")
assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
assert "# TYPE afar_client_operations_total counter\n" in text and "# UNIT" not in text

# The JSON is that of the command, but for who looks: the figures move meanwhile.
def shape(value):
    if isinstance(value, dict):
        return {key: shape(entry) for key, entry in value.items()}
    return type(value).__name__ if not isinstance(value, list) else [shape(entry) for entry in value[:1]]

def check_json():
    shown = json.loads(ask(manager, "/status.json")[0])
    said = json.loads(subprocess.run([afar, "status", "--json"], check=True, stdout=subprocess.PIPE).stdout)
    assert shown.keys() == said.keys() and shown["cluster"] == said["cluster"]
    assert shown["principals"] == [], "who has keys is nobody's business"
    for field in ("servers", "stores", "namespaces"):
        assert [entry.keys() for entry in shown[field]] == [entry.keys() for entry in said[field]], field
    assert [s["name"] for s in shown["servers"]] == [s["name"] for s in said["servers"]]
    assert [n["reserved_bytes"] for n in shown["namespaces"]] == [n["reserved_bytes"] for n in said["namespaces"]]
    assert any(s["use"] and s["use"]["operations"]["write"]["nr"] > 1000 for s in shown["sessions"])
    alone = json.loads(ask(server, "/status.json")[0])
    assert alone.keys() == said.keys() and alone["cluster"] == said["cluster"] and alone["namespaces"] == alone["sessions"] == []
    assert [s["name"] for s in alone["servers"]] == ["one"] and alone["servers"][0].keys() == said["servers"][0].keys()
    assert [s["store"] for s in alone["stores"]] == [s["store"] for s in said["stores"] if s["server_name"] == "one"]
    for field in ("granted_bytes", "capacity_bytes", "uuid", "path"):
        assert [s[field] for s in alone["stores"]] == [s[field] for s in said["stores"] if s["server_name"] == "one"], field
eventually(check_json)

# The page: its policy lets what is in it run, and nothing else.
page, headers = ask(manager, "/")
assert headers["Content-Type"] == "text/html; charset=utf-8"
policy = headers["Content-Security-Policy"]
for tag, directive in (("style", "style-src"), ("script", "script-src")):
    (inner,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.S)
    digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
    assert f"{directive} 'sha256-{digest}'" in policy, policy
assert policy.startswith("default-src 'none';") and "unsafe" not in policy
assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"
assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page), "a file from outside"
assert " style=" not in page and " onclick" not in page and "innerHTML" not in page

# What is not there, and what is not done.
assert ask(manager, "/health")[0] == "ok\n" == ask(server, "/health")[0]
for path in ("/metrics/", "/../../etc/passwd", "/%2e%2e/etc/passwd", "/page.html", "//", "/?x=/etc/passwd/.."):
    if path.startswith("/?"):
        ask(manager, path)
    else:
        ask(manager, path, 404)
for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
    text, headers = ask(manager, "/", 405, method)
    assert headers["Allow"] == "GET, HEAD"
text, headers = ask(manager, "/metrics", 200, "HEAD")
assert text == "" and int(headers["Content-Length"]) > 1000
# A page elsewhere whose name was turned to this machine.
for name in ("evil.example", "evil.example:80", "localhost.evil.example", manager.rsplit(":", 1)[0] + ".evil.example"):
    ask(manager, "/status.json", 403, Host=name)
for name in ("localhost", "localhost:7480", "[::1]:7480", manager):
    ask(manager, "/status.json", 200, Host=name)
