"""Decides whose state counts when members of a new generation meet. Pure functions of their claims."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from mtrun.position import Position

NONE = Position(-1, -1)
BITS64 = 1 << 64


@dataclass(frozen=True)
class Claim:
    """A member's claim: the state in its memory, and the furthest checkpoint in its folder."""
    holds: bool = False         # a valid state, at `position` of `run`
    lived: bool = False         # this process was in an earlier generation of the job
    begins_again: bool = False  # has no state, but its folder has the ledger of `run`
    run: int = 0
    position: Position = NONE
    parameters: int = 0         # digests
    buffers: int = 0
    rest: int = 0               # digest of optimizer, sampler and the program's objects, of a member without a state
    torn: bool = False          # it was being given a state when the giver was lost: its tensors are a mixture
    saved_run: int = 0
    saved: Position = NONE      # position of the furthest readable checkpoint; NONE if there is none
    known: int = 0              # highest generation known to the member or its folder
    gap: int = 0                # added to the generation's number, in case others continued its state unseen
    refused: bool = False       # its disk refuses to read a checkpoint

    def numbers(self) -> list[int]:
        """Returns the claim as int64 numbers."""
        flat: list[int] = []
        for each in fields(self):
            value = getattr(self, each.name)
            flat += value if isinstance(value, Position) else [_signed(int(value))]
        return flat


def _signed(value: int) -> int:
    return value - BITS64 if value >> 63 else value


def claim_of(numbers: Iterable[int]) -> Claim:
    """The inverse of Claim.numbers()."""
    left = list(numbers)
    values: dict[str, Any] = {}
    for each in fields(Claim):
        if isinstance(each.default, Position):
            values[each.name] = Position(left.pop(0), left.pop(0))
        elif isinstance(each.default, bool):
            values[each.name] = bool(left.pop(0))
        else:
            values[each.name] = left.pop(0) % BITS64
    return Claim(**values)


@dataclass(frozen=True)
class Plan:
    """What the members of a generation do about their states."""
    source: int                # rank whose state all continue from; if there is no state, the rank that starts
    generation: int
    needy: list[int] = field(default_factory=list)   # ranks that receive the state, ascending
    rivals: list[int] = field(default_factory=list)  # ranks at the source's position with another state, the source first
    nobody: bool = False       # no rank holds a state


def find_source(claims: list[Claim]) -> int | None:
    """Returns the lowest rank that holds the furthest state, whichever run it is of; None if no rank holds one."""
    holders = [rank for rank, claim in enumerate(claims) if claim.holds]
    return max(holders, key=lambda rank: (claims[rank].position, -rank), default=None)


def readers(claims: list[Claim]) -> tuple[set[int], Claim | None]:
    """Returns ({ranks}, claim): the ranks that must read a checkpoint above this claim, which is the furthest state's,
    before a decision; None if there is no state. No ranks if no checkpoint of its run is further."""
    source = find_source(claims)
    if source is None:
        return {rank for rank, claim in enumerate(claims) if claim.saved != NONE}, None
    truth = claims[source]
    return {rank for rank, claim in enumerate(claims)
            if claim.saved_run == truth.run and claim.saved > truth.position}, truth


def to_digest(claims: list[Claim]) -> set[int]:
    """Returns the ranks whose digests decide() needs: of those that hold the furthest state, or of all if none holds
    one. None if there is nothing to compare."""
    source = find_source(claims)
    truth = claims[source] if source is not None else None
    ranks = {rank for rank, claim in enumerate(claims)
             if truth is None or (claim.holds and (claim.run, claim.position) == (truth.run, truth.position))}
    return ranks if len(ranks) > 1 else set()


def decide(claims: list[Claim], number: int) -> Plan:
    """Returns the Plan. `number` is the rendezvous's number of this generation; it restarts with a new service, so the
    members' own numbers count too."""
    holder = find_source(claims)
    nobody = holder is None
    source = holder if holder is not None else min(
        range(len(claims)), key=lambda rank: (claims[rank].torn, not claims[rank].begins_again))
    truth = claims[source]
    at_truth = [rank for rank, claim in enumerate(claims)
                if not nobody and claim.holds and claim.position == truth.position]
    same = [rank for rank in at_truth if claims[rank].run == truth.run and claims[rank].parameters == truth.parameters]
    if nobody:  # those that begin with the same values, for example by equal seeds, need no transfer
        same = [rank for rank, claim in enumerate(claims) if not claim.torn
                and (claim.parameters, claim.rest) == (truth.parameters, truth.rest)]
    # A program can change buffers outside of a step, so the source's count.
    needy = [rank for rank, claim in enumerate(claims)
             if rank != source and (rank not in same or claim.buffers != truth.buffers)]
    rivals = [source] + [rank for rank in at_truth if rank not in same]
    known = max(max(claim.known, claim.position.generation, claim.saved.generation) for claim in claims)
    # Branches unaware of each other need different numbers. One holder is enough to exclude another branch.
    gap = min(claims[rank].gap for rank in {source, *([] if nobody else same)})
    return Plan(source, max(number, known + 1) + gap, needy, rivals if len(rivals) > 1 else [], nobody)


def discarded(first: list[Claim], truth: Claim) -> list[int]:
    """Returns the ranks whose state is given up for `truth`, by their initial claims, because another generation is
    further. A step that such a rank did not finish is not mentioned."""
    def is_given_up(claim: Claim) -> bool:
        return claim.run != truth.run or claim.position.generation != truth.position.generation

    return [rank for rank, claim in enumerate(first) if claim.lived and claim.holds and is_given_up(claim)]
