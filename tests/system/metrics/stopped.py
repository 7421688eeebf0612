#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""stopped.py ADDRESS SERVER: the server is stopped. The manager shows it as it was, and how old that is, and waits for nobody."""

import sys
import time

from ask import ask
from text import families, value

address, server = sys.argv[1:]


def age():
    shown = families(ask(address, "/metrics", Accept="application/openmetrics-text")[0])
    assert value(shown, "afar_cluster_server_memory_capacity_bytes", server=server) > 0
    return value(shown, "afar_cluster_server_report_age_seconds", server=server)


deadline = time.monotonic() + 60
while age() < 1:
    assert time.monotonic() < deadline, "its age does not grow"
    time.sleep(0.2)
