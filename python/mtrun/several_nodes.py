"""Records in a file beside the checkpoints whether the run has ever had several nodes. Branches of such a run can begin
independently, each from its own node's disk."""
from __future__ import annotations

import contextlib
import os

NAME = ".several_nodes"


def note_several_nodes(folder: str) -> None:
    """Writes the record, best effort: if the folder takes no file, it takes no checkpoint either."""
    with contextlib.suppress(OSError):
        os.makedirs(folder, exist_ok=True)
        os.close(os.open(os.path.join(folder, NAME), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))


def had_several_nodes(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, NAME))
