"""Which worker holds which shard of a model that is sharded within each node. Values only."""
from __future__ import annotations

from dataclasses import dataclass

from mtrun.assignment import Assignment


@dataclass(frozen=True)
class ShardLayout:
    """Each of `nodes` nodes holds one replica in `shards` shards, one for each of its workers. Workers of different
    nodes that hold the same shard are a column."""
    nodes: int
    shards: int
    rank: int

    @property
    def shard(self) -> int:
        """Returns the shard that this worker holds."""
        return self.rank % self.shards

    @property
    def node(self) -> range:
        """Returns the ranks of this worker's node."""
        first = self.rank - self.shard
        return range(first, first + self.shards)

    @property
    def columns(self) -> list[list[int]]:
        """Returns the ranks of each column, by shard."""
        return [[shard + node * self.shards for node in range(self.nodes)] for shard in range(self.shards)]


def layout_of(given: Assignment) -> ShardLayout:
    """Returns the layout of a generation. ValueError if its nodes have different numbers of workers."""
    counts = [peer.workers for peer in given.peers if peer.workers]
    if not counts:  # another launcher says only how many workers this node has
        full, rest = divmod(given.world_size, given.local_world_size)
        counts = full * [given.local_world_size] + ([rest] if rest else [])
    if len(set(counts)) > 1:
        raise ValueError(f"the nodes have {', '.join(map(str, counts))} workers, but a model that is sharded within each "
                         "node needs equally many on all: give each mtrun the same --nproc_per_node")
    return ShardLayout(len(counts), counts[0], given.rank)


def part_of(size: int, shards: int, shard: int) -> tuple[int, int]:
    """Returns (begin, length) of a shard of `size` rows, as torch.chunk divides them; the last ones can be empty."""
    most = -(-size // shards)
    begin = min(shard * most, size)
    return begin, min(most, size - begin)
