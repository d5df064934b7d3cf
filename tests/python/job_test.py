"""A worker's end of the channel, with an agent simulated by the tests."""
import base64
import os
import signal
import threading
import time
import unittest
import unittest.mock

import support
from mtrun import AgentLost, Interrupted, Stopped, join
from support import Agent, assignment, in_thread, lease_page, renew_lease


class Clock:
    """Stands for `time` in mtrun.job: it passes in sleeps of the test's thread, or if a test sets it."""
    now = 100.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        if threading.current_thread() is threading.main_thread():
            self.now += seconds
        else:
            time.sleep(seconds)  # a thread that reports waits


class AgentCase(unittest.TestCase):
    def setUp(self):
        self.agent = Agent()
        self.addCleanup(self.agent.close)
        support.restore_signals(self)

    def joined(self, first=None, **environment):
        """Returns a job whose worker is in generation 1."""
        joining = in_thread(lambda: join(self.agent.environment(**environment)))
        self.agent.accept()
        self.hello = [self.agent.heard(), self.agent.heard()]
        self.agent.say(first or assignment(1))
        job = joining.result()
        self.addCleanup(job.close)
        return job

    def clock(self):
        """Makes the job's time a Clock until the end of the test; returns it."""
        clock = Clock()
        patched = unittest.mock.patch("mtrun.job.time", clock)
        patched.start()
        self.addCleanup(patched.stop)
        return clock

    def wait(self, holds):
        deadline = time.monotonic() + 20
        while not holds():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.002)


class JobTest(AgentCase):
    def test_says_hello_and_takes_its_assignment(self):
        job = self.joined(assignment(4, rank=1, world_size=2))
        self.assertEqual(self.hello[0], {"type": "hello", "protocol": 1, "pid": os.getpid(), "local_rank": 1,
                                         "cooperative": True, "reports": True})
        self.assertEqual((job.rank, job.world_size, job.number, job.generation, job.master_addr),
                         (1, 2, 4, "4.4", "127.0.0.1"))
        self.assertFalse(job.changed())

    def test_a_death_ends_what_waits_and_the_next_generation_follows(self):
        job, broken = self.joined(), threading.Event()
        job.on_break(lambda why: broken.set())
        self.agent.say({"type": "dissolved", "generation": "1.1", "why": "rank 1 was killed", "graceful": False})
        self.assertTrue(broken.wait(20))
        self.assertTrue(job.over() and job.changed())
        with self.assertRaisesRegex(Interrupted, "rank 1 was killed"):
            job.hold()
        self.agent.say(assignment(2, world_size=1))
        self.assertEqual(job.next().world_size, 1)
        self.assertFalse(job.changed())

    def test_a_graceful_end_waits_for_the_step(self):
        job = self.joined()
        job.on_break(lambda why: self.fail(f"aborted: {why}"))
        self.agent.say({"type": "dissolved", "generation": "1.1", "why": "a node joins", "graceful": True}, assignment(2))
        self.wait(lambda: job.wants_regroup)
        self.assertTrue(job.changed())
        self.assertFalse(job.over())
        self.assertFalse(job.wait_until_over(0))
        self.assertTrue(job.wait_until_ends(0))  # if its step has failed
        job.hold()  # may commit
        job.on_break(None)
        self.assertEqual(job.next().generation, "2.2")
        self.assertFalse(job.wants_regroup)

    def test_graceful_end_interrupts_a_connecting_worker(self):
        job, broken = self.joined(), threading.Event()
        with self.assertRaisesRegex(Interrupted, "a node joins"):
            with job.connects():
                job.on_break(lambda why: broken.set())
                self.agent.say({"type": "dissolved", "generation": "1.1", "why": "a node joins", "graceful": True})
                self.assertTrue(broken.wait(20))
                self.assertTrue(job.wait_until_over(20))
        self.assertFalse(job.over())
        self.agent.say(assignment(2))
        self.assertEqual(job.next().generation, "2.2")
        with job.connects():
            pass  # it has not been ended
        self.assertFalse(job.changed())

    def test_error_while_connecting_is_raised_unchanged(self):
        job = self.joined()
        with self.assertRaises(KeyError):
            with job.connects():
                raise KeyError("of the user's")
        self.agent.say({"type": "dissolved", "generation": "1.1", "why": "a node joins", "graceful": True})
        self.wait(lambda: job.wants_regroup)
        self.assertFalse(job.over())

    def test_a_death_after_a_graceful_end_ends_it_at_once(self):
        job, broken = self.joined(), threading.Event()
        job.on_break(lambda why: broken.set())
        self.agent.say({"type": "dissolved", "generation": "1.1", "why": "a node joins", "graceful": True},
                       {"type": "dissolved", "generation": "1.1", "why": "lost", "graceful": False})
        self.assertTrue(broken.wait(20))
        self.assertTrue(job.over())

    def test_generations_that_end_before_entry_are_skipped(self):
        job = self.joined()
        self.agent.say({"type": "dissolved", "generation": "1.1", "why": "lost", "graceful": False}, assignment(2),
                       {"type": "dissolved", "generation": "2.2", "why": "lost again", "graceful": False}, assignment(3))
        self.wait(lambda: job._newest.number == 3)
        self.assertEqual(job.next().number, 3)

    def test_the_store(self):
        job = self.joined()
        job.store.set("key", b"\0value")
        self.assertEqual(self.agent.heard(), {"type": "store_set", "key": "key", "value": "AHZhbHVl", "generation": "1.1"})
        waiting = in_thread(lambda: job.store.wait("key", "other"))
        asked = self.agent.heard()
        self.assertEqual((asked["type"], asked["keys"], asked["generation"]), ("store_wait", ["key", "other"], "1.1"))
        self.agent.say({"type": "store_values", "id": asked["id"], "values": {"other": "Qg==", "key": "QQ=="}, "error": ""})
        self.assertEqual(waiting.result(), [b"A", b"B"])

    def test_the_store_is_asked_for_many_keys_in_pieces(self):
        job = self.joined()
        keys = [str(number) for number in range(1025)]
        waiting = in_thread(lambda: job.store.wait(*keys))
        pieces = []
        while sum(pieces) < len(keys):
            asked = self.agent.heard()
            pieces.append(len(asked["keys"]))
            values = {key: base64.b64encode(key.encode()).decode() for key in asked["keys"]}
            self.agent.say({"type": "store_values", "id": asked["id"], "values": values, "error": ""})
        self.assertEqual(waiting.result(), [key.encode() for key in keys])
        self.assertEqual(pieces, [1024, 1])

    def test_a_wait_for_a_value_ends_with_the_generation(self):
        job = self.joined()
        waiting = in_thread(lambda: job.store.wait("key"))
        self.agent.heard()
        self.agent.say({"type": "dissolved", "generation": "1.1", "why": "lost", "graceful": False})
        with self.assertRaisesRegex(Interrupted, "no value for key: lost"):
            waiting.result()

    def test_done_waits_for_the_end_of_the_job(self):
        job = self.joined()
        ending = in_thread(lambda: job.done(7))
        self.assertEqual(self.agent.heard(), {"type": "done", "step": 7, "generation": "1.1"})
        self.agent.say({"type": "stop", "why": "success"})
        self.assertTrue(ending.result())
        with self.assertRaises(Stopped):
            job.next()

    def test_done_is_repeated_if_another_generation_starts_first(self):
        job = self.joined()
        ending = in_thread(lambda: job.done(7))
        self.agent.heard()
        self.agent.say({"type": "dissolved", "generation": "1.1", "why": "a node joins", "graceful": True}, assignment(2))
        self.assertFalse(ending.result())

    def test_drained_worker_does_not_wait_for_the_end_of_the_job(self):
        drain = {"type": "drain", "deadline_seconds": 5, "why": "asked"}
        for by, ask in (("drain", lambda: self.agent.say(drain)), ("signal", lambda: os.kill(os.getpid(), signal.SIGUSR1))):
            with self.subTest(by=by):
                self.agent = Agent()
                self.addCleanup(self.agent.close)
                job = self.joined()
                job._catch_signals()  # `joined` joins on another thread
                ending = in_thread(lambda: job.done(7))
                self.assertEqual(self.agent.heard()["type"], "done")
                ask()
                self.assertTrue(ending.result())
                self.assertTrue(job.leaves)

    def test_drain_and_signal_request_to_leave(self):
        job = self.joined()
        self.agent.say({"type": "drain", "deadline_seconds": 5, "why": "asked"})
        self.wait(lambda: job.leaves)
        self.assertEqual(job.exit_status, 128 + signal.SIGTERM)
        job = join({})
        os.kill(os.getpid(), signal.SIGINT)
        self.wait(lambda: job.leaves)
        self.assertEqual(job.exit_status, 128 + signal.SIGINT)
        job.leave()  # no agent to notify

    def test_drained_worker_waits_for_no_later_generation(self):
        job = self.joined()
        self.agent.say({"type": "dissolved", "generation": "1.1", "why": "lost", "graceful": False},
                       {"type": "drain", "deadline_seconds": 5, "why": "asked"})
        self.wait(lambda: job.leaves)
        began = time.monotonic()
        with self.assertRaisesRegex(Stopped, "asked to leave"):
            job.next(timeout=20)
        self.assertLess(time.monotonic() - began, 10)
        self.agent.say(assignment(2, world_size=1))
        self.wait(lambda: job._newest.number == 2)
        self.assertEqual(job.next().number, 2)  # an existing one is entered: its members would miss this worker

    def test_worker_drained_before_its_assignment_exits(self):
        joining = in_thread(lambda: join(self.agent.environment()))
        self.agent.accept()
        for _ in range(2):
            self.agent.heard()
        self.agent.say({"type": "drain", "deadline_seconds": 5, "why": "asked"})
        with self.assertRaises(SystemExit) as left:
            joining.result()
        self.assertEqual(left.exception.code, 128 + signal.SIGTERM)
        self.assertEqual(self.agent.heard()["type"], "leaving")

    def test_a_signal_counts_once_however_often_it_comes_at_first(self):
        job = join({})
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGUSR1)  # its default action would kill
            self.wait(lambda: job.leaves)
        self.assertEqual(job.exit_status, 128 + signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGINT)
        self.wait(lambda: job.exit_status == 128 + signal.SIGINT)

    def test_repeated_signal_has_its_usual_effect_after_a_second(self):
        job, clock = join({}), self.clock()
        signal.raise_signal(signal.SIGINT)
        clock.now += 0.99
        signal.raise_signal(signal.SIGINT)  # the first one's echo
        self.assertEqual(job.exit_status, 128 + signal.SIGINT)
        clock.now += 0.02
        with self.assertRaises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    def test_lost_agent_raises(self):
        job, whys = self.joined(), []
        job.on_break(whys.append)
        self.agent.hang_up()
        self.wait(job.over)
        self.wait(lambda: whys)
        self.assertEqual(whys, ["lost the connection to this node's agent: it closed the channel"])
        with self.assertRaisesRegex(AgentLost, "lost the connection to this node's agent"):
            job.next()

    def test_end_of_the_job_aborts_what_waits(self):
        job, whys = self.joined(), []
        job.on_break(whys.append)
        self.agent.say({"type": "stop", "why": "rank 1 has failed"})
        self.wait(lambda: whys)
        self.assertEqual(whys, ["rank 1 has failed"])
        job.on_break(whys.append)
        self.assertEqual(len(whys), 2, "it has ended: aborted at once")
        job.on_break(None)
        self.assertEqual(len(whys), 2)

    def test_wait_that_the_first_abort_missed_is_aborted_each_second(self):
        job, whys = self.joined(), []
        job.on_break(whys.append)
        with job.waits():
            self.agent.say({"type": "dissolved", "generation": "1.1", "why": "lost", "graceful": False})
            self.wait(lambda: len(whys) == 2)
        self.assertEqual(whys, ["lost", "lost"])

    def test_malformed_messages_end_the_channel_and_nothing_else(self):
        for line in (b"nonsense\n", b"[1]\n", b'{"type":"assignment","rank":5}\n', b'{"type":"assignment"}\n',
                     b'{"type":"watch","seconds":"6"}\n'):
            with self.subTest(line=line):
                agent = self.agent = Agent()
                self.addCleanup(agent.close)
                job = self.joined()
                agent.write(line)
                self.wait(job.over)
                with self.assertRaises(AgentLost):
                    job.next()

    def test_unknown_messages_and_fields_are_ignored(self):
        job = self.joined(assignment(1, new_field=[1]))
        self.agent.say({"type": "weather", "rain": True}, {"type": "stop", "why": "success", "more": 1})
        self.wait(lambda: job.changed())

    def test_socket_without_a_listener_raises(self):
        with self.assertRaisesRegex(ConnectionError, "MTRUN_SOCKET=@nobody-listens-here"):
            join({"MTRUN_SOCKET": "@nobody-listens-here"})

    def test_waits_are_reported_once_a_second(self):
        job = self.joined()
        with job.waits():
            said = self.agent.heard()
        self.assertEqual((said["type"], said["generation"]), ("waiting", "1.1"))
        self.assertGreaterEqual(said["seconds"], 1)

    def test_progress_is_sent_first_in_a_generation_and_every_half_second(self):
        job, clock = self.joined(), self.clock()
        for step, passes in ((1, 0), (2, 0.25), (3, 0.24), (4, 0.02), (5, 0.49), (6, 0.51)):
            clock.now += passes
            job.progress(0, step, 8 * step)
        self.agent.say({"type": "dissolved", "generation": "1.1", "why": "a node joins", "graceful": True}, assignment(2))
        self.wait(lambda: job.wants_regroup)
        job.next()
        job.progress(0, 7)
        job.ready()
        heard = []
        while (said := self.agent.heard())["type"] == "progress":
            heard.append(said)
        self.assertEqual(said["type"], "ready")
        self.assertEqual([said["step"] for said in heard], [1, 4, 6, 7])
        self.assertEqual(heard[0], {"type": "progress", "epoch": 0, "step": 1, "samples": 8})
        self.assertEqual(heard[-1], {"type": "progress", "epoch": 0, "step": 7, "samples": -1})

    def test_step_times_are_sent_while_a_client_watches(self):
        job = self.joined()
        job.progress(0, 1)
        job.progress(0, 2)  # without a watcher
        self.assertEqual(self.agent.heard()["type"], "progress")
        self.agent.say({"type": "watch", "seconds": 6})
        self.wait(lambda: job._watched_until)
        with job.loads():
            time.sleep(0.02)
        with job.waits():
            time.sleep(0.05)
        job.progress(0, 3)
        said = self.agent.heard()
        self.assertEqual((said["type"], said["step"]), ("step_times", 3))
        self.assertGreaterEqual(said["data_seconds"], 0.02)
        self.assertGreaterEqual(said["exchange_seconds"], 0.05)


class LeaseTest(AgentCase):
    def test_valid_lease_does_not_block(self):
        job = self.joined(MTRUN_LEASE=str(lease_page(self, (1, 2**62))))
        job.hold()

    def test_a_lease_that_is_over_holds_until_it_is_renewed(self):
        fd = lease_page(self, (1, 1))
        job = self.joined(MTRUN_LEASE=str(fd))
        holding = in_thread(job.hold)
        self.assertEqual(self.agent.heard(), {"type": "waiting", "generation": "1.1", "seconds": 1.0})
        self.assertTrue(holding.is_alive())
        renew_lease(fd, 2**62)
        holding.result()

    def test_the_end_of_the_generation_ends_a_hold(self):
        job = self.joined(MTRUN_LEASE=str(lease_page(self, (9, 2**62))))
        holding = in_thread(job.hold)
        self.agent.say({"type": "dissolved", "generation": "1.1", "why": "over", "graceful": False})
        with self.assertRaises(Interrupted):
            holding.result()

    def test_a_graceful_end_leaves_a_valid_lease_its_step(self):
        fd = lease_page(self, (1, 2**62))
        job = self.joined(MTRUN_LEASE=str(fd))
        self.agent.say({"type": "dissolved", "generation": "1.1", "why": "a node joins", "graceful": True}, assignment(2))
        self.wait(lambda: job.wants_regroup)
        job.hold()
        renew_lease(fd, 1)
        with self.assertRaisesRegex(Interrupted, "the next generation has formed"):
            in_thread(job.hold).result()

    def test_a_graceful_end_ends_a_hold(self):
        job = self.joined(MTRUN_LEASE=str(lease_page(self, (1, 1))))
        holding = in_thread(job.hold)
        self.assertEqual(self.agent.heard()["type"], "waiting")
        self.agent.say({"type": "dissolved", "generation": "1.1", "why": "a node joins", "graceful": True}, assignment(2))
        with self.assertRaisesRegex(Interrupted, "the next generation has formed"):
            holding.result()
        self.assertEqual(job.next().number, 2)

    def test_waiting_worker_has_the_lease_of_members_that_left(self):
        ended, elsewhere = (1, 1), (9, 1)
        for outside, waits in (((1, 2**62), False), ((9, 2**62), True), ((1, 1), True)):
            with self.subTest(outside=outside):
                page = lease_page(self, ended, elsewhere, outside=outside)
                job = self.joined(MTRUN_LEASE=str(page), MTRUN_SHUTDOWN_TIMEOUT="0.1")
                self.agent.say({"type": "dissolved", "generation": "1.1", "why": "lost", "graceful": False})
                self.wait(job.over)
                if waits:
                    with self.assertRaisesRegex(Interrupted, "no rendezvous service has answered"):
                        in_thread(lambda: job.hold(outside=True)).result()
                else:
                    job.hold(outside=True)
                with self.assertRaises(Interrupted):
                    in_thread(job.hold).result()
                self.agent.close()
                self.agent = Agent()
                self.addCleanup(self.agent.close)

    def test_drained_worker_holds_for_half_of_its_grace(self):
        for outside in (False, True):
            with self.subTest(outside=outside):
                job = self.joined(MTRUN_LEASE=str(lease_page(self, (9, 2**62))), MTRUN_SHUTDOWN_TIMEOUT="8")
                self.agent.say({"type": "drain", "deadline_seconds": 8, "why": "asked"})
                self.wait(lambda: job.leaves)
                clock = self.clock()
                began = clock.now
                with self.assertRaisesRegex(Interrupted, "no rendezvous service has answered within fence_timeout"):
                    job.hold(outside=outside)
                self.assertAlmostEqual(clock.now - began, 4, delta=0.01)
                self.agent.close()
                self.agent = Agent()
                self.addCleanup(self.agent.close)

    def test_lease_of_members_that_left_does_not_let_a_member_commit(self):
        """Its generation runs: only the lease can be the reason why it is held."""
        job = self.joined(MTRUN_LEASE=str(lease_page(self, (1, 1), outside=(1, 2**62))))
        holding = in_thread(job.hold)
        self.assertEqual(self.agent.heard()["type"], "waiting")
        self.assertTrue(holding.is_alive())
        job.hold(outside=True)
        self.agent.say({"type": "dissolved", "generation": "1.1", "why": "over", "graceful": False})
        with self.assertRaisesRegex(Interrupted, "no rendezvous service"):
            holding.result()

    def test_drained_worker_holds_for_half_of_its_grace_in_total(self):
        job = self.joined(MTRUN_LEASE=str(lease_page(self, (9, 2**62))), MTRUN_SHUTDOWN_TIMEOUT="0.1")
        self.agent.say({"type": "drain", "deadline_seconds": 0.1, "why": "asked"})
        with self.assertRaises(Interrupted):
            in_thread(job.hold).result()
        with unittest.mock.patch("mtrun.job.time.sleep", side_effect=AssertionError("it holds once more")):
            with self.assertRaises(Interrupted):
                job.hold(outside=True)

    def lapses(self, job, number, connects=True):
        """Returns whether the previous generation's lease has lapsed when this one begins."""
        self.agent.say({"type": "dissolved", "generation": job.generation, "why": "over", "graceful": False}, assignment(number))
        job.next()
        if connects:
            job.ready()
        return job.lease_lapsed

    def test_the_next_generation_says_whether_the_lease_of_the_last_one_had_lapsed(self):
        job = self.joined(MTRUN_LEASE=str(lease_page(self, (1, 1), (2, 2**62), (3, 2**62))))
        self.assertFalse(job.lease_lapsed, "it was in none")
        job.ready()
        self.assertTrue(self.lapses(job, 2))
        self.assertFalse(self.lapses(job, 3))

    def test_a_lease_has_lapsed_also_if_a_generation_between_did_not_connect(self):
        job = self.joined(MTRUN_LEASE=str(lease_page(self, (1, 1), (2, 2**62), (3, 2**62))))
        job.ready()
        self.assertTrue(self.lapses(job, 2, connects=False))
        self.assertTrue(self.lapses(job, 3))
        self.assertFalse(self.lapses(job, 4))

    def test_without_a_lease_none_lapses(self):
        job = self.joined()
        job.ready()
        self.assertFalse(self.lapses(job, 2))

    def test_another_descriptor_is_named(self):
        fd = os.memfd_create("other")
        self.addCleanup(os.close, fd)
        os.ftruncate(fd, 4096)
        with self.assertRaisesRegex(ValueError, f"MTRUN_LEASE={fd} is not a lease page"):
            join(self.agent.environment(MTRUN_LEASE=str(fd)))


class AloneTest(unittest.TestCase):
    def setUp(self):
        support.restore_signals(self)

    def test_without_a_launcher_there_is_one_worker(self):
        with join({}) as job:
            self.assertEqual((job.rank, job.world_size, job.elastic, job.changed()), (0, 1, False, False))
            job.hold()
            job.progress(0, 1, 2)
            self.assertTrue(job.done(1))

    def test_under_another_launcher_the_membership_is_for_life(self):
        job = join({"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "MASTER_ADDR": "node1", "MASTER_PORT": "29500",
                    "TORCHELASTIC_RESTART_COUNT": "1"})
        self.assertEqual((job.rank, job.world_size, job.master_addr, job.master_port, job.number),
                         (2, 4, "node1", 29500, 2))
        job.next()
        self.assertFalse(job.over())
        with self.assertRaises(Stopped):
            job.next()

    def test_malformed_variables_are_named(self):
        with self.assertRaisesRegex(ValueError, "RANK is '-1'"):
            join({"RANK": "-1", "WORLD_SIZE": "4"})
        with self.assertRaisesRegex(ValueError, "RANK is 4, but must be below WORLD_SIZE, which is 4"):
            join({"RANK": "4", "WORLD_SIZE": "4"})


if __name__ == "__main__":
    unittest.main()
