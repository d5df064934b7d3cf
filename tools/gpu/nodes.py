#!/usr/bin/env python3
"""Runs a command once for each of several nodes, all on this machine and sharing its GPU: nodes.py NODES MTRUN ...

NCCL refuses two ranks on one GPU of one host and knows a host by NCCL_HOSTID, so to it they are several hosts,
connected by sockets. Ends when all have ended, with the first status that is not 0; forwards SIGTERM to all."""
import os
import signal
import socket
import subprocess
import sys
import threading


def environment(node):
    """Returns the environment of a node's mtrun: over loopback, not a fabric that would detect the shared GPU."""
    return {**os.environ, "NCCL_HOSTID": f"node{node}", "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_MNNVL_ENABLE": "0"}


def main():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        endpoint = "127.0.0.1:%d" % held.getsockname()[1]
    command = [*sys.argv[2:3], "--rdzv_endpoint", endpoint, *sys.argv[3:]]
    nodes, told = [], threading.Event()

    def tell(*_):
        told.set()
        for node in nodes:
            node.terminate()
    signal.signal(signal.SIGTERM, tell)
    for number in range(int(sys.argv[1])):
        nodes.append(subprocess.Popen(command, env=environment(number)))
        if told.is_set():  # it came during the start
            tell()
    return next((status for status in [node.wait() for node in nodes] if status != 0), 0)


if __name__ == "__main__":
    sys.exit(main())
