"""A Replica starts from folders that torch.distributed.checkpoint wrote. It needs PyTorch; tests/e2e/python_package_test.cc runs it."""
import contextlib
import os
import pickle
import socket
import tempfile
import unittest

import support
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from mtrun import ElasticSampler, Replica, join, load_dcp
from mtrun.torch import leave_group
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict


def program(seed):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1)).double()
    groups = [{"params": model[0].parameters(), "lr": 0.1 + seed}, {"params": [*model[1].parameters(), *model[2].parameters()]}]
    return model, torch.optim.AdamW(groups, lr=0.01)


def step(model, optimizer):
    model(torch.arange(8.0, dtype=torch.float64).reshape(4, 2)).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def forms(model, optimizer):
    """Returns the dictionaries that programs save, by what they are."""
    plain = {"model": model.state_dict(), "optim": optimizer.state_dict()}
    named, of_named = get_state_dict(model, optimizer)
    flat = get_state_dict(model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True))[1]
    return {"plain": plain, "nested": {"app": {"state": {**plain, "epoch": 3}}}, "named": {"model": named, "optim": of_named},
            "flat": {"model": named, "optimizer": flat}, "top": {**named, "optim": of_named}}


class DcpTest(unittest.TestCase):
    def setUp(self):
        support.restore_signals(self)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.model, self.optimizer = program(0)
        step(self.model, self.optimizer)

    def save(self, state, name="it"):
        path = os.path.join(self.folder, name)
        dcp.save(state, checkpoint_id=path, no_dist=True)
        return path

    def assert_same(self, model, optimizer):
        for name, value in self.model.state_dict().items():
            self.assertTrue(torch.equal(model.state_dict()[name], value), name)
        one, other = self.optimizer.state_dict(), optimizer.state_dict()
        self.assertEqual(one["param_groups"], other["param_groups"])
        self.assertEqual(one["state"].keys(), other["state"].keys())
        for number, values in one["state"].items():
            for name, value in values.items():
                self.assertTrue(torch.equal(other["state"][number][name], value), (number, name))

    def test_each_form_is_found(self):
        for name, state in forms(self.model, self.optimizer).items():
            with self.subTest(form=name):
                model, optimizer = program(1)
                load_dcp(self.save(state, name), model, optimizer)
                self.assert_same(model, optimizer)

    def test_a_replica_continues_from_it(self):
        path = self.save(forms(self.model, self.optimizer)["named"])
        model, optimizer = program(1)
        load_dcp(path, model, optimizer)
        with join({}) as job:
            run = Replica(job, model, optimizer, ElasticSampler(4, 4, 4, shuffle=False))
            for _ in run.steps(lambda ids: model(torch.arange(8.0, dtype=torch.float64).reshape(4, 2)).pow(2).mean()):
                pass
            leave_group(job)
        step(self.model, self.optimizer)
        for name, value in self.model.state_dict().items():
            self.assertTrue(torch.allclose(model.state_dict()[name].double(), value.double(), rtol=0, atol=1e-12), name)
        self.assertEqual(optimizer.state_dict()["state"][0]["step"], 2)

    def test_weights_alone_are_loaded(self):
        model, _ = program(1)
        load_dcp(self.save(self.model.state_dict()), model)
        self.assertTrue(torch.equal(model[0].weight, self.model[0].weight))

    def test_one_of_several_is_chosen_by_its_key(self):
        path = self.save({"model": self.model.state_dict(), "ema": program(2)[0].state_dict()})
        model, _ = program(1)
        with self.assertRaisesRegex(ValueError, "^.*it has 2 entries that fit the model .found: 'ema', 'model'.: give model_key"):
            load_dcp(path, model)
        load_dcp(path, model, model_key="model")
        self.assertTrue(torch.equal(model[0].weight, self.model[0].weight))

    def test_another_model_or_optimizer_is_refused_and_changes_nothing(self):
        path = self.save(forms(self.model, self.optimizer)["plain"])
        for model, optimizer, why in (
                (torch.nn.PReLU(), None, "has 3 entries that fit the model"),
                (torch.nn.Sequential(*[torch.nn.Linear(2, 3)] * 4), None, "has 0 entries that fit the model"),
                (torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1)), None,
                 r"0.weight is \[3, 2\] there, \[3, 4\] here"),
                (program(1)[0], torch.optim.AdamW(program(1)[0].parameters()), "parameter group 0 has 2 parameters there, 6 here"),
                (program(1)[0], torch.optim.AdamW([{"params": each} for each in self.several(2, 4, 1)]), "it has no parameter group 2")):
            before = {name: value.clone() for name, value in model.state_dict().items()}
            with self.subTest(why=why), self.assertRaisesRegex(ValueError, why):
                load_dcp(path, model, optimizer)
            self.assertTrue(all(torch.equal(value, before[name]) for name, value in model.state_dict().items()))
        with self.assertRaises(FileNotFoundError):
            load_dcp(self.folder, self.model)

    def test_a_folder_that_needs_more_than_data_is_refused_and_nothing_is_called(self):
        state, ours = forms(self.model, self.optimizer)["plain"], support.CalledByPickle
        state["optim"]["param_groups"][0]["betas"] = ours()
        value = self.save(state, "value")
        model, optimizer = program(1)
        before = {name: value.clone() for name, value in model.state_dict().items()}
        with self.assertRaisesRegex(ValueError, r"value is not loaded: optim\.param_groups\.0\.betas needs more than data: "):
            load_dcp(value, model, optimizer)
        index = self.save(self.model.state_dict(), "index")
        for content, why in ((pickle.dumps(ours()), "it needs support.CalledByPickle.call, and only data is read"),
                             (pickle.dumps({"model": 1}), "it is no index but a dict"), (b"", "Ran out of input"),
                             (pickle.dumps(os.system), "it needs posix.system, and only data is read"),
                             (pickle.dumps(torch.load), "it needs torch.serialization.load, and only data is read")):
            with open(os.path.join(index, ".metadata"), "wb") as file:
                file.write(content)
            with self.subTest(why=why), self.assertRaisesRegex(ValueError, f"/index/.metadata is not loaded: {why}$"):
                load_dcp(index, model)
        self.assertEqual(ours.calls, 0)
        self.assertTrue(all(torch.equal(value, before[name]) for name, value in model.state_dict().items()))

    def several(self, *counts):
        """Returns parameters for groups of these sizes."""
        return [[torch.nn.Parameter(torch.ones(1)) for _ in range(count)] for count in counts]

    def test_shards_of_two_processes_are_put_together(self):
        path, children = os.path.join(self.folder, "shards"), []
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        for rank in (0, 1):
            children.append(os.fork())
            if children[-1] == 0:
                self.save_sharded(path, rank, port)
        self.assertEqual([os.waitpid(pid, 0)[1] for pid in children], [0, 0])
        self.assertEqual(len([name for name in os.listdir(path) if name.endswith(".distcp")]), 2)
        model, optimizer = program(1)
        load_dcp(path, model, optimizer)
        self.assert_same(model, optimizer)

    def save_sharded(self, path, rank, port):
        """Ends this process, one of two, which saves its shards of the model under fully_shard."""
        status = 1
        with contextlib.suppress(Exception):
            dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
            from torch.distributed.fsdp import fully_shard
            torch.manual_seed(0)
            model, _ = program(0)
            fully_shard(model, mesh=dist.init_device_mesh("cpu", (2,)))
            groups = [{"params": model[0].parameters(), "lr": 0.1}, {"params": [*model[1].parameters(), *model[2].parameters()]}]
            optimizer = torch.optim.AdamW(groups, lr=0.01)
            step(model, optimizer)
            named, of_named = get_state_dict(model, optimizer)
            dcp.save({"model": named, "optim": of_named}, checkpoint_id=path)
            dist.destroy_process_group()
            status = 0
        os._exit(status)


if __name__ == "__main__":
    unittest.main()
