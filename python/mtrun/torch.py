"""torch.distributed in a job with changing membership: process groups are left and remade in the same process."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from mtrun.assignment import Assignment
from mtrun.job import Interrupted, Job
from mtrun.sockets import NewConnections
from mtrun.torch_store import CONNECT_TIMEOUT, meet
from mtrun.waits import await_call, await_work, is_gloo, note_begun, release

PATIENCE = 2.0           # seconds to wait for the agent's explanation of a failed collective, before it is reported as
                         # broken
_connections = None      # of the current group, or of the one being made


def regroup(job: Job, backend: str | None = None, then: Callable[[Job], object] | None = None) -> Assignment:
    """Leaves the current process group (aborting its collectives), enters the job's next generation and makes its
    default process group, and repeats until one connects. The first call makes the group of the job's current
    generation. Returns the Assignment. Raises mtrun.Stopped if no generation follows. `backend`: as for
    torch.distributed; by default NCCL for CUDA tensors if there is a GPU, Gloo for CPU tensors. `then(job)`: makes
    further groups of the same members, as part of the connection."""
    first = not dist.is_initialized() and not job._grouped
    while True:
        leave_group(job)
        if not first or not job.elastic:
            job.next()
        first = False
        job._grouped = True
        try:
            with job.connects(), interruptible(job):
                _make_group(job, backend, then)
            job.ready()
            return job.assignment
        except Interrupted:
            if not job.elastic:
                raise


def leave_group(job: Job) -> None:
    """Ends the default process group of this process, if there is one, without waiting for other members."""
    global _connections
    job.on_break(None)
    if dist.is_initialized():
        _abort()
        release(_groups())
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()
    _connections = None


@contextlib.contextmanager
def interruptible(job: Job) -> Iterator[None]:
    """Wraps collectives. When the generation ends, running ones are aborted and raise mtrun.Interrupted, and no new one
    begins. If one fails although no member is lost, it is reported, so that all members regroup."""
    try:
        with job.waits():
            job.check()  # within `waits`, so that an end after this check aborts the next wait too
            yield
    except RuntimeError as error:
        if isinstance(error, Interrupted) or not _of_a_collective(error):
            raise
        why = str(error).splitlines()[0]
        if job.elastic and not job.wait_until_ends(PATIENCE):
            job.broken(why)
            job.wait_until_ends(None)
        raise Interrupted(why) from error


def start(tensor: torch.Tensor, source: int | None = None, group: Any = None) -> dist.Work:
    """Starts to sum `tensor` over the workers in place, or to copy it from rank `source` to all. `group`: over this
    process group's only. Returns the Work."""
    return begun(dist.all_reduce(tensor, group=group, async_op=True) if source is None else
                 dist.broadcast(tensor, source, group=group, async_op=True), tensor)


def begun(work: dist.Work, tensor: torch.Tensor) -> dist.Work:
    """Returns the Work of a collective on `tensor` that the caller has just begun; `finish` is then to wait for it."""
    if is_gloo(tensor.device):
        note_begun(work)
    return work


def finish(job: Job, work: dist.Work, tensor: torch.Tensor) -> None:
    """Waits until `tensor` has the result; raises if that failed or the generation ended."""
    finish_all(job, [(work, tensor)])


def finish_all(job: Job, begun: list[tuple[dist.Work, torch.Tensor]]) -> None:
    """`finish` for several: [(work, tensor)]. NCCL's own wait only queues it on a stream, and an aborted collective
    leaves arbitrary numbers. Gloo's can outlive the generation by minutes."""
    for work, tensor in begun:
        if is_gloo(tensor.device):
            await_work(job, work)
        else:
            work.wait()
    devices = {tensor.device for _, tensor in begun}
    for device in devices:
        if device.type == "cuda":
            torch.cuda.current_stream(device).synchronize()
    if job.over():
        raise Interrupted("the generation ended during a collective")
    for device in devices:
        if error := _error_of(device):
            raise dist.DistBackendError(f"a collective failed: {error}")


def close_inherited() -> None:
    """Closes the copies of this process group's connections that a forked child has. Otherwise they would outlive a
    killed worker in its DataLoader's processes, and the other members' collectives would not fail."""
    if _connections:
        _connections.close()


def barrier(job: Job) -> None:
    """A dist.barrier() that ends with the generation."""
    if all(is_gloo(device) for device in dist.distributed_c10d._get_default_group()._device_types):
        await_call(job, dist.barrier)
    else:
        dist.barrier()


def _error_of(device: str) -> str | None:
    """Returns the error of this device's backend, if the backend reports it."""
    for group in _groups():
        get_error = getattr(group._get_backend(device), "get_error", None)
        error = get_error() if get_error else None
        if error is not None and error.name != "SUCCESS":
            return error.name
    return None


def _of_a_collective(error: BaseException) -> bool:
    text = str(error)
    return isinstance(error, dist.DistError) or any(word in text for word in ("gloo", "Gloo", "NCCL", "Connection closed",
                                                                              "Connection reset", "aborted"))


def _make_group(job: Job, backend: str | None, then: Callable[[Job], object] | None) -> None:
    global _connections
    given = job.assignment
    job.on_break(lambda why: _abort())
    if given.world_size == 1 and not given.master_port:
        store = dist.HashStore()
    elif job.elastic:
        store = meet(job, _abort)
    else:
        serves = given.rank == 0 and not job.agent_serves
        store = dist.TCPStore(given.master_addr, given.master_port, given.world_size, serves, timeout=CONNECT_TIMEOUT)
    # A group that failed to connect keeps its number, which is part of the keys through which members meet; new members
    # count from 0.
    dist.distributed_c10d._world.group_count = 0
    _connections = NewConnections()
    dist.init_process_group(backend, store=store, rank=given.rank, world_size=given.world_size, timeout=CONNECT_TIMEOUT)
    barrier(job)  # detects lost members here, not in the first step
    if then:
        then(job)
    _connections.complete()


def _abort() -> None:
    """Ends this process's waits in collectives. Any thread."""
    with contextlib.suppress(Exception):
        for group in _groups():
            for device in group._device_types:
                group._get_backend(device).abort()
    if _connections:
        _connections.shut_down()  # Gloo's abort has no effect: it would wait minutes for a silent peer


def _groups() -> list[Any]:
    """Returns the process groups of this process."""
    return list(dist.distributed_c10d._world.pg_map)
