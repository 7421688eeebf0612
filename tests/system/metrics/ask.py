#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""ask.py ADDRESS PATH [STATUS]: prints what is answered; fails if it has another status than 200, or than STATUS.
The others ask with this, too."""

import http.client
import sys


def ask(address, path, status=200, method="GET", **headers):
    host, port = address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert answer.status == status, (path, answer.status, text)
    return text, answer.headers


if __name__ == "__main__":
    sys.stdout.write(ask(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 200)[0])
