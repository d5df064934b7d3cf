"""Decides whose shards count when members of a new generation meet: a state counts if some member holds each of its
shards. Pure functions of the members' claims. `columns`: the ranks that hold the same shard, for each shard."""
from __future__ import annotations

from dataclasses import replace

from mtrun.meeting import Claim, Plan, decide, find_source


def only_whole(claims: list[Claim], columns: list[list[int]]) -> list[Claim]:
    """Returns the claims, in which a state counts as torn if nobody holds one of its shards."""
    if len(columns) == 1:
        return claims
    whole = set.intersection(*({(claims[rank].run, claims[rank].position) for rank in column if claims[rank].holds}
                               for column in columns))
    return [claim if not claim.holds or (claim.run, claim.position) in whole else replace(claim, holds=False, torn=True)
            for claim in claims]


def plans_of(claims: list[Claim], columns: list[list[int]], number: int) -> list[Plan]:
    """Returns the Plan of each column. All have the same state as their source, and the same generation."""
    found = find_source(claims)
    order = _order_of_nodes(claims, columns)

    def wanted(rank: int) -> bool:  # holds the state that prevails, also if another run is as far
        return found is None or (claims[rank].holds and claims[rank].run == claims[found].run)

    plans = []
    for column in columns:
        ranks = sorted([column[node] for node in order] if found is None else column, key=lambda rank: not wanted(rank))
        plan = decide([claims[rank] for rank in ranks], number)
        plans.append(replace(plan, source=ranks[plan.source], needy=sorted(ranks[each] for each in plan.needy),
                             rivals=[ranks[each] for each in plan.rivals]))
    generation = max(plan.generation for plan in plans)
    return [replace(plan, generation=generation) for plan in plans]


def _order_of_nodes(claims: list[Claim], columns: list[list[int]]) -> list[int]:
    """Returns the nodes in the order in which they may begin a run: all shards are to come from one of them."""
    def key(node: int) -> tuple[bool, bool]:
        members = [claims[column[node]] for column in columns]
        return any(each.torn for each in members), not any(each.begins_again for each in members)

    return sorted(range(len(columns[0])), key=key)
