"""The names of the trainers, in the order of trainers/trainer_list.h."""
import os
import re

LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "trainers", "trainer_list.h")


def rows():
    """[(name, function that describes it)]."""
    with open(LIST, encoding="utf-8") as file:
        return re.findall(r'^  X\("(\w+)", (\w+)\)', file.read(), re.M)


def names():
    return tuple(name for name, _ in rows())
