#!/usr/bin/env python3
"""Unauthenticated clients at one port: python3 strangers.py ADDRESS PORT AT_ONCE [CROWD=COUNT ...]

By default all crowds connect: 2,000 silent connections, 200 that stop half-way through their TLS handshake, 50 that complete
it and wait, 50 without a certificate, 50 that send noise. Each connects again some time after it is closed. The server keeps
AT_ONCE of them. Prints "crowded: ..." once every one of them has been connected, nearly AT_ONCE are connected at one time, and
1,000 of the silent ones (or half of them, if there are fewer) were closed within MOMENT_S in favour of new ones; continues
until it is killed.
"""
import asyncio
import os
import resource
import ssl
import sys
import time

ADDRESS, PORT, AT_ONCE = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
PAUSE_S = 2  # before a closed connection is reopened
MOMENT_S = 5  # a silent connection is allowed 10 s
SILENT = "silent"

here = 0  # current connections
been = set()  # connections that existed
pushed_out = 0
changed = asyncio.Event()


def client_context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


def greeting():
    """Returns the first flight of a TLS client."""
    outgoing = ssl.MemoryBIO()
    client = client_context().wrap_bio(ssl.MemoryBIO(), outgoing)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


async def says(bytes_, writer):
    writer.write(bytes_)


async def floods(writer):
    noise = os.urandom(1 << 16)
    while not writer.is_closing():
        writer.write(noise)
        await writer.drain()
        await asyncio.sleep(0)  # drain alone does not yield to other tasks


async def visit(who, talk, context):
    global here, pushed_out
    reader, writer = await asyncio.open_connection(ADDRESS, PORT, ssl=context)
    began = time.monotonic()
    here += 1
    been.add(who)
    changed.set()
    try:
        await talk(writer)
        while await reader.read(1 << 16):
            pass
    finally:
        here -= 1
        if who[0] == SILENT and time.monotonic() - began < MOMENT_S:
            pushed_out += 1
        changed.set()
        writer.close()


async def again(who, talk, context):
    while True:
        try:
            await visit(who, talk, context)
        except (OSError, EOFError):
            pass
        await asyncio.sleep(PAUSE_S)


def crowds():
    """Returns each crowd's size, its data, and whether it uses TLS."""
    hello = greeting()
    half = hello[: len(hello) // 2]
    return {
        SILENT: (2000, lambda writer: says(b"", writer), None),
        "half": (200, lambda writer: says(half, writer), None),
        "greeting": (50, lambda writer: says(hello, writer), None),
        "uncertified": (50, lambda writer: says(b"", writer), client_context()),
        "noise": (50, floods, None),
    }


async def main():
    wanted = dict(argument.split("=") for argument in sys.argv[4:])
    come = {}
    for name, (many, talk, context) in crowds().items():
        for i in range(int(wanted.get(name, 0)) if wanted else many):
            come[name, i] = (talk, context)
    silent = sum(who[0] == SILENT for who in come)
    tasks = []
    for who, (talk, context) in come.items():
        tasks.append(asyncio.ensure_future(again(who, talk, context)))
        await asyncio.sleep(0)
    while len(been) < len(come) or here < AT_ONCE * 3 // 4 or pushed_out < min(1000, silent // 2):
        changed.clear()
        await changed.wait()
    print(f"crowded: {len(been)} have come, {here} are here, {pushed_out} had to go", flush=True)
    await asyncio.gather(*tasks)


most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 8192), most))
asyncio.run(main())
