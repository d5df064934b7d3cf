"""What the C library does with memory that is no longer in use."""
from __future__ import annotations

import ctypes
import os

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of <malloc.h>
KEPT_BYTES, MAPPED_BYTES = 256 << 20, 32 << 20


def keep_freed_memory() -> None:
    """Lets the C library keep up to 256 MiB that this process has freed, as mtrun's trainers do. Otherwise the gradients of
    each pass go back to the kernel, and return page by page. The peak of memory is the same. Does nothing if the environment
    has settings (MALLOC_..._), or without glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt and not any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
