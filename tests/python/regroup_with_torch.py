"""Process groups that never form: each test's agent ends the generation while this worker connects. It needs PyTorch;
tests/e2e/python_package_test.cc runs it."""
import base64
import os
import signal
import socket
import subprocess
import sys
import time
import unittest
import unittest.mock
from datetime import timedelta

import support
import torch
import torch.distributed as dist
from mtrun import Interrupted, join
from mtrun.torch import interruptible, leave_group, regroup
from mtrun.torch_store import GenerationStore
from support import Agent, assignment, in_thread

SOON = 10.0  # seconds; torch.distributed itself waits for 600
# A member whose process has not made a group before.
FRESH = """import sys
import torch.distributed as dist
store = dist.TCPStore("127.0.0.1", int(sys.argv[1]), None, False)
dist.init_process_group("gloo", store=store, rank=1, world_size=2)
dist.barrier()
print("connected", flush=True)
sys.stdin.readline()
"""


def dissolved(why, graceful):
    return {"type": "dissolved", "generation": "1.1", "why": why, "graceful": graceful}


class RegroupTest(unittest.TestCase):
    def setUp(self):
        self.agent = Agent()
        self.addCleanup(self.agent.close)

    def joined(self, rank, **more):
        joining = in_thread(lambda: join(self.agent.environment()))
        self.agent.accept()
        for _ in range(2):
            self.agent.heard()
        self.agent.say(assignment(1, rank=rank, **more))
        self.job = joining.result()
        self.addCleanup(self.job.close)
        self.addCleanup(leave_group, self.job)

    def heard(self, kind):
        """Returns the worker's next message of this kind."""
        while message := self.agent.heard():
            if message["type"] == kind:
                return message
        self.fail(f"the worker has gone without \"{kind}\"")

    def tells_port(self, port):
        """Sends the agent's answer with the address of rank 0's store."""
        question = self.heard("store_wait")
        values = {key: base64.b64encode(str(port).encode()).decode() for key in question["keys"]}
        self.agent.say({"type": "store_values", "id": question["id"], "values": values})

    def goes_on_alone(self, regrouping):
        """Expects a sum of only this worker in the next generation."""
        began = time.monotonic()
        self.agent.say(assignment(2, rank=0, world_size=1, local_world_size=1))
        self.assertEqual(regrouping.result().generation, "2.2")
        self.assertLess(time.monotonic() - began, SOON)
        mine = torch.ones(1)
        dist.all_reduce(mine)
        self.assertEqual(mine.item(), 1)

    def test_its_store_answers_as_another_one_asks_it(self):
        self.joined(rank=0)
        store = GenerationStore(self.job, dist.HashStore())
        around = dist.PrefixStore("group", store)
        around.set("key", "1")
        self.assertEqual((around.get("key"), around.check(["key"]), around.add("count", 3)), (b"1", True, 3))
        self.assertEqual(around.compare_set("key", "1", "2"), b"2")
        self.assertEqual((around.delete_key("key"), around.check(["key"]), around.num_keys()), (True, False, 1))
        with self.assertRaisesRegex(dist.DistStoreError, "no key within"):
            store.wait(["key"], timedelta(seconds=0.05))

    def test_rank_0_waits_for_a_member_that_leaves(self):
        for graceful in (True, False):
            with self.subTest(graceful=graceful):
                self.joined(rank=0)
                regrouping = in_thread(lambda: regroup(self.job, "gloo"))
                self.heard("store_set")
                time.sleep(0.5)  # until it waits in the middle of init_process_group, which has no event
                self.agent.say(dissolved("a node joins", graceful))
                self.goes_on_alone(regrouping)
                leave_group(self.job)
                self.agent.hang_up()

    def test_a_member_that_has_just_begun_meets_one_that_had_tried_before(self):
        self.joined(rank=0)
        regrouping = in_thread(lambda: regroup(self.job, "gloo"))
        self.heard("store_set")
        time.sleep(0.5)
        self.agent.say(dissolved("a node joins", True))
        self.agent.say(assignment(2, rank=0))
        port = base64.b64decode(self.heard("store_set")["value"]).decode()
        with subprocess.Popen([sys.executable, "-c", FRESH, port], stdin=subprocess.DEVNULL) as fresh:
            try:
                self.assertEqual(fresh.wait(6 * SOON), 0)
            finally:
                fresh.kill()
        self.assertEqual(regrouping.result().generation, "2.2")

    def sums(self):
        with interruptible(self.job):
            dist.all_reduce(torch.ones(1 << 20))

    def test_silent_member_does_not_block_the_others(self):
        self.joined(rank=0)
        regrouping = in_thread(lambda: regroup(self.job, "gloo"))
        port = base64.b64decode(self.heard("store_set")["value"]).decode()
        with subprocess.Popen([sys.executable, "-c", FRESH, port], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as silent:
            try:
                self.assertEqual(silent.stdout.readline(), b"connected\n")
                regrouping.result()
                silent.send_signal(signal.SIGSTOP)  # like a node with an unplugged cable: no connection ends
                summing = in_thread(self.sums)
                time.sleep(0.5)
                self.agent.say(dissolved("rank 1 is silent", False))
                with self.assertRaises(Interrupted):
                    summing.result()
                regrouping = in_thread(lambda: regroup(self.job, "gloo"))
                self.goes_on_alone(regrouping)
            finally:
                silent.kill()

    def test_a_sum_that_would_begin_after_the_end_does_not(self):
        self.joined(rank=0, world_size=1, local_world_size=1)
        regroup(self.job, "gloo")
        self.agent.say(dissolved("rank 1 is silent", False))
        self.assertTrue(self.job.wait_until_over(SOON))
        began = []
        with self.assertRaisesRegex(Interrupted, "rank 1 is silent"), interruptible(self.job):
            began.append(True)
        self.assertEqual(began, [])

    def test_connection_after_the_end_is_aborted(self):
        """The abort comes before the connection that it must end."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            def connect_late(*args, **more):
                self.agent.say(dissolved("rank 1 is silent", False))
                self.assertTrue(self.job.wait_until_over(SOON))
                with socket.create_connection(silent.getsockname()) as late:
                    late.settimeout(4 * SOON)
                    if not late.recv(1):
                        raise RuntimeError("gloo: Connection closed by peer")

            self.joined(rank=0)
            with unittest.mock.patch("torch.distributed.init_process_group", connect_late):
                regrouping = in_thread(lambda: regroup(self.job, "gloo"))
                self.heard("store_set")
                self.assertTrue(self.job.wait_until_over(SOON))
                time.sleep(0.1)
            self.goes_on_alone(regrouping)

    def test_no_descriptor_leaks(self):
        self.joined(rank=0)
        regrouping = in_thread(lambda: regroup(self.job, "gloo"))
        self.heard("store_set")
        time.sleep(0.5)
        before = set(os.listdir("/proc/self/fd"))
        self.agent.say(dissolved("a node joins", False))
        self.goes_on_alone(regrouping)
        self.assertLessEqual(len(set(os.listdir("/proc/self/fd")) - before), 4, "sockets of the next group")

    def test_the_agents_store_of_torchrun_is_used(self):
        support.restore_signals(self)
        for serves in ("True", "False"):
            with self.subTest(agent_serves=serves):
                agents = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
                port = agents.port
                if serves == "False":
                    del agents
                job = join({"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                            "TORCHELASTIC_USE_AGENT_STORE": serves})
                regroup(job, "gloo")
                dist.barrier()
                leave_group(job)

    def test_a_store_that_is_gone(self):
        self.joined(rank=1)
        regrouping = in_thread(lambda: regroup(self.job, "gloo"))
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            self.tells_port(reserved.getsockname()[1])
            time.sleep(0.2)
            self.agent.say(dissolved("rank 0 was killed", False))
            self.goes_on_alone(regrouping)

    def test_a_store_that_never_answers(self):
        self.joined(rank=1)
        regrouping = in_thread(lambda: regroup(self.job, "gloo"))
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            self.tells_port(silent.getsockname()[1])
            time.sleep(0.2)
            self.agent.say(dissolved("rank 0 is silent", False))
            self.goes_on_alone(regrouping)


if __name__ == "__main__":
    unittest.main()
