"""A worker of `mtrun.launch`: calls the function that its caller has written, and leaves the result or the error."""
from __future__ import annotations

import atexit
import contextlib
import json
import os
import pickle
import sys
import threading
import time
import traceback
from typing import Any

from mtrun.by_value import load_function

CALL = "call"
RESULT = "result_{}"  # of a local rank
INTERRUPTED = 130  # exit status after SIGINT


def run(folder: str, namespace: dict[str, Any]) -> None:
    """Calls the function. `namespace` is that of the script which the caller has written. In a process that
    multiprocessing has spawned from the worker it only defines what the function uses."""
    with open(os.path.join(folder, CALL), "rb") as file:
        function, read = load_function(file, namespace)
        if namespace["__name__"] != "__main__":
            return
        args, kwargs, sys.argv = read()
    try:
        leave(folder, function(*args, **kwargs))
    except SystemExit as stop:
        if stop.code:
            raise
        leave(folder, None)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except Exception as error:
        record(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
        raise SystemExit(1) from None
    end()


def leave(folder: str, result: object) -> None:
    path = os.path.join(folder, RESULT.format(os.environ["LOCAL_RANK"]))
    with open(path + ".part", "wb") as file:
        try:
            pickle.dump(result, file, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            raise TypeError(f"the result of the function cannot be sent to its caller: {error}") from error
    os.replace(path + ".part", path)


def record(error: Exception) -> None:
    """Prints the error, and writes it where the launcher looks for it, unless the function has done that."""
    traceback.print_exception(type(error), error, error.__traceback__)
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path:
        return
    extra = {"py_callstack": "".join(traceback.format_exception(type(error), error, error.__traceback__)),
             "timestamp": str(int(time.time())), "rank": os.environ.get("RANK", "")}
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    with contextlib.suppress(OSError), open(path, "x", encoding="utf-8") as file:
        json.dump({"message": {"message": text, "extraInfo": extra}}, file)


def end() -> None:
    """Ends the process as multiprocessing ends its own: with what is registered for the exit, but without the end of the
    interpreter, in which PyTorch sometimes aborts after a Gloo group."""
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)
