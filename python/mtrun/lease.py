"""The lease of a node: until when its workers may commit their results (base/lease_page.h, docs/protocol.md)."""
from __future__ import annotations

import mmap
import struct
import time

MAGIC, VERSION, BYTES, LEASES = 0x657361656C746D00, 2, 4096, 8


class LeasePage:
    """The page that the agent shares with its workers."""

    def __init__(self, descriptor: int) -> None:
        """Raises ValueError if the descriptor is not a lease page."""
        try:
            self._page = mmap.mmap(descriptor, BYTES, prot=mmap.PROT_READ)
        except OSError as error:
            raise ValueError(f"MTRUN_LEASE={descriptor} is not a lease page: {error}") from error
        if struct.unpack_from("<QQ", self._page) != (MAGIC, VERSION):
            raise ValueError(f"MTRUN_LEASE={descriptor} is not a lease page of version {VERSION}")

    def over(self, generation: str, now: int | None = None, outside: bool = False) -> bool:
        """Returns whether the lease of generation "number.id" is over at `now` (nanoseconds since boot). `outside`: the
        worker has left that generation and has not joined another."""
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME) if now is None else now
        wanted = int(generation.split(".")[1], 16)
        leases = struct.unpack_from("<" + (LEASES + outside) * "Qq", self._page, 24)
        return not any(which == wanted and now < ends for which, ends in zip(leases[::2], leases[1::2]))
