# SPDX-License-Identifier: BSD-3-Clause
# postgres_clients.py PSQL SOCKET_FOLDER: clients that commit one small transaction after another, until ./stop is
# there. A transaction whose commit the server has acknowledged is a line "CLIENT NUMBER" in ./acknowledged. A client
# whose server goes away connects again; what became of its last transaction it does not know, and it never repeats a
# number.
import os
import subprocess
import sys
import threading
import time

NR_CLIENTS = 4
PSQL = [sys.argv[1], "-h", sys.argv[2], "-qAtX", "-v", "ON_ERROR_STOP=1", "postgres"]
TRANSACTION = """\
begin;
insert into log values ({client}, {number}, repeat('x', {number} % 2000));
update counters set number = {number} where client = {client};
commit;
\\echo {number}
"""


def goes_on():
    return not os.path.exists("stop")


def commit_many(psql, client, number, acknowledged):
    """Returns the next number that no transaction had."""
    while goes_on():
        psql.stdin.write(TRANSACTION.format(client=client, number=number))
        psql.stdin.flush()
        if psql.stdout.readline() != "%d\n" % number:
            return number + 1
        os.write(acknowledged, b"%d %d\n" % (client, number))
        number += 1
    return number


def be_client(client, acknowledged):
    number = 1
    while goes_on():
        psql = subprocess.Popen(PSQL, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            number = commit_many(psql, client, number, acknowledged)
            psql.stdin.close()
        except BrokenPipeError:
            number += 1
        psql.wait()
        psql.stdout.close()
        time.sleep(0.5)  # a program is started for each attempt to connect


acknowledged = os.open("acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
clients = [threading.Thread(target=be_client, args=(i, acknowledged)) for i in range(NR_CLIENTS)]
for client in clients:
    client.start()
for client in clients:
    client.join()
