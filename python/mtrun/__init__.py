"""Python programs that survive membership changes in place under mtrun.

    import mtrun
    with mtrun.join() as job:
        print(job.rank, job.world_size, job.generation)

`join` registers with this node's agent as a cooperative worker: one that outlives its generation (the membership of
the job) and takes its place in the next one. Without mtrun the job has one worker, or those of RANK and WORLD_SIZE.
Only `mtrun.torch` needs more than Python's own library.
"""
from mtrun.assignment import Assignment, Peer
from mtrun.job import AgentLost, Interrupted, Job, Stopped, join
from mtrun.ledger import Ledger
from mtrun.sampler import ElasticSampler

__all__ = ["AgentLost", "Assignment", "ElasticSampler", "Interrupted", "Job", "Ledger", "Peer", "Stopped", "join"]
