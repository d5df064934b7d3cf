#!/usr/bin/env python3
"""Strangers without a token at one port: python3 strangers.py ADDRESS PORT

2,000 connections that say nothing, 200 that stop half-way through their TLS greeting, 50 that greet and never read,
50 that send too much, 50 that say again what another one has said. Each comes again as soon as it is cut. Says "2300 are
here" once so many have connected, and goes on until it is killed.
"""
import asyncio
import os
import resource
import ssl
import sys

ADDRESS, PORT = sys.argv[1], int(sys.argv[2])
PAUSE_S = 0.2  # before one that was cut comes again
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\4\0\0\0\0\0"
ENDLESS_FRAME = b"\xff\xff\xff\0\0\0\0\0\1"  # 16 MiB of DATA, announced

met = 0


def client_context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


def greeting():
    """The first flight of a TLS client."""
    outgoing = ssl.MemoryBIO()
    client = client_context().wrap_bio(ssl.MemoryBIO(), outgoing)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


async def flood(writer, bytes_):
    while bytes_ and not writer.is_closing():
        writer.write(bytes_)
        await writer.drain()
        await asyncio.sleep(0)  # drain alone lets nobody else run


async def raw(says, more=b""):
    reader, writer = await asyncio.open_connection(ADDRESS, PORT)
    count()
    try:
        writer.write(says)
        await flood(writer, more)
        await reader.read()
    finally:
        writer.close()


async def behind_tls(says, more=b""):
    """Reads nothing."""
    reader, writer = await asyncio.open_connection(ADDRESS, PORT, ssl=client_context(), limit=1)
    count()
    try:
        writer.write(says)
        await flood(writer, more)
        while not writer.is_closing():
            await asyncio.sleep(PAUSE_S)
    finally:
        writer.close()


def count():
    global met
    met += 1


async def again(come):
    while True:
        try:
            await come()
        except (OSError, EOFError):
            pass
        await asyncio.sleep(PAUSE_S)


async def main():
    hello = greeting()
    crowds = [
        (2000, lambda: raw(b"")),
        (200, lambda: raw(hello[: len(hello) // 2])),
        (50, lambda: behind_tls(HTTP2 + SETTINGS)),
        (25, lambda: raw(os.urandom(1 << 16), more=os.urandom(1 << 16))),
        (25, lambda: behind_tls(HTTP2 + SETTINGS + ENDLESS_FRAME, more=bytes(1 << 16))),
        (50, lambda: raw(hello)),
    ]
    tasks = []
    for many, come in crowds:
        for _ in range(many):
            tasks.append(asyncio.ensure_future(again(come)))
            await asyncio.sleep(0)
    while met < 2300:
        await asyncio.sleep(0.05)
    print(met, "are here", flush=True)
    await asyncio.gather(*tasks)


most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 8192), most))
asyncio.run(main())
