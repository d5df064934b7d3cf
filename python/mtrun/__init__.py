"""Python programs that survive membership changes in place under mtrun.

    import mtrun
    with mtrun.join() as job:
        print(job.rank, job.world_size, job.generation)

`join` registers with this node's agent as a cooperative worker: one that outlives its generation (the membership of
the job) and takes its place in the next one. Without mtrun the job has one worker, or those of RANK and WORLD_SIZE.
`launch` calls a function in workers of this machine, from a notebook or a script. `Replica`, `Loader` and `Evaluation` train
over torch.distributed; they are imported when they are first named, and need PyTorch. The rest needs only Python's own
library.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mtrun.assignment import Assignment, Peer
from mtrun.job import AgentLost, Interrupted, Job, Stopped, join
from mtrun.ledger import Ledger
from mtrun.sampler import ElasticSampler

if TYPE_CHECKING:
    from mtrun.dcp import load_dcp
    from mtrun.evaluation import Evaluation
    from mtrun.launching import LaunchError, launch
    from mtrun.loader import Loader
    from mtrun.replica import Replica

# Modules that are imported when a name of theirs is used. The first four need PyTorch.
LATER = {"Evaluation": "evaluation", "Loader": "loader", "Replica": "replica", "load_dcp": "dcp", "launch": "launching",
         "LaunchError": "launching"}

__all__ = ["AgentLost", "Assignment", "ElasticSampler", "Evaluation", "Interrupted", "Job", "LaunchError", "Ledger", "Loader",
           "Peer", "Replica", "Stopped", "join", "launch", "load_dcp"]


def __getattr__(name: str) -> Any:
    if name not in LATER:
        raise AttributeError(f"module 'mtrun' has no attribute '{name}'")
    return getattr(importlib.import_module(f"mtrun.{LATER[name]}"), name)
