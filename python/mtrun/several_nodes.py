"""Whether the run of a folder has ever had several nodes: a file beside its checkpoints says so. Branches of such a run may
begin apart from each other, each from the disk of its node."""
import contextlib
import os

NAME = ".several_nodes"


def note_several_nodes(folder):
    """Best effort: a folder that takes no file takes no checkpoint either."""
    with contextlib.suppress(OSError):
        os.makedirs(folder, exist_ok=True)
        os.close(os.open(os.path.join(folder, NAME), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))


def had_several_nodes(folder):
    return os.path.exists(os.path.join(folder, NAME))
