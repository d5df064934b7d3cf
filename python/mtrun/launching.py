"""`mtrun.launch`: calls a function in worker processes of this machine, from a notebook or a script."""
from __future__ import annotations

import codecs
import json
import os
import pickle
import selectors
import shutil
import signal
import site
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from mtrun.by_value import dump
from mtrun.launched import CALL, RESULT

FOLDERS = (sysconfig.get_path("scripts"), os.path.join(site.getuserbase(), "bin"))
LOOK_SECONDS = 0.1  # between two looks whether mtrun has ended: a process of the job may keep its output open
LAST_SECONDS = 10.0  # for the last output of a launcher that was killed
PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRIPT = """import sys
sys.path[:] = {path!r}
from mtrun.launched import run
run({folder!r}, globals())
"""
# Becomes the launcher, which is asked to stop if the caller dies without a chance to say so. Not a preexec_fn: the caller
# may have threads.
BOUND = """import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[1]):
    os._exit(143)
os.execv(sys.argv[2], sys.argv[2:])
"""


class LaunchError(RuntimeError):
    """A worker of `mtrun.launch` has failed. The text has its traceback. `exit_status`: of mtrun, which is the worker's, or
    128 + its signal."""

    def __init__(self, text: str, exit_status: int = 1) -> None:
        super().__init__(text)
        self.exit_status = exit_status


def find_launcher() -> str | None:
    """Returns the path of mtrun: that of this interpreter's environment or user, else of PATH."""
    beside = (shutil.which(os.path.join(folder, "mtrun")) for folder in FOLDERS)
    return next(filter(None, beside), None) or shutil.which("mtrun")


def launch(function: Callable[..., Any], nproc: int = 2, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, *,
           max_restarts: int = 0, flags: Sequence[str] = ()) -> list[Any]:
    """Calls `function(*args, **kwargs)` in `nproc` processes under an mtrun of its own, and returns their results by rank.

        def train(lr):
            torch.distributed.init_process_group("gloo")
            ...
            return loss
        losses = mtrun.launch(train, nproc=2, args=(0.1,))

    The workers are new interpreters with the variables of torchrun (RANK, WORLD_SIZE, MASTER_ADDR, ...). Nothing is forked
    from this process, so it may have threads, and may have used its GPUs. `function` may be defined in a notebook or a
    script, nested, or a lambda: its code is sent with the globals that it uses, as they are now. What these hold, the
    arguments and the results must be what pickle can write. A worker does not see later changes of this process, nor this
    process the worker's. A script needs no `if __name__ == "__main__":` for it.

    If a worker fails, all are stopped, or start again with the same arguments, at most `max_restarts` times. A function
    that calls `mtrun.join()` keeps its processes instead. `flags` are further flags of mtrun, such as ["--warm_python"].

    Output appears as that of this process, on sys.stdout and sys.stderr. The workers have no standard input. Ctrl-C, or
    "interrupt" in a notebook, stops them as it would in a terminal, and KeyboardInterrupt is raised after they have ended; a
    second one kills them. They also end if this process is killed.

    Function and results pass through pickle in a folder that only this user can open (mode 0700, in TMPDIR). It is removed
    at the end; one of a process that is killed remains.

    LaunchError if a worker fails, with its traceback; TypeError, before a worker starts, if something cannot be sent;
    FileNotFoundError if there is no mtrun; ValueError for a number of processes below 1. A result of None also means that
    the function has ended its process with status 0.
    """
    if nproc < 1:
        raise ValueError(f"mtrun.launch: nproc is {nproc}; it must be at least 1")
    launcher = find_launcher()
    if launcher is None:
        raise FileNotFoundError(f"mtrun.launch: mtrun is neither in {' nor in '.join(FOLDERS)} nor on PATH; install the wheel")
    folder = tempfile.mkdtemp(prefix="mtrun-launch-")
    try:
        script = write_call(folder, function, (tuple(args), dict(kwargs or {}), sys.argv))
        command = [launcher, "--standalone", "--nproc_per_node", str(nproc), "--max_restarts", str(max_restarts), *flags, script]
        errors = os.path.join(folder, "error.json")
        status = run(command, {**os.environ, "PYTHON_EXEC": sys.executable, "TORCHELASTIC_ERROR_FILE": errors})
        if status != 0:
            raise LaunchError(why(status, errors), status)
        return [read_result(os.path.join(folder, RESULT.format(rank))) for rank in range(nproc)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_call(folder: str, function: Callable[..., Any], rest: object) -> str:
    """Writes the function with its arguments, and returns the path of the workers' program, which has its name."""
    with open(os.path.join(folder, CALL), "wb") as file:
        dump(file, function, rest)
    name = getattr(function, "__name__", "")
    script = os.path.join(folder, f"{name if name.isidentifier() else 'function'}.py")
    path = sys.path if PACKAGES in sys.path else [*sys.path, PACKAGES]
    with open(script, "w", encoding="utf-8") as program:
        program.write(SCRIPT.format(path=[str(each) for each in path], folder=folder))
    return script


def read_result(path: str) -> Any:
    try:
        with open(path, "rb") as file:
            return pickle.load(file)
    except FileNotFoundError:
        return None


def why(status: int, path: str) -> str:
    """Returns what mtrun has recorded about the first failure."""
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)["message"]
        extra = record["extraInfo"]
    except (OSError, ValueError, KeyError, TypeError):
        return f"mtrun has ended with status {status}; its output above has the reason"
    rank = f"rank {extra['rank']}: " if extra.get("rank") else ""
    callstack = extra.get("py_callstack", "")
    return f"{rank}{record['message']}" + (f"\n\n{callstack}" if callstack else "")


# ---- the launcher's process

def run(command: list[str], environment: dict[str, str]) -> int:
    """Runs mtrun to its end, and copies its output to this process's. Returns its exit status. If the caller is
    interrupted, mtrun stops first; if it is interrupted again, mtrun is killed, and its workers with it."""
    # A session of its own: Ctrl-C in a terminal reaches only this process, as in a notebook.
    words = [sys.executable, "-I", "-S", "-c", BOUND, str(os.getpid()), *command]
    process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               start_new_session=True)
    with process, Output(process) as output:
        try:
            output.follow()
        except BaseException:
            process.send_signal(signal.SIGINT)
            try:
                output.follow()
            except BaseException:
                process.kill()
                output.drop()
                raise
            raise
    status = process.returncode
    return 128 - status if status < 0 else status


class Output:
    """Copies what a process writes to sys.stdout and sys.stderr. It does so in the thread that calls it, because notebooks
    show what a cell's own thread writes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._selector = selectors.DefaultSelector()
        for pipe, stream in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, (codecs.getincrementaldecoder("utf-8")("replace"), stream))

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()

    def follow(self) -> None:
        """Returns when the process has ended and its output has been copied."""
        while self._process.poll() is None:
            self._copy(LOOK_SECONDS)
        while self._copy(0):
            pass

    def _copy(self, seconds: float) -> bool:
        """Waits for output and copies it. Returns whether there was any."""
        if not self._selector.get_map():
            self._process.wait()
            return False
        ready = self._selector.select(seconds)
        for key, _ in ready:
            data = os.read(key.fd, 1 << 16)
            if not data:
                self._selector.unregister(key.fileobj)
            decoder, stream = key.data
            write(stream, decoder.decode(data, not data))
        return bool(ready)

    def drop(self) -> None:
        """Waits until all processes of a killed launcher have ended, without their output."""
        while self._selector.get_map() and (ready := self._selector.select(LAST_SECONDS)):
            for key, _ in ready:
                if not os.read(key.fd, 1 << 16):
                    self._selector.unregister(key.fileobj)


def write(stream: TextIO | None, text: str) -> None:
    if stream is not None and text:
        stream.write(text)
        stream.flush()
