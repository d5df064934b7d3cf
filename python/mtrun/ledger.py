"""The ledger of a run (docs/formats.md, "The ledger"): which samples each step had, so that `tools/verify_ledger` can prove
that each was taken exactly once. One worker of a generation writes it."""
import contextlib
import hashlib
import json
import os

from mtrun.position import Lineage, Position
from mtrun.sampler import digest, hash_of

START = "0" * 64
# What is read of a long ledger's end: some 3,000 lines, more than a writer adds that does not know that its generation is over.
END_BYTES = 1 << 20


class Ledger:
    """`ledger.jsonl` in `folder`, which is made. Opening changes nothing; `begin` does, by the worker that writes."""

    def __init__(self, folder, sampler, data=""):
        """`data`: a digest or name of the data set, recorded."""
        self.folder, self.path = folder, os.path.join(folder, "ledger.jsonl")
        self._sampler, self._data, self._file = sampler, data, None
        self._previous = START

    def head(self, run):
        s = self._sampler
        return {"ledger": 2, "run": run, "seed": s.seed, "size": s.size, "global_batch": s.global_batch,
                "micro_batch": s.micro_batch, "shuffle": s.shuffle, "data": self._data}

    def end(self):
        """How far it is, as a Position: the step after the last one that counts, and the highest generation of a line."""
        return end_of_entries(self._last_entries())

    def run(self):
        """Of the first line; None without one."""
        head = self._head()
        return head["run"] if head else None

    def begin(self, run, recent=(), lineage=None, generation=None):
        """This worker writes from here on, after what a predecessor left: what it finds missing first (`missing_lines`).
        `recent`: lines of steps that a predecessor may not have written. `lineage`: of the state. `generation`: that begins now,
        if one does. ValueError if the file is another run's."""
        os.makedirs(self.folder, exist_ok=True)
        if self._file is not None:
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

    def _checked_entries(self, run):
        for entry in self._last_entries():
            if "ledger" in entry:
                self._check_head(entry, run)
            yield entry

    def _check_head(self, head, run):
        other = sorted(key for key, value in self.head(run).items() if key != "ledger" and head.get(key) != value)
        if other:
            raise ValueError(f"{self.path} is another run's ({', '.join(other)} differ): take another folder, or move it away")

    @staticmethod
    def step_line(step, epoch, generation, world, ids, samples, hash, loss):
        """Of a step that was applied. `ids`: as the order says; `samples` and `hash`: what the workers took, summed."""
        return {"step": step, "epoch": epoch, "generation": generation, "world": world, "ids": digest(ids),
                "samples": samples, "hash": f"{hash:016x}", "loss": f"{loss:.17g}", "status": "applied"}

    def write(self, line):
        """REQUIRES: begin."""
        self._write(line)

    def sync(self):
        """What was written is on the disk."""
        if self._file is not None:
            os.fsync(self._file)

    def finish(self, program, settings, report):
        """What says how long the run was to be and that it ended: config.yaml and report.json beside the ledger."""
        s = self._sampler
        settings = {"data": "", "seed": s.seed, "epochs": s.epochs, "max_steps": 0, "batch_size": s.micro_batch,
                    "global_batch": s.global_batch, **settings}
        lines = [f"{program}:"] + [f"  {name}: {json.dumps(value) if isinstance(value, bool) else value}"
                                   for name, value in settings.items() if value != ""]
        self._replace("config.yaml", "\n".join(lines) + "\n")
        self._replace("report.json", json.dumps({"steps": s.step, **report}, indent=2) + "\n")

    def _replace(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path + ".partial", "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".partial", path)

    def _write(self, entry):
        line = json.dumps({**entry, "prev": self._previous}, separators=(",", ":")).encode()
        written = os.write(self._file, line + b"\n")
        if written != len(line) + 1:
            raise OSError(f"{self.path}: only {written} of {len(line) + 1} bytes could be written (is the disk full?)")
        self._previous = hashlib.sha256(line).hexdigest()

    def _end_torn_line(self):
        line, last = b"\n", b""
        for line in end_of(self.path):
            last = line.rstrip(b"\n") or last
        if not line.endswith(b"\n"):
            os.write(self._file, b"\n")  # what a killed writer left of its last line
        self._previous = hashlib.sha256(last).hexdigest() if last else START

    def _head(self):
        """The first line that says whose ledger it is; None without one."""
        return next((entry for entry in self._entries() if "ledger" in entry), None)

    def _entries(self):
        try:
            with open(self.path, "rb") as file:
                yield from _parsed(file)
        except FileNotFoundError:
            return

    def _last_entries(self):
        return _parsed(end_of(self.path))


def end_of_entries(entries, end=Position(0, 0)):
    """Ledger.end() after these lines, of a ledger that ended at `end`. Those behind a line of a higher generation do not count."""
    steps, highest = end
    for entry in entries:
        if entry.get("generation", highest) >= highest:
            highest = entry.get("generation", highest)
            steps = entry.get("rewind", entry.get("step", steps - 1) + 1)
    return Position(steps, highest)


def rewinds(end, lineage, start, generation):
    """Returns whether `generation`, which begins at `start` (steps, generation of the step before) of a state with this lineage,
    says so in a line of a ledger that ends at `end`: unless the state has passed through that end, and no number between the two
    generations could be that of a branch in another node's folder."""
    steps, parent = start
    if parent == 0:
        return end.steps > 0
    return generation > parent + 1 or not lineage.descends(steps, end)


def missing_lines(entries, recent, lineage, generation=None):
    """Returns the lines with which a writer continues these `entries`: where each generation begins that they do not have yet,
    unless that is plain; and the remembered steps that they lack, those of the generations before behind that line."""
    there, end, lines = set(), Position(0, 0), []
    for entry in entries:
        end = end_of_entries([entry], end)
        there.add((entry.get("step"), entry.get("generation")))
    lacking = [line for line in recent if (line["step"], line["generation"]) not in there]
    for each in sorted({line["generation"] for line in lacking} | ({generation} - {None})):
        start, more = lineage.start(each, begins=each == generation), []
        if start and each > end.generation and rewinds(end, lineage, start, each):
            more.append({"rewind": start[0], "generation": each, **({"of": start[1]} if start[1] else {})})
        more += [line for line in lacking if line["generation"] < each]
        lacking = [line for line in lacking if line["generation"] >= each]
        end, lines = end_of_entries(more, end), lines + more
    return lines + lacking


def end_of(path, wanted=END_BYTES):
    """The last lines of a file, so many bytes, or more where these are the end of one line; all lines of a short file, none of
    one that is not there. The last one may be unfinished."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        while wanted < size:
            file.seek(size - wanted)
            file.readline()  # the rest of some line
            start = file.tell()
            if file.readline().endswith(b"\n"):
                break
            wanted *= 2
        else:
            start = 0
        file.seek(start)
        yield from file


def _parsed(lines):
    """Those that are whole: a killed writer may have left others."""
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def gathered(ids):
    """Count and hash of the ids that a worker took, as `step_line` wants their sums."""
    return len(ids), hash_of(ids)
