"""Which of a launcher's variables are this process's own (docs/protocol.md, "Variables that are inherited"). A job that a
worker submits, a step that it starts by srun and a launcher in it inherit all of them. C++: base/own_launch.h."""
from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Mapping

STEP = ("SLURM_JOB_ID", "SLURM_STEP_ID", "LSB_JOBID", "PBS_JOBID")
OF_MTRUN = ("MTRUN_SOCKET", "MTRUN_GENERATION", "MTRUN_LEASE", "MTRUN_STEP", "MTRUN_WORKER", "MTRUN_CONFIGURED_WORLD",
            "MTRUN_SHUTDOWN_TIMEOUT", "MTRUN_PORT_RANGE", "MTRUN_COLUMNS", "MTRUN_CHECKED")
OF_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_NAME",
               "ROLE_RANK", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT",
               "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE",
               "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_TIMER_FILE")


def unix_address(path: str) -> str:
    return "\0" + path[1:] if path.startswith("@") else path


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Returns pid and user of the process that listens at the other end; pid 0: it is in another pid namespace."""
    return struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[:2]


def parent_of(pid: int) -> int:
    """Returns the parent's pid, 0 at the top. OSError if the process cannot be seen."""
    with open(f"/proc/{pid}/stat", "rb") as stat:
        return int(stat.read().rpartition(b")")[2].split()[1])


def owner_is_above(path: str) -> bool | None:
    """Returns whether the process that listens at `path`, or its parent (an agent's guardian, which inherits orphans), is
    this process or an ancestor; None if that is not known."""
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(unix_address(path))
            owner, _ = peer_of(probe)
        owners, pid = (owner, parent_of(owner)), os.getpid()
        while pid and pid not in owners:
            pid = parent_of(pid)
        return pid != 0
    except OSError:
        return None


def own_launch(environment: Mapping[str, str], is_above: Callable[[str], bool | None] = owner_is_above) -> Mapping[str, str]:
    """Returns the environment without variables of another job: those of an mtrun that is not above this process or is in
    another step of a batch system, and those of one below which another launcher has started this process."""
    path = environment.get("MTRUN_SOCKET")
    if not path:
        return environment
    step = ".".join(environment[name] for name in STEP if environment.get(name))
    worker = "{}/{} {}".format(*(environment.get(name, "") for name in ("RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID")))
    is_worker = environment.get("MTRUN_WORKER", worker) == worker
    is_below = environment.get("MTRUN_STEP", step) == step and is_above(path) is not False
    if is_below and is_worker:
        return environment
    foreign = OF_MTRUN + OF_TORCHRUN if is_worker else OF_MTRUN
    return {name: value for name, value in environment.items() if name not in foreign}
