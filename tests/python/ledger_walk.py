"""Selects the valid lines of a run's ledgers by the rule of docs/formats.md, to prove that every step was made once."""
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
                    pass  # an incomplete line of a killed writer


def walk(folders):
    """Returns {step: its valid line} over all folders. AssertionError if two lines of one generation differ."""
    steps, rewinds, last = {}, {}, set()
    for folder in folders:
        highest = read(folder, steps, rewinds)
        if highest:
            last.add(highest)
    branches = {generation: branch(steps, rewinds, generation) for generation in last}
    furthest = max(branches, key=lambda generation: (max(branches[generation], default=-1), generation), default=None)
    return branches.get(furthest, {})


def read(folder, steps, rewinds):
    """Adds {generation: {step: line}} and {generation: (step, generation that it continues)} of one file. Returns its highest
    generation; a lower one after that contributes only steps."""
    highest = 0
    for entry in entries_of(folder):
        entry.pop("prev", None)
        late = entry.get("generation", highest) < highest
        highest = max(highest, entry.get("generation", 0))
        if "step" in entry:
            known = steps.setdefault(entry["generation"], {}).setdefault(entry["step"], entry)
            assert known == entry, f"two lines of step {entry['step']} in generation {entry['generation']}"
        elif "rewind" in entry and not late:
            rewinds[entry["generation"]] = (entry["rewind"], entry.get("of"))
    return highest


def branch(steps, rewinds, generation):
    """Returns {step: its line} of a generation and those that it continues."""
    counted, end = {}, float("inf")
    generations = sorted(set(steps) | set(rewinds))
    while generation is not None:
        own = steps.get(generation, {})
        begin, parent = rewinds.get(generation, (end, None))
        begin = min([begin, *own])
        counted.update({step: line for step, line in own.items() if begin <= step < end})
        end = min(begin, end)
        if parent is None:
            parent = max((lower for lower in generations if lower < generation), default=None)
        generation = parent
    return counted


def check_walk(case, sampler, end, *folders):
    """Checks that each of the first `end` steps counts once, with the samples of the order."""
    counted = walk(folders)
    case.assertEqual(sorted(counted), list(range(end)))
    from mtrun.sampler import digest
    for sampler.step in range(end):
        case.assertEqual(counted[sampler.step]["ids"], digest(sampler.ids()), sampler.step)
    return counted
