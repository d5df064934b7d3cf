"""torch.distributed in a job whose membership changes: process groups that are left and made again in the same process."""
import contextlib

import torch
import torch.distributed as dist

from mtrun.job import Interrupted
from mtrun.sockets import NewConnections
from mtrun.torch_store import CONNECT_TIMEOUT, meet
from mtrun.waits import await_call, await_work, is_gloo, release

PATIENCE = 2.0           # seconds for the agent's word on why a collective failed; then it is said to be broken
_connections = None      # of the group that there is, or that is being made


def regroup(job, backend=None):
    """Leaves the process group that there is (its collectives are aborted), enters the job's next generation, and makes the
    default process group of it, again and again until one connects. The first call makes the group of the generation that
    the job is in already. Returns the Assignment. Raises mtrun.Stopped when no generation follows.
    `backend`: as torch.distributed's; by default NCCL for CUDA tensors where there is a GPU, Gloo for those on a CPU."""
    first = not dist.is_initialized() and not getattr(job, "_grouped", False)
    while True:
        leave_group(job)
        if not first or not job.elastic:
            job.next()
        first = False
        job._grouped = True
        try:
            with job.connects(), interruptible(job):
                _make_group(job, backend)
            job.ready()
            return job.assignment
        except Interrupted:
            if not job.elastic:
                raise


def leave_group(job):
    """Ends the default process group of this process, if there is one, without waiting for anybody."""
    global _connections
    job.on_break(None)
    if dist.is_initialized():
        _abort()
        release(dist.distributed_c10d._get_default_group())
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()
    _connections = None


@contextlib.contextmanager
def interruptible(job):
    """Around collectives: one that fails because the generation ended raises mtrun.Interrupted, and none begins after that
    end. The end of the generation ends them at once; one that fails although nobody is lost is reported, so that everybody
    regroups."""
    try:
        with job.waits():
            job.check()  # within `waits`: an end that comes after this is repeated for what begins now
            yield
    except RuntimeError as error:
        if isinstance(error, Interrupted) or not _of_a_collective(error):
            raise
        why = str(error).splitlines()[0]
        if job.elastic and not job.wait_until_ends(PATIENCE):
            job.broken(why)
            job.wait_until_ends(None)
        raise Interrupted(why) from error


def finish(job, work, tensor):
    """Waits until the sum is in `tensor`; raises if it failed or its generation ended. NCCL's own wait has but put it into a
    stream, and one that was aborted leaves any numbers and no error. Gloo's own wait may outlive the generation by minutes."""
    if is_gloo(tensor.device):
        await_work(job, work)
    else:
        work.wait()
    if tensor.is_cuda:
        torch.cuda.current_stream(tensor.device).synchronize()
    if job.over():
        raise Interrupted("the generation ended within a sum")
    if error := _error_of(tensor.device):
        raise dist.DistBackendError(f"a sum failed: {error}")


def barrier(job):
    """dist.barrier() that the end of the generation ends."""
    if all(is_gloo(device) for device in dist.distributed_c10d._get_default_group()._device_types):
        await_call(job, dist.barrier)
    else:
        dist.barrier()


def _error_of(device):
    """What has befallen this device's backend, as far as it says so."""
    get_error = getattr(dist.distributed_c10d._get_default_group()._get_backend(device), "get_error", None)
    error = get_error() if get_error else None
    return None if error is None or error.name == "SUCCESS" else error.name


def _of_a_collective(error):
    text = str(error)
    return isinstance(error, dist.DistError) or any(word in text for word in ("gloo", "Gloo", "NCCL", "Connection closed",
                                                                              "Connection reset", "aborted"))


def _make_group(job, backend):
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
    # One that did not come to be keeps its number, which is part of the keys over which its members meet: those that have
    # just begun count from 0.
    dist.distributed_c10d._world.group_count = 0
    _connections = NewConnections()
    dist.init_process_group(backend, store=store, rank=given.rank, world_size=given.world_size, timeout=CONNECT_TIMEOUT)
    barrier(job)  # whoever is lost by now is found out here, not in the first step
    _connections.complete()


def _abort():
    """Ends what waits in a collective, on this process alone. Any thread."""
    with contextlib.suppress(Exception):
        group = dist.distributed_c10d._get_default_group()
        for device in group._device_types:
            group._get_backend(device).abort()
    if _connections:
        _connections.shut_down()  # Gloo's abort does nothing: it would wait for a silent peer for minutes

