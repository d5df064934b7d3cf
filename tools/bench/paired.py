"""Paired measurements: every contestant in turn, A B A B ..., ratios round by round. A shared machine drifts; ratios hold."""
import json
import os
import platform
import statistics
import subprocess
import sys
import time


def peers_python():
    """The Python that has PyTorch: MT_PEERS_PYTHON, the environment of `tools/setup --peers`, or this one; None without."""
    cache = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    for candidate in (os.environ.get("MT_PEERS_PYTHON"), f"{cache}/mtrun/peers/bin/python", sys.executable):
        if candidate and os.path.exists(candidate):
            if subprocess.run([candidate, "-c", "import torch"], capture_output=True).returncode == 0:
                return candidate
    return None


def wall_seconds(command, env=None):
    """Runs a command to its end; wall-clock seconds. A failure shows its output and raises."""
    started = time.perf_counter()
    done = subprocess.run(command, env={**os.environ, **(env or {})}, capture_output=True, text=True)
    took = time.perf_counter() - started
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return took


def seconds_until(command, text):
    """From exec to the first line of standard output that holds `text`; the program is then ended."""
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


def interleave(contestants, rounds):
    """contestants: {name: function() -> figure}. One warm-up of each, then `rounds` rounds. {name: [figure, ...]}"""
    for measure in contestants.values():
        measure()
    figures = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, measure in contestants.items():
            figures[name].append(measure())
    return figures


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
