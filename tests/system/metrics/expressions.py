#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""expressions.py PROMETHEUS FOLDER NR: NR daemons are scraped, and each expression of the dashboard and of the alerts has data.
expressions.py PROMETHEUS FOLDER SERVER: the alert that this server is down has data."""

import json
import math
import os
import re
import sys
import time
import urllib.parse

from ask import ask

prometheus, folder, what = sys.argv[1:]


def query(expression):
    text, _ = ask(prometheus, "/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
    answer = json.loads(text)
    assert answer["status"] == "success", (expression, answer)
    return [entry for entry in answer["data"]["result"] if not math.isnan(float(entry["value"][1]))]


def until(check, complaint):
    deadline = time.monotonic() + 120
    while True:
        try:
            if check():
                return
        except (ConnectionError, AssertionError) as failure:
            complaint = f"{complaint}: {failure}"
        assert time.monotonic() < deadline, complaint
        time.sleep(0.3)


def dashboard():
    with open(os.path.join(folder, "grafana.json"), encoding="utf-8") as file:
        panels = json.load(file)["panels"]
    for panel in panels:
        for target in panel.get("targets", []):
            yield target["expr"].replace("$__rate_interval", "10s")


def alerts():
    """Each compares something with a number: it has data, whatever that comes to."""
    with open(os.path.join(folder, "afar-alerts.yml"), encoding="utf-8") as file:
        for expression in re.findall(r"^ *expr: (.*)$", file.read(), re.M):
            match = re.fullmatch(r"(.*) (==|>) ([0-9.]+)", expression)
            assert match, f"no comparison: {expression}"
            query(expression)  # it is understood
            yield match[1]


if what.isdigit():
    until(lambda: len(query('up{job="afar"} == 1')) == int(what), "not all are scraped")
    expressions = [*dashboard(), *alerts()]
    assert len(expressions) > 40, expressions
    for expression in expressions:
        until(lambda: query(expression), f"no data: {expression}")
    # Nothing is left out by an OpenMetrics that is half understood.
    for family in ("afar_client_operation_duration_seconds_bucket", "afar_build_info", "process_cpu_seconds_total"):
        assert query(family), family
    print(f"{len(expressions)} expressions have data")
else:
    until(lambda: any(entry["metric"].get("server") == what for entry in query("afar_cluster_server_up == 0")), "no alert")
    until(lambda: query(f'ALERTS{{alertname="AfarServerDown",server="{what}"}}'), "no alert is pending")
