"""The commands of PyTorch's TCPStore, sent by a job's workers through the running PyTorch: checks each command's answer, then
forms a process group there. Prints which commands this PyTorch has; exits with 1 at the first wrong answer."""
import datetime
import os
import threading
import time

import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
SHORT = datetime.timedelta(seconds=0.3)


def connect(may_serve=False):
    serves = may_serve and rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    return dist.TCPStore(host, port, world, serves, datetime.timedelta(seconds=60), wait_for_workers=False)


def say(text):
    """Writes a line at once, because workers can share their output."""
    os.write(1, (text + "\n").encode())


def own(name):
    """Returns a key that only this worker uses."""
    return f"{name}-{rank}"


def expect(found, wanted):
    if found != wanted:
        raise AssertionError(f"{found!r} instead of {wanted!r}")


def raises(error, ask):
    try:
        found = ask()
    except error:
        return
    raise AssertionError(f"{found!r} instead of {error.__name__}")


def try_set(store):
    for value in ("one", "two" * 100_000, ""):
        store.set(own("text"), value)
        expect(store.get(own("text")), value.encode())


def try_get(store):
    found, other = [], connect()
    waits = threading.Thread(target=lambda: found.append(other.get(own("late"))))
    waits.start()
    time.sleep(0.2)
    store.set(own("late"), "here")
    waits.join()
    expect(found, [b"here"])


def try_compare_set(store):
    expect(store.compare_set(own("choice"), "other", "a"), b"other")
    expect(store.check([own("choice")]), False)
    expect(store.compare_set(own("choice"), "", "a"), b"a")
    expect(store.compare_set(own("choice"), "x", "b"), b"a")
    expect(store.compare_set(own("choice"), "a", "b"), b"b")


def try_add(store):
    expect([store.add(own("sum"), 5), store.add(own("sum"), -7)], [5, -2])
    expect(store.get(own("sum")), b"-2")


def try_check(store):
    store.set(own("seen"), "")
    expect([store.check([own("seen")]), store.check([own("seen"), own("never")])], [True, False])


def try_wait(store):
    store.set(own("come"), "")
    store.wait([own("come")])
    raises(RuntimeError, lambda: store.wait([own("never")], SHORT))  # and reports that it no longer waits
    expect(store.get(own("come")), b"")


def try_num_keys(store):
    store.set(own("counted"), "")
    expect(store.num_keys() > 0, True)


def try_delete_key(store):
    store.set(own("gone"), "")
    expect([store.delete_key(own("gone")), store.delete_key(own("gone")), store.check([own("gone")])], [True, False, False])


def try_append(store):
    store.append(own("long"), "a")
    store.append(own("long"), "bc")
    expect(store.get(own("long")), b"abc")


def try_multi_set(store):
    store.multi_set([own("first"), own("second")], ["1", "2"])
    expect(store.multi_get([own("second"), own("first")]), [b"2", b"1"])


def try_has_extended_api(store):
    expect(store.has_extended_api(), True)


def try_queue_push(store):
    for value in ("1", "2"):
        store.queue_push(own("queue"), value)
    if hasattr(store, "queue_len"):
        expect(store.queue_len(own("queue")), 2)
    expect([store.queue_pop(own("queue")), store.queue_pop(own("queue"))], [b"1", b"2"])
    if hasattr(dist, "QueueEmptyError"):
        raises(dist.QueueEmptyError, lambda: store.queue_pop(own("queue"), False))


def try_list_keys(store):
    store.set(own("listed"), "")
    expect(any(key.endswith(own("listed")) for key in store.list_keys()), True)


def try_barrier(store):
    store.barrier("all", world)
    store.set(own("passed"), "")
    store.barrier("all again", world)
    expect(store.check([f"passed-{other}" for other in range(world)]), True)


ALWAYS = ["set", "get", "compare_set", "add", "check", "wait", "num_keys", "delete_key", "append", "multi_set",
          "has_extended_api"]
NEWER = ["queue_push", "list_keys", "barrier"]


def main():
    store = connect(may_serve=True)
    there = ALWAYS + [name for name in NEWER if hasattr(store, name)]
    for name in there:
        try:
            globals()["try_" + name](store)
        except BaseException:
            say(f"WRONG {name}")
            raise
    say(f"COMMANDS {torch.__version__} {' '.join(there)}")
    dist.init_process_group("gloo", rank=rank, world_size=world, store=dist.PrefixStore("group", store))
    total = torch.tensor([rank + 1.0])
    dist.all_reduce(total)
    dist.barrier()
    say(f"TOTAL {total.item()}")
    os._exit(0)  # see torch_ddp.py


main()
