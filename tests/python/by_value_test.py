"""Functions and classes of a notebook reach another process with all that they use."""
import builtins
import io
import linecache
import math
import pickle
import sys
import traceback
import unittest

import support
from mtrun import by_value

CELL = '''
import abc, collections, dataclasses, enum, functools, math, typing
import os.path, xml.dom.minidom
import json as text

SCALE = 3
unused = open("/dev/null")


def helper(x):
    return SCALE * x


def counted(function):
    @functools.wraps(function)
    def wrapper(*args):
        wrapper.calls += 1
        return function(*args)
    wrapper.calls = 0
    return wrapper


@counted
def train(x, *, more=2):
    """Trains."""
    return helper(x) + more + math.floor(1.5)


class Base(abc.ABC):
    count = 0

    def __init__(self, value):
        self.value = value

    @abc.abstractmethod
    def size(self): ...

    @property
    def double(self):
        return 2 * helper(self.value)

    @classmethod
    def made(cls, value):
        return cls(value)

    @staticmethod
    def fixed():
        return "fixed"


class Net(Base):
    """A network."""
    __slots__ = ("left",)

    def __init__(self, value):
        super().__init__(value)
        self.left = value

    def size(self):
        return self.left

    @functools.cached_property
    def cached(self):
        return [self.value]

    def other(self):
        return Net.made(self.value + 1)


@dataclasses.dataclass(order=True)
class Options:
    rate: float = 0.5
    names: list = dataclasses.field(default_factory=lambda: ["a"])


class Kind(enum.Enum):
    SMALL = 1
    LARGE = 2

    def grown(self):
        return Kind.LARGE


class Point(typing.NamedTuple):
    x: int
    y: int = 5

    def total(self):
        return self.x + self.y


def everything(options):
    net = Net(4).other()
    return (net.double, net.cached, net.fixed(), net.size(), Options() < options, dataclasses.asdict(options),
            Kind(1).grown().name, Point(1).total(), Point(1)._replace(y=2), text.dumps([1]),
            xml.dom.minidom.parseString("<a/>").documentElement.tagName, os.path.join("a", "b"))


def outer(start):
    total = start

    def add(x):
        nonlocal total
        total += x
        return total

    def read():
        return total

    def factorial(n):
        return n * factorial(n - 1) if n else 1

    return lambda: (add(1), add(2), read(), factorial(5))


@functools.lru_cache(maxsize=2)
def remembered(x):
    return [x]


def remembers():
    return remembered(1) is remembered(1) and remembered.cache_parameters()["maxsize"] == 2


def fails():
    raise ValueError("no such layer")


def reads_unused():
    return unused.name


def made(kind):
    return [kind(2), Options(), Kind.SMALL, Point(1)]
'''


def cell(text=CELL, name="<ipython-input-1>"):
    """Returns the globals of a notebook after its cell, whose source is not on the disk."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), space)
    return space


class ByValueTest(unittest.TestCase):
    def sent(self, function, *rest):
        """Returns the function and the data as another process gets them, and its globals."""
        file, there = io.BytesIO(), {"__name__": "__main__", "__builtins__": builtins}
        by_value.dump(file, function, rest)
        file.seek(0)
        got, read = by_value.load_function(file, there)
        return got, read(), there

    def test_a_function_comes_with_what_it_uses_and_nothing_else(self):
        train, _, there = self.sent(cell()["train"])
        self.assertEqual(train(2), 3 * 2 + 2 + 1)
        self.assertEqual((train.calls, train.__doc__, train.__wrapped__.__kwdefaults__), (1, "Trains.", {"more": 2}))
        self.assertEqual(set(there) - {"__name__", "__builtins__"}, {"helper", "SCALE", "math"})

    def test_classes_of_all_kinds_come_whole(self):
        space = cell()
        options = space["Options"](0.75, ["b"])
        everything, (got,), there = self.sent(space["everything"], options)
        self.assertEqual(everything(got), space["everything"](options))
        self.assertIsNot(there["Net"], space["Net"])
        self.assertEqual(there["Net"].__doc__, "A network.")
        self.assertRaisesRegex(TypeError, "abstract", there["Base"], 1)

    def test_closures_share_their_variables_and_may_call_themselves(self):
        got, _, _ = self.sent(cell()["outer"](10))
        self.assertEqual(got(), (11, 13, 13, 120))
        self.assertTrue(self.sent(cell()["remembers"])[0]())

    def test_functions_of_modules_are_named_and_nested_ones_use_their_module(self):
        self.assertIs(self.sent(math.floor)[0], math.floor)
        self.assertIs(self.sent(traceback.print_exc)[0], traceback.print_exc)
        nested = next(value for value in by_value.REDUCED.values())
        self.assertIs(self.sent(nested)[0].__globals__, vars(by_value))

    def test_results_name_classes_by_main(self):
        space = cell()
        made, (kind,), there = self.sent(space["made"], space["Net"])
        self.addCleanup(sys.modules.__setitem__, "__main__", sys.modules["__main__"])

        def main_is(names):
            sys.modules["__main__"] = type(sys)("__main__")
            vars(sys.modules["__main__"]).update(names)

        main_is(there)
        data = pickle.dumps(made(kind))
        main_is(space)
        self.assertEqual([type(each) for each in pickle.loads(data)],
                         [space[name] for name in ("Net", "Options", "Kind", "Point")])

    def test_traceback_shows_lines_of_a_cell(self):
        file = io.BytesIO()
        by_value.dump(file, cell(name="<ipython-input-2>")["fails"], ())
        del linecache.cache["<ipython-input-2>"]  # the other process does not have it
        file.seek(0)
        fails, _ = by_value.load_function(file, {"__name__": "__main__", "__builtins__": builtins})
        try:
            fails()
        except ValueError:
            text = traceback.format_exc()
        self.assertIn('File "<ipython-input-2>"', text)
        self.assertIn('    raise ValueError("no such layer")\n', text)

    def test_what_cannot_be_written_is_named(self):
        space = cell()
        self.addCleanup(space["unused"].close)
        with self.assertRaisesRegex(TypeError, "the global unused cannot be sent to another process: .*TextIOWrapper"):
            self.sent(space["reads_unused"])
        with self.assertRaisesRegex(TypeError, "an argument cannot be sent to another process"):
            self.sent(space["train"], (each for each in ()))
        foreign = eval("lambda: 1", {"__name__": "no_such_module"})
        with self.assertRaisesRegex(TypeError, "the function cannot be sent .*<lambda> belongs to no module"):
            self.sent(foreign)


if __name__ == "__main__":
    unittest.main()
