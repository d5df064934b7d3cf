"""The metrics of a run in its folder (docs/formats.md, "Run folders"): metrics.jsonl, config.yaml and report.json, from
which `mtreport` draws the curves."""
from __future__ import annotations

import json
import math
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from mtrun.job import Job
from mtrun.ledger import Ledger, end_of
from mtrun.sampler import ElasticSampler

if TYPE_CHECKING:
    from mtrun.evaluation import Evaluation
    from mtrun.replica import Step

RECENT = 16  # lines that each worker keeps in case the writer dies before writing them


class Metrics:
    """Every worker calls `step`; only the writer's calls of the others write."""

    def __init__(self, folder: str, ledger: Ledger, settings: dict[str, Any], evaluation: Evaluation | None = None) -> None:
        self._path, self._ledger, self._evaluation = os.path.join(folder, "metrics.jsonl"), ledger, evaluation
        self._file = -1  # a descriptor, of the writer
        early = {"early_stopping_epochs": evaluation.patience} if evaluation is not None and evaluation.patience else {}
        self._settings = {**early, **settings}
        self._program = os.path.splitext(os.path.basename(sys.argv[0] or ""))[0] or "python"
        self._recent: list[dict[str, Any]] = []
        self._since = time.monotonic()

    def begin(self, sampler: ElasticSampler, job: Job, generation: int) -> None:
        """Makes this worker the writer, at the sampler's position: first cancels lines of steps from there on, and adds
        missing ones that this worker remembers."""
        self._ledger.configure(self._program, self._settings)
        if self._file >= 0:
            os.close(self._file)
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        lines = self._missing(sampler.step)
        members = [[peer.host, peer.workers] for peer in job.peers[:1000]]
        lines.append({"generation": generation, "assigned": job.number, "steps": sampler.step, "world": job.world_size,
                      **({"members": members} if members else {}), "time": round(time.time(), 3)})
        self._write(*lines)

    def step(self, taken: Step, rate: float, writes: bool) -> None:
        """Records a committed step and, if this worker `writes`, writes it. `rate`: the learning rate of the first
        parameter group."""
        now = time.monotonic()
        line = step_line(taken, rate, now - self._since)
        self._since = now
        self._recent = [each for each in self._recent if each["step"] < taken.step][1 - RECENT:] + [line]
        if writes:
            self._write(line)

    def evaluated(self, weights: dict[str, Any] | None) -> None:
        """Writes the last evaluation and, if it is the best one, the weights. REQUIRES: there is one."""
        assert self._evaluation is not None
        self._write(self._evaluation.line())
        if weights is not None:
            self._evaluation.save_best(os.path.dirname(self._path), weights)

    def finish(self, sampler: ElasticSampler, job: Job) -> None:
        """Writes the end of the run: config.yaml and report.json."""
        report = {"program": self._program, "global_batch": sampler.global_batch, "micro_batch": sampler.micro_batch,
                  "epochs": sampler.step // sampler.steps_per_epoch, "world_size": job.world_size,
                  "nodes": max(1, len(job.peers)), **(self._evaluation.report() if self._evaluation else {})}
        self._ledger.finish(self._program, self._settings, report)

    def _missing(self, position: int) -> list[dict[str, Any]]:
        """Returns the lines with which the file continues at `position` steps."""
        lines: list[dict[str, Any]] = []
        last, torn = -1, False
        for line in end_of(self._path):
            torn = not line.endswith(b"\n")
            last = _step_after(last, line)
        if torn:
            os.write(self._file, b"\n")  # terminates the partial line of a killed writer
        if last >= position:
            lines.append({"rewind": position})
        return lines + [line for line in self._recent if last < line["step"] < position]

    def _write(self, *lines: dict[str, Any]) -> None:
        os.write(self._file, "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode())


def step_line(taken: Step, rate: float, seconds: float) -> dict[str, Any]:
    """Returns the line of a committed Step. `seconds`: since the one before it."""
    return {"step": taken.step, "epoch": taken.epoch + 1, "loss": finite(taken.loss), "lr": finite(rate),
            "samples": taken.samples, "seconds": round(seconds, 6), **({"skipped": True} if taken.skipped else {})}


def finite(value: float) -> float | None:
    """Returns the number, or None because JSON has no infinity."""
    return value if math.isfinite(value) else None


def _step_after(last: int, line: bytes) -> int:
    """Returns the last step after this line of metrics.jsonl; `last`: that before it."""
    try:
        entry = json.loads(line)
    except ValueError:
        return last
    if not isinstance(entry, dict):
        return last
    if type(entry.get("rewind")) is int:
        return entry["rewind"] - 1
    return entry["step"] if type(entry.get("step")) is int else last
