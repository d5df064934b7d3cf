"""Reads simulated runs, a JSON object a line: {"seed", "steps", "disks": [[line of a ledger, ...], ...]}, writes their ledgers
to files and checks with the code of tools/verify_ledger which lines count. Prints the problems, then the number of runs."""
import hashlib
import json
import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["MT_SOURCE_DIR"], "tools", "verify_ledger.d"))
import ledger  # noqa: E402

HEAD = {"ledger": 2, "run": "0000000000000001", "seed": 0, "size": 1, "global_batch": 1, "micro_batch": 1, "shuffle": True}


def real(line):
    """Returns the line of a ledger file. The membership's number serves as the world size: a generation has only one."""
    if line["rewind"]:
        return {"rewind": line["step"], "generation": line["generation"], **({"of": line["of"]} if line["of"] else {})}
    return {"step": line["step"], "epoch": 0, "generation": line["generation"], "world": line["membership"] + 1, "ids": "",
            "samples": 1, "hash": "", "loss": "1", "status": "applied"}


def write(folder, lines):
    os.makedirs(folder)
    previous = ledger.START
    with open(os.path.join(folder, "ledger.jsonl"), "wb") as file:
        for entry in [HEAD, *map(real, lines)]:
            text = json.dumps({**entry, "prev": previous}).encode()
            file.write(text + b"\n")
            previous = hashlib.sha256(text).hexdigest()


def problems_of(run, folder):
    folders = [os.path.join(folder, str(number)) for number in range(len(run["disks"]))]
    for path, lines in zip(folders, run["disks"]):
        write(path, lines)
    ledgers = [ledger.Ledger(path) for path in folders]
    found = ledger.Run(ledgers)
    lost = set(range(run["steps"])) - set(found.steps)
    return [problem for each in ledgers for problem in each.problems] + list(found.problems) + (
        [f"{len(lost)} steps are lost, the first is {min(lost)}"] if lost else [])


def main():
    runs = 0
    for text in sys.stdin:
        run = json.loads(text)
        with tempfile.TemporaryDirectory() as folder:
            for problem in problems_of(run, folder):
                print(f"MTRUN_SEED={run['seed']}: {problem}")
        runs += 1
    print(runs)


if __name__ == "__main__":
    main()
