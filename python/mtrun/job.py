"""A worker's place in its job. Under mtrun the agent gives it one assignment after the other; without, it has one for life."""
import base64
import contextlib
import os
import signal
import threading
import time

from mtrun.assignment import parse_assignment, read_assignment
from mtrun.channel import PROTOCOL_VERSION, Channel
from mtrun.lease import LeasePage
from mtrun.step_times import StepTimes, watch_seconds

# Slurm sends a signal to every process of a step, and mtrun passes its own on: one so soon after the first is the first.
SIGNAL_ECHO_SECONDS = 1.0
CAUGHT = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
PROGRESS_SECONDS = 0.5  # between two reports of it
HOLD_SECONDS = 0.005  # between two looks at a lease that is over: its page tells nobody when it changes
LOOK_SECONDS = 0.1  # while waiting for an assignment or the end: those wake who waits, signals do not
MOST_KEYS = 1024  # of one question to the store
FOLLOWS_SECONDS = 1.0  # so long a worker that is asked to go still follows the others into a generation that is near


class Interrupted(RuntimeError):
    """The generation is over: the step is given up, the run is not. `regroup` follows."""


class Stopped(Exception):
    """The job has ended, or this worker was asked to go: finish up and leave."""


class AgentLost(Exception):
    """The agent is gone; a worker does not outlive it."""


def join(environment=None):
    """The Job of this process. ConnectionError where MTRUN_SOCKET names no agent, ValueError for malformed variables.
    On the main thread, SIGTERM, SIGINT and SIGUSR1 become `job.leaves` from here on; the same signal again, a second later or
    more, has its usual effect. A worker that is asked to go before it has a place exits with `job.exit_status`."""
    return Job(dict(os.environ) if environment is None else environment)


class Store:
    """The key-value space of the entered generation, kept by the rendezvous. Values are bytes."""

    def __init__(self, job):
        self._job = job

    def set(self, key, value):
        self._job._say("store_set", key=key, value=base64.b64encode(value).decode(), generation=self._job.generation)

    def wait(self, *keys):
        """The values of all keys, in their order, once all are there. Interrupted when the generation ends first."""
        values = []
        for first in range(0, len(keys), MOST_KEYS):
            values += self._job._ask("store_wait", keys[first:first + MOST_KEYS])
        return values


class Job:
    """`with mtrun.join() as job:`. The thread that trains calls everything but `on_break`'s function."""

    def __init__(self, environment):
        self.elastic = bool(environment.get("MTRUN_SOCKET"))
        self.assignment = read_assignment(environment)
        self.agent_serves = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # torchrun's, on MASTER_PORT
        self.port_range = environment.get("MTRUN_PORT_RANGE", "")
        self.store = Store(self)
        self._changed = threading.Condition()
        self._newest, self._entered, self._ended = None, None, None
        self._graceful = self._drained = self._connects = False
        self._why_ended = self._stop = self._lost = None
        self._work_is_done = False
        self._abort, self._aborted, self._questions, self._answers = None, None, 0, {}
        self._signal, self._channel, self._lease = 0, None, None
        self._was_ready = False  # in the entered generation
        self.lease_lapsed = False  # of the last generation that connected, before this one began: another may have formed between
        self._told_to_go = None  # since when holds know of it
        self._signalled = {}  # when each signal came first
        self._reporter = self._waits_since = None
        self._times, self._watched_until, self._told_progress = StepTimes(), 0.0, None
        self._grace = float(environment.get("MTRUN_SHUTDOWN_TIMEOUT", 30))
        self._catch_signals()
        if self.elastic:
            self._connect(environment)

    def _connect(self, environment):
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

    def _catch_signals(self):
        if threading.current_thread() is not threading.main_thread():
            return
        for number in CAUGHT:
            signal.signal(number, self._caught)

    def _caught(self, number, _):
        now = time.monotonic()
        if now - self._signalled.setdefault(number, now) < SIGNAL_ECHO_SECONDS:
            self._signal = number
        else:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            signal.raise_signal(number)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self._channel:
            self._channel.close()

    # ---- who this worker is now
    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.assignment, name)

    # ---- what the agent has said; any thread
    def changed(self):
        """True at a step boundary where this worker is to leave its generation: it is over, is to be regrouped, the job
        has ended, or this worker is asked to go."""
        return self.over() or self.wants_regroup or self.leaves

    def over(self):
        """The entered generation has ended under way: somebody of it is lost, and no step of it can succeed."""
        with self._changed:
            return self._over()

    @property
    def wants_regroup(self):
        """The entered generation ends gracefully: its members leave it together, after a step."""
        return self._graceful

    @property
    def leaves(self):
        """This worker was asked to go (a signal, `mtrun --drain`)."""
        return self._drained or self._signal != 0

    @property
    def work_is_done(self):
        """The job has ended because its work is done: nobody needs what this worker still holds."""
        return self._work_is_done

    @property
    def exit_status(self):
        """Of a worker that goes with its whole job because a signal asked for it."""
        return 128 + (self._signal or signal.SIGTERM)

    def on_break(self, abort):
        """`abort(why)` is called when the entered generation ends under way, on a thread of the channel, or at once if it has
        ended; and once a second while this worker still waits for others then (`waits`). None: nothing is to be ended."""
        with self._changed:
            self._abort, self._aborted = abort, None
            if abort and self._over():
                self._break(self._why_ended or self._lost or "it is over")

    # ---- generations
    def next(self, timeout=None):
        """Waits for the next generation's Assignment, enters and returns it. Stopped when there will be none, or when this
        worker is asked to go and none is near; AgentLost when the agent is gone, TimeoutError after `timeout` seconds. Without
        mtrun there is only the first."""
        if not self.elastic:
            if self._entered:
                raise Stopped("without mtrun no other generation follows")
            self._entered = self.assignment.generation
            return self.assignment
        with self._changed:
            self._await_next(timeout)
            if self._stop:
                raise Stopped(self._stop)
            if self._lost:
                raise AgentLost(self._lost)
            self._look_at_ended_lease()
            self.assignment, self._graceful = self._newest, False
            self._entered = self._newest.generation
            self._times.restart()
            self._told_progress = None  # the first step of a generation is news
            return self.assignment

    def _look_at_ended_lease(self):
        lapsed = self._entered is not None and self._lease is not None and self._lease.over(self._entered)
        self.lease_lapsed = lapsed or (self.lease_lapsed and not self._was_ready)
        self._was_ready = False

    def _await_next(self, timeout):
        began = time.monotonic()
        while not (self._stop or self._lost or self._has_next()):
            waited = time.monotonic() - began
            # Who has trained follows for a moment: where all are asked to go, they best agree on it after a step.
            if self.leaves and (self._entered is None or waited >= FOLLOWS_SECONDS):
                raise Stopped("this worker was asked to go")
            if timeout is not None and waited >= timeout:
                raise TimeoutError(f"no assignment within {timeout} s")
            self._changed.wait(LOOK_SECONDS if timeout is None else min(LOOK_SECONDS, timeout - waited))

    @contextlib.contextmanager
    def connects(self):
        """Around what connects the group of the entered generation: there is no step yet that its members could finish
        together, so that a graceful end is one under way. Interrupted where it has ended meanwhile."""
        with self._changed:
            self._connects = True
        try:
            yield
            self.check()
        finally:
            with self._changed:
                self._connects = False

    def check(self):
        """Raises Interrupted if the entered generation has ended under way."""
        with self._changed:
            if self._over():
                raise Interrupted(self._why_ended or self._stop or self._lost or "the generation is over")

    def ready(self):
        """The group of this generation is connected."""
        self._was_ready = True
        self._say("ready", generation=self.generation)

    def broken(self, why):
        """Its collectives failed although nobody seems dead: everybody is to regroup."""
        self._say("broken", generation=self.generation, why=str(why)[:1000])

    def wait_until_over(self, seconds):
        """False when the generation still runs after so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._over() or self._stop is not None, seconds)

    def wait_until_ends(self, seconds):
        """The same where a graceful end counts as well: a step that has failed is none to be finished."""
        with self._changed:
            return self._changed.wait_for(lambda: self._over() or self._graceful or self._stop is not None, seconds)

    # ---- what a worker tells
    def progress(self, epoch, step, samples=-1):
        """After each step. `step`: finished steps; `samples`: consumed in all, where they are counted. The agent hears of it
        every half a second, and while somebody watches every two what the steps waited for."""
        if not self.elastic:
            return
        now = time.monotonic()
        if self._told_progress is None or now - self._told_progress >= PROGRESS_SECONDS:
            self._told_progress = now
            self._say("progress", epoch=epoch, step=step, samples=samples)
        if means := self._times.finish(step, now < self._watched_until, now):
            self._say("step_times", **means)

    @contextlib.contextmanager
    def loads(self):
        """Around what waits for a step's input: those who watch see the time apart from computing."""
        since = time.monotonic()
        try:
            yield
        finally:
            self._times.data += time.monotonic() - since

    @contextlib.contextmanager
    def waits(self):
        """Around what waits for other workers: the agent hears of it once a second, so that this one is not taken for the
        one that hangs; and those who watch see the time apart from computing."""
        if self.elastic and not self._reporter:
            self._reporter = threading.Thread(target=self._report_waits, name="mtrun-waits", daemon=True)
            self._reporter.start()
        since = self._waits_since = time.monotonic()
        try:
            yield
        finally:
            self._waits_since = None
            self._times.exchange += time.monotonic() - since

    def _report_waits(self):
        while True:
            time.sleep(1)
            since = self._waits_since
            if since is not None and (seconds := time.monotonic() - since) >= 1:
                self._say("waiting", generation=self.generation, seconds=seconds)
                self._abort_again()

    def _abort_again(self):
        """What began to wait while the first abort ran may have been missed by it."""
        with self._changed:
            if self._aborted and self._waits_since is not None and self._over():
                self._aborted(self._why_ended or self._lost or "it is over")

    def done(self, step):
        """The whole run is complete and on the disk, by all. True when the job has ended, or this worker is asked to go: nobody
        needs it any more. False when another generation begins first: take part in it and say so again."""
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

    def leave(self, why="asked to go"):
        """This worker has finished its step and exits."""
        self._say("leaving", why=why)

    # ---- the lease
    def hold(self, outside=False):
        """Before anything is committed: returns when this node's lease is valid, at once or after a while. Interrupted when
        the generation ends meanwhile, gracefully as well, or this worker is asked to go and half of its grace is over since.
        `outside`: the generation may be over, what is committed is what this worker goes with."""
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
            if self._graceful and not outside:  # this lease is not renewed any more, and the others wait for this worker
                raise Interrupted("the next generation has formed")
            time.sleep(HOLD_SECONDS)
        if not outside:
            self.check()

    # ---- the channel
    def _say(self, kind, **fields):
        if self._channel:
            self._channel.send(kind, **fields)

    def _ask(self, kind, keys):
        if not self.elastic:
            raise Stopped("there is no key-value space without mtrun")
        with self._changed:
            self._questions += 1
            question, generation = self._questions, self.generation
        self._say(kind, id=question, keys=list(keys), generation=generation)
        with self._changed:
            self._changed.wait_for(lambda: question in self._answers or self._over() or self._stop)
            values, error = self._answers.pop(question, ({}, self._why_ended or self._stop or "it is over"))
        if error:
            raise Interrupted(f"no value of {', '.join(keys)}: {error}")
        return [base64.b64decode(values[key]) for key in keys]

    def _has_next(self):
        return (self._newest is not None and self._newest.generation != self._entered
                and self._newest.generation != self._ended)

    def _over(self):
        if self._lost or self._stop:
            return True
        if self._newest is None or self._entered is None or (self._graceful and not self._connects):
            return False  # a graceful end: the next assignment may be there before this worker's last step
        return self._ended == self._entered or self._newest.generation != self._entered

    def _break(self, why):
        abort, self._abort = self._abort, None
        if abort:
            self._aborted = abort
            abort(why)

    def _hear(self, message):
        kind = message.get("type")
        with self._changed:
            if kind == "assignment":
                self._newest = parse_assignment(message)
                if self._over():
                    self._break(f"generation {self._newest.number} has begun")
            elif kind == "dissolved":
                self._dissolve(message)
            elif kind == "drain":
                self._drained = True
            elif kind == "stop":
                self._stop = str(message.get("why", "")) or "the job has ended"
                self._work_is_done = message.get("complete") is True
                self._break(self._stop)
            elif kind == "watch":
                self._watched_until = time.monotonic() + watch_seconds(message)
            elif kind == "store_values":
                self._answers[message.get("id")] = (message.get("values", {}), message.get("error", ""))
            self._changed.notify_all()

    def _dissolve(self, message):
        self._ended, self._why_ended = message.get("generation"), str(message.get("why", ""))
        if self._ended == self._entered:
            self._graceful = bool(message.get("graceful"))
            if self._over():
                self._break(self._why_ended)

    def _lose(self, why):
        with self._changed:
            self._lost = f"the agent is gone: {why}"
            self._break(self._lost)
            self._changed.notify_all()
