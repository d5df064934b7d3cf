#!/usr/bin/env python3
"""Tests of tools/verify_ledger: an honest run passes, and each forgery is rejected by name. tools/check runs it.

Ledgers of real runs, and of trainers that cheat, are verified in tests/e2e and tests/trainers/run/train_loop_test.cc."""
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOLS = os.path.dirname(os.path.abspath(__file__))
VERIFY = os.environ.get("VERIFY_LEDGER", os.path.join(TOOLS, "verify_ledger"))
sys.path.insert(0, os.path.join(TOOLS, "verify_ledger.d"))

import samples

SIZE, BATCH, EACH, EPOCHS = 18, 4, 5, 3  # the last step of an epoch has two samples
STEPS = EACH * EPOCHS
HEAD = {"ledger": 2, "run": "00000000000000ab", "seed": 3, "size": SIZE, "global_batch": BATCH, "micro_batch": 2, "shuffle": True}


STREAMS = {**HEAD, "shuffle": "streams", "window": 2, "shards": [5, 1, 0, 7, 3, 2]}
FIXED = {**STREAMS, "shuffle": "fixed_streams"}


def canonical(entry):
    return json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def step(number, head=HEAD, **changes):
    """Returns the honest line of a step: two workers, and one from step 7 on."""
    order = samples.Order(head, number // EACH)
    first = number % EACH * BATCH
    ids = [order.sample(p) for p in range(first, min(first + BATCH, SIZE))]
    generation = 1 if number < 7 else 2
    return {"step": number, "epoch": number // EACH, "generation": generation, "world": 3 - generation,
            "ids": samples.digest(ids), **samples.gathered(ids), "loss": repr(2 / (number + 1)), "status": "applied", **changes}


def steps(numbers=range(STEPS), **changes):
    return [step(number, **changes) for number in numbers]


def without_sums(lines):
    return [{key: value for key, value in line.items() if key not in ("samples", "hash")} for line in lines]


class VerifyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.head = {**HEAD, "data": self.data("data")}

    def data(self, name, **changes):
        """Writes the index of a data set; returns its digest."""
        index = {"format": "mtrun-packed", "version": 1, "splits": {"train": {"images": SIZE}}, **changes}
        digest = sha256(canonical(index))
        self.write(name, "index.json", json.dumps({**index, "digest": digest}))
        return digest

    def write(self, *path_and_text):
        *path, text = path_and_text
        path = os.path.join(self.folder, *path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)

    def settings(self, run, epochs=EPOCHS, max_steps=0, seed=3, patience=0):
        self.write(run, "config.yaml", f"cnnA:\n  data: {os.path.join(self.folder, 'data')}\n  seed: {seed}\n  epochs: {epochs}\n"
                   f"  max_steps: {max_steps}\n  batch_size: 2\n  global_batch: {BATCH}\n  early_stopping_epochs: {patience}\n")

    def ledger(self, run, lines, head=None):
        previous, text, before = "0" * 64, b"", None
        for entry in [{**entry} for entry in [head or self.head] + lines]:
            late = entry.pop("late", False)  # its writer did not know the line before
            behind = late or entry.pop("behind", False)  # its writer began before the line before existed
            line = json.dumps({**entry, "prev": before if behind else previous}).encode()
            text += line + b"\n"
            if not late:
                before, previous = previous, sha256(line)
        self.write(run, "ledger.jsonl", text)

    def run_of(self, lines, run="run", head=None, report=None):
        """Writes a complete folder like a trainer."""
        self.ledger(run, lines, head)
        self.settings(run)
        made = max([line["step"] for line in lines if "step" in line], default=-1) + 1
        self.write(run, "report.json", json.dumps({"steps": made if report is None else report}))

    def checkpoint(self, folder, number, weights=b"weights", run=HEAD["run"], generation=None, **changes):
        position = {"position": {"generation": generation, "steps": number}} if generation else {}
        identity = {"seed": "3", "batch_size": "2", "global_batch": str(BATCH), "data": self.head["data"], **changes}
        files = {"model.safetensors": weights, "optimizer.safetensors": b"moments",
                 "state.json": json.dumps({"run": run, "identity": identity, **position}).encode()}
        for name, text in files.items():
            self.write(folder, f"step_{number}", name, text)
        records = {name: {"bytes": len(text), "sha256": sha256(text)} for name, text in files.items()}
        done = {"format": "mtrun-checkpoint", "version": 1, "files": records}
        self.write(folder, f"step_{number}", "DONE", json.dumps(done))
        return done

    def verify(self, status, *more, runs=("run",)):
        paths = [os.path.join(self.folder, run) for run in runs]
        done = subprocess.run([sys.executable, VERIFY, *paths, *more], capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def rejected(self, why, *more, runs=("run",)):
        text = self.verify(1, *more, runs=runs)
        self.assertIn(why, text)
        self.assertTrue(text.endswith("NOT exactly once\n"), text)

    # ---- honest runs pass

    def test_an_honest_run(self):
        self.run_of(steps())
        self.assertTrue(self.verify(0).endswith("\nevery sample exactly once\n"))

    def streamed(self, run="run", order=STREAMS, **changes):
        """Writes a run in streams; returns its head."""
        shards = [{"images": count} for count in STREAMS["shards"]]
        data = self.data("data", splits={"train": {"images": SIZE, "shards": shards}})
        self.run_of([step(number, order) for number in range(STEPS)], run=run, head={**order, "data": data, **changes})

    def test_an_honest_run_in_streams(self):
        for order in (STREAMS, FIXED):
            self.streamed(order=order)
            self.assertTrue(self.verify(0).endswith("\nevery sample exactly once\n"))

    def keeps_back(self, share, counts, head=HEAD, shards=None):
        """Writes a run that keeps `share` back, with classes of `counts` images; the data set has `shards`."""
        train = {"images": sum(counts), "class_counts": counts, "shards": [{"images": count} for count in shards or [sum(counts)]]}
        data = self.data("data", splits={"train": train})
        self.run_of([step(number, head) for number in range(STEPS)], head={**head, "data": data})
        if share:
            with open(os.path.join(self.folder, "run", "config.yaml"), "a", encoding="utf-8") as file:
                file.write(f"  validation_share: {share}\n")

    def test_a_run_that_keeps_images_back_for_validation(self):
        shards = [STREAMS["shards"][0] + 2] + STREAMS["shards"][1:]
        for head in (HEAD, STREAMS):
            self.keeps_back(None, [SIZE + 2], head, shards)
            self.rejected("the run had other data than")
            self.keeps_back("0", [SIZE + 2], head, shards)
            self.rejected("the run had other data than")
            self.keeps_back("0.1", [SIZE + 2], head, shards)
            self.verify(0)
        self.keeps_back("0.1", [SIZE + 2], STREAMS, [STREAMS["shards"][0] - 1] + STREAMS["shards"][1:5] + [5])
        self.rejected("the ledger's counts of shards are not those of")

    def test_validation_share_of_each_class_equals_the_trainers(self):
        for share, counts in (("0.1", [10, 9, 1]), ("0.05", [2, 18]), ("0.5", [2, 2, 32]), ("0.4", [25, 5]), ("0.9", [1, 180]),
                              ("0.9", [2, 170]), ("0.125", [20, 1]), ("1e-3", [19, 0]), ("0.000", [SIZE])):
            with self.subTest(share=share, counts=counts):
                self.keeps_back(share, counts)
                self.verify(0)

    def test_another_number_of_images_than_a_share_leaves(self):
        for share, counts in (("0.1", [10, 10, 2]), ("0.1", [20]), ("0.125", [21]), ("0.1", [1000]), ("much", [20]), ("nan", [20]), ("1", [20])):
            with self.subTest(share=share, counts=counts):
                self.keeps_back(share, counts + [1])
                self.rejected("the run had other data than")
        self.keeps_back("0.1", [20])
        self.data("other", splits={"train": {"images": 20, "shards": [{"images": 20}]}})
        self.rejected("the run had other data than", "--data", "other")

    def test_each_epoch_of_streams_is_a_permutation(self):
        for shards in ([SIZE], [1] * SIZE, [0, 9, 9], STREAMS["shards"]):
            for batch, micro, window in ((4, 2, 1), (5, 2, 2), (18, 18, 3), (30, 7, 1), (1, 1, 9)):
                for kind in (STREAMS, FIXED):
                    head = {**kind, "shards": shards, "global_batch": batch, "micro_batch": micro, "window": window}
                    for epoch in (0, 3):
                        order = samples.Order(head, epoch)
                        self.assertEqual(sorted(order.sample(p) for p in range(SIZE)), list(range(SIZE)), head)

    def test_a_run_that_stops_early_is_complete(self):
        self.run_of(steps(range(2 * EACH)))
        self.settings("run", patience=1)
        self.write("run", "report.json", json.dumps({"steps": 2 * EACH, "epochs": 2, "best_epoch": 1}))
        self.verify(0)
        self.write("run", "report.json", json.dumps({"steps": 2 * EACH, "epochs": 2, "best_epoch": 2}))
        self.rejected("10 steps are recorded, the settings in ")
        self.write("run", "report.json", json.dumps({"steps": STEPS, "epochs": 2, "best_epoch": 1}))
        self.rejected("10 steps are recorded, the report in ")

    def test_steps_of_a_run_may_end_within_an_epoch(self):
        self.run_of(steps(range(EACH + 2)))
        self.settings("run", max_steps=EACH + 2)
        self.verify(0)

    def test_one_that_was_stopped_is_partial(self):
        self.run_of(steps(range(8)))
        os.remove(os.path.join(self.folder, "run", "report.json"))
        self.verify(0, "--partial")
        self.rejected("the last epoch is not whole: 3 of 5 steps")

    def test_a_writer_that_came_back_late_harms_nothing(self):
        late = [step(7, generation=1, world=2, loss="9", late=True), {"rewind": 3, "generation": 1, "late": True}]
        self.run_of(steps(range(10)) + late + steps(range(10, STEPS)))
        self.assertIn("2 lines of a generation behind a higher one's do not count", self.verify(0))

    def test_a_late_writer_where_there_may_be_none(self):
        self.run_of(steps())
        self.verify(0, "--no_late")
        self.run_of(steps(range(10)) + [step(7, generation=1, world=2, loss="9", late=True)] + steps(range(10, STEPS)))
        self.rejected("generations fall: 1 lines", "--no_late")

    def test_a_writer_that_continues_after_a_late_line(self):
        late = [step(7, generation=1, world=2, loss="9")]
        self.run_of(steps(range(10)) + late + steps(range(10, STEPS), generation=3))
        self.verify(0)

    def test_a_late_line_between_a_writers_begin_and_its_first_line(self):
        first = {**step(7), "behind": True}
        self.run_of(steps(range(8), generation=1, world=2) + [first] + steps(range(8, STEPS)))
        self.assertIn("superseded lines 1", self.verify(0))
        self.run_of(steps(range(8)) + [{**step(8), "behind": True}] + steps(range(9, STEPS)))
        self.rejected("the chain is broken")

    def test_a_step_that_its_generation_took_back_is_made_again(self):
        self.run_of(steps(range(9), generation=1, world=2) + [{"rewind": 7, "generation": 2}] + steps(range(7, STEPS)))
        self.assertIn("superseded lines 2, rewinds 1", self.verify(0))

    def test_a_new_writer_with_a_folder_of_its_own_repeats_what_it_remembers(self):
        self.run_of(steps(range(8), generation=1, world=2), run="lost")
        self.run_of(steps(range(3, STEPS)), run="kept")
        self.verify(0, runs=("lost", "kept"))
        self.verify(0, runs=("kept", "lost"))

    def test_a_writer_continues_from_another_branch_than_the_file(self):
        """Generation 2 restarted from step 3 and died; a frozen node held the state of generation 1 at step 7."""
        lines = steps(range(6)) + steps(range(3, 5), generation=2, loss="9")
        begin = [{"rewind": 7, "generation": 4, "of": 1}] + steps(range(5, 7))
        self.run_of(lines + begin + steps(range(7, STEPS), generation=4))
        self.assertIn("superseded lines 2, rewinds 1", self.verify(0, "--no_late"))
        self.run_of(lines + begin[:1] + steps(range(7, STEPS), generation=4))
        self.rejected("1 steps are lost, the first is 6")
        self.run_of(lines + begin[1:] + steps(range(7, STEPS), generation=4))
        self.rejected("2 steps are lost, the first is 5")

    def test_a_generation_that_continues_itself(self):
        """The walk would end there, and the steps before it would not count."""
        lines = steps(range(5)) + [{"rewind": 5, "generation": 9, "of": 1}] + steps(range(5, 7), generation=9)
        self.run_of(lines + [{"rewind": 7, "generation": 9, "of": 9}] + steps(range(7, STEPS), generation=9))
        self.rejected("generation 9 continues generation 9, which is not lower")

    def test_a_writer_within_a_generation_says_where_that_began(self):
        """A member whose file lacks the generation saves before it leaves."""
        own = [{"rewind": 5, "generation": 9, "of": 1}] + steps(range(3, 5)) + steps(range(5, STEPS), generation=9, world=1)
        self.run_of(steps(range(3)) + own)
        self.assertIn("every sample exactly once", self.verify(0))

    def test_a_repeated_line_that_differs(self):
        begin = [{"rewind": 7, "generation": 4, "of": 1}, step(6, loss="9")]
        self.run_of(steps(range(7)) + begin + steps(range(7, STEPS), generation=4))
        self.assertIn("every sample exactly once", self.verify(0))  # the first one counts

    def test_branches_in_the_folders_of_two_nodes(self):
        """Each began alone from its own disk; the one that reached further counts, whatever the numbers are."""
        away = steps(range(7)) + [{"rewind": 7, "generation": 90, "of": 1}] + steps(range(7, 9), generation=90)
        self.run_of(away, run="away")
        self.run_of(steps(range(7), generation=1) + [{"rewind": 7, "generation": 30, "of": 1}] + steps(range(7, STEPS), generation=30),
                    run="kept")
        for runs in (("away", "kept"), ("kept", "away")):
            self.assertIn("superseded lines 2", self.verify(0, "--no_late", runs=runs))

    def test_a_checkpoint_of_another_branch_has_the_weights_that_its_generation_named(self):
        saved = [{"checkpoint": 5, "generation": 2, "weights": sha256(b"branch")}]
        self.run_of(steps(range(3)) + steps(range(3, 5), generation=2) + saved
                    + [{"rewind": 3, "generation": 4, "of": 1}] + steps(range(3, 5), generation=4, world=2)
                    + [{"checkpoint": 5, "generation": 4, "weights": sha256(b"weights")}] + steps(range(5, STEPS), generation=4, world=2))
        self.checkpoint("run", 5, weights=b"branch", generation=2)
        self.verify(0)
        self.checkpoint("run", 5, weights=b"branch", generation=4)
        self.rejected("has other weights than the ledger says")

    def test_a_skipped_step_may_have_any_loss(self):
        lines = steps()
        lines[1] = step(1, status="skipped", loss="nan")
        self.run_of(lines)
        self.assertIn("skipped steps 1", self.verify(0))

    def test_partial_line_of_a_killed_writer_is_accepted(self):
        self.run_of(steps())
        path = os.path.join(self.folder, "run", "ledger.jsonl")
        with open(path, "ab") as file:
            file.write(b'{"step":15,"ep')
        self.verify(0)

    def test_an_earlier_release_says_what_it_cannot_prove(self):
        head = {**self.head, "ledger": 1}
        self.run_of(without_sums(steps()), head=head)
        self.assertIn("15 steps, of an earlier release, do not say what the workers gathered", self.verify(0))
        self.run_of(without_sums(steps(range(7))) + steps(range(7, STEPS)), head=head)
        self.assertIn("7 steps, of an earlier release", self.verify(0))

    def test_an_earlier_release_counted_its_generations_from_1_again(self):
        head = {**self.head, "ledger": 1}
        self.run_of(steps(range(9), generation=5) + [{"rewind": 7, "generation": 3}] + steps(range(7, STEPS), generation=3), head=head)
        self.verify(0)

    def test_checkpoints_with_the_weights_that_the_ledger_names(self):
        saved = {"checkpoint": 10, "generation": 2, "weights": sha256(b"weights")}
        self.run_of(steps(range(10)) + [saved] + steps(range(10, STEPS)))
        self.checkpoint("run", 10)
        self.assertIn("checkpoints with the ledger's weights 1", self.verify(0))

    # ---- forgeries

    def test_no_training_at_all(self):
        self.run_of([])
        self.rejected("no step is recorded: nothing was trained")
        self.rejected("no step is recorded: nothing was trained", "--partial")
        self.settings("run", epochs=0)
        self.rejected("no step is recorded: nothing was trained")

    def test_every_loss_is_nan(self):
        for value in ("nan", "inf", "none", None):
            self.run_of(steps(loss=value))
            self.rejected("15 applied steps have a loss that is not finite, the first is 0")

    def test_every_step_is_skipped(self):
        self.run_of(steps(status="skipped"))
        self.rejected("all 15 steps were skipped: nothing was trained")
        self.rejected("all 15 steps were skipped: nothing was trained", "--partial")

    def test_more_steps_skipped_than_a_trainer_skips(self):
        number = 70
        self.run_of([step(0)] + steps(range(1, number), status="skipped"), report=number)
        self.settings("run", epochs=number // EACH)
        self.rejected("69 steps in a row were skipped")

    def test_a_run_cut_after_epoch_2_of_3(self):
        self.run_of(steps(range(10)))
        self.rejected("10 steps are recorded, the settings in ")
        self.verify(0, "--partial")
        self.settings("run", epochs=2)
        self.write("run", "report.json", json.dumps({"steps": STEPS}))
        self.rejected("says 15")
        os.remove(os.path.join(self.folder, "run", "report.json"))
        self.rejected("is missing: the run did not end")
        os.remove(os.path.join(self.folder, "run", "config.yaml"))
        self.rejected("does not say how long the run was to be")

    def test_generations_that_fall(self):
        self.run_of(steps(range(7), generation=2) + steps(range(7, STEPS), generation=1))
        self.rejected("generations fall: 8 lines of a generation behind a higher one's do not count")

    def test_generations_that_fall_and_rise(self):
        self.run_of(steps(range(5), generation=1) + steps(range(5, 8), generation=3) + steps(range(8, 10), generation=2)
                    + steps(range(10, STEPS), generation=4))
        self.rejected("2 steps are lost, the first is 8")

    def test_world_size_0(self):
        self.run_of(steps(world=0))
        self.rejected("malformed")
        self.run_of(steps(generation=0))
        self.rejected("malformed")

    def test_two_writers_side_by_side_in_one_file(self):
        self.run_of([line for number in range(STEPS) for line in (step(number), step(number, loss="1.5"))])
        self.rejected("step 0 stands twice in generation 1: it has two writers")
        self.run_of([line for number in range(STEPS) for line in (step(number), step(number))])
        self.rejected("step 0 stands twice in generation 1: it has two writers")

    def test_two_writers_of_one_generation_in_two_folders(self):
        self.run_of(steps())
        self.run_of(steps(range(7)) + steps(range(7, STEPS), loss="1.5"), run="other")
        self.rejected("generation 2 has two writers: the folders differ in 8 of its steps, the first is 7", runs=("run", "other"))
        self.run_of(steps(range(10)))
        self.run_of(steps(range(10, STEPS), world=4), run="other")
        self.rejected("generation 2 has two writers: world sizes 1, 4", runs=("run", "other"))

    def test_a_second_folder_with_other_data(self):
        self.run_of(steps())
        self.run_of(steps(), run="other", head={**self.head, "data": "f" * 64})
        self.rejected("another data than in", runs=("run", "other"))
        for changes in ({"seed": 4}, {"size": 17}, {"micro_batch": 1}, {"shuffle": False}):
            self.run_of(steps(), run="other", head={**self.head, **changes})
            self.rejected(f"another {list(changes)[0]} than in", runs=("run", "other"))
        self.run_of(steps(), run="other", head={**self.head, "run": "00000000000000ac"})
        self.rejected("another run's ledger", runs=("run", "other"))

    def test_an_index_without_its_digest(self):
        self.run_of(steps())
        path = os.path.join(self.folder, "data", "index.json")
        with open(path, encoding="utf-8") as file:
            index = json.load(file)
        for named in ({}, {"digest": None}, {"digest": "f" * 64}):
            self.write("data", "index.json", json.dumps({**{k: v for k, v in index.items() if k != "digest"}, **named}))
            self.rejected("/data/index.json does not have the digest that it names")
        self.write("data", "index.json", json.dumps({**index, "orientation": "applied"}))
        self.verify(0)

    def test_other_data_than_the_data_set(self):
        self.run_of(steps(), head={**self.head, "data": "f" * 64})
        self.rejected("the run had other data than")
        self.run_of(steps())
        self.data("other", classes=["x"])
        self.rejected("the run had other data than", "--data", "other")
        self.verify(0, "--data", "data")
        self.rejected("there is no data set in nowhere", "--data", "nowhere")

    def test_other_settings_than_those_beside_it(self):
        self.run_of(steps())
        self.settings("run", seed=4)
        self.rejected("seed is 3, the settings beside it have 4")

    def test_samples_that_were_not_gathered_are_rejected(self):
        lines = steps()
        lines[6] = {**lines[6], "samples": 3}
        self.run_of(lines)
        self.rejected("epoch 2: in 1 steps the workers gathered other samples than the order says, the first is 6: 3 samples, 4 expected")
        lines[6] = {**step(6), "hash": step(5)["hash"]}
        self.run_of(lines)
        self.rejected("the first is 6: 4 samples, 4 expected")

    def test_a_ledger_that_does_not_say_what_was_gathered(self):
        self.run_of(without_sums(steps()))
        self.rejected("step 0 does not say what the workers gathered")
        self.run_of(steps(range(7)) + without_sums(steps(range(7, STEPS))), head={**self.head, "ledger": 1})
        self.rejected("step 7 does not say what the workers gathered")

    def test_steps_that_name_another_epoch(self):
        for number, epoch in ((EACH - 1, 1), (EACH, 0), (STEPS - 1, 3)):
            self.run_of(steps(range(number)) + [step(number, epoch=epoch)] + steps(range(number + 1, STEPS)))
            self.rejected(f"1 steps name another epoch than theirs, the first is {number}")

    def test_samples_of_a_lost_step_are_counted_in_every_epoch(self):
        for number, epoch in ((1, 1), (EACH, 2), (STEPS - 2, 3)):
            self.run_of(steps(range(number)) + steps(range(number + 1, STEPS)))
            self.rejected(f"epoch {epoch}: {BATCH} samples are lost")

    def test_lost_steps_other_samples_and_a_broken_chain(self):
        self.run_of(steps(range(4)) + steps(range(5, STEPS)))
        self.rejected("1 steps are lost, the first is 4")
        self.run_of(steps(range(4)) + [step(4, ids=step(3)["ids"])] + steps(range(5, STEPS)))
        self.rejected("epoch 1: 1 steps consumed other samples than the order says")
        self.run_of(steps())
        path = os.path.join(self.folder, "run", "ledger.jsonl")
        with open(path, "rb") as file:
            text = file.read()
        self.write("run", "ledger.jsonl", text.replace(b'"0.5"', b'"0.4"'))
        self.rejected("the chain is broken")

    def test_streams_of_another_order(self):
        self.streamed(window=1)
        self.rejected("steps consumed other samples than the order says")
        self.streamed(shuffle=True)
        self.rejected("steps consumed other samples than the order says")
        self.streamed(shuffle="fixed_streams")
        self.rejected("steps consumed other samples than the order says")
        self.streamed(shards=[5, 1, 7, 3, 2])
        self.rejected("the ledger's counts of shards are not those of")

    def test_streams_that_do_not_add_up_are_no_first_line(self):
        for changes in ({"shards": [5]}, {"shards": None}, {"shards": [19, -1]}, {"window": 0}, {"shuffle": "rivers"}):
            self.streamed(**changes)
            path = os.path.join(self.folder, "run")
            done = subprocess.run([sys.executable, VERIFY, path], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, changes)
            self.assertIn("no first line that names the run", done.stderr)

    def test_two_runs_in_one_file(self):
        self.run_of(steps(range(7)) + [HEAD] + steps(range(7, STEPS)))
        self.rejected("a second first line")

    def test_other_weights_than_the_checkpoints(self):
        self.run_of(steps(range(10)) + [{"checkpoint": 10, "generation": 2, "weights": sha256(b"weights")}] + steps(range(10, STEPS)))
        self.checkpoint("run", 10, b"others")
        self.rejected("step_10 has other weights than the ledger says")
        self.checkpoint("run", 10)
        self.write("run", "step_10", "model.safetensors", b"others")
        self.rejected("model.safetensors is not what was saved")
        self.checkpoint("run", 10, run="00000000000000ac")
        self.rejected("step_10 is another run's")
        self.checkpoint("run", 10, data="f" * 64)
        self.rejected("step_10 has another data than the ledger")

    def test_a_checkpoint_of_steps_that_were_taken_back_is_not_that_of_the_ledger(self):
        saved = {"checkpoint": 9, "generation": 1, "weights": sha256(b"weights")}
        self.run_of(steps(range(9), generation=1, world=2) + [saved], run="lost")
        self.run_of(steps(range(5), generation=1, world=2) + steps(range(5, STEPS), generation=2, world=1), run="kept")
        self.checkpoint("kept", 9, b"others")
        self.assertIn("checkpoints with the ledger's weights 0", self.verify(0, runs=("lost", "kept")))

    def test_a_checkpoint_at_the_step_of_a_rewind_is_the_ledgers(self):
        """The next generation continues from it: none of its steps is taken back. Either one may have saved it."""
        saved = {"checkpoint": 7, "weights": sha256(b"weights")}
        made = [*steps(range(7)), {**saved, "generation": 1}, *steps(range(7, 9), generation=1, world=2)]
        rewind = {"rewind": 7, "generation": 2}
        for lines in (made + [rewind], steps(range(7)) + [rewind, {**saved, "generation": 2}]):
            self.run_of(lines + steps(range(7, STEPS)))
            for generation in (1, None):
                self.checkpoint("run", 7, generation=generation)
                self.assertIn("checkpoints with the ledger's weights 1", self.verify(0))
                self.checkpoint("run", 7, b"others", generation=generation)
                self.rejected("step_7 has other weights than the ledger says")

    def test_a_checkpoint_that_a_node_has_left_from_steps_that_were_taken_back(self):
        def saved(generation, weights):
            return {"checkpoint": 9, "generation": generation, "weights": sha256(weights)}
        self.run_of(steps(range(9), generation=1, world=2) + [saved(1, b"left")], run="lost")
        self.run_of(steps(range(5), generation=1, world=2) + steps(range(5, 9)) + [saved(2, b"weights")] + steps(range(9, STEPS)), run="kept")
        self.checkpoint("lost", 9, b"left", generation=1)
        self.checkpoint("kept", 9, generation=2)
        self.assertIn("checkpoints with the ledger's weights 2", self.verify(0, runs=("lost", "kept")))
        self.checkpoint("lost", 9, b"others", generation=1)
        self.rejected("has other weights than the ledger says", runs=("lost", "kept"))
        self.checkpoint("lost", 9, b"left", generation=2)
        self.rejected("has other weights than the ledger says", runs=("lost", "kept"))

    def test_a_checkpoint_that_no_trainer_would_continue(self):
        self.run_of(steps())
        done = self.checkpoint("run", 10)
        self.verify(0)
        less = {name: {key: record for key, record in done["files"].items() if key != name} for name in done["files"]}
        weights = done["files"]["model.safetensors"]
        for wrong in ("", "{", "[]", "{}", {**done, "format": "x"}, {**done, "version": 2}, {**done, "files": []}, {**done, "files": {}},
                      *({**done, "files": files} for files in less.values()),
                      *({**done, "files": {**done["files"], "model.safetensors": record}} for record in ("x", {}, {**weights, "sha256": []}))):
            with self.subTest(done=wrong):
                self.write("run", "step_10", "DONE", wrong if isinstance(wrong, str) else json.dumps(wrong))
                self.rejected("run/step_10/DONE does not name what a trainer continues from")
        self.write("run", "step_10", "DONE", json.dumps({**done, "files": {**done["files"], "model.safetensors": {**weights, "bytes": 6}}}))
        self.rejected("model.safetensors is not what was saved")

    def test_a_checkpoint_beside_a_ledger_that_names_no_data(self):
        self.run_of(steps(), head=HEAD)
        self.checkpoint("run", 10)
        self.rejected("step_10 has another data than the ledger")
        self.write("run", "step_10", "state.json", json.dumps({"run": HEAD["run"], "identity": []}))
        self.rejected("state.json is not what was saved")

    def test_loss_beyond_floating_point_is_rejected(self):
        self.run_of(steps(loss=10**400))
        self.rejected("15 applied steps have a loss that is not finite, the first is 0")

    def test_a_checkpoint_beyond_the_ledger(self):
        self.run_of(steps())
        self.checkpoint("run", 20)
        self.rejected("the ledger does not go so far")


if __name__ == "__main__":
    unittest.main()
