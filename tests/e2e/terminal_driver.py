#!/usr/bin/env python3
"""Runs a real job in a tmux of WIDTH columns, reads the screen while the job hangs, regroups, ends and is watched by --top,
and checks that nothing wraps, that tables align and that the expected words appear. Then runs a job of three nodes, each on
its own terminal, of which one is killed and one is drained. For terminal_test.cc. Each check prints a line; a failure ends
the driver with the screen.

usage: terminal_driver.py WIDTH BIN_FOLDER ARCHIVE FOLDER
ARCHIVE: of images, for mtdata. FOLDER gets data, run and the screens as text. Exit 77: tmux is missing."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

if not shutil.which("tmux"):
    print("no tmux here")
    sys.exit(77)

width, binaries, archive, folder = int(sys.argv[1]), *sys.argv[2:]
ROWS, PATIENCE = 50, 60
STEPS, STOPPED_AT = 252, 40
TMUX = ["tmux", "-L", f"mtrun-test-{os.getpid()}", "-f", "/dev/null"]


def tmux(*args):
    return subprocess.run([*TMUX, *args], check=True, capture_output=True, text=True).stdout


def screen(window, history=False, joined=False):
    """Returns its lines without trailing blanks; `history`: including scrolled ones; `joined`: wrapped lines are joined."""
    more = ["-S", "-"] if history else []
    return [line.rstrip() for line in tmux("capture-pane", "-p", "-t", window, *more, *["-J"] * joined).splitlines()]


def fail(what, lines):
    raise SystemExit(f"FAILED: {what}\n" + "\n".join(f"  |{line}" for line in lines if line))


def wait(what, window, pattern, history=False, broken=False):
    """Waits until a line, joined if wrapped, matches; returns the match. `broken`: the program may have wrapped it."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        lines = screen(window, history, joined=True)
        if broken:
            lines.append(" ".join(line.strip() for line in lines))
        if found := next(filter(None, (re.search(pattern, line) for line in lines)), None):
            return found
        if any(re.match(r"exit \d+$", line) for line in lines):
            break
        time.sleep(0.02)
    fail(f"{what}: no {pattern!r} before the end, or within {PATIENCE} s", screen(window, history))


def check(what, true, lines):
    if not true:
        fail(what, lines)
    print("ok:", what, flush=True)


def keep(name, lines):
    with open(os.path.join(folder, f"{name}_{width}.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines).rstrip() + "\n")


def look(name, window, history=False):
    """Returns the screen; fails if it is wider than the terminal."""
    lines = screen(window, history)
    keep(name, lines)
    wrapped = [line for line in screen(window, history, joined=True) if len(line) > width]
    check(f"{name}: nothing wraps at {width} columns", not wrapped, wrapped + lines)
    return lines


def is_progress(line):
    return re.match(r"\[cnnA\d\]:ep(och)? \d+/\d+ .*\d+/\d+ .*%", line) is not None


def hangs():
    """Rank 1 has stopped itself in its step: the progress line stays."""
    pid = int(wait("the worker stops", "run", r"fault fired: rank=1 .*pid=(\d+)")[1])
    wait("it is named", "run", r"no progress for [345]\.\d s since step")
    lines = [line for line in look("progress", "run") if line]
    check("the progress line is the last one", is_progress(lines[-1]), lines)
    check("there is one", sum(map(is_progress, lines)) == 1, lines)
    words = ["epoch 1/3", "images/s", "3 workers", "MiB", "left"] if width > 100 else ["ep 1/3", "/s", "3w", "left"]
    check("it says what there is room for", all(word in lines[-1] for word in [*words, f"/{STEPS}", "loss", "lr"]), lines)
    return pid


def watched(endpoint):
    tmux("new-window", "-d", "-n", "watch", f"exec {binaries}/mtrun --top {endpoint}")
    wait("--top shows the job", "watch", r"no progress for")
    lines = look("top", "watch")
    check("--top says who is in", any(re.search(r"a-job-with-quite-a-long-name-for-a-line: running for .*generation 1", line)
                                      for line in lines), lines)
    text = " ".join(line.strip() for line in lines)
    check("--top says it whole", "with 1 node (of 1 to 2) and 3 workers" in text and "rank 1 (local 1)" in text, lines)
    head = next(i for i, line in enumerate(lines) if line.startswith("  node "))
    for word in ("address", "state", "ranks", "silent"):
        at = lines[head].index(word)
        check(f"--top: {word} stands in its column", lines[head + 1][at - 1] == " " and lines[head + 1][at] != " ", lines)
    tmux("send-keys", "-t", "watch", "q")


def regroups(pid):
    os.kill(pid, signal.SIGKILL)
    wait("the others continue", "run", r"killed by SIGKILL: 3 -> 2 workers", history=True)


def ends():
    wait("the job ends", "run", r"the job has ended: its node finished", history=True)
    wait("mtrun ends", "run", r"^exit 0$", history=True)
    lines = look("end", "run", history=True)
    check("no progress line is left over", not any(map(is_progress, lines)), lines)
    check("the regrouping is told", re.search(r"rank 1 on \S+: killed by SIGKILL: 3 -> 2 workers, step \d+ continues after \d+ ms",
                                             " ".join(line.strip() for line in lines)), lines)
    for word in ("test accuracy", "best accuracy", "trained ", "workers ", "took ", "weights, metrics, checkpoints"):
        check(f"the summary has '{word.strip()}'", any(line.startswith("[cnnA0]:" + word) for line in lines), lines)
    head = next(i for i, line in enumerate(lines) if "rows actual, columns predicted" in line) + 1
    table = lines[head:head + 11]
    check("the confusion matrix aligns", len({len(line) for line in table}) == 1 and len(table[0]) < width, table)
    check("it names the classes", table[1].startswith("[cnnA0]: 0 airplane") and "10" not in table[1].split()[1], table)


def child_of(pid):
    """Returns the first child: the guardian of mtrun, the agent of the guardian."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        return int(children.read().split()[0])


def free_endpoint():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


def nodes():
    """Three nodes of one worker: the remaining ones report the others' ends on their terminals."""
    endpoint = free_endpoint()
    # Enough to prove a node dead before it is lost, and less than the time after which its peers report broken sums.
    command = [f"{binaries}/mtrun", "--nnodes", "1:3", "--nproc_per_node", "1", "--rdzv_endpoint", endpoint, "--rdzv_id", "nodes",
               "--rdzv_conf", "last_call_timeout=60,reconnect_grace=0.8", "--trainer", "cnnA", "--data", "data",
               "--model_folder", "nodes", "--epochs", "1000", "--batch_size", "4", "--global_batch", "24", "--threads", "1",
               "--report=false", "--eval_images", "8", "--checkpoint_epochs", "0"]
    mtruns = {}
    for window in ("one", "two", "three"):
        tmux("new-window", "-d", "-c", folder, "-n", window, f"{' '.join(command)}; echo exit $?; exec cat")
        if window == "one":  # it hosts the job and stays
            wait("the job is hosted", window, r"hosting the rendezvous at", history=True, broken=True)
    for window in ("one", "two", "three"):
        wait(f"{window} is in", window, r"world size 3\b", history=True, broken=True)
        mtruns[window] = child_of(int(tmux("display-message", "-p", "-t", window, "#{pane_pid}")))
    wait("they train", "one", r"^\[cnnA0\]:ep(och)? [2-9]/")
    os.kill(child_of(child_of(mtruns["three"])), signal.SIGKILL)
    for window in ("one", "two"):
        wait(f"{window} says who was killed", window, r"\S+ lost \(killed\): 3 -> 2 workers, step \d+ continues after [\d.]+ m?s",
             history=True, broken=True)
    os.kill(mtruns["two"], signal.SIGINT)
    wait("one says who left", "one", r"\S+ left \(Ctrl-C\): 2 -> 1 worker, step \d+ continues after [\d.]+ m?s",
         history=True, broken=True)
    wait("the one that was told to go ends", "two", r"^exit 0$", history=True)
    subprocess.run([f"{binaries}/mtrun", "--stop", endpoint], check=True, capture_output=True)
    wait("the last one ends", "one", r"^exit 143$", history=True)
    for window in ("one", "two"):
        look(window, window, history=True)


def main():
    data = subprocess.run([f"{binaries}/mtdata", "import", archive, os.path.join(folder, "data")], capture_output=True, text=True)
    if data.returncode != 0:
        raise SystemExit(data.stderr)
    endpoint = free_endpoint()
    command = [f"{binaries}/mtrun", "--nnodes", "1:2", "--nproc_per_node", "3", "--rdzv_endpoint", endpoint, "--rdzv_id",
               "a-job-with-quite-a-long-name-for-a-line", "--rdzv_conf", "last_call_timeout=0.2", "--hang_notice", "3",
               "--log_dir", "logs", "--trainer", "cnnA", "--data", "data", "--model_folder", "run", "--epochs", "3",
               "--batch_size", "4", "--global_batch", "24", "--threads", "1", "--report=false"]
    try:
        tmux("new-session", "-d", "-x", str(width), "-y", str(ROWS), "-c", folder, "cat")
        tmux("set", "-g", "history-limit", "5000")
        faults = f"MTRUN_FAULTS='rank=1 step={STOPPED_AT} at=backward do=stop'"
        tmux("new-window", "-d", "-c", folder, "-n", "run", f"{faults} {' '.join(command)}; echo exit $?; exec cat")
        pid = hangs()
        watched(endpoint)
        regroups(pid)
        ends()
        nodes()
    finally:
        subprocess.run([*TMUX, "kill-server"], check=False, capture_output=True)
    print("all is well")


main()
