"""Rank 0 listens on MASTER_ADDR:MASTER_PORT like torch's TCPStore; the others send it their ranks over TCP."""
import os
import socket
import time

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    server = socket.socket(socket.AF_INET6)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    server.bind(("::", address[1]))
    server.listen(world)
    ranks = [0]
    for _ in range(world - 1):
        connection, _peer = server.accept()
        ranks.append(int(connection.makefile().readline()))
    print("MET", sorted(ranks), "at", address[0])
else:
    end = time.monotonic() + 30
    while True:
        try:
            connection = socket.create_connection(address, timeout=5)
            break
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
    connection.sendall(b"%d\n" % rank)
    connection.close()
    print("SENT", rank)
