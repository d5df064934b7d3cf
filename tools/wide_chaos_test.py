#!/usr/bin/env python3
"""Tests of a wide storm's verdicts (tools/chaos train --wide) and its reading of ledgers. tools/check runs it."""
import collections
import hashlib
import itertools
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "chaos.d"))

import cluster
import kept
import node
import plain_ledger
import preload
import properties
import schedule
import train
import wide
import wide_plan
import wide_runs

HEAD = {"ledger": 2, "run": "e3948e3b09c5bde7", "seed": 3, "size": 20, "global_batch": 6, "micro_batch": 2, "shuffle": True,
        "data": "d"}


def step(number, generation, world=2, loss="1.5", head=None):
    found = plain_ledger.expected(head or HEAD, number)
    return {"step": number, "epoch": found["epoch"], "generation": generation, "world": world, "ids": found["ids"],
            "samples": found["samples"], "hash": found["hash"], "loss": loss, "status": "applied"}


def steps(generation, begin, end):
    return [step(number, generation) for number in range(begin, end)]


def rewind(number, generation, of=None):
    return {"rewind": number, "generation": generation, **({} if of is None else {"of": of})}


def texts(lines, previous=plain_ledger.FIRST):
    """Yields the lines as in a file, each with the digest of the one before unless it has its own."""
    for line in lines:
        text = line if isinstance(line, bytes) else json.dumps({**line, "prev": line.get("prev", previous)}).encode()
        previous = hashlib.sha256(text).hexdigest()
        yield text


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        path = os.path.join(self.folder, *names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def ledger(self, *lines, name="run", head=None):
        with open(self.path(name, "ledger.jsonl"), "wb") as file:
            file.write(b"\n".join(texts([head or HEAD, *lines])) + b"\n")
        return os.path.join(self.folder, name)

    def checkpoint(self, folder, name, generation, number, lineage=None, weights=b"weights", run=HEAD["run"], last_step=None):
        state = {"run": run, "position": {"generation": generation, "steps": number, "evaluated": False}}
        state.update({"lineage": lineage} if lineage else {})
        state.update({"progress": {"last_step": last_step}} if last_step else {})
        files = {"model.safetensors": weights, "state.json": json.dumps(state).encode()}
        for file, data in files.items():
            with open(self.path(folder, name, file), "wb") as out:
                out.write(data)
        with open(self.path(folder, name, "DONE"), "w", encoding="utf-8") as out:
            json.dump({"files": {file: {"sha256": hashlib.sha256(data).hexdigest()} for file, data in files.items()}}, out)
        return os.path.join(self.folder, folder, name)


def lineage(*entries):
    return [{"generation": generation, "from": begin} for generation, begin in entries]


class OrderTest(unittest.TestCase):
    def test_the_order_of_samples_is_that_of_the_document(self):
        head = {"seed": 0, "size": 10, "global_batch": 10, "micro_batch": 5, "shuffle": True}
        self.assertEqual(plain_ledger.sample_ids(head, 0), [3, 5, 7, 6, 9, 1, 2, 0, 4, 8])
        streams = {**head, "seed": 7, "size": 20, "shards": [4, 3, 5, 2, 6], "window": 2, "global_batch": 6, "micro_batch": 2,
                   "shuffle": "streams"}
        self.assertEqual(plain_ledger.sample_ids(streams, 0), [4, 12, 3, 7, 18, 15])
        self.assertEqual(plain_ledger.sample_ids({**head, "shuffle": False, "global_batch": 4}, 2), [8, 9])

    def test_every_epoch_has_each_sample_once(self):
        for shuffle in (True, False, "streams", "fixed_streams"):
            head = {**HEAD, "shuffle": shuffle, "shards": [4, 3, 5, 2, 6], "window": 2}
            for epoch in range(3):
                found = [each for number in range(4) for each in plain_ledger.sample_ids(head, 4 * epoch + number)]
                self.assertEqual(sorted(found), list(range(20)), (shuffle, epoch))


class GoodLedgerTest(FolderTest):
    def assert_whole(self, *folders):
        self.assertEqual(plain_ledger.check(list(folders))[0], [])

    def test_one_generation(self):
        self.assert_whole(self.ledger(*steps(1, 0, 8)))

    def test_a_generation_without_a_rewind_continues_the_highest_lower_one(self):
        folder = self.ledger(*steps(1, 0, 4), *steps(3, 3, 8))
        self.assert_whole(folder)
        self.assertEqual(plain_ledger.Book([folder]).walk(), [(3, 3, None), (1, 0, 3)])

    def test_a_generation_continues_the_one_that_its_rewind_names(self):
        folder = self.ledger(*steps(1, 0, 3), *steps(2, 3, 9), rewind(3, 4, of=1), *steps(4, 3, 8))
        self.assert_whole(folder)
        self.assertEqual(plain_ledger.Book([folder]).walk(), [(4, 3, None), (1, 0, 3)])
        self.assertEqual({line["generation"] for line in plain_ledger.Book([folder]).lines().values()}, {1, 4})

    def test_a_branch_that_was_left_may_be_continued_later(self):
        self.assert_whole(self.ledger(*steps(1, 0, 3), *steps(2, 3, 6), rewind(3, 4, of=1), *steps(4, 3, 5), rewind(6, 7, of=2),
                                      *steps(7, 6, 8)))

    def test_remembered_steps_may_follow_those_of_a_higher_generation(self):
        first = self.ledger(*steps(1, 0, 2), *steps(3, 4, 8), name="a")
        second = self.ledger(*steps(1, 0, 2), *steps(3, 4, 5), *steps(2, 2, 4), name="b")
        self.assert_whole(first, second)

    def test_a_step_may_be_repeated_word_for_word_after_a_rewind_and_in_another_file(self):
        self.assert_whole(self.ledger(*steps(1, 0, 5), rewind(5, 4, of=1), *steps(1, 3, 5), *steps(4, 5, 8)),
                          self.ledger(*steps(1, 0, 5), name="b"))

    def test_a_writer_of_a_later_generation_adds_the_steps_that_it_remembers(self):
        folder = self.ledger(*steps(1, 0, 3), *steps(2, 3, 6), rewind(5, 7, of=1), *steps(1, 3, 5), *steps(7, 5, 8))
        self.assert_whole(folder)
        self.assertEqual(plain_ledger.Book([folder]).walk(), [(7, 5, None), (1, 0, 5)])

    def test_the_file_whose_branch_is_furthest_counts(self):
        """Numbers do not give the order of branches: the one that began from an old disk has a random gap."""
        shorter = self.ledger(*steps(1, 0, 3), rewind(3, 40000, of=1), *steps(40000, 3, 5), name="a")
        longer = self.ledger(*steps(1, 0, 3), *steps(2, 3, 6), *steps(4, 6, 8), name="b")
        self.assert_whole(shorter, longer)
        self.assertEqual(plain_ledger.Book([shorter, longer]).walk(), [(4, 6, None), (2, 3, 6), (1, 0, 3)])
        equal = self.ledger(*steps(1, 0, 3), rewind(3, 40000, of=1), *steps(40000, 3, 8), name="c")
        self.assertEqual(plain_ledger.Book([equal, longer]).walk()[0], (40000, 3, None))

    def test_a_generation_that_has_not_made_a_step_is_where_it_begins(self):
        folder = self.ledger(*steps(1, 0, 3), *steps(2, 3, 6), rewind(6, 9, of=2))
        self.assert_whole(folder)
        self.assertEqual(plain_ledger.Book([folder]).walk(), [(9, 6, None), (2, 3, 6), (1, 0, 3)])

    def test_only_the_steps_of_a_late_writer_count(self):
        seen = hashlib.sha256(list(texts([HEAD, *steps(1, 0, 4), *steps(2, 4, 6)]))[-1]).hexdigest()
        late = [{**step(4, 1), "prev": 64 * "e"}, {**rewind(1, 1), "prev": 64 * "e"},
                {"checkpoint": 4, "generation": 1, "weights": "w", "prev": 64 * "e"}]
        folder = self.ledger(*steps(1, 0, 4), *steps(2, 4, 6), *late, {**step(6, 2), "prev": seen}, step(7, 2))
        self.assert_whole(folder)
        self.assertEqual(plain_ledger.Book([folder]).weights, {})

    def test_a_rewind_within_a_generation_takes_its_steps_back(self):
        self.assert_whole(self.ledger(*steps(1, 0, 5), rewind(3, 1), step(3, 1, loss="1.6"), *steps(1, 4, 8)))

    def test_partial_line_of_a_killed_writer_is_ignored(self):
        self.assert_whole(self.ledger(*steps(1, 0, 5), b'{"step":5,"ep', *steps(1, 5, 8)))

    def test_the_first_line_of_a_generation_may_not_know_of_a_late_one(self):
        seen = hashlib.sha256(list(texts([HEAD, *steps(1, 0, 3)]))[-1]).hexdigest()
        self.assert_whole(self.ledger(*steps(1, 0, 4), {**step(3, 2), "prev": seen}, *steps(2, 4, 8)))

    def test_checkpoints_have_the_weights_that_a_ledger_names(self):
        named = {"checkpoint": 4, "generation": 1, "weights": hashlib.sha256(b"weights").hexdigest()}
        folder = self.ledger(*steps(1, 0, 4), named, *steps(2, 4, 8))
        self.checkpoint("run", "step_4", 1, 4)
        self.checkpoint("run", "step_8", 2, 8, lineage((1, 0), (2, 4)))
        self.checkpoint("run", "branch_1_step_3", 1, 3)
        self.assertEqual(plain_ledger.check([folder]), ([], 1))


    def test_another_branch_has_other_weights_of_the_same_step(self):
        def named(generation, weights):
            return {"checkpoint": 5, "generation": generation, "weights": hashlib.sha256(weights).hexdigest()}
        folder = self.ledger(*steps(1, 0, 3), *steps(2, 3, 5), named(2, b"left"), rewind(3, 4, of=1), *steps(4, 3, 5),
                             *steps(5, 5, 6), named(5, b"weights"), *steps(5, 6, 8))
        self.checkpoint("run", "branch_2_step_5", 2, 5, weights=b"left")
        self.checkpoint("run", "step_5", 4, 5)
        self.assertEqual(plain_ledger.check([folder]), ([], 2))
        self.checkpoint("run", "step_5", 4, 5, weights=b"left")
        self.assertIn("other weights", plain_ledger.check([folder])[0][0])


class BrokenLedgerTest(FolderTest):
    def assert_says(self, text, *folders):
        found = plain_ledger.check(list(folders))[0]
        self.assertTrue(any(text in each for each in found), found)

    def test_a_line_that_was_removed(self):
        lines = list(texts([HEAD, *steps(1, 0, 6)]))
        with open(self.path("run", "ledger.jsonl"), "wb") as file:
            file.write(b"\n".join(lines[:3] + lines[4:]) + b"\n")
        self.assert_says("prev does not name", os.path.join(self.folder, "run"))

    def test_a_line_that_was_changed(self):
        lines = list(texts([HEAD, *steps(1, 0, 6)]))
        lines[2] = lines[2].replace(b'"1.5"', b'"1.4"')
        with open(self.path("run", "ledger.jsonl"), "wb") as file:
            file.write(b"\n".join(lines) + b"\n")
        self.assert_says("prev does not name", os.path.join(self.folder, "run"))

    def test_steps_without_a_line(self):
        self.assert_says("2 steps have no line that counts, the first is 3", self.ledger(*steps(1, 0, 3), *steps(1, 5, 8)))
        self.assert_says("0 steps have no line", self.ledger())

    def test_a_generation_that_does_not_say_that_it_left_a_branch(self):
        """Without its rewind it seems to continue generation 2, which begins after it."""
        self.assert_says("no line that counts", self.ledger(*steps(1, 0, 3), *steps(2, 4, 7), *steps(3, 3, 4), *steps(3, 5, 8)))

    def test_generation_that_continues_an_unwritten_one_is_rejected(self):
        self.assert_says("of which no ledger has a line", self.ledger(*steps(1, 0, 3), rewind(3, 5, of=4), *steps(5, 3, 8)))

    def test_a_generation_that_continues_two_others(self):
        first = self.ledger(*steps(1, 0, 3), *steps(2, 3, 5), rewind(4, 7, of=2), *steps(7, 4, 8), name="a")
        self.assert_says("continues several others", first, self.ledger(*steps(1, 0, 5), rewind(4, 7, of=1), name="b"))

    def test_a_step_that_is_repeated_without_a_rewind(self):
        self.assert_says("generation 1 has step 3 twice", self.ledger(*steps(1, 0, 5), *steps(1, 3, 8)))

    def test_a_repeated_step_that_differs(self):
        self.assert_says("two different lines of step 4", self.ledger(*steps(1, 0, 5), rewind(5, 4, of=1), step(4, 1, loss="1.6"),
                                                                      *steps(4, 5, 8)))

    def test_a_repeated_step_with_a_wrong_prev(self):
        self.assert_says("prev does not name", self.ledger(*steps(1, 0, 5), rewind(5, 4, of=1), {**step(4, 1), "prev": 64 * "e"},
                                                           *steps(4, 5, 8)))

    def test_other_samples(self):
        wrong = {**step(2, 1), "ids": step(3, 1)["ids"]}
        self.assert_says("step 2 of generation 1 has other ids than", self.ledger(*steps(1, 0, 2), wrong, *steps(1, 3, 5)))
        wrong = {**step(2, 1), "samples": 5}
        self.assert_says("has other samples than", self.ledger(*steps(1, 0, 2), wrong, *steps(1, 3, 5)))

    def test_two_writers_of_a_generation(self):
        other = self.ledger(*steps(1, 0, 4), step(4, 1, loss="1.6"), name="b")
        self.assert_says("two different lines of step 4", self.ledger(*steps(1, 0, 8)), other)
        self.assert_says("2 world sizes", self.ledger(*steps(1, 0, 4), step(4, 1, world=3)))

    def test_another_run(self):
        self.assert_says("other run than", self.ledger(*steps(1, 0, 4)),
                         self.ledger(*steps(1, 0, 4), name="b", head={**HEAD, "run": 16 * "0"}))

    def test_checkpoints_that_no_ledger_has(self):
        named = {"checkpoint": 4, "generation": 1, "weights": 64 * "0"}
        folder = self.ledger(*steps(1, 0, 4), named, *steps(2, 4, 8))
        self.checkpoint("run", "step_4", 1, 4)
        self.checkpoint("run", "step_9", 2, 9)
        self.checkpoint("run", "step_8", 2, 8, lineage((1, 0), (2, 3)))
        self.assert_says("step_4 has other weights than the ledgers name", folder)
        self.assert_says("step_9: no ledger has step 8 of generation 2", folder)
        self.assert_says("step_8: its lineage has 1 steps of generation 2 that no ledger has, the first is 3", folder)


    def test_record_in_a_moved_checkpoint_replaces_the_line_of_its_last_step(self):
        folder = self.ledger(*steps(1, 0, 4), *steps(2, 4, 6))
        record = {"generation": 3, "step": 6, **plain_ledger.record_of(HEAD, 6)}
        left = self.checkpoint("run", "branch_3_step_7", 3, 7, lineage((1, 0), (2, 4), (3, 6)), last_step=record)
        self.assertEqual(plain_ledger.check([folder])[0], [])
        shutil.rmtree(left)
        self.checkpoint("run", "branch_3_step_7", 3, 7, lineage((1, 0), (2, 4), (3, 6)), last_step={**record, "hash": 1})
        self.assert_says("the record of its last step has other samples", folder)
        self.checkpoint("run", "branch_3_step_8", 3, 8, lineage((1, 0), (2, 4), (3, 6)), last_step={**record, "step": 5})
        self.assert_says("branch_3_step_8: no ledger has step 7 of generation 3", folder)


class KeptTest(FolderTest):
    def look(self, *times):
        disk = kept.Disk(os.path.join(self.folder, "run"))
        for act in times:
            act()
            disk.look(1.0)
            disk.look(2.0)
        return disk

    def remove(self, name):
        for file in os.listdir(self.path("run", name, "")):
            os.remove(self.path("run", name, file))
        os.rmdir(self.path("run", name))

    def test_checkpoint_may_be_removed_once_one_descends_from_it(self):
        disk = self.look(lambda: self.checkpoint("run", "step_3", 1, 3, lineage((1, 0))),
                         lambda: self.checkpoint("run", "step_6", 2, 6, lineage((1, 0), (2, 4))), lambda: self.remove("step_3"))
        self.assertEqual(disk.problems, [])
        self.assertEqual(disk.furthest(), (6, 2))

    def test_checkpoint_may_not_be_removed_for_one_of_another_branch(self):
        for later in (lineage((1, 0), (2, 2)), None):
            disk = self.look(lambda: self.checkpoint("run", "step_4", 1, 4, lineage((1, 0))),
                             lambda: self.checkpoint("run", "step_3", 2, 3, later), lambda: self.remove("step_4"))
            self.assertEqual(len(disk.problems), 1, later)
            self.assertIn("step_4 of generation 1 is lost", disk.problems[0])
            self.remove("step_3")

    def test_further_checkpoint_of_another_branch_does_not_replace_it(self):
        disk = self.look(lambda: self.checkpoint("run", "step_4", 1, 4, lineage((1, 0))),
                         lambda: self.checkpoint("run", "step_9", 2, 9, lineage((1, 0), (2, 2))), lambda: self.remove("step_4"))
        self.assertEqual(len(disk.problems), 1)

    def test_it_may_be_moved_aside(self):
        def move(name):
            return lambda: os.rename(self.path("run", "step_4"), self.path("run", name))
        for name in ("branch_1_step_4", "branch_1_step_4.2", "previous_1/step_4"):
            disk = self.look(lambda: self.checkpoint("run", "step_4", 1, 4), move(name))
            self.assertEqual((disk.problems, disk.furthest()), ([], (0, 0)), name)
            self.remove(name)

    def test_the_furthest_has_most_steps_whatever_its_generation(self):
        disk = self.look(lambda: self.checkpoint("run", "step_9", 2, 9), lambda: self.checkpoint("run", "step_4", 40000, 4))
        self.assertEqual(disk.furthest(), (9, 2))

    def test_one_that_is_not_complete_does_not_count(self):
        def spoil():
            with open(self.path("run", "step_4", "model.safetensors"), "wb") as file:
                file.write(b"other")
        self.checkpoint("run", "step_4", 1, 4)
        self.assertEqual(self.look(spoil, lambda: self.remove("step_4")).problems, [])


class RunsTest(FolderTest):
    def watch(self, *lines):
        watch = wide_runs.Watch([self.ledger(*lines)], 0.0)
        watch.look(10.0)
        return watch

    def story(self, watch, faults=(), **members):
        with open(self.path("run", "metrics.jsonl"), "w", encoding="utf-8") as file:
            for generation, nodes in members.items():
                file.write(json.dumps({"generation": int(generation[1:]), "assigned": 1, "members": [[node, 1] for node in nodes]})
                           + "\n")
        evidence = types.SimpleNamespace(events_of=lambda kind: [])
        return wide_runs.Story(evidence, faults, 0.0, 60.0, watch)

    def redone(self, *lines, faults=(), **members):
        watch = self.watch(*lines)
        watch.first = {generation: 10.0 * generation for generation in watch.first}
        return wide_runs.Redone(wide_runs.Branches(plain_ledger.Book(watch.folders)), self.story(watch, faults, **members))

    def test_two_steps_may_not_be_redone_where_a_member_lived_on(self):
        both = {"g1": ["node0", "node1"], "g2": ["node0"]}
        self.assertEqual(self.redone(*steps(1, 0, 5), *steps(2, 4, 8), **both).problems, [])
        redone = self.redone(*steps(1, 0, 5), *steps(2, 3, 8), **both)
        self.assertEqual((redone.total, len(redone.problems)), (2, 1))

    def test_a_member_that_was_frozen_beyond_its_lease_did_not_live_on(self):
        both = {"g1": ["node0", "node1"], "g2": ["node0"]}
        for ended, problems in (([0], 0), ([1], 1), ([], 1)):
            stall = {"kind": "stall", "node": 0, "from": 12.0, "to": 18.0, "ended": ended}
            self.assertEqual(len(self.redone(*steps(1, 0, 5), *steps(2, 3, 8), faults=[stall], **both).problems), problems)

    def test_steps_of_a_branch_that_is_left_are_redone(self):
        redone = self.redone(*steps(1, 0, 5), *steps(2, 5, 9), rewind(5, 3, of=1), *steps(3, 5, 8), g2=["node1"], g3=["node0"])
        self.assertEqual((redone.total, redone.again, redone.problems), (4, 1, []))

    def test_generations_follow_each_other_in_time_and_not_by_number(self):
        """Generation 40000 began from an old disk; 4 continues the other node's state, which is further."""
        lines = [*steps(1, 0, 3), rewind(3, 40000, of=1), *steps(40000, 3, 5)]
        watch = self.watch(*lines)
        other = self.ledger(*steps(1, 0, 3), *steps(2, 3, 6), *steps(4, 6, 8), name="other")
        watch.first = {1: 1.0, 2: 2.0, 40000: 10.0, 4: 20.0}
        story = self.story(watch, g2=["node1"], g40000=["node0"], g4=["node0", "node1"])
        self.assertEqual(story.order, [1, 2, 40000, 4])
        redone = wide_runs.Redone(wide_runs.Branches(plain_ledger.Book([*watch.folders, other])), story)
        self.assertEqual((redone.total, redone.judged, redone.problems), (3, 1, []))

    def test_a_run_that_comes_forward_on_another_branch_makes_no_step_again(self):
        """node2 had begun alone from step 3; node0 joined with the further disk."""
        redone = self.redone(*steps(1, 0, 3), *steps(2, 3, 6), rewind(3, 3, of=1), *steps(3, 3, 5), rewind(6, 4, of=2),
                             *steps(4, 6, 8), g2=["node0"], g3=["node2"], g4=["node0", "node2"])
        self.assertEqual((redone.total, redone.judged, redone.problems), (3, 1, []))

    def said_of_disk(self, generation, number, seen):
        """Returns the errors of a run that goes from generation 2 to 3 if this checkpoint was on the disk."""
        watch = self.watch(*steps(1, 0, 5), *steps(2, 5, 9), rewind(5, 3, of=1), *steps(3, 5, 8))
        watch.first[3] = 30.0
        found = kept.Checkpoint(HEAD["run"], generation, number, False, None, seen)
        disks = types.SimpleNamespace(disks={watch.folders[0]: types.SimpleNamespace(ever=[found])})
        return list(wide_runs.gone_back(plain_ledger.Book(watch.folders), self.story(watch, g3=["node0"]), watch, disks, 1))

    def test_run_that_goes_back_before_a_checkpoint_is_found(self):
        self.assertEqual(len(self.said_of_disk(2, 8, 20.0)), 1)
        self.assertEqual(len(self.said_of_disk(1, 6, 20.0)), 1, "the steps count and not the generation")
        self.assertEqual(len(self.said_of_disk(40000, 6, 20.0)), 1)
        self.assertEqual(self.said_of_disk(2, 8, 29.0), [], "it was saved while the generation began")
        self.assertEqual(self.said_of_disk(2, 5, 20.0), [], "the run has as many steps")

    def test_run_that_goes_back_before_a_member_is_found(self):
        for faults, of_last, problems in (((), ["node0"], 1), ((), ["node1"], 0),
                                          (({"kind": "node", "node": 0, "from": 25.0, "to": 26.0},), ["node0"], 0)):
            watch = self.watch(*steps(1, 0, 5), *steps(2, 5, 9), *steps(4, 9, 10), rewind(5, 7, of=1), *steps(7, 5, 8))
            watch.first = {1: 10.0, 2: 20.0, 4: 28.0, 7: 30.0}
            story = self.story(watch, faults, g2=["node0"], g4=["node2"], g7=of_last)
            found = list(wide_runs.gone_back(plain_ledger.Book(watch.folders), story, watch, types.SimpleNamespace(disks={}), 1))
            self.assertEqual(len(found), problems, found)

    def test_a_generation_that_continues_another_is_not_earlier_than_that(self):
        """A look at several files can see them in the other order."""
        watch = self.watch(*steps(1, 0, 5), *steps(7, 5, 7), *steps(8, 7, 9))
        watch.first = {1: 10.0, 8: 20.0, 7: 21.0}
        story = self.story(watch, g7=["node0"], g8=["node0"])
        self.assertEqual(list(wide_runs.gone_back(plain_ledger.Book(watch.folders), story, watch, types.SimpleNamespace(disks={}), 1)), [])

    def test_the_run_is_where_its_newest_generation_is(self):
        watch = self.watch(*steps(1, 0, 5), *steps(2, 5, 9), rewind(5, 3, of=1))
        self.assertEqual(watch.steps, 5)

    def more(self, watch, now, *lines, name="run"):
        with open(self.path(name, "ledger.jsonl"), "a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        return watch.look(now)

    def test_one_late_step_may_be_written_but_not_two(self):
        for late, problems in ((1, 0), (2, 1)):
            watch = self.watch(*steps(1, 0, 3), *steps(2, 3, 5))
            self.more(watch, 19.0, *steps(1, 3, 3 + late))
            self.assertEqual(len(list(watch.late_problems())), problems)

    def test_a_lower_number_that_begins_later_is_not_late(self):
        watch = self.watch(*steps(1, 0, 3), rewind(3, 40000, of=1), *steps(40000, 3, 5))
        watch.folders.append(self.path("other", ""))
        watch.tails.append(wide_runs.storm.Tail(self.path("other", "ledger.jsonl")))
        watch.repeats.append(None)
        self.more(watch, 20.0, HEAD, *steps(1, 0, 3), *steps(2, 3, 4), name="other")
        self.more(watch, 30.0, *steps(2, 4, 8), name="other")
        self.assertEqual((watch.current, watch.steps, list(watch.late_problems())), (2, 8, []))
        self.more(watch, 40.0, *steps(40000, 5, 8))
        self.assertEqual(len(list(watch.late_problems())), 1)

    def test_steps_that_a_new_writer_repeats_are_not_late(self):
        """Those of generation 4 were in no file yet, because its writer died first."""
        watch = self.watch(*steps(1, 0, 3), *steps(2, 3, 9))
        self.more(watch, 30.0, rewind(5, 7, of=4), *steps(1, 2, 3), *steps(4, 3, 5))
        self.assertEqual((watch.order(), watch.current, watch.steps), ([1, 2, 4, 7], 7, 5))
        self.more(watch, 40.0, step(5, 7), *steps(4, 5, 8))
        self.assertEqual([len(each) for each in watch.late.values()], [3], "after its first step nothing is repeated")

    def weights(self, name, *numbers):
        header = json.dumps({"w": {"dtype": "F64", "shape": [len(numbers)], "data_offsets": [0, 8 * len(numbers)]}}).encode()
        with open(self.path(name, "model.safetensors"), "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header + struct.pack(f"<{len(numbers)}d", *numbers))
        return os.path.join(self.folder, name)

    def test_weights_that_differ_are_seen(self):
        alone = self.weights("alone", 2.0, 1e-9)
        self.assertEqual(wide_runs.check_weights([self.weights("same", 2.0, 1e-9)], alone), (0.0, []))
        self.assertEqual(len(wide_runs.check_weights([self.weights("other", 2.0 + 1e-11, 1e-9)], alone)[1]), 1)
        self.assertEqual(len(wide_runs.check_weights([self.weights("short", 2.0)], alone)[1]), 1)
        self.assertEqual(len(wide_runs.check_weights([self.folder], alone)[1]), 1)


class Machine:
    """A node on which nothing runs."""

    def __init__(self, number):
        self.number, self.state, self.changes, self.starts = number, node.WHOLE, False, 0
        self.front = types.SimpleNamespace(pid=6, wait=lambda: 0)

    def agent(self):
        return 7

    def start(self):
        self.starts += 1
        self.state = node.WHOLE

    def last_words(self):
        return ""


class Storm(wide.WideStorm):
    """A storm with five such nodes. `furthest`: steps and generation of each node's disk, or of the only one."""

    def __init__(self, *furthest, hosts=()):
        self.nodes, self.todo, self.order, self.fired, self.problems = list(map(Machine, range(5))), [], itertools.count(), [], []
        self.disks = [types.SimpleNamespace(folder=str(number), read_only=False) for number in range(len(furthest))]
        self.folders, self.job, self.stop = "own" if len(furthest) > 1 else "shared", 0, False
        self.kept = types.SimpleNamespace(furthest=lambda folder: furthest[int(folder[0])])
        self.args = types.SimpleNamespace(host_dies=False, steps=240, step_seconds=0.4)
        self.services = types.SimpleNamespace(hosts=list(hosts), process=None)
        self.hearing = types.SimpleNamespace(members=lambda: {0, 1, 2})
        self.cluster = types.SimpleNamespace(tag="t", processes=lambda number: [], set_link=lambda number, up: None,
                                             kill_all=lambda number: [])
        self.watched = [types.SimpleNamespace(current=3, steps=60)]
        self.ending, self.late, self.over, self.wants_calm, self.hold_until, self.standing = None, [], {}, False, 0.0, {}
        self.planned, self.dropped, self.pauses_told, self.last_step = 0.0, collections.Counter(), [], time.monotonic()

    def states(self):
        return "".join(each.state[0] for each in self.nodes)

    def pass_time(self):
        """Runs the scheduled actions once."""
        todo, self.todo = sorted(self.todo), []
        for _when, _number, what in todo:
            what()


class FaultsTest(unittest.TestCase):
    def setUp(self):
        self.sent = []
        for name, what in (("send", lambda pid, number: self.sent.append((pid, number)) or True), ("marks", dict)):
            patch = mock.patch.object(cluster, name, what)
            patch.start()
            self.addCleanup(patch.stop)

    def fault(self, kind, lasts=10.0, choice=0.5, amount=1.0):
        return wide_plan.Fault(0.0, kind, 0, lasts, choice, [0.0] * 5, 1e12, amount)

    def test_the_nodes_that_continued_are_killed_before_the_thaw(self):
        storm = Storm((60, 3))
        self.assertTrue(storm.do_stall(self.fault("stall")))
        self.assertEqual(storm.states(), "fwwww")
        storm.pass_time()
        self.assertEqual(storm.states(), "fwwww", "the others have not continued yet")
        storm.watched[0].current, storm.watched[0].steps = 4, 90
        storm.pass_time()
        self.assertEqual(storm.states(), "wdddd")
        self.assertEqual(sorted(storm.fired[0]["killed"]), [1, 2, 3, 4])
        self.assertEqual(sorted(storm.fired[0]["ended"]), [0, 1, 2, 3, 4])
        storm.pass_time()
        self.assertEqual((storm.states(), [each.starts for each in storm.nodes]), ("wwwww", [0, 1, 1, 1, 1]))

    def test_a_node_that_was_frozen_within_its_lease_lived_on(self):
        storm = Storm((60, 3))
        storm.do_stall(self.fault("stall", lasts=schedule.FENCE_SECONDS - 1, choice=0.1))
        storm.pass_time()
        self.assertEqual((storm.fired[0]["ended"], storm.fired[0]["killed"], storm.states()), ([], [], "wwwww"))

    def test_only_members_are_killed_where_spares_can_read_the_folder(self):
        storm = Storm((60, 3))
        storm.do_stall(self.fault("stall", choice=0.9))
        todo, storm.todo = sorted(storm.todo), []
        todo[0][2]()
        self.assertEqual(storm.states(), "fddww")

    def test_all_nodes_start_cold_and_the_furthest_disk_may_be_last(self):
        storm = Storm((60, 3), (70, 3), (40, 2), (0, 0), (50, 40000))
        self.assertTrue(storm.do_cold(self.fault("cold", choice=0.2)))
        self.assertEqual(storm.states(), "ddddd")
        self.assertEqual(storm.fired[0]["nodes"], [2, 4, 0, 1, 3], "the one without a checkpoint follows")
        when = [each[0] for each in sorted(storm.todo)]
        self.assertGreaterEqual(when[-1] - when[0], wide.EMPTY_SECONDS - 0.1)

    def test_a_cold_start_waits_until_all_nodes_are_whole(self):
        storm = Storm((60, 3))
        storm.nodes[3].state = node.CUT
        self.assertFalse(storm.do_cold(self.fault("cold")))

    def test_the_last_node_with_a_checkpoint_is_spared(self):
        storm = Storm((60, 3), (0, 0), (0, 0), (0, 0), (0, 0))
        self.assertEqual(storm.victim(self.fault("node")).number, 1)
        self.assertEqual(storm.victim(self.fault("loss")).number, 0)
        self.assertEqual(Storm((60, 3)).victim(self.fault("node")).number, 0, "the others read the same folder")

    def test_status_of_a_drained_mtrun_counts(self):
        for status, problems in ((0, 0), (143, 0), (1, 1), (-9, 1)):
            storm = Storm((60, 3))
            storm.nodes[0].front.wait = lambda status=status: status
            self.assertTrue(storm.do_drain(self.fault("drain")))
            self.assertEqual(storm.states(), "dwwww")
            storm.pass_time()
            self.assertEqual((len(storm.problems), storm.nodes[0].starts), (problems, 1))

    def test_a_node_may_be_refused_after_its_service_was_killed_and_not_otherwise(self):
        for hosts, words, problems in (((0,), "another run of the job", 0), ((), "another run of the job", 1), ((0,), "oh", 1)):
            storm = Storm((60, 3), hosts=hosts)
            storm.do_cold(self.fault("cold"))
            storm.nodes[4].last_words, storm.nodes[4].front.returncode, storm.forgotten = lambda words=words: words, 1, 0
            storm.ended_by_itself(storm.nodes[4])
            self.assertEqual((len(storm.problems), storm.forgotten), (problems, 1 - problems))

    def test_a_node_may_be_refused_because_its_empty_disk_is_read_only_and_not_otherwise(self):
        for furthest, words, problems in (((60, 3), "Read-only file system", 1), ((0, 0), "Read-only file system", 0), ((0, 0), "oh", 1)):
            storm = Storm((60, 3), (60, 3), furthest)
            storm.nodes[2].last_words, storm.nodes[2].front.returncode = lambda words=words: words, 2
            storm.run_folders = lambda: [f"{number}/run" for number in range(3)]
            storm.ended_by_itself(storm.nodes[2])
            self.assertEqual((len(storm.problems), storm.nodes[2].state), (problems, node.DOWN))

    def test_the_storm_of_the_next_run_is_not_calm(self):
        storm = Storm((60, 3))
        storm.event_logs = types.SimpleNamespace(copy=lambda: None)
        with mock.patch.object(wide.train_storm.TrainStorm, "turn", lambda storm: None):
            for steps_made, calm in ((60, False), (239, True), (0, False)):
                storm.watched[-1].steps = steps_made
                storm.turn()
                self.assertEqual(storm.wants_calm, calm)

    def test_a_drained_mtrun_that_does_not_end_is_named_once(self):
        storm = Storm((60, 3))
        storm.cluster.processes = lambda number: [8]
        for _ in range(2):
            storm.drained(storm.nodes[0], storm.fired[0] if storm.fired else storm.record("drain", -100.0, node=0))
        self.assertEqual(len(storm.problems), 1)

    def test_a_fault_is_dropped_once_the_next_of_its_kind_is_due(self):
        storm = Storm((60, 3))
        fault = self.fault("stall")
        fault.until = 1.0
        storm.fire(fault)
        self.assertEqual((storm.dropped["stall"], storm.fired, storm.todo), (1, [], []))

    def test_a_run_without_steps_is_left_alone_and_has_time_after_the_last_fault(self):
        storm = Storm((60, 3))
        now = time.monotonic()
        storm.last_step = now - wide.STUCK_SECONDS - 1
        storm.fire(self.fault("stall"))
        self.assertEqual((storm.fired, len(storm.todo)), ([], 1))
        self.assertEqual(storm.stuck_since(now), storm.last_step)
        storm.fired = [{"kind": "cut", "to": now - 5.0}, {"kind": "gone", "to": 1e9}]
        self.assertEqual(storm.stuck_since(now), now - 5.0)
        storm.fired.append({"kind": "stall", "to": now + 5.0})
        self.assertEqual(storm.stuck_since(now), now)

    def test_a_fault_that_would_outlast_the_run_waits(self):
        storm = Storm((60, 3))
        storm.watched[0].steps = 200
        storm.fire(self.fault("stall"))
        self.assertEqual((storm.fired, len(storm.todo)), ([], 1))


class PlanTest(FolderTest):
    def test_every_kind_comes_at_a_bounded_rate(self):
        for seconds in (180.0, 1800.0):
            counts = collections.Counter(fault.kind for fault in wide_plan.make(4, seconds, 5, list(wide_plan.KINDS)))
            for kind, every in wide_plan.EVERY.items():
                self.assertLess(abs(counts[kind] - seconds / every), 1.5 + 0.2 * seconds / every, kind)
                self.assertGreater(counts[kind], 0, kind)

    def test_two_of_three_stalls_kill_the_nodes_that_continued(self):
        stalls = wide_plan.make(4, 1800.0, 5, ["stall"])
        kills = [fault for fault in stalls if fault.choice >= wide_plan.NOBODY_DIES]
        self.assertLess(abs(len(kills) - 2 * len(stalls) / 3), 1)
        self.assertGreater(min(fault.lasts for fault in kills), schedule.FENCE_SECONDS)
        self.assertLessEqual(max(fault.lasts for fault in stalls), wide_plan.MOST_FROZEN_SECONDS)

    def test_a_seed_replays_and_leaving_a_kind_out_changes_no_other(self):
        kinds = list(wide_plan.KINDS)
        some = wide_plan.make(4, 300.0, 5, kinds[1:])
        self.assertEqual(some, [fault for fault in wide_plan.make(4, 300.0, 5, kinds) if fault.kind != kinds[0]])
        self.assertNotEqual(some, wide_plan.make(5, 300.0, 5, kinds[1:]))

    def test_a_wide_storm_has_settings_of_its_own(self):
        self.assertEqual(len(train.parse(["--wide"]).settings.split(",")), 6)
        self.assertEqual(train.parse(["--wide", "--settings", "one:own"]).minutes, 3.0)
        ordinary = train.parse(["--minutes", "2"])
        self.assertEqual((ordinary.settings, ordinary.steps, ordinary.gap), ("one:shared,list:own", 80, 4.0))

    def test_a_worker_that_has_ended_runs_without_a_moved_clock(self):
        clocks = preload.Preload.__new__(preload.Preload)
        clocks.library = "preload.so"
        with subprocess.Popen(["true"]) as ended:
            os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
            self.assertTrue(clocks.is_loaded(ended.pid))
        self.assertFalse(clocks.is_loaded(os.getpid()))

    def test_events_have_the_true_time_whatever_the_clock_said(self):
        clocks = preload.Preload.__new__(preload.Preload)
        clocks.ahead = {0: [0, 3600, -50000]}
        for written in (1000.0 - 50000, 1000.0 + 3600):
            self.assertEqual(clocks.true_time(0, written, 1000.3), 1000.0)
        self.assertEqual(clocks.true_time(1, 999.0, 1000.3), 999.0)
        logs = wide_runs.EventLogs(self.folder, 1, clocks)
        with open(os.path.join(self.folder, logs.name(0)), "w", encoding="utf-8") as file:
            file.write(json.dumps({"event": "exit", "time": "1970-01-01T00:16:40.250Z"}) + "\n")
        with mock.patch.object(wide_runs.time, "time", lambda: 1000.0 - 3600):
            logs.copy()
        (event,) = properties.lines_of(os.path.join(self.folder, "events-0.jsonl"))
        self.assertEqual(event["time"], "1969-12-31T23:16:40.250Z")


if __name__ == "__main__":
    unittest.main()
