#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""crowd.py ADDRESS: a thousand who ask, many that say nothing, say it without end, or do not read: others are answered meanwhile."""

import socket
import sys
import threading

from ask import ask

address = sys.argv[1]
host, port = address.rsplit(":", 1)


def connect():
    return socket.create_connection((host, int(port)), 60)


# More of them than places, all at the same time.
silent = [connect() for _ in range(100)]
cut = [connect() for _ in range(50)]
for one in cut:
    one.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Endless: ")
deaf = [connect() for _ in range(50)]
for one in deaf:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    try:
        one.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
    except OSError:
        pass  # it was sent away already
assert ask(address, "/health")[0] == "ok\n"

# Those who say nothing are sent away, however patient they are.
for one in silent + cut:
    one.settimeout(60)
    try:
        while one.recv(65536):
            pass
    except ConnectionError:
        pass
    one.close()

# A header that never ends takes no memory to speak of.
endless = connect()
refused = False
try:
    endless.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
    for _ in range(1000):
        endless.sendall(b"X-More: " + b"x" * 1000 + b"\r\n")
    refused = b" 200 " not in endless.recv(65536)
except ConnectionError:
    refused = True
assert refused
endless.close()

# A thousand, twenty at a time.
done, failures = [], []


def many():
    for _ in range(50):
        try:
            done.append(len(ask(address, "/metrics")[0]))
        except Exception as failure:  # whatever it is, it is one too many
            failures.append(repr(failure))


threads = [threading.Thread(target=many) for _ in range(20)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures and len(done) == 1000, failures[:3]
for one in deaf:
    one.close()
