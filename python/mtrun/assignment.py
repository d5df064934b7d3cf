"""A worker's place in one generation of its job. Values only."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Peer:
    """One node, whose workers have the ranks first_rank .. first_rank + workers - 1."""
    host: str
    address: str
    first_rank: int
    workers: int


@dataclass(frozen=True)
class Assignment:
    """A worker's place. `rank` is in [0, world_size), `local_rank` in [0, local_world_size) on this node, which is
    `node_rank` of the nodes in `peers`. Ranks are contiguous on each node."""
    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    node_rank: int = 0
    generation: str = "1.0"  # "number.id": the number grows, the id is random
    master_addr: str = "127.0.0.1"  # node of rank 0
    master_port: int = 0            # MASTER_PORT if a launcher set one for this membership, else 0
    peers: tuple[Peer, ...] = field(default_factory=tuple)

    @property
    def number(self) -> int:
        """Returns the generation's number."""
        return int(self.generation.split(".")[0])


def parse_assignment(message: dict[str, Any]) -> Assignment:
    """Parses the agent's message. ValueError says what is malformed."""
    try:
        peers = tuple(Peer(str(p["host"]), str(p["address"]), int(p["first_rank"]), int(p["workers"]))
                      for p in message["peers"])
        given = Assignment(rank=int(message["rank"]), world_size=int(message["world_size"]),
                           local_rank=int(message["local_rank"]), local_world_size=int(message["local_world_size"]),
                           node_rank=int(message["node_rank"]), generation=str(message["generation"]),
                           master_addr=next((p.address for p in peers if p.first_rank <= 0 < p.first_rank + p.workers),
                                            "") or "127.0.0.1",
                           peers=peers)
    except (KeyError, TypeError) as error:
        raise ValueError(f"the agent's assignment is malformed: {error!r}") from error
    if not 0 <= given.rank < given.world_size:
        raise ValueError(f"the agent's assignment is malformed: rank {given.rank} of {given.world_size}")
    return given


def read_assignment(environment: Mapping[str, str]) -> Assignment:
    """Reads a launcher's variables (torchrun's names), else returns one worker. ValueError names the variable."""
    if "RANK" not in environment or "WORLD_SIZE" not in environment:
        return Assignment()

    def number(name: str, otherwise: int) -> int:
        text = environment.get(name, str(otherwise))
        if not text.isdigit():
            raise ValueError(f"{name} is '{text}', but must be a whole number")
        return int(text)

    rank, world = number("RANK", 0), number("WORLD_SIZE", 1)
    if rank >= world:
        raise ValueError(f"RANK is {rank}, but must be below WORLD_SIZE, which is {world}")
    return Assignment(rank=rank, world_size=world, local_rank=number("LOCAL_RANK", 0),
                      local_world_size=number("LOCAL_WORLD_SIZE", 1), node_rank=number("GROUP_RANK", 0),
                      generation=f"{number('TORCHELASTIC_RESTART_COUNT', 0) + 1}.0",
                      master_addr=environment.get("MASTER_ADDR", "127.0.0.1"),
                      master_port=number("MASTER_PORT", 0))
