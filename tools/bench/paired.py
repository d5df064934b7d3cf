"""Paired measurements: contestants take turns, A B A B ..., with ratios per round, because a shared machine drifts."""
import contextlib
import fcntl
import json
import math
import os
import platform
import random
import socket
import statistics
import subprocess
import sys
import time


def peers_python():
    """Returns a Python with PyTorch: MT_PEERS_PYTHON, that of `tools/setup --peers`, or this one; else None."""
    cache = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    for candidate in (os.environ.get("MT_PEERS_PYTHON"), f"{cache}/mtrun/peers/bin/python", sys.executable):
        if candidate and os.path.exists(candidate):
            if subprocess.run([candidate, "-c", "import torch"], capture_output=True).returncode == 0:
                return candidate
    return None


@contextlib.contextmanager
def held_port():
    """Reserves a TCP port that no other benchmark or test of this user uses, like tests/support/port.h."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        lowest = int(file.read().split()[0])
    folder = f"/tmp/mtrun_test_ports_{os.getuid()}"
    os.makedirs(folder, mode=0o700, exist_ok=True)
    while True:
        port = random.randrange(10000, lowest) if lowest > 11000 else random.randrange(10000, 65536)
        with open(os.path.join(folder, str(port)), "a", encoding="ascii") as lock, socket.socket() as probe:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                probe.bind(("", port))
            except OSError:
                continue
            probe.close()
            yield port
            return


def wall_seconds(command, env=None):
    """Runs a command to its end; returns wall-clock seconds. A failure shows its output and raises."""
    started = time.perf_counter()
    done = subprocess.run(command, env={**os.environ, **(env or {})}, capture_output=True, text=True)
    took = time.perf_counter() - started
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return took


def output(command, env=None):
    """Returns a command's output, stripped. A failure raises."""
    return subprocess.run(command, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=True).stdout.strip()


def seconds_until(command, text):
    """Returns the seconds from exec to the first output line that contains `text`; then ends the program."""
    started = time.perf_counter()
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seen = []
    for line in program.stdout:
        seen.append(line)
        if text in line:
            took = time.perf_counter() - started
            program.kill()
            program.communicate()
            return took
    errors = program.communicate()[1]
    raise SystemExit(f"{command[0]} never said {text!r}:\n{''.join(seen)[-2000:]}{errors[-2000:]}")


def interleave(contestants, rounds, until=math.inf, warmed_up=lambda: None):
    """Runs contestants: {name: function() -> figure}. One warm-up of each and a call of `warmed_up`, then `rounds`
    rounds. Stops earlier, after at least one, if a round as long as the longest would end after `until`
    (time.monotonic()). Returns {name: [figure, ...]}."""
    for measure in contestants.values():
        measure()
    warmed_up()
    figures, longest = {name: [] for name in contestants}, 0
    for turn in range(rounds):
        began = time.monotonic()
        if turn > 0 and began + longest > until:
            break
        for name, measure in contestants.items():
            figures[name].append(measure())
        longest = max(longest, time.monotonic() - began)
    return figures


def alternate(before, after, pairs):
    """Runs before, after and before again in each round, in rotating order. before, after: function() -> {metric:
    figure}. Returns {metric: {"before": [...], "after": [...], "again": [...]}}."""
    contestants = [("before", before), ("after", after), ("again", before)]
    for _name, measure in contestants[:2]:
        measure()
    found = {}
    for turn in range(pairs):
        for name, measure in contestants[turn % 3:] + contestants[:turn % 3]:
            for metric, figure in measure().items():
                found.setdefault(metric, {}).setdefault(name, []).append(figure)
    return found


def interval(ratios, draws=4000):
    """Returns the median of the ratios and its 95 % interval, by bootstrap over the pairs. Deterministic."""
    choose = random.Random(0)
    medians = sorted(statistics.median(choose.choices(ratios, k=len(ratios))) for _ in range(draws))
    return statistics.median(ratios), medians[int(0.025 * draws)], medians[int(0.975 * draws)]


def verdict(change, noise, bound):
    """change, noise: intervals of after / before and of before / before. Met if the lower end is within the bound;
    missed if it is not and before / before shows that this machine can tell."""
    if change[1] <= 1 + bound:
        return "met"
    return "missed" if noise[2] < 1 + bound else "cannot tell: before / before spreads as far"


def report(title, unit, figures, baseline, out=None):
    """Prints median, min, max of each contestant and of its per-round ratio to `baseline`; writes JSON to `out`."""
    print(f"{title} ({unit}; {len(figures[baseline])} rounds, interleaved; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f})")
    rows = {}
    for name, values in figures.items():
        ratios = [value / base for value, base in zip(values, figures[baseline])]
        rows[name] = {"median": statistics.median(values), "min": min(values), "max": max(values),
                      "ratio_median": statistics.median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios)}
    width = max(len(name) for name in rows)
    print(f"  {'':{width}}  {'median':>10} {'min':>10} {'max':>10}   ratio to {baseline}: median (min .. max)")
    for name, row in rows.items():
        print(f"  {name:{width}}  {row['median']:10.4g} {row['min']:10.4g} {row['max']:10.4g}   "
              f"{row['ratio_median']:.3g} ({row['ratio_min']:.3g} .. {row['ratio_max']:.3g})")
    if out:
        with open(out, "w", encoding="utf-8") as file:
            json.dump({"title": title, "unit": unit, "baseline": baseline, "machine": platform.platform(), "rows": rows,
                       "figures": figures}, file, indent=1)
    return rows
