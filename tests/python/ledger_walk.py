"""Which lines of a run's ledgers count, by the rule of docs/formats.md alone: do they prove that every step was made once?"""
import json
import os


def entries_of(folder):
    path = os.path.join(folder, "ledger.jsonl")
    if os.path.exists(path):
        with open(path, "rb") as file:
            for line in file:
                try:
                    yield json.loads(line)
                except ValueError:
                    pass  # what a killed writer left


def walk(folders):
    """{step: its line} of the lines that count over all folders. AssertionError if two lines of one generation differ."""
    steps, rewinds = {}, {}
    for entry in (entry for folder in folders for entry in entries_of(folder)):
        entry.pop("prev", None)
        if "step" in entry:
            known = steps.setdefault(entry["generation"], {}).setdefault(entry["step"], entry)
            assert known == entry, f"two lines of step {entry['step']} in generation {entry['generation']}"
        elif "rewind" in entry:
            rewinds[entry["generation"]] = (entry["rewind"], entry.get("of"))
    counted, end = {}, float("inf")
    generations = sorted(set(steps) | set(rewinds))
    generation = generations[-1] if generations else None
    while generation is not None:
        own = steps.get(generation, {})
        begin, parent = rewinds.get(generation, (min(own, default=end), None))
        counted.update({step: line for step, line in own.items() if begin <= step < end})
        end = min(begin, end)
        if parent is None:
            parent = max((lower for lower in generations if lower < generation), default=None)
        generation = parent
    return counted


def check_walk(case, sampler, end, *folders):
    """Of the first `end` steps each counts once, with the samples of the order."""
    counted = walk(folders)
    case.assertEqual(sorted(counted), list(range(end)))
    from mtrun.sampler import digest
    for sampler.step in range(end):
        case.assertEqual(counted[sampler.step]["ids"], digest(sampler.ids()), sampler.step)
    return counted
