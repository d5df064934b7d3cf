#!/usr/bin/env python3
"""Listens on every available port, like PyTorch with SO_REUSEADDR: python3 squatter.py FIRST LAST

Prints "took PORT PORT ...", and "somebody came to PORT" for each connection, until it is killed.
"""
import selectors
import socket
import sys

dual = socket.has_dualstack_ipv6()
family = socket.AF_INET6 if dual else socket.AF_INET
waiting = selectors.DefaultSelector()
took = []
for port in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
    try:
        listener = socket.create_server(("", port), family=family, dualstack_ipv6=dual)  # with SO_REUSEADDR
    except OSError:
        continue
    waiting.register(listener, selectors.EVENT_READ, port)
    took.append(port)
print("took", *took, flush=True)
while True:
    for key, _ in waiting.select():
        key.fileobj.accept()[0].close()
        print("somebody came to", key.data, flush=True)
