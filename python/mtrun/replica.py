"""An elastic training run over torch.distributed: surviving workers continue in place, new ones receive the state, and
each sample is taken exactly once."""
from __future__ import annotations

import contextlib
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from mtrun.agreement import compare, program_of
from mtrun.buffers import Buffers
from mtrun.checkpoint_folder import Unfit, encoded
from mtrun.checkpoints import Checkpoints, lineage_of
from mtrun.digests import digest_of, digest_of_state
from mtrun.evaluation import Evaluation
from mtrun.exchange import add_in_order
from mtrun.first_use import FirstUse
from mtrun.freed_memory import keep_freed_memory
from mtrun.gradients import Gradients
from mtrun.handover import give, pass_on, take
from mtrun.job import Interrupted, Job, Stopped
from mtrun.ledger import Ledger, gathered, joined, parts_of
from mtrun.loader import Ids, Loader
from mtrun.meeting import (
    NONE,
    Claim,
    Plan,
    claim_of,
    discarded,
    find_source,
    readers,
    to_digest,
)
from mtrun.metrics import Metrics
from mtrun.models import plain
from mtrun.position import Lineage, Position
from mtrun.sampler import ElasticSampler, StepPlan
from mtrun.saver import Saver
from mtrun.several_nodes import had_several_nodes, note_several_nodes
from mtrun.shard_meeting import only_whole, plans_of
from mtrun.snapshot import Snapshot
from mtrun.step_sums import StepSums, exact_sum, in_sequence, in_tree_order
from mtrun.torch import (
    barrier,
    finish_all,
    interruptible,
    leave_group,
    regroup,
    start,
)
from mtrun.training_step import TrainingStep
from mtrun.update import Update
from mtrun.waits import await_call
from mtrun.whole_model import WholeModel

RECENT = 16       # ledger lines that each worker keeps in case the writer dies before writing them
EXIT_DIFFERS = 3  # two workers hold different states of one step; neither can be trusted
SLOW_SAVE = 1.0   # seconds of a wait for the save before that are reported
MAX_GAP = 1 << 16  # random distance between the numbers of branches that are unaware of each other


# Loss, samples, hash of their ids, votes to leave and to regroup, (counts, sums) of buffers; of all workers.
Sums = tuple[float, int, int, int, int, tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True)
class Step:
    """A committed step, numbered from 0. `loss`: mean over its samples, before the update. `skipped`: the GradScaler met an
    infinite gradient, so the weights did not change."""
    step: int
    epoch: int
    loss: float
    samples: int
    world_size: int
    generation: int
    skipped: bool = False


class Replica:
    """One worker's copy of the run: `model`, `optimizer` and the position of the `sampler`, identical on every worker
    after every step. A step needs all workers of a generation and is applied after all their gradients are summed. When
    workers meet, the furthest state (most steps; if equal, of the later generation) that any of them holds or can read
    from a checkpoint in its folder wins; all others receive it.

    `folder`: gets ledger, metrics and checkpoints; a restarted run continues from the newest. One folder for all nodes,
    or one on each. `more`: further objects with state_dict and load_state_dict, by name (a schedule, an EMA). `scaler`:
    a torch.amp.GradScaler, saved as "scaler". `evaluation`: an Evaluation, run after each epoch, which can end the run
    early; saved as "evaluation". `settings`: recorded in config.yaml, by name. `shard(model, mesh)`: applies
    torch.distributed.fsdp.fully_shard with this mesh, which has the workers of one node; each node then holds one
    replica. ValueError if the model or the optimizer cannot be trained this way, or if a checkpoint is of another
    program."""

    def __init__(self, job: Job, model: torch.nn.Module, optimizer: torch.optim.Optimizer, sampler: ElasticSampler,
                 folder: str | None = None, data: str = "", backend: str | None = None, checkpoint_steps: int = 0,
                 more: dict[str, Any] | None = None, scaler: torch.amp.GradScaler | None = None,
                 evaluation: Evaluation | None = None, settings: dict[str, Any] | None = None,
                 shard: Callable[[torch.nn.Module, Any], object] | None = None) -> None:
        keep_freed_memory()
        self.job, self.model, self.optimizer, self.sampler = job, plain(model), optimizer, sampler
        self.complete = False  # whether the run has ended, so that this worker's weights are the final ones
        self._backend, self._checkpoint_steps = backend, checkpoint_steps
        own = {"scaler": scaler, "evaluation": evaluation}
        self._more = {**(more or {}), **{name: each for name, each in own.items() if each is not None}}
        self._evaluation = evaluation
        self._held, self._update = _kind(self.model, optimizer, scaler, shard, self._more)
        self._buffers, self._gradients = Buffers(self.model), Gradients(self.model, self._held)
        self._sums = in_sequence(0)  # of the running step
        self._first_use = FirstUse(self.model)
        self._ledger = Ledger(folder, sampler, data) if folder else None
        self._metrics = Metrics(folder, self._ledger, settings or {}, evaluation) if folder and self._ledger else None
        self._checkpoints = Checkpoints(folder) if folder else None
        self._saver = Saver(job, folder, self._checkpoints) if folder and self._checkpoints else None
        self._folder = folder
        self._name = os.path.basename(os.path.normpath(folder)) if folder else None  # of the run, for people
        self._run, self._generation, self._lineage = secrets.token_hex(8), 0, Lineage()
        self._begins_again = False  # the ledger of a run exists, but no checkpoint
        self._knows = False  # holds a valid state: from a checkpoint, or from a generation that it was in
        self._torn = False  # its tensors are partly those of another worker, so they are no state
        self._lived = False  # this process held a state in an earlier generation
        self._known = 0  # the last generation agreed on, begun or not
        self._may_be_behind = False  # others may have continued its state unseen, until a generation has begun
        self._several_nodes = False  # at any time so far
        self._recent: list[dict[str, Any]] = []
        self._writes = False
        self._votes_to_leave = False  # in the last summed step
        self._votes = 0, 0  # of all workers: to leave, and to regroup
        self._given_up = self._saves_again = False  # a save of this worker, or of the writer by the last step's vote
        self._evaluations_agree = False  # in this generation, about the last epoch
        if folder:
            encoded(self._state())  # tells before the first step if a checkpoint cannot hold it
            self._load_newest()

    # ---- the loop
    def steps(self, loss_of: Callable[[list[int]], torch.Tensor]) -> Iterator[Step]:
        """The short form of `train`, for programs that read the samples themselves: yields each committed Step.
        `loss_of(ids)` returns the mean loss over these samples, to be differentiated."""
        for step in self.train(Ids(self.sampler)):
            for ids in step:
                try:
                    step.backward(loss_of(ids))
                except Interrupted as error:  # of collectives of the program's own
                    step.interrupt(error)
            if step.apply() and step.applied:
                yield step.applied

    def train(self, loader: Loader | Ids) -> Iterator[TrainingStep]:
        """Trains to the end of the sampler and yields each TrainingStep; one that was not committed comes again.
        `loader`: a Loader with this sampler. Regroups, hands over and leaves as required. A worker asked to leave ends
        here; if its whole job was asked to, or it waits for others, it saves and exits with 128 + signal. Without mtrun
        there is no regrouping: all stop if one is asked to leave, and Interrupted is raised if others are gone."""
        if loader.sampler is not self.sampler:
            raise ValueError("the loader has another sampler than the replica: give both the same ElasticSampler")
        grouped, broke = False, None
        while True:
            try:
                if not grouped:
                    self._enter()
                    loader.begin(self.job.rank, self.job.world_size, self.node)
                    grouped = True
                while not self._is_complete():
                    step = self._begin_step(loader)
                    yield step
                    step.finish()
                    self._save_if_due()  # includes the program's changes to `more` after its step
                    leaving, regroups = self._votes
                    if leaving == step.applied.world_size or (leaving and not self.job.elastic):
                        self._save_for_all()
                    # Use the vote, as the others know it: a worker asked later continues and votes in the next step.
                    if leaving and self._votes_to_leave:
                        self._finish_save_in_flight()
                        self.job.leave(f"after step {self.sampler.step}")
                        leave_group(self.job)
                        return
                    if leaving or regroups:
                        raise Interrupted("workers are leaving or joining")
                if self._finish():
                    self.complete = True
                    return
                grouped = False
            except Interrupted as error:
                # Keep the error only if it is raised, because it keeps the step's tensors alive.
                grouped, broke = False, None if self.job.elastic else error
            except Stopped:
                self._stop_while_waiting()
                if broke:
                    raise broke from None
                return

    def _is_complete(self) -> bool:
        """Evaluates if an epoch has just ended. Returns whether the run has ended."""
        if self._evaluation is None or not self._evaluation.is_due(self.sampler):
            return self.sampler.finished
        self._evaluate()
        return self.sampler.finished or self._evaluation.stops

    def _evaluate(self) -> None:
        """Evaluates, unless every worker has the result of this position. A worker can lack it: it was interrupted while
        the others finished. Then all evaluate again, and have equal results."""
        evaluation, steps = self._evaluation, self.sampler.step
        if not self._evaluations_agree:
            lacks = torch.tensor([int(not evaluation.has(steps))])
            self.add_up(lacks)
            if lacks.item():
                evaluation.forget(steps)
            self._evaluations_agree = True
        if not evaluation.has(steps):
            evaluation.run(self)
            weights = self._held.whole({"model": evaluation.weights()}) if self._folder and evaluation.is_best else {}
            if self._metrics and self._writes:
                self.job.hold()
                self._metrics.evaluated(weights.get("model"))
            evaluation.tell()

    def _stop_while_waiting(self) -> None:
        """Saves the state, which may be the newest, because no generation follows for this worker. A spare of a
        finished job does not save: its state is not needed, and its lease is not renewed."""
        if self._checkpoints and self._knows and not self.job.work_is_done:
            try:
                self._save_unless_saved()
            except Interrupted as error:
                print(f"mtrun: step {self.sampler.step} could not be saved: {error}", file=sys.stderr)
        leave_group(self.job)
        if self.job.leaves:
            self.job.leave(f"asked to leave after step {self.sampler.step}")
            sys.exit(self.job.exit_status)

    def _finish(self) -> bool:
        """Returns True if the job has ended; False if another generation begins first, which this worker must join."""
        self._finish_save_in_flight()
        if self._checkpoints and self._needs_save():
            self.save()
        if self._metrics and self._writes:
            self._metrics.finish(self.sampler, self.job)
        with interruptible(self.job):
            barrier(self.job)  # all data are on the disk before any worker reports it
        return self.job.done(self.sampler.step)

    # ---- a step, as TrainingStep drives it
    def _begin_step(self, loader: Loader | Ids) -> TrainingStep:
        self.optimizer.zero_grad()
        self._held.begin_step()
        plan = loader.plan()
        self._sums = self.sums_of(plan, self.sampler.micro_batches_of_step)
        self._gradients.begin(self._sums, self.job.rank)
        self._buffers.begin(self._sums)
        return TrainingStep(self, plan, loader)

    def sums_of(self, plan: StepPlan, leaves: int) -> StepSums:
        """Returns the order in which the passes of a plan are added, which has at most `leaves` micro-batches."""
        if self._held.shards > 1 or self.node is not None:
            return in_sequence(len(plan.passes))
        return in_tree_order(self.job.rank, self.job.world_size, leaves, plan.existing)

    @property
    def node(self) -> range | None:
        """Returns the ranks that must make equally many passes; None if each makes as many as it has micro-batches."""
        return self._held.node

    @property
    def interrupted(self) -> Interrupted | None:
        """Returns why a pass has worthless results, if the end of the generation interrupted a collective within it."""
        return self._held.interrupted

    def micro_batch(self, counts: bool = True) -> contextlib.AbstractContextManager[None]:
        """Returns a context that wraps one micro-batch's pass. `counts`: no other worker computes it."""
        self._gradients.begin_micro_batch()
        return self._buffers.micro_batch(counts)

    def differentiate(self, part: torch.Tensor, last: bool) -> None:
        """Adds the gradients of a micro-batch's weighted loss to this worker's. `last`: of its micro-batches; sums over
        the workers start within the pass."""
        with self._gradients.one_pass(self.job if last else None):
            self._update.scaled(part).backward()

    def commit(self, plan: StepPlan, losses: list[torch.Tensor], max_norm: float | None,
               norm_type: float) -> tuple[Step, torch.Tensor | None]:
        """Sums over the workers, and makes and records the step. `losses`: of this worker's micro-batches, weighted, tensors
        []. Returns (Step, norm). Interrupted if the generation ended; nothing has changed then."""
        self._first_use.report(self.job.rank, plan.step)
        ids = [i for _, batch in plan.micro_batches for i in batch]
        of_step = torch.zeros(plan.existing, dtype=torch.float64)
        if losses:
            of_step[[number for number, _ in plan.micro_batches]] = torch.stack(losses).double().cpu()
        loss, samples, hash, leaving, regroups, buffers = self._sum(of_step, ids, None if max_norm is None else norm_type)
        self.job.hold()
        rate = self.optimizer.param_groups[0]["lr"]
        skipped, norm = self._update.apply(plan.step, [] if max_norm is None else self._trained(), max_norm, norm_type)
        if not skipped:
            self._buffers.apply(*buffers)
        self._votes = leaving, regroups
        return self._commit(plan, samples, hash, loss, skipped, float(rate)), norm

    def _trained(self) -> list[torch.nn.Parameter]:
        return [p for p in self.model.parameters() if p.requires_grad]

    def _sum(self, losses: torch.Tensor, ids: list[int], norm_type: float | None) -> Sums:
        """Sums the gradients, and the losses, sample counts, votes to leave or regroup, new buffers, and the figures of
        the gradients. The latter come last: if any worker has them, the gradients' sums are complete on every worker.
        `losses`: of all micro-batches, 0 for those of other workers."""
        self._votes_to_leave, wants, counts = self.job.leaves, self.job.wants_regroup, self._buffers.counts()
        with interruptible(self.job):
            self._gradients.sum(self.job, *([counts] if self._buffers.any() else []))
        count, hash = gathered(ids)
        record = [count, self._votes_to_leave, wants, self._given_up, *parts_of(hash)]
        mine = self._update.figures(self._trained, norm_type)
        figures = torch.zeros(self.job.world_size, len(mine), dtype=torch.float64)
        figures[self.job.rank] = mine
        parts = [torch.tensor(record, dtype=torch.float64), losses, figures.reshape(-1)]
        total = self.add_rows(self._buffers.partials(counts), self._buffers.size(counts), self._sums, *parts)
        sizes = [len(part) for part in parts]
        record_of_all, losses, rest, buffers = total.split([*sizes, len(total) - sum(sizes)])
        samples, leaving, regroups, saves_again, *hash_of_all = map(int, record_of_all.tolist())
        self._saves_again = saves_again > 0
        self._update.take(rest.view(figures.shape)[:self._held.shards])
        return exact_sum(losses.tolist()), samples, joined(hash_of_all), leaving, regroups, (counts, buffers)

    def add_rows(self, partials: list[torch.Tensor], size: int, sums: StepSums, *more: torch.Tensor) -> torch.Tensor:
        """Returns the sums of `more`, and after them the sum of all workers' partial rows of `size` float64 numbers, in the
        order of `sums`. Tensors on the CPU. All workers learn `more` in the last collective. Interrupted if the generation
        ends."""
        row = torch.full((size,), -0.0, dtype=torch.float64)  # changes no number that is added to it
        if size and sums.by_exchange:
            assert sums.plan
            with interruptible(self.job):
                row = add_in_order(self.job, partials, size, sums.plan)
            if not more:
                return row
            self.add_up(total := torch.cat(more))
            return torch.cat([total, row])
        self.add_up(total := torch.cat([*more, partials[0] if partials else row]))
        return total

    def add_up(self, *tensors: torch.Tensor) -> None:
        """Sums tensors over the workers, in place. Interrupted if the generation ends."""
        with interruptible(self.job):
            finish_all(self.job, [(start(tensor), tensor) for tensor in tensors])

    def _commit(self, plan: StepPlan, samples: int, hash: int, loss: float, skipped: bool, rate: float) -> Step:
        taken = Step(plan.step, plan.epoch, loss, samples, self.job.world_size, self._generation, skipped)
        line = Ledger.step_line(taken.step, taken.epoch, taken.generation, taken.world_size, plan.ids, samples, hash, loss,
                                skipped)
        self._recent = (self._recent + [line])[-RECENT:]
        self._knows = True
        self.sampler.advance()
        if self._ledger and self._writes:
            self._ledger.write(line)
        if self._metrics:
            self._metrics.step(taken, rate, self._writes)
        if self._evaluation is not None:
            self._evaluation.count(taken)
        self.job.progress(taken.epoch, self.sampler.step, self.sampler.samples, loss=loss, learning_rate=rate,
                          epochs=self.sampler.epochs, total_steps=self.sampler.steps, run=self._name)
        return taken

    # ---- a generation
    def _enter(self) -> None:
        regroup(self.job, self._backend, self._held.connect)
        if not self._held.enter(self.optimizer):
            self._knows, self._torn = False, True
        self._first_use.begin(self.model)
        self._may_be_behind = self._may_be_behind or (self._knows and self.job.lease_lapsed)
        self._note_several_nodes()
        self._evaluations_agree = False
        with interruptible(self.job):
            self._compare_programs()
            self._share()
        self._writes = self.job.rank == 0
        if self._folder and self._writes:
            self.job.hold()
            self._ledger.begin(self._run, self._recent, self._lineage, self._generation)
            self._metrics.begin(self.sampler, self.job, self._generation)

    def _compare_programs(self) -> None:
        """Raises ValueError if this worker's model or optimizer is not that of the others."""
        mine = torch.tensor(program_of(self.model, self.optimizer, self._lived, self._held.shards))
        all_of = [torch.zeros_like(mine) for _ in range(self.job.world_size)]
        await_call(self.job, lambda: dist.all_gather(all_of, mine))
        compare(self.job.rank, [each.tolist() for each in all_of])

    def _note_several_nodes(self) -> None:
        here = len(self.job.peers) > 1 or self.job.world_size > self.job.local_world_size
        if here and self._folder:
            note_several_nodes(self._folder)
        noted = self._folder is not None and had_several_nodes(self._folder)
        self._several_nodes = self._several_nodes or here or noted

    def _share(self) -> None:
        """Compares the members' progress; those that are behind receive the furthest state."""
        columns = self._held.columns(self.job.world_size)
        read: Any = None
        came, claims = self._claims_of_whole_states(columns)
        self._say_what_is_lost(came, claims)
        while (reading := readers(claims))[0]:
            ranks, truth = reading
            if len(columns) > 1 and (ranks, truth and truth.position) == read:
                raise OSError(f"ranks {_text(sorted(ranks))} read checkpoints that other workers of their nodes do not "
                              "find: give all workers of a node the same folder")
            read = ranks, truth and truth.position
            if self.job.rank in ranks:
                self._load_newest(*((f"{truth.run:016x}", truth.position) if truth else ()))
            _, claims = self._claims_of_whole_states(columns)
        if ranks := to_digest(claims):
            _, claims = self._claims_of_whole_states(columns, digests=self.job.rank in ranks)
        plans = plans_of(claims, columns, self.job.number)
        plan = plans[self.job.rank % len(plans)]
        if rivals := next((each.rivals for each in plans if each.rivals), None):
            print(f"mtrun: ranks {_text(rivals)} hold different states after {claims[rivals[0]].position.steps} steps: "
                  "the replicas diverged and none can be trusted, so the run stops", file=sys.stderr)
            sys.exit(EXIT_DIFFERS)
        refused = [rank for rank, claim in enumerate(claims) if claim.refused]
        if plan.nobody and refused:
            raise self._refused() or OSError(f"rank {refused[0]} has checkpoints that its disk cannot read, "
                                             "and no rank has a state")
        self._known = plan.generation  # others can begin it even if this worker fails
        self._say_what_is_discarded(came, claims[plan.source])
        if plan.nobody and any(claims[each.source].torn for each in plans):
            raise RuntimeError("no worker has a whole state or a checkpoint, because one that gave its state, or had the "
                               "only copy of its shards, was lost: start the workers again")
        if plan.nobody and self._checkpoints and self.job.rank == plans[0].source:
            self._checkpoints.say_that_none_is_left()
        self._hand_over(plan, claims[plans[0].source])
        if len({claims[each.source].buffers for each in plans}) > 1:
            self._hand_over_buffers(plans[0].source)
        self._generation, self._lived, self._may_be_behind = plan.generation, True, False
        self._lineage = self._lineage.enter(self._generation, self.sampler.step)

    def _claims_of_whole_states(self, columns: list[list[int]],
                                digests: bool = False) -> tuple[list[Claim], list[Claim]]:
        """Returns the claims, and these without states of which a shard is lost."""
        all_of = self._claims(digests)
        return all_of, only_whole(all_of, columns)

    def _claims(self, digests: bool = False) -> list[Claim]:
        """Returns the claims of all members, by rank. `digests`: of this one's state too."""
        mine = torch.tensor(self._claim(digests).numbers())
        all_of = [torch.zeros_like(mine) for _ in range(self.job.world_size)]
        await_call(self.job, lambda: dist.all_gather(all_of, mine))
        return [claim_of(each.tolist()) for each in all_of]

    def _claim(self, digests: bool = False) -> Claim:
        saved = self._checkpoints.furthest() if self._checkpoints else None
        known = [self._known, self._generation]
        if self._folder:
            known += [self._ledger.end().generation, self._checkpoints.highest_generation()]
        gap = self._several_nodes and (self._may_be_behind or (self._begins_again and not self._knows))
        return Claim(holds=self._knows, lived=self._lived, begins_again=self._begins_again,
                     run=int(self._run, 16), position=self._position() if self._knows else NONE,
                     parameters=digest_of(self._held.tensors()) if digests else 0,
                     buffers=digest_of(self._buffers.tensors().values()) if digests else 0,
                     rest=self._digest_of_rest() if digests and not self._knows else 0, torn=self._torn,
                     saved_run=int(saved.run, 16) if saved else 0, saved=saved.position if saved and saved.position else NONE,
                     known=max(known), gap=1 + secrets.randbelow(MAX_GAP) if gap else 0,
                     refused=self._refused() is not None)

    def _position(self) -> Position:
        return self._lineage.position(self.sampler.step)

    def _say_what_is_lost(self, came: list[Claim], claims: list[Claim]) -> None:
        ranks = [rank for rank, (before, now) in enumerate(zip(came, claims)) if before.holds and not now.holds]
        if ranks and find_source(claims) is None and self.job.rank == ranks[0]:
            print(f"mtrun: giving up the shards of rank {_text(ranks)}, {came[ranks[0]].position}, because no worker has "
                  "the others: the run continues from the newest checkpoint", file=sys.stderr)

    def _say_what_is_discarded(self, came: list[Claim], truth: Claim) -> None:
        ranks = discarded(came, truth)
        if ranks and self.job.rank == ranks[0]:
            for position in sorted({came[rank].position for rank in ranks}):
                who = _text(rank for rank in ranks if came[rank].position == position)
                print(f"mtrun: discarding the state of rank {who}, {position}: the run continues from {truth.position}",
                      file=sys.stderr)

    def _digest_of_rest(self) -> int:
        """Returns the digest of what a fresh run begins with, except for the model."""
        state = self._held.held(self._state())
        return digest_of_state([state[name] for name in ("optimizer", "sampler", "more")])

    def _state(self, keep_vars: bool = False) -> dict[str, Any]:
        """Returns the state; its tensors are the live ones, sharded if the model's are. `keep_vars`: those of the model
        are its parameters and buffers themselves, and loading them back costs nothing."""
        return {"model": self.model.state_dict(keep_vars=keep_vars), "optimizer": self.optimizer.state_dict(),
                "parameters": self._parameters(), "sampler": self.sampler.state_dict(),
                "run": self._run, "generation": self._generation, "lineage": self._lineage.entries(), "recent": self._recent,
                "more": {name: each.state_dict() for name, each in self._more.items()}}

    def _parameters(self) -> list[str]:
        """Returns the names of the optimizer's parameters, in its order."""
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        trained = [each for group in self.optimizer.param_groups for each in group["params"]]
        return [names.get(id(each), str(number)) for number, each in enumerate(trained)]

    def _restore(self, state: dict[str, Any]) -> None:
        """Restores a state. Unfit if it is another program's: it may be partly restored, so the run cannot continue."""
        try:
            state = self._held.placed(state, self.optimizer)
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            for name, each in self._more.items():
                each.load_state_dict(state["more"][name])
            self._run, self._generation, self._recent = state["run"], state["generation"], state.get("recent", [])
            self._lineage = lineage_of(state)
            self.sampler.load_state_dict(state["sampler"])  # last, because it marks everything before as restored
        except Exception as error:  # including those of the program's own objects
            raise Unfit(error) from error

    def _hand_over(self, plan: Plan, truth: Claim) -> None:
        """Brings the needy workers to the source's state, by broadcasts of all."""
        mine = self.job.rank
        if plan.nobody:
            self._run = f"{truth.run:016x}"
            self._knows = mine != plan.source and mine not in plan.needy  # began with the same values
        if not plan.needy:
            return
        if mine == plan.source:
            give(self.job, self._held.held(self._state()), self._held.group)
        elif mine in plan.needy:
            self._take(plan.source)
        else:
            pass_on(self.job, plan.source, self._held.group)

    def _hand_over_buffers(self, source: int) -> None:
        """Gives all workers the buffers of one: those of a node, which take different shards, can differ."""
        buffers = {"buffers": self._buffers.tensors()}
        if self.job.rank == source:
            give(self.job, buffers)
        else:
            take(self.job, source, buffers)

    def _take(self, source: int) -> None:
        """Receives a state into this worker's own tensors. While they are partly overwritten it holds none; if the
        transfer fails, it gets back a state that no checkpoint has."""
        own = self._held.held(self._state(keep_vars=True))
        keeps = self._knows and not (self._checkpoints and self.saved())
        kept = Snapshot().take(self._held.held(self._state())) if keeps else None
        self._knows, self._torn = False, True
        try:
            self._restore(take(self.job, source, own, self._held.group))
        except Unfit as error:
            raise ValueError(f"the state of rank {source} is from another model or program ({error})") from error
        except BaseException:
            if kept:
                self._restore(kept)
                self._knows, self._torn = True, False
            raise
        self._knows, self._torn = True, False

    # ---- checkpoints
    def saved(self) -> bool:
        """Returns whether the checkpoint of exactly this state exists."""
        return self._checkpoints.has(self._run, self._position())

    def save(self, outside: bool = False) -> None:
        """Saves a checkpoint and waits until it is on the disk. `outside`: the worker is outside of a generation. If
        the model is sharded, all workers must call it, and rank 0 saves."""
        self._saver.finish()
        state = self._held.whole(self._state())
        if self._held.shards > 1 and not self._writes:
            return
        self.job.hold(outside)
        self._ledger.sync()
        self._checkpoints.save(state, lambda: self.job.hold(outside), alone=outside)

    def _needs_save(self) -> bool:
        """Returns whether to call `save`: on the writer if it has not saved, and then on all if the model is sharded."""
        needs = self._writes and not self.saved()
        if self._held.shards > 1:
            lacks = torch.tensor([int(needs)])
            self.add_up(lacks)
            needs = lacks.item() > 0
        return needs

    def _save_if_due(self) -> None:
        """Starts a periodic save, which a thread writes, and raises the error of the one before. A save that was given
        up with its generation is made up for."""
        if not self._checkpoints or not self._checkpoint_steps:
            return
        due = self.sampler.step % self._checkpoint_steps == 0
        if due or self._saver.idle():
            self._given_up = not self._finish_save() or self._given_up
        # The workers of a node make the whole state together, so all must know.
        again = self._saves_again if self._held.shards > 1 else self._given_up
        if not due and not again:
            return
        if self._held.shards > 1 or self._writes:
            self._given_up = self._writes  # until it is handed to the saver
            state = self._held.whole(self._state())
        if self._writes:
            self._saver.save(state, self._ledger.descriptor())
        self._given_up = False

    def _finish_save_in_flight(self) -> None:
        if self._saver:
            self._saver.finish()

    def _finish_save(self) -> bool:
        """Waits for the save in flight; returns False if it was given up."""
        began = time.monotonic()
        saved = self._saver.finish()
        if (waited := time.monotonic() - began) >= SLOW_SAVE:
            print(f"mtrun: step {self.sampler.step} has waited {waited:.1f} s for the checkpoint before it: the disk is slower "
                  f"than checkpoint_steps={self._checkpoint_steps} needs", file=sys.stderr)
        return saved

    def _save_unless_saved(self) -> None:
        """Saves unless another worker has: workers with the same state can be asked to leave together, and the first
        one saves for all. Does nothing if others have gone further without this worker, or have saved as much."""
        self._finish_save_in_flight()
        if self._held.shards > 1:
            print(f"mtrun: step {self.sampler.step} is not saved, because this worker has only a shard of it: the run "
                  "continues from another node or from the newest checkpoint", file=sys.stderr)
            return
        self.job.hold(outside=True)  # first, so that a wait for the lease does not block the folder
        with self._checkpoints.alone():
            saved, others = self._checkpoints.furthest(self._run), self._ledger.end()
            if saved and saved.position and saved.position >= self._position():
                return
            if others.generation > self._generation and others.steps > self.sampler.step:
                return
            self._ledger.begin(self._run, self._recent, self._lineage)
            self.save(outside=True)

    def _save_for_all(self) -> None:
        """Saves, because the whole job was asked to leave."""
        if self._checkpoints and (self._writes or self._held.shards > 1):
            self.save()
        with interruptible(self.job):
            barrier(self.job)
        self.job.leave(f"all leave after step {self.sampler.step}")
        leave_group(self.job)
        sys.exit(self.job.exit_status)

    def _refused(self) -> OSError | None:
        return self._checkpoints.refused if self._checkpoints else None

    def _load_newest(self, *which: Any) -> None:
        """Loads the furthest checkpoint. `which`: of a run, and above a position."""
        if self._checkpoints.load_newest(self._restore, *which):
            self._knows = self._may_be_behind = True
            self._torn = False
        if not self._knows and (run := self._ledger.run()):
            self._run, self._begins_again = run, True


def _kind(model: torch.nn.Module, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler | None,
          shard: Callable[[torch.nn.Module, Any], object] | None, more: dict[str, Any]) -> tuple[WholeModel, Update]:
    """Returns how the workers hold the model, and what applies gradients to it."""
    if shard is None:
        return WholeModel(model), Update(optimizer, scaler)
    from mtrun.shard_update import ShardUpdate  # only programs that shard pay for its imports
    from mtrun.sharded_model import ShardedModel
    for name, each in more.items():
        if isinstance(each, torch.nn.Module):
            raise ValueError(f"{name} is a {type(each).__name__}, whose whole weights cannot follow a sharded model's: "
                             "leave it out of `more`, or train without `shard`")
    return ShardedModel(model, shard), ShardUpdate(optimizer, scaler)


def _text(ranks: Iterable[int]) -> str:
    return ", ".join(str(rank) for rank in ranks)
