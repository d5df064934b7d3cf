"""The ledger of a run (docs/formats.md, "The ledger"): the samples of each step, so that `tools/verify_ledger` can
prove that each was taken exactly once. One worker of a generation writes it."""
from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mtrun.files import replacing
from mtrun.position import Lineage, Position
from mtrun.sampler import ElasticSampler, digest, hash_of

START = "0" * 64
# Bytes read from a ledger's end: some 3,000 lines, more than a writer adds after its generation is over.
END_BYTES = 1 << 20


class Ledger:
    """`ledger.jsonl` in `folder`, which is created. Opening changes nothing; the writing worker calls `begin`."""

    def __init__(self, folder: str, sampler: ElasticSampler, data: str = "") -> None:
        """`data`: a digest or name of the data set, recorded in the ledger."""
        self.folder, self.path = folder, os.path.join(folder, "ledger.jsonl")
        self._sampler, self._data = sampler, data
        self._file = -1  # a descriptor, of the writer
        self._previous = START

    def head(self, run: str) -> dict[str, Any]:
        """Returns the first line, which names the run and the order of its samples."""
        s = self._sampler
        return {"ledger": 2, "run": run, "seed": s.seed, "size": s.size, "global_batch": s.global_batch,
                "micro_batch": s.micro_batch, "shuffle": s.shuffle, "data": self._data}

    def end(self) -> Position:
        """Returns the end as a Position: the step after the last valid one, and the highest generation of a line."""
        return end_of_entries(self._last_entries())

    def run(self) -> str | None:
        """Returns the run of the first line; None if there is none."""
        head = self._head()
        return head["run"] if head else None

    def begin(self, run: str, recent: Sequence[dict[str, Any]] = (), lineage: Lineage | None = None,
              generation: int | None = None) -> None:
        """Makes this worker the writer, after a predecessor; it first adds missing lines (`missing_lines`). `recent`:
        lines of steps that a predecessor may not have written. `lineage`: of the state. `generation`: the one that
        begins now, if any. ValueError if the file belongs to another run."""
        os.makedirs(self.folder, exist_ok=True)
        if self._file >= 0:
            os.close(self._file)
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._end_torn_line()
        if head := self._head():
            self._check_head(head, run)
        lines = missing_lines(self._checked_entries(run), recent, lineage or Lineage(), generation)
        if next(self._entries(), None) is None:
            self._write(self.head(run))
        for line in lines:
            self._write(line)

    def _checked_entries(self, run: str) -> Iterator[dict[str, Any]]:
        for entry in self._last_entries():
            if "ledger" in entry:
                self._check_head(entry, run)
            yield entry

    def _check_head(self, head: dict[str, Any], run: str) -> None:
        other = sorted(key for key, value in self.head(run).items() if key != "ledger" and head.get(key) != value)
        if other:
            raise ValueError(f"{self.path} belongs to another run ({', '.join(other)} differ): use another folder, or "
                             "move it away")

    @staticmethod
    def step_line(step: int, epoch: int, generation: int, world: int, ids: list[int], samples: int, hash: int, loss: float,
                  skipped: bool = False) -> dict[str, Any]:
        """Returns a committed step's line. `ids`: in sampler order; `samples` and `hash`: sums over the workers. `skipped`:
        the weights did not change."""
        return {"step": step, "epoch": epoch, "generation": generation, "world": world, "ids": digest(ids),
                "samples": samples, "hash": f"{hash:016x}", "loss": f"{loss:.17g}",
                "status": "skipped" if skipped else "applied"}

    def write(self, line: dict[str, Any]) -> None:
        """Writes a line. REQUIRES: begin."""
        self._write(line)

    def sync(self) -> None:
        """Flushes the written lines to the disk."""
        if self._file >= 0:
            os.fsync(self._file)

    def descriptor(self) -> int | None:
        """Returns another descriptor of the file, for a thread to flush and close; None if the file is not open."""
        return None if self._file < 0 else os.dup(self._file)

    def finish(self, program: str, settings: dict[str, Any], report: dict[str, Any]) -> None:
        """Writes config.yaml and report.json beside the ledger: the intended length of the run and its end."""
        self.configure(program, settings)
        self._replace("report.json", json.dumps({"steps": self._sampler.step, **report}, indent=2) + "\n")

    def configure(self, program: str, settings: dict[str, Any]) -> None:
        """Writes config.yaml: the program's name, the run's length and its settings."""
        s = self._sampler
        settings = {"data": "", "seed": s.seed, "epochs": s.epochs, "max_steps": 0, "batch_size": s.micro_batch,
                    "global_batch": s.global_batch, **settings}
        lines = [f"{program}:"] + [f"  {name}: {json.dumps(value) if isinstance(value, bool) else value}"
                                   for name, value in settings.items() if value != ""]
        text = "\n".join(lines) + "\n"
        with contextlib.suppress(OSError), open(os.path.join(self.folder, "config.yaml"), encoding="utf-8") as file:
            if file.read() == text:  # each generation begins with it, and a sync takes longer than a look
                return
        self._replace("config.yaml", text)

    def _replace(self, name: str, text: str) -> None:
        with replacing(os.path.join(self.folder, name)) as file:
            file.write(text.encode())

    def _write(self, entry: dict[str, Any]) -> None:
        line = json.dumps({**entry, "prev": self._previous}, separators=(",", ":")).encode()
        written = os.write(self._file, line + b"\n")
        if written != len(line) + 1:
            raise OSError(f"{self.path}: only {written} of {len(line) + 1} bytes could be written (is the disk full?)")
        self._previous = hashlib.sha256(line).hexdigest()

    def _end_torn_line(self) -> None:
        line, last = b"\n", b""
        for line in end_of(self.path):
            last = line.rstrip(b"\n") or last
        if not line.endswith(b"\n"):
            os.write(self._file, b"\n")  # terminates the partial line of a killed writer
        self._previous = hashlib.sha256(last).hexdigest() if last else START

    def _head(self) -> dict[str, Any] | None:
        """Returns the first line that identifies the ledger; None if there is none."""
        return next((entry for entry in self._entries() if "ledger" in entry), None)

    def _entries(self) -> Iterator[dict[str, Any]]:
        try:
            with open(self.path, "rb") as file:
                yield from _parsed(file)
        except FileNotFoundError:
            return

    def _last_entries(self) -> Iterator[dict[str, Any]]:
        return _parsed(end_of(self.path))


def end_of_entries(entries: Iterable[dict[str, Any]], end: Position = Position(0, 0)) -> Position:
    """Returns Ledger.end() after these lines, from `end` on. Ignores lines after one of a higher generation."""
    steps, highest = end
    for entry in entries:
        if entry.get("generation", highest) >= highest:
            highest = entry.get("generation", highest)
            steps = entry.get("rewind", entry.get("step", steps - 1) + 1)
    return Position(steps, highest)


def rewinds(end: Position, lineage: Lineage, start: tuple[int, int], generation: int) -> bool:
    """Returns whether `generation`, which begins at `start` (steps, generation of the step before) of a state with this
    lineage, must record that in a ledger that ends at `end`. It need not if the state has passed through that end and
    no number between the two generations can belong to a branch in another node's folder."""
    steps, parent = start
    if parent == 0:
        return end.steps > 0
    return generation > parent + 1 or not lineage.descends(steps, end)


def missing_lines(entries: Iterable[dict[str, Any]], recent: Sequence[dict[str, Any]], lineage: Lineage,
                  generation: int | None = None) -> list[dict[str, Any]]:
    """Returns the lines with which a writer continues `entries`: the starts of generations that they lack, unless these
    are obvious, and the missing steps in `recent`, including steps of earlier generations after such a line."""
    there, end = set(), Position(0, 0)
    lines: list[dict[str, Any]] = []
    for entry in entries:
        end = end_of_entries([entry], end)
        there.add((entry.get("step"), entry.get("generation")))
    lacking = [line for line in recent if (line["step"], line["generation"]) not in there]
    begun = set() if generation is None else {generation}
    for each in sorted({int(line["generation"]) for line in lacking} | begun):
        start, more = lineage.start(each, begins=each == generation), []
        if start and each > end.generation and rewinds(end, lineage, start, each):
            more.append({"rewind": start[0], "generation": each, **({"of": start[1]} if start[1] else {})})
        more += [line for line in lacking if line["generation"] < each]
        lacking = [line for line in lacking if line["generation"] >= each]
        end, lines = end_of_entries(more, end), lines + more
    return lines + lacking


def end_of(path: str, wanted: int = END_BYTES) -> Iterator[bytes]:
    """Returns the last lines of a file: `wanted` bytes, or more if one line is longer. All lines of a short file, none
    of a missing one. The last line can be incomplete."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        while wanted < size:
            file.seek(size - wanted)
            file.readline()  # the rest of a partial line
            start = file.tell()
            if file.readline().endswith(b"\n"):
                break
            wanted *= 2
        else:
            start = 0
        file.seek(start)
        yield from file


def _parsed(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Returns the whole lines; a killed writer can leave partial ones."""
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def gathered(ids: list[int]) -> tuple[int, int]:
    """Returns count and hash of a worker's ids, to be summed for `step_line`."""
    return len(ids), hash_of(ids)


def parts_of(hash: int) -> list[int]:
    """Returns a 64-bit hash as four numbers, whose sums over less than 2^37 workers are exact in float64."""
    return [hash >> shift & 0xFFFF for shift in (0, 16, 32, 48)]


def joined(parts: Iterable[float]) -> int:
    """Returns the sum of hashes, modulo 2^64, by the sums of their parts."""
    return sum(int(part) << shift for part, shift in zip(parts, (0, 16, 32, 48))) % (1 << 64)
