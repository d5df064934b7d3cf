#!/usr/bin/env python3
"""Tests of tools/chaos' verdicts: a schedule has every kind, and each violation is detected. tools/check runs it.

The storms themselves run in tests/e2e/elastic_chaos_test.cc."""
import collections
import itertools
import json
import math
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "chaos.d"))

import cluster
import disk
import faults
import hearing
import node
import properties
import rendezvous
import runs
import schedule
import storm
import train


def wall(seconds):
    return f"1970-01-01T00:00:{seconds:06.3f}Z"


def assigned(when, generation, *nodes):
    return {"event": "generation_assigned", "time": wall(when), "host": nodes[0], "generation": generation,
            "generation_id": f"{generation}.a", "nodes": [{"host": node} for node in nodes]}


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, lines):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    def evidence(self, *events, records=()):
        self.write("events-0.jsonl", events)
        self.write("records/all.jsonl", records)
        return properties.Evidence(self.folder, 0.0)


class Mtrun:
    """A node's mtrun, as seen by a storm. `status` is None while it runs."""

    def __init__(self, number, status, started=0.0):
        self.number, self.status, self.started, self.returncode, self.pid = number, status, started, status, 6
        self.front = self

    def poll(self):
        return self.status

    wait = poll


class HearingTest(FolderTest):
    def heard(self, *events):
        self.write("events-0.jsonl", events)
        return hearing.Hearing(self.folder)

    def test_job_is_over_once_a_notified_mtrun_has_ended(self):
        end = {"event": "job_ended", "host": "node1", "time": wall(5)}
        self.assertTrue(self.heard(end).is_over([Mtrun(0, None), Mtrun(1, 0)]))
        self.assertFalse(self.heard(end).is_over([Mtrun(0, 0), Mtrun(1, None)]))
        self.assertFalse(self.heard(end).is_over([Mtrun(0, None), Mtrun(1, 0, started=6.0)]))  # another one's end

    def test_exit_without_a_service_does_not_end_the_job(self):
        self.assertFalse(self.heard().is_over([Mtrun(0, 0), Mtrun(1, None)]))
        self.assertTrue(self.heard().is_over([Mtrun(0, 0), Mtrun(1, 0)]))
        self.assertFalse(self.heard().is_over([]))

    def test_node_with_a_membership_knows_the_job(self):
        told = self.heard(assigned(3, 1, "node0", "node2"), {"event": "waiting", "host": "node4", "time": wall(4),
                                                             "text": "spare: the job runs with 2 nodes"})
        self.assertEqual(told.members(), {0, 2})
        self.assertTrue(told.knows_job(Mtrun(0, None)) and told.knows_job(Mtrun(4, None, started=3.5)))
        self.assertFalse(told.knows_job(Mtrun(1, None)) or told.knows_job(Mtrun(4, None, started=4.5)))


class Machine:
    """A storm's node on which nothing runs. `status`: the exit status of its mtrun."""

    def __init__(self, number=0, status=0):
        self.number, self.state, self.changes, self.starts = number, node.WHOLE, False, 0
        self.front = types.SimpleNamespace(pid=6, poll=lambda: None, wait=lambda: status)

    def agent(self):
        return 7

    def workers(self):
        return [8]

    def runs(self):
        return self.state == node.WHOLE

    def last_words(self):
        return ""

    def start(self):
        self.starts += 1


class Storm(faults.Faults):
    """A storm whose faults hit such nodes."""

    def __init__(self, *nodes, hosts=()):
        self.args = types.SimpleNamespace(host_dies=False, nodes=2, per_node=1)
        self.services = types.SimpleNamespace(hosts=list(hosts))
        self.cluster = types.SimpleNamespace(processes=lambda node: [], set_link=lambda node, up: None)
        self.hearing = types.SimpleNamespace(members=set)
        self.nodes, self.todo, self.order, self.fired, self.problems = list(nodes), [], itertools.count(), [], []
        self.ending, self.over, self.wants_calm, self.late = None, {}, False, []


class FaultsTest(unittest.TestCase):
    def test_a_fault_is_one_where_its_signal_has_reached_a_process(self):
        for kind in ("worker", "agent", "leave"):
            for reached in (True, False):
                with self.subTest(kind=kind), mock.patch.object(cluster, "send", lambda pid, number, reached=reached: reached), \
                        mock.patch.object(cluster, "child", lambda pid: 5):
                    storms = Storm(Machine())
                    self.assertEqual(getattr(storms, "do_" + kind)(schedule.Fault(0.0, kind, 0, 1.0, 0.5)), reached)
                    self.assertEqual([fault["kind"] for fault in storms.fired], [kind] if reached else [])
                    self.assertEqual(storms.nodes[0].state, node.DOWN if reached and kind != "worker" else node.WHOLE)

    def test_status_of_a_drained_mtrun_is_checked(self):
        for kind, status, hosts, over, problems in (("leave", 0, (), 0, 0), ("leave", 143, (), 0, 0), ("leave", -11, (), 0, 1),
                                                    ("leave", 1, (), 9, 1), ("leave", 1, (0,), 9, 0), ("leave", 1, (0,), 2, 1),
                                                    ("leave", -9, (0,), 9, 1), ("agent", -9, (), 0, 0)):
            with self.subTest(kind=kind, status=status, hosts=hosts):
                storms = Storm(Machine(status=status), hosts=hosts)
                storms.over = {0: over}
                storms.join(storms.nodes[0], {"kind": kind, "node": 0, "from": 5.0, "to": 6.0})
                self.assertEqual(len(storms.problems), problems, storms.problems)
                self.assertEqual(storms.nodes[0].starts, 1)
        storms = Storm(Machine(status=1))
        storms.join(storms.nodes[0], {"to": 6.0})  # it had ended on its own
        self.assertEqual(storms.problems, [])


class FullDisk:
    """`refusing`: whether the disk is full."""

    def __init__(self, refusing=True):
        self.full, self.fills, self.refusing = False, 0, refusing

    def is_full(self):
        return self.full

    def fill(self):
        self.full, self.fills = True, self.fills + 1

    def empty(self):
        self.full = False

    def refuses(self):
        return self.refusing


class DiskTest(FolderTest):
    def storm(self, kind=Storm, *, refusing=True):
        """Returns a storm whose disk has been filled and must be emptied now."""
        storms = kind(Machine(0), Machine(1))
        storms.disks = [FullDisk(refusing)]
        self.assertTrue(storms.do_disk(schedule.Fault(0.0, "disk", 0, 0.0, 0.5)))
        return storms

    def turn(self, storms):
        """Runs the scheduled actions; returns whether the disk is still full."""
        todo, storms.todo = storms.todo, []
        for _when, _number, what in todo:
            what()
        return storms.disks[0].full

    def test_a_disk_stays_full_until_it_has_refused_something(self):
        self.assertFalse(self.turn(self.storm()))
        storms = self.storm(refusing=False)
        self.assertTrue(self.turn(storms))
        self.assertEqual(storms.disks[0].fills, 2)
        storms.disks[0].refusing = True
        self.assertFalse(self.turn(storms))
        self.assertFalse(storms.todo)

    def test_that_of_the_logs_does_where_a_worker_has_printed_a_line(self):
        class Toys(rendezvous.Chaos, Storm):
            __init__ = Storm.__init__

        def spoke(host, after):
            self.write("all.jsonl", [{"kind": "spoke", "host": host, "t": storms.fired[0]["from"] + after}])

        with mock.patch.object(rendezvous, "HEARD_SECONDS", -60.0):  # no wait needed here
            storms = self.storm(Toys)
            storms.records, storms.spoke = storm.Tails(os.path.join(self.folder, "*.jsonl")), {}
            storms.job, storms.steps, storms.commits = 0, collections.Counter(), []
            self.assertTrue(self.turn(storms))
            spoke("node0", -1.0)  # before the disk was full
            self.assertTrue(self.turn(storms))
            storms.nodes[1].state = node.FROZEN
            spoke("node1", 1.0)  # its output is read later
            self.assertTrue(self.turn(storms))
            spoke("node0", 1.0)
            self.assertFalse(self.turn(storms))

    def test_a_disk_without_room_refuses_more_than_a_block(self):
        found = disk.Disk.__new__(disk.Disk)
        found.folder = self.folder
        self.assertFalse(found.refuses())
        os.symlink("/dev/full", os.path.join(self.folder, ".probe"))
        self.assertTrue(found.refuses())
        self.assertEqual(os.listdir(self.folder), [])


class Train(train.Training):
    """Training on nodes on which nothing runs. `front`: the first node's mtrun."""

    def __init__(self, front=None, args=()):
        self.args = train.parse(list(args))
        self.choose, self.fronts, self.back, self.log, self.done = train.random.Random(3), [front, Mtrun(1, None)], {}, [], True
        self.hit, self.told, self.bad_ends, self.service, self.service_back = set(), set(), [], None, None
        self.last_step = train.time.monotonic()
        self.cluster = types.SimpleNamespace(processes=lambda node: [], set_link=lambda node, up: None, kill_all=lambda node: [])

    def members(self):
        return [(0, 7, 8)]


class TrainTest(unittest.TestCase):
    def test_each_mtrun_ends_well_unless_something_was_done_to_it(self):
        fronts = [Mtrun(0, 0), Mtrun(1, 1), Mtrun(2, -9), None]
        self.assertEqual(train.ended_badly(fronts, {fronts[2]}), ["mtrun of node 1 ended with 1"])
        self.assertEqual(train.ended_badly(fronts, {fronts[1], fronts[2]}), [])

    def test_drained_mtrun_of_training_has_a_checked_status(self):
        for status, told, bad in ((0, True, 0), (143, True, 0), (-11, True, 1), (1, True, 1), (-9, False, 0)):
            training = Train(Mtrun(0, status))
            training.back = {0: 0.0}
            training.told = {training.fronts[0]} if told else set()
            training.mend()
            self.assertEqual((training.back, len(training.bad_ends)), ({}, bad), status)

    def test_a_failure_is_one_where_its_signal_has_reached_a_process(self):
        for victims in ("worker:1", "agent:1"):
            for reached in (True, False):
                training = Train(Mtrun(0, None), ["--victims", victims])
                with mock.patch.object(cluster, "send", lambda pid, number, reached=reached: reached):
                    self.assertEqual(training.fail(), reached)
                self.assertEqual(([entry[1] for entry in training.log], bool(training.back)),
                                 ([victims[:-2]] if reached else [], reached and victims == "agent:1"))

    def test_node_is_drained_once_its_mtrun_is_reachable(self):
        for agent, reached in ((None, True), (5, False), (5, True)):
            training = Train(Mtrun(0, None))
            with mock.patch.object(cluster, "send", lambda pid, number, reached=reached: reached), \
                    mock.patch.object(cluster, "child", lambda pid, agent=agent: agent):
                told = bool(agent) and reached
                self.assertEqual(training.leave(), told)
            self.assertEqual(([entry[1] for entry in training.log], len(training.told), len(training.back)),
                             (["leave"], 1, 1) if told else ([], 0, 0))

    def test_a_service_that_has_ended_by_itself_was_not_killed(self):
        training = Train()
        training.service = Mtrun(0, 1)
        with self.assertRaisesRegex(RuntimeError, "mtrdzv ended by itself with 1"):
            training.kill_service()
        training.last_step -= train.CALM_SECONDS + 1
        self.assertFalse(training.kill_service(), "no step is taken: it is left alone")
        self.assertEqual(training.log, [])

    def test_a_run_that_nothing_was_done_to_was_not_disturbed(self):
        args = train.parse(["--interval", "4", "--leaves", "5", "--service_interval", "6"])
        none = dict.fromkeys(("worker", "agent", "node", "leave", "join", "service"), 0)
        self.assertEqual(len(list(storm.never_done(args, none, 18.1))), 3)
        self.assertEqual([text.split(" in ")[0] for text in storm.never_done(args, none, 15.1)], ["no failure", "no leave"])
        self.assertEqual(list(storm.never_done(args, none, 12.0)), [])
        self.assertEqual(list(storm.never_done(args, {**none, "node": 1, "leave": 1, "service": 1}, 100.0)), [])
        args = train.parse(["--service_interval", "0"])
        self.assertEqual(len(list(storm.never_done(args, none, 1000.0))), 1)

    def test_the_first_of_each_kind_is_due_while_there_is_time_for_it(self):
        for seed in range(100):
            training = Train(args=["--leaves", "5", "--service_interval", "0"])
            training.choose.seed(seed)
            due = training.begin_plan(100.0)
            self.assertEqual(set(due), {"fail", "leave"})
            self.assertLessEqual(due["fail"], 100.0 + 2 * 11)
            self.assertLessEqual(due["leave"], 100.0 + 2 * 5)


class LedgerTest(unittest.TestCase):
    def test_every_failure_of_verify_ledger_is_a_problem(self):
        self.assertEqual(runs.complaints(0, "every sample once\n", ""), [])
        self.assertEqual(runs.complaints(1, "step 7 is missing\n1 problem\n", ""), ["step 7 is missing"])
        self.assertEqual(runs.complaints(2, "", "Traceback\nKeyError: 'run'\n"), ["verify_ledger ended with 2: KeyError: 'run'"])
        self.assertEqual(runs.complaints(1, "1 problem\n", ""), ["verify_ledger ended with 1: 1 problem"])


class ScheduleTest(unittest.TestCase):
    def test_every_kind_of_a_setting_fires(self):
        for setting, never in (("one", {"gone"}), ("list", {"service", "away"}), ("hosted", {"service", "away", "gone"})):
            kinds = schedule.kinds_for(setting)
            self.assertEqual(set(schedule.KINDS) - set(kinds), never)
            faults = schedule.make(4, 100.0, 1.0, 6, kinds)
            counts = collections.Counter(fault.kind for fault in faults)
            self.assertEqual(schedule.scarce(counts, kinds, 4), [])
            self.assertLessEqual(counts["gone"], 1)

    def test_required_number_of_each_kind_fits_into_any_time(self):
        kinds = schedule.kinds_for("one")
        faults = schedule.make(4, 5.0, 3.0, 6, kinds, each=2)
        self.assertEqual(schedule.scarce(collections.Counter(fault.kind for fault in faults), kinds, 2), [])
        self.assertLess(max(fault.at for fault in faults), 5.0)

    def test_a_seed_replays(self):
        kinds = schedule.kinds_for("list")
        self.assertEqual(schedule.make(9, 60.0, 2.0, 6, kinds), schedule.make(9, 60.0, 2.0, 6, kinds))
        self.assertNotEqual(schedule.make(9, 60.0, 2.0, 6, kinds), schedule.make(8, 60.0, 2.0, 6, kinds))

    def test_faults_that_did_not_fire_are_named(self):
        self.assertEqual(schedule.scarce({"disk": 1, "gone": 1, "cut": 0}, ["disk", "gone", "cut"], 2), ["disk (1)", "cut (0)"])
        self.assertEqual(schedule.scarce({"spare": 1}, ["spare"], 3), [], "a spare may be needed less often on a slow machine")
        self.assertEqual(schedule.scarce({"spare": 0}, ["spare"], 3), ["spare (0)"])


class PropertiesTest(FolderTest):
    def test_long_last_output_is_truncated(self):
        with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
            print("step 3 " + 5000 * ".", file=log, flush=True)
            self.assertLess(len(properties.last_words(f"rank 4 on node3: exit code 1, log node3:{log.name}")), 300)
            machine = node.Node(types.SimpleNamespace(), 0)
            with mock.patch.object(node.Node, "log", lambda _self: log.name):
                self.assertLess(len(machine.last_words()), 300)

    def test_an_ended_job_takes_no_step(self):
        commit = {"kind": "commit", "generation": "1.a", "step": 3, "host": "node0", "pid": 1, "world": 2}
        evidence = self.evidence(records=[{**commit, "t": 1.0, "job": 0}, {**commit, "t": 3.0, "job": 1}])
        self.assertEqual(list(properties.ended_jobs_rest(evidence, {0: 2.0})), [])
        self.assertEqual(len(list(properties.ended_jobs_rest(evidence, {0: 0.5}))), 1)

    def test_a_spare_takes_a_dead_node_s_place(self):
        evidence = self.evidence(assigned(1, 1, "node0", "node1"), assigned(5, 2, "node0", "node2"))
        died, cut = {"kind": "node", "node": 1, "from": 4.0}, {"kind": "cut", "node": 1, "from": 4.0}
        self.assertEqual(properties.spares_used(evidence, [died]), 1)
        self.assertEqual(properties.spares_used(evidence, [cut]), 0)
        self.assertEqual(properties.spares_used(evidence, [{**died, "from": 6.0}]), 0)

    def test_last_output_of_an_unexplained_exit_is_shown(self):
        with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
            print("Traceback", "KeyError: 3", sep="\n", file=log, flush=True)
            reason = f"rank 4 (local 0, pid 7) on node3: exit code 1, log node3:{log.name}; restart 1 of 9"
            evidence = self.evidence({"event": "generation_dissolved", "time": wall(10), "generation": 1, "reason": reason})
            found = list(properties.alarms_have_causes(evidence, []))
        self.assertTrue(found[0].endswith("\n    Traceback\n    KeyError: 3"), found)
        self.assertEqual(properties.last_words("node3 is lost"), "")

    def test_exit_after_a_broken_group_is_explained_by_the_fault_of_others(self):
        reason = "rank 3 (local 1, pid 7) on node2: exit code {}, log node2:/log; restart 1 of 9"
        died = {"kind": "node", "node": 0, "from": 7.0, "to": 7.1}
        evidence = self.evidence(*({"event": "generation_dissolved", "time": wall(10), "generation": number,
                                    "reason": reason.format(status)} for number, status in enumerate((1, 75))))
        found = list(properties.alarms_have_causes(evidence, [died]))
        self.assertEqual(len(found), 1, found)
        self.assertIn("exit code 1,", found[0])

    def test_a_node_that_never_comes_back_is_to_blame_for_a_while(self):
        gone = {"kind": "gone", "node": 2, "from": 9.0, "to": 1e9, "anybody": True}
        lost = {"event": "generation_dissolved", "generation": 1, "reason": "node2 is lost: no heartbeat for 1.5 s"}
        evidence = self.evidence({**lost, "time": wall(10)}, {**lost, "time": wall(59), "generation": 2},
                                 {**lost, "time": wall(59), "generation": 3, "reason": "node1 cannot go on with the others"})
        found = list(properties.alarms_have_causes(evidence, [gone]))
        self.assertEqual([text.split(" dissolved")[0] for text in found], ["generation 2", "generation 3"])

    def test_an_alarm_has_a_cause(self):
        evidence = self.evidence({"event": "generation_dissolved", "time": wall(10), "generation": 1,
                                  "reason": "node2 is lost: no heartbeat for 1.5 s"})
        fault = {"kind": "uplink", "node": None, "from": 8.0, "to": 9.0}
        self.assertEqual(list(properties.alarms_have_causes(evidence, [{**fault, "nodes": [1, 2]}])), [])
        self.assertEqual(len(list(properties.alarms_have_causes(evidence, [{**fault, "nodes": [0, 1]}]))), 1)
        self.assertEqual(list(properties.alarms_have_causes(evidence, [{**fault, "nodes": [0, 1], "anybody": True}])), [])


class RunsTest(FolderTest):
    def ledger(self, *lines, name="run"):
        """Writes `lines`: (generation, step), or other fields."""
        whole = {"epoch": 0, "world": 2, "ids": "i", "status": "applied", "loss": "1.5"}
        self.write(f"{name}/ledger.jsonl", [line if isinstance(line, dict) else {"step": line[1], "generation": line[0], **whole}
                                            for line in lines])

    def watch(self, *lines, first=None):
        """Returns a watch of a ledger with these lines. `first`: generation -> start time."""
        self.ledger(*lines)
        watch = runs.Watch([os.path.join(self.folder, "run")])
        watch.look(1.0)
        watch.first.update({generation: when for generation, when in (first or {}).items() if generation in watch.first})
        return watch

    def redone(self, faults, *lines):
        watch = self.watch(*lines, first={1: 1.1, 2: 5.1, 7: 9.0})
        evidence = self.evidence(assigned(1, 1, "node0", "node1"), assigned(5, 2, "node0", "node2"))
        return runs.Redone(runs.Branches(watch.folders), runs.Story(evidence, faults, 0.0, 60.0, watch))

    def test_two_generations_that_write_at_a_time_are_seen(self):
        watch = runs.Watch([os.path.join(self.folder, "run")])
        self.assertFalse(watch.look(0.0))
        self.ledger((1, 0), (2, 1))
        self.assertTrue(watch.look(1.0))
        self.ledger((1, 1))
        watch.look(1.5)
        self.assertEqual(watch.problems, [])
        self.ledger((2, 2), (1, 2))
        watch.look(9.0)
        self.assertEqual(len(watch.problems), 1)
        self.assertEqual(watch.steps, 3)

    def test_a_lower_number_may_begin_later(self):
        watch = runs.Watch([os.path.join(self.folder, "run"), os.path.join(self.folder, "other")])
        self.ledger((1, 0), (1, 1), {"rewind": 2, "generation": 40000, "of": 1}, (40000, 2))
        watch.look(1.0)
        self.ledger((2, 2), name="other")
        watch.look(9.0)
        self.ledger((2, 3), (2, 4), name="other")
        watch.look(19.0)
        self.assertEqual((watch.problems, watch.order(), watch.current), ([], [1, 40000, 2], 2))
        self.ledger((40000, 3))
        watch.look(29.0)
        self.assertEqual(len(watch.problems), 1)

    def test_a_new_writer_may_repeat_what_was_seen(self):
        watch = runs.Watch([os.path.join(self.folder, "run"), os.path.join(self.folder, "other")])
        self.ledger((1, 0), (2, 1))
        watch.look(1.0)
        self.write("other/ledger.jsonl", [{"step": 0, "generation": 1}])
        watch.look(9.0)
        self.assertEqual(watch.problems, [])

    def test_a_new_writer_may_repeat_what_was_not_seen_after_its_rewind(self):
        for first in ({"rewind": 2, "generation": 5, "of": 1}, {"rewind": 2, "generation": 5}):
            with tempfile.TemporaryDirectory() as self.folder:
                watch = self.watch((1, 0), (2, 1), (2, 2))
                self.ledger(first, (5, 2))
                watch.look(8.0)
                self.ledger(first, (1, 1), (5, 2))
                watch.look(18.0)
                self.assertEqual(len(watch.problems), 0 if "of" in first else 1, watch.problems)

    def test_one_step_may_be_redone(self):
        redone = self.redone([], (1, 0), (1, 1), (2, 1), (2, 2))
        self.assertEqual((redone.total, redone.judged, redone.problems), (1, 1, []))

    def test_two_steps_may_not_where_a_member_survives(self):
        redone = self.redone([], (1, 0), (1, 1), (1, 2), (2, 1))
        self.assertEqual((redone.total, len(redone.problems)), (2, 1))
        self.assertIn("node0", redone.problems[0])

    def test_run_restarts_at_a_checkpoint_if_no_member_survives(self):
        redone = self.redone([{"kind": "node", "node": 0, "from": 3.0}], (1, 0), (1, 1), (1, 2), (2, 1))
        self.assertEqual((redone.judged, redone.again, redone.problems), (0, 1, []))

    def test_a_branch_that_is_left_is_redone(self):
        redone = self.redone([], (1, 0), (1, 1), (2, 2), (2, 3), (2, 4), {"rewind": 2, "generation": 7, "of": 1}, (7, 2))
        self.assertEqual((redone.total, redone.again), (3, 1))

    def test_unexplained_exit_does_not_excuse_redone_steps(self):
        for causes, code, problems in (([], 1, 1), ([], 0, 0), ([{"kind": "cut", "node": 0, "from": 3.0}], 1, 1),
                                       ([{"kind": "worker", "node": 0, "from": 2.9}], 1, 0),
                                       ([{"kind": "reuse", "node": 0, "from": 0.5, "to": 2.9}], 1, 0),
                                       ([{"kind": "reuse", "node": 1, "from": 0.5, "to": 2.9}], 1, 1)):
            with self.subTest(causes=causes, code=code), tempfile.TemporaryDirectory() as self.folder:
                self.write("events-0.jsonl", [{"event": "worker_exited", "time": wall(3), "host": "node0", "exit_code": code}])
                redone = self.redone(causes, (1, 0), (1, 1), (1, 2), (2, 1))
                self.assertEqual(len(redone.problems), problems, redone.problems)

    def story(self, *events, metrics=()):
        watch = self.watch((1, 0), {"rewind": 1, "generation": 40000, "of": 1}, (40000, 1), first={1: 1.1, 40000: 6.0})
        self.write("run/metrics.jsonl", metrics)
        return runs.Story(self.evidence(*events), [], 0.0, 60.0, watch).members

    def test_the_metrics_say_which_generation_of_the_service_one_is(self):
        events = [assigned(1, 1, "node0", "node1"), assigned(4, 2, "node0"), assigned(5, 3, "node0", "node2"),
                  assigned(7, 4, "node0")]
        said = {"generation": 40000, "assigned": 3, "members": [["node0", 1], ["node2", 1]]}
        self.assertEqual(self.story(*events, metrics=[said])[40000], (5.0, {"node0", "node2"}))

    def test_a_service_that_counts_again_does_not_confuse(self):
        said = {"generation": 40000, "assigned": 1, "members": [["node2", 1]]}
        self.assertEqual(self.story(assigned(1, 1, "node0"), metrics=[said])[40000], (6.0, {"node2"}))

    def test_generation_without_a_number_is_known_only_if_unique(self):
        one, two = assigned(5, 3, "node0", "node2"), assigned(5.5, 4, "node0")
        self.assertEqual(self.story(one)[40000], (5.0, {"node0", "node2"}))
        with tempfile.TemporaryDirectory() as self.folder:
            self.assertNotIn(40000, self.story(one, two))

    def test_the_losses_are_those_of_the_branch_that_counts(self):
        self.write("run/ledger.jsonl", [{"ledger": 2, "run": "r", "seed": 0, "size": 8, "global_batch": 2, "micro_batch": 1,
                                         "shuffle": True}])
        self.ledger((1, 0), (1, 1), {"rewind": 1, "generation": 3, "of": 1},
                    {"step": 1, "generation": 3, "epoch": 0, "world": 2, "ids": "i", "status": "applied", "loss": "2.5"})
        self.assertEqual(runs.losses([os.path.join(self.folder, "run")]), {0: 1.5, 1: 2.5})

    def test_losses_that_differ_are_seen(self):
        self.assertEqual(runs.difference({0: 1.0}, {0: 1.0}), 0.0)
        self.assertGreater(runs.difference({0: 1.0}, {0: 1.1}), 0.05)
        self.assertEqual(runs.difference({0: 1.0}, {0: 1.0, 1: 1.0}), math.inf)
        self.assertEqual(runs.difference({}, {}), math.inf)
        for seen, expected in (({0: 1.0, 1: math.nan}, {0: 1.0, 1: 1.0}), ({0: 1.0, 1: 1.0}, {0: 1.0, 1: math.nan}),
                               ({0: math.nan, 1: 1.0}, {0: 1.0, 1: 1.0}), ({0: math.inf}, {0: math.inf})):
            self.assertEqual(runs.difference(seen, expected), math.inf, seen)

    def test_losses_of_two_folders_that_differ_are_seen(self):
        for name, losses in (("run", [2.0, 1.0]), ("same", [2.0, 1.0]), ("other", [2.0, 1.1]), ("none", [2.0, math.nan]), ("null", [2.0, None]), ("short", [2.0])):
            self.write(f"{name}/metrics.jsonl", [{"step": step, "loss": loss, "seconds": 0.1} for step, loss in enumerate(losses)])

        def compare(seen):
            return storm.compare(os.path.join(self.folder, seen), os.path.join(self.folder, "run"))
        self.assertEqual(compare("same"), (0.0, []))
        for seen in ("other", "none", "null", "short"):
            self.assertEqual(len(compare(seen)[1]), 1, seen)


if __name__ == "__main__":
    unittest.main()
