"""A worker's place in its job: under mtrun a series of assignments from the agent, otherwise a single fixed one."""
from __future__ import annotations

import base64
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mtrun.assignment import Assignment, parse_assignment, read_assignment
from mtrun.channel import PROTOCOL_VERSION, Channel
from mtrun.lease import LeasePage
from mtrun.own_launch import own_launch
from mtrun.step_times import StepTimes, watch_seconds

# Slurm signals every process of a step and mtrun forwards its own: a repeat within this time is the same signal.
SIGNAL_ECHO_SECONDS = 1.0
CAUGHT = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
PROGRESS_SECONDS = 0.5  # between two progress reports
HOLD_SECONDS = 0.005  # between two checks of an expired lease, whose page sends no notification
LOOK_SECONDS = 0.1  # while waiting for an assignment or the end: signals do not wake the waiter
MOST_KEYS = 1024  # per request to the store
FOLLOWS_SECONDS = 1.0  # how long a draining worker still follows the others into an imminent generation


class Interrupted(RuntimeError):
    """The generation is over: the step is abandoned, the run is not. Call `regroup` next."""


class Stopped(Exception):
    """The job has ended, or this worker was asked to leave: finish and exit."""


class AgentLost(Exception):
    """The agent is gone; a worker does not outlive it."""


def join(environment: dict[str, str] | None = None) -> Job:
    """Returns this process's Job. ConnectionError if the agent of MTRUN_SOCKET cannot be reached, ValueError if variables
    are malformed. Variables of an mtrun whose worker this is not (`own_launch`) are ignored. On the main thread, SIGTERM,
    SIGINT and SIGUSR1 now set `job.leaves`; a repeat a second or more later has its usual effect. A worker asked to leave
    before it has a place exits with `job.exit_status`."""
    return Job(own_launch(dict(os.environ) if environment is None else environment))


class Store:
    """The key-value space of the entered generation, kept by the rendezvous. Values are bytes."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def set(self, key: str, value: bytes) -> None:
        """Sets a value: a key of up to 1,024 bytes, a value of up to 1 MiB. Those that wait for a key that did not fit get an
        error."""
        self._job._say("store_set", key=key, value=base64.b64encode(value).decode(), generation=self._job.generation)

    def wait(self, *keys: str) -> list[bytes]:
        """Blocks until all keys exist and returns their values in order. Interrupted if the generation ends first."""
        values = []
        for first in range(0, len(keys), MOST_KEYS):
            values += self._job._ask("store_wait", keys[first:first + MOST_KEYS])
        return values


class Job:
    """`with mtrun.join() as job:`. Only the training thread uses it, except for `on_break`'s function."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.elastic = bool(environment.get("MTRUN_SOCKET"))
        self.assignment = read_assignment(environment)
        self.agent_serves = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # torchrun's, on MASTER_PORT
        self.port_range = environment.get("MTRUN_PORT_RANGE", "")
        self.store = Store(self)
        self._changed = threading.Condition()
        self._newest: Assignment | None = None
        self._entered: str | None = None  # generations
        self._ended: str | None = None
        self._graceful = self._drained = self._connects = False
        self._why_ended: str | None = None
        self._stop: str | None = None
        self._lost: str | None = None
        self._work_is_done = False
        self._abort: Callable[[str], object] | None = None
        self._aborted: Callable[[str], object] | None = None
        self._questions = 0
        self._answers: dict[object, tuple[dict[str, str], str]] = {}
        self._signal = 0
        self._channel: Channel | None = None
        self._lease: LeasePage | None = None
        self._before_close: list[Callable[[], object]] = []
        self._grouped = False  # mtrun.torch has made a group
        self._was_ready = False  # in the entered generation
        self.lease_lapsed = False  # in the last connected generation before this one (not always the previous)
        self._told_to_go: float | None = None  # when holds first saw the request to leave
        self._signalled: dict[int, float] = {}  # first time of each signal
        self._reporter: threading.Thread | None = None
        self._waits_since: float | None = None
        self._times, self._watched_until = StepTimes(), 0.0
        self._told_progress: float | None = None
        self._grace = float(environment.get("MTRUN_SHUTDOWN_TIMEOUT", 30))
        self._catch_signals()
        if self.elastic:
            self._connect(environment)

    def _connect(self, environment: Mapping[str, str]) -> None:
        if environment.get("MTRUN_LEASE"):
            self._lease = LeasePage(int(environment["MTRUN_LEASE"]))
        self._channel = Channel(environment["MTRUN_SOCKET"], self._hear, self._lose)
        self._say("hello", protocol=PROTOCOL_VERSION, pid=os.getpid(), local_rank=self.assignment.local_rank,
                  cooperative=True, reports=True)
        self._channel.start()
        self._say("ready", generation="0.0")
        try:
            self.next()
        except Stopped:
            if not self.leaves:
                raise
            self.leave()
            raise SystemExit(self.exit_status) from None

    def _catch_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in CAUGHT:
            signal.signal(number, self._caught)

    def _caught(self, number: int, _: object) -> None:
        now = time.monotonic()
        if now - self._signalled.setdefault(number, now) < SIGNAL_ECHO_SECONDS:
            self._signal = number
        else:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            signal.raise_signal(number)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def before_close(self, call: Callable[[], object]) -> None:
        """Calls `call()` first when this worker closes its channel, for example to finish a commit that needs it."""
        self._before_close.append(call)

    def close(self) -> None:
        """Ends the connection to the agent, after the calls of `before_close`. The end of `with mtrun.join()` does it."""
        for call in self._before_close:
            call()
        if self._channel:
            self._channel.close()

    # ---- the worker's current place
    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.assignment, name)

    # ---- messages from the agent; any thread
    def changed(self) -> bool:
        """Returns True at a step boundary if this worker must leave its generation: it is over or must regroup, the job
        has ended, or this worker was asked to leave."""
        return self.over() or self.wants_regroup or self.leaves

    def over(self) -> bool:
        """Returns whether the entered generation ended early: a member is lost, and no step of it can succeed."""
        with self._changed:
            return self._over()

    @property
    def wants_regroup(self) -> bool:
        """Returns whether the entered generation ends gracefully: its members leave it together, after a step."""
        return self._graceful

    @property
    def leaves(self) -> bool:
        """Returns whether this worker was asked to leave (a signal, `mtrun --drain`)."""
        return self._drained or self._signal != 0

    @property
    def work_is_done(self) -> bool:
        """Returns whether the job has ended successfully, so that this worker's state is not needed."""
        return self._work_is_done

    @property
    def exit_status(self) -> int:
        """Returns the exit status of a worker that leaves with its whole job because of a signal."""
        return 128 + (self._signal or signal.SIGTERM)

    def on_break(self, abort: Callable[[str], object] | None) -> None:
        """Calls `abort(why)` when the entered generation ends early, on a thread of the channel, or at once if it has
        ended; then once a second while this worker still waits for others (`waits`). None removes the callback."""
        with self._changed:
            self._abort, self._aborted = abort, None
            if abort and self._over():
                self._break(self._why_ended or self._lost or "the generation is over")

    # ---- generations
    def next(self, timeout: float | None = None) -> Assignment:
        """Waits for the next generation's Assignment, enters and returns it. Stopped if there will be none, or if this
        worker was asked to leave and none is imminent; AgentLost if the agent is gone, TimeoutError after `timeout`
        seconds. Without mtrun there is only the first."""
        if not self.elastic:
            if self._entered:
                raise Stopped("without mtrun there is no next generation")
            self._entered = self.assignment.generation
            return self.assignment
        with self._changed:
            self._await_next(timeout)
            if self._stop:
                raise Stopped(self._stop)
            if self._lost:
                raise AgentLost(self._lost)
            self._look_at_ended_lease()
            assert self._newest is not None  # it has come
            self.assignment, self._graceful = self._newest, False
            self._entered = self.assignment.generation
            self._times.restart()
            self._told_progress = None  # report the first step of a generation at once
            return self.assignment

    def _look_at_ended_lease(self) -> None:
        lapsed = self._entered is not None and self._lease is not None and self._lease.over(self._entered)
        self.lease_lapsed = lapsed or (self.lease_lapsed and not self._was_ready)
        self._was_ready = False

    def _await_next(self, timeout: float | None) -> None:
        began = time.monotonic()
        while not (self._stop or self._lost or self._has_next()):
            waited = time.monotonic() - began
            # A worker that has trained follows briefly: if all are asked to leave, they agree on it best after a step.
            if self.leaves and (self._entered is None or waited >= FOLLOWS_SECONDS):
                raise Stopped("this worker was asked to leave")
            if timeout is not None and waited >= timeout:
                raise TimeoutError(f"no assignment within {timeout} s")
            self._changed.wait(LOOK_SECONDS if timeout is None else min(LOOK_SECONDS, timeout - waited))

    @contextlib.contextmanager
    def connects(self) -> Iterator[None]:
        """Wraps the connection of the entered generation's group. Its members have no step yet that they could finish
        together, so a graceful end interrupts too. Raises Interrupted if the generation has ended."""
        with self._changed:
            self._connects = True
        try:
            yield
            self.check()
        finally:
            with self._changed:
                self._connects = False

    def check(self) -> None:
        """Raises Interrupted if the entered generation has ended early."""
        with self._changed:
            if self._over():
                raise Interrupted(self._why_ended or self._stop or self._lost or "the generation is over")

    def ready(self) -> None:
        """Reports that the group of this generation is connected."""
        self._was_ready = True
        self._say("ready", generation=self.generation)

    def broken(self, why: object) -> None:
        """Reports that collectives failed although no worker seems dead, so that all regroup."""
        self._say("broken", generation=self.generation, why=str(why)[:1000])

    def wait_until_over(self, seconds: float) -> bool:
        """Returns False if the generation still runs after `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._over() or self._stop is not None, seconds)

    def wait_until_ends(self, seconds: float | None) -> bool:
        """Like wait_until_over, but a graceful end counts too, because a failed step cannot be finished."""
        with self._changed:
            return self._changed.wait_for(lambda: self._over() or self._graceful or self._stop is not None, seconds)

    # ---- reports to the agent
    def progress(self, epoch: int, step: int, samples: int = -1, loss: float | None = None,
                 learning_rate: float | None = None, *, epochs: int | None = None, total_steps: int | None = None,
                 run: str | None = None) -> None:
        """Call after each step. `epoch`: counted from 0; `step`: finished steps; `samples`: total consumed, if they are
        counted; `loss`: the mean over the step's samples; `epochs`, `total_steps`: of the whole run; `run`: its name. The
        agent is told every half second, and, while a client watches, every two seconds what the steps waited for, with the
        mean loss and the other values."""
        if not self.elastic:
            return
        self.still_works(epoch, step, samples)
        now = time.monotonic()
        if means := self._times.finish(step, now < self._watched_until, now, loss, learning_rate, epoch=int(epoch) + 1,
                                       epochs=epochs, total_steps=total_steps, run=run):
            self._say("step_times", **means)

    def still_works(self, epoch: int, step: int, samples: int = -1) -> None:
        """Call within long work between two steps, with the finished ones: it does not count as hanging."""
        now = time.monotonic()
        if self._told_progress is None or now - self._told_progress >= PROGRESS_SECONDS:
            self._told_progress = now
            self._say("progress", epoch=int(epoch), step=int(step), samples=int(samples))

    @contextlib.contextmanager
    def loads(self) -> Iterator[None]:
        """Wraps waiting for a step's input, which clients then see apart from computing."""
        since = time.monotonic()
        try:
            yield
        finally:
            self._times.data += time.monotonic() - since

    @contextlib.contextmanager
    def waits(self) -> Iterator[None]:
        """Wraps waiting for other workers. The agent is told once a second, so that this worker is not taken for the
        one that hangs; clients see the time apart from computing."""
        if self.elastic and not self._reporter:
            self._reporter = threading.Thread(target=self._report_waits, name="mtrun-waits", daemon=True)
            self._reporter.start()
        since = self._waits_since = time.monotonic()
        try:
            yield
        finally:
            self._waits_since = None
            self._times.exchange += time.monotonic() - since

    def _report_waits(self) -> None:
        while True:
            time.sleep(1)
            since = self._waits_since
            if since is not None and (seconds := time.monotonic() - since) >= 1:
                self._say("waiting", generation=self.generation, seconds=seconds)
                self._abort_again()

    def _abort_again(self) -> None:
        """Aborts again: the first abort can miss a wait that began while it ran."""
        with self._changed:
            if self._aborted and self._waits_since is not None and self._over():
                self._aborted(self._why_ended or self._lost or "the generation is over")

    def done(self, step: int) -> bool:
        """Reports that all workers have the complete run on disk. Returns True if the job has ended or this worker was
        asked to leave, False if another generation begins first: join it and report again."""
        if not self.elastic:
            return True
        self._say("done", step=step, generation=self.generation)
        with self._changed:
            while not (self.leaves or self._over() or self._graceful):
                self._changed.wait(LOOK_SECONDS)
            if self.leaves:
                return True
            if self._lost:
                raise AgentLost(self._lost)
            return self._stop is not None

    def leave(self, why: str = "asked to leave") -> None:
        """Reports that this worker has finished its step and exits."""
        self._say("leaving", why=why)

    # ---- the lease
    def hold(self, outside: bool = False) -> None:
        """Blocks, before a commit, until this node's lease is valid. Interrupted if the generation ends, even
        gracefully, or if half of this worker's grace period has passed since it was asked to leave. `outside`: the
        generation may be over, and the commit is this worker's final state."""
        said = time.monotonic()
        while True:
            now = time.monotonic()
            if self._told_to_go is None and (self.leaves or outside):
                self._told_to_go = now
            if not (self._lease and self._lease.over(self.generation, outside=outside)):
                break
            if now - said >= 1:
                said = now
                self._say("waiting", generation=self.generation, seconds=1.0)
            gives_up = self._told_to_go is not None and now - self._told_to_go >= self._grace / 2
            if (self.over() and not outside) or gives_up:
                raise Interrupted("no rendezvous service has answered within fence_timeout")
            if self._graceful and not outside:  # this lease is no longer renewed, and the others wait for this worker
                raise Interrupted("the next generation has formed")
            time.sleep(HOLD_SECONDS)
        if not outside:
            self.check()

    # ---- the channel
    def _say(self, kind: str, **fields: Any) -> None:
        if self._channel:
            self._channel.send(kind, **fields)

    def _ask(self, kind: str, keys: Sequence[str]) -> list[bytes]:
        if not self.elastic:
            raise Stopped("without mtrun there is no key-value store")
        with self._changed:
            self._questions += 1
            question, generation = self._questions, self.generation
        self._say(kind, id=question, keys=list(keys), generation=generation)
        with self._changed:
            self._changed.wait_for(lambda: question in self._answers or self._over() or self._stop)
            values, error = self._answers.pop(question, ({}, self._why_ended or self._stop or "the generation is over"))
        if error:
            raise Interrupted(f"no value for {', '.join(keys)}: {error}")
        return [base64.b64decode(values[key]) for key in keys]

    def _has_next(self) -> bool:
        return (self._newest is not None and self._newest.generation != self._entered
                and self._newest.generation != self._ended)

    def _over(self) -> bool:
        if self._lost or self._stop:
            return True
        if self._newest is None or self._entered is None or (self._graceful and not self._connects):
            return False  # a graceful end: the next assignment can arrive before this worker's last step
        return self._ended == self._entered or self._newest.generation != self._entered

    def _break(self, why: str) -> None:
        abort, self._abort = self._abort, None
        if abort:
            self._aborted = abort
            abort(why)

    def _hear(self, message: dict[str, Any]) -> None:
        kind = message.get("type")
        with self._changed:
            if kind == "assignment":
                self._newest = assignment = parse_assignment(message)
                if self._over():
                    self._break(f"generation {assignment.number} has begun")
            elif kind == "dissolved":
                self._dissolve(message)
            elif kind == "drain":
                self._drained = True
            elif kind == "stop":
                self._stop = why = str(message.get("why", "")) or "the job has ended"
                self._work_is_done = message.get("complete") is True
                self._break(why)
            elif kind == "watch":
                self._watched_until = time.monotonic() + watch_seconds(message)
            elif kind == "store_values":
                self._answers[message.get("id")] = (message.get("values", {}), message.get("error", ""))
            self._changed.notify_all()

    def _dissolve(self, message: dict[str, Any]) -> None:
        self._ended, self._why_ended = message.get("generation"), (why := str(message.get("why", "")))
        if self._ended == self._entered:
            self._graceful = bool(message.get("graceful"))
            if self._over():
                self._break(why)

    def _lose(self, why: str) -> None:
        with self._changed:
            self._lost = lost = f"lost the connection to this node's agent: {why}"
            self._break(lost)
            self._changed.notify_all()
