"""Writes functions and classes that another process cannot import, for `mtrun.launch`.

Pickle names a function or a class by its module. Those of a notebook or a script (`__main__`), lambdas and nested functions
have none that another process could import, so their code is written, with the globals of `__main__` that it uses. Names
that are only looked up as texts, such as globals()["x"], are not found.

A file of this kind executes what is in it: read only one that this user's own process has written where nobody else can
write. Writer and reader have the same interpreter, because code objects belong to its version.
"""
from __future__ import annotations

import collections
import dataclasses
import dis
import enum
import functools
import importlib
import linecache
import marshal
import os
import pickle
import sys
import types
from collections.abc import Callable, Iterable
from typing import IO, Any

MAIN = ("__main__", "__mp_main__")
GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")  # instructions that read a global by its name
# Attributes that each class gets when it is made.
OF_EACH_CLASS = {"__dict__", "__weakref__", "_abc_impl", "__module__", "__qualname__", "__doc__", "__slots__",
                 "__annotate_func__", "__annotations_cache__"}
OF_EACH_TUPLE = set(vars(collections.namedtuple("Empty", ()))) - {"__doc__"}  # noqa: PYI024
OF_EACH_MODULE = {"__name__", "__builtins__", "__spec__", "__loader__", "__package__"}  # the reader has its own
UNNAMED = (type(None), type(...), type(NotImplemented))  # pickle knows them
METHODS = (types.FunctionType, property, classmethod, staticmethod)

_namespace: dict[str, Any] = {}  # of the reader's __main__


def dump(file: IO[bytes], function: Callable[..., Any], rest: object) -> None:
    """Writes a function with what it uses, and data. TypeError names what cannot be written."""
    packer = Packer(file)
    for what, each in (("the function", function), ("an argument", rest)):
        packer.write(what, each)
        packer.write_globals()


def load_function(file: IO[bytes], namespace: dict[str, Any]) -> tuple[Callable[..., Any], Callable[[], Any]]:
    """Returns what `dump` has written: the function, and a call that reads the data. `namespace`: this process's __main__,
    which gets the globals."""
    global _namespace
    _namespace = namespace
    unpickler = pickle.Unpickler(file)

    def read() -> Any:
        value = unpickler.load()
        for name, each in iter(unpickler.load, None):
            namespace[name] = each
        for module in unpickler.load():
            importlib.import_module(module)
        for name, lines in unpickler.load().items():
            linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
        return value

    return read(), read


class Packer(pickle.Pickler):
    """Pickles functions and classes by value if they cannot be imported."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._globals: dict[str, Any] = {}  # of __main__, by name
        self._waiting: list[str] = []  # those that are not written
        self._modules: set[str] = set()  # parts of packages that the code uses by their dotted names
        self._lines: dict[str, list[str]] = {}  # of sources that are not on the disk, for tracebacks
        self._filled: dict[int, types.CellType] = {}

    def write(self, what: str, each: object) -> None:
        try:
            self.dump(each)
        except (TypeError, AttributeError, ValueError, pickle.PicklingError) as error:
            raise TypeError(f"{what} cannot be sent to another process: {error}") from error

    def write_globals(self) -> None:
        """Writes the globals that were found, modules first and data last, and those that these need."""
        while self._waiting:
            name = min(self._waiting, key=lambda each: order(self._globals[each]))
            self._waiting.remove(name)
            self.write(f"the global {name}", (name, self._globals[name]))
        self.dump(None)
        self.dump(sorted(self._modules))
        self.dump(self._lines)

    def reducer_override(self, each: Any) -> Any:
        if isinstance(each, types.ModuleType):
            return importlib.import_module, (each.__name__,)
        if isinstance(each, (types.FunctionType, type, functools._lru_cache_wrapper)):
            if is_importable(each) or each in UNNAMED:
                return NotImplemented
            if each.__module__ == "builtins":  # such as the type of functions, which only `types` names
                return type_of_python, (next(name for name, value in vars(types).items() if value is each),)
            if isinstance(each, types.FunctionType):
                return self._function(each)
            return reduced_class(each) if isinstance(each, type) else (cached, (each.__wrapped__, each.cache_parameters()))
        if type(each).__module__ == "dataclasses":  # the marks that it compares by identity
            for name, mark in vars(dataclasses).items():
                if mark is each:
                    return getattr, (dataclasses, name)
        reduce = REDUCED.get(type(each))
        return reduce(each) if reduce else NotImplemented

    def _function(self, function: types.FunctionType) -> tuple[Any, ...]:
        module = function.__globals__.get("__name__", MAIN[0])
        if module in MAIN:
            self._find(function.__code__, function.__globals__)
        elif module not in sys.modules:
            raise TypeError(f"{function.__qualname__} belongs to no module")
        self._keep_lines(function.__code__.co_filename)
        cells = function.__closure__ or ()
        contents = []
        for cell in cells:
            if id(cell) not in self._filled:
                self._filled[id(cell)] = cell
                try:
                    contents.append((cell, cell.cell_contents))
                except ValueError:
                    pass  # it is empty
        names = ("__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__", "__annotations__")
        attributes = {name: attribute(function, name) for name in names}
        return (make_function, (marshal.dumps(function.__code__), module, cells),
                (contents, attributes, function.__dict__), None, None, fill_function)

    def _find(self, code: types.CodeType, space: dict[str, Any]) -> None:
        """Finds the globals that the code uses, and the parts of packages that it may use through them."""
        words = set(all_words(code))
        for name in names_of(code):
            if name not in space or name in OF_EACH_MODULE:
                continue
            value = space[name]
            if name not in self._globals:
                self._globals[name] = value
                self._waiting.append(name)
            if isinstance(value, types.ModuleType):
                below = value.__name__ + "."
                self._modules.update(part for part in list(sys.modules) if part.startswith(below)
                                     and words.issuperset(part[len(below):].split(".")))

    def _keep_lines(self, name: str) -> None:
        if name not in self._lines and not os.path.exists(name):
            self._lines[name] = linecache.getlines(name)


def order(value: object) -> int:
    if isinstance(value, types.ModuleType):
        return 0
    return 1 if isinstance(value, (type, types.FunctionType)) else 2


def codes(code: types.CodeType) -> Iterable[types.CodeType]:
    """Yields the code and all codes within it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from codes(each)


def names_of(code: types.CodeType) -> list[str]:
    """Returns the names of globals that the code reads, in its order."""
    found = (step.argval for each in codes(code) for step in dis.get_instructions(each) if step.opname in GLOBAL)
    return list(dict.fromkeys(found))


def all_words(code: types.CodeType) -> Iterable[str]:
    """Yields all names in the code, attributes included."""
    for each in codes(code):
        yield from each.co_names


def is_importable(each: Any) -> bool:
    """Returns whether pickle can write the name of this function or class."""
    name = getattr(each, "__module__", None)
    if name is None or name in MAIN or name not in sys.modules:
        return False
    found: Any = sys.modules[name]
    for part in each.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is each


def attribute(each: object, name: str) -> Any:
    try:
        return getattr(each, name)
    except NameError:  # in annotations, which Python 3.14 evaluates only now
        return {}


# ---- how other objects are written: the call that makes one, its arguments, its state, and the call that sets the state

def reduced_class(each: Any) -> tuple[Any, ...]:
    members = {name: value for name, value in vars(each).items() if name not in OF_EACH_CLASS
               and not isinstance(value, (types.GetSetDescriptorType, types.MemberDescriptorType))}
    if "__annotate_func__" in vars(each):  # Python 3.14
        members["__annotations__"] = attribute(each, "__annotations__")
    first = {name: vars(each)[name] for name in ("__module__", "__doc__", "__slots__") if name in vars(each)}
    place = (each.__name__, each.__qualname__, each.__bases__, first)
    if isinstance(each, enum.EnumMeta):
        pairs: list[tuple[str, Any]] = [(name, each[name].value) for name in each.__members__]
        members = {name: value for name, value in members.items() if isinstance(value, METHODS)
                   and name not in ("__new__", "__new_member__", "_generate_next_value_")}
        return make_enum, (type(each), pairs, *place), members, None, None, fill_class
    if each.__bases__ == (tuple,) and hasattr(each, "_fields"):
        fields, defaults = tuple(each._fields), tuple(each._field_defaults.values())
        members = {name: value for name, value in members.items() if name not in OF_EACH_TUPLE.union(fields)}
        return make_named_tuple, (fields, defaults, *place), members, None, None, fill_class
    return make_class, (type(each), *place), members, None, None, fill_class


REDUCED: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    types.CellType: lambda _: (empty_cell, ()),  # its function fills it
    types.MappingProxyType: lambda each: (read_only, (dict(each),)),
    property: lambda each: (property, (each.fget, each.fset, each.fdel, each.__doc__)),
    classmethod: lambda each: (classmethod, (each.__func__,)),
    staticmethod: lambda each: (staticmethod, (each.__func__,)),
    functools.cached_property: lambda each: (functools.cached_property, (each.func,), {"attrname": each.attrname}),
}


# ---- what the reader calls

def empty_cell() -> types.CellType:
    return types.CellType()


def read_only(values: dict[Any, Any]) -> types.MappingProxyType[Any, Any]:
    return types.MappingProxyType(values)


def type_of_python(name: str) -> Any:
    return getattr(types, name)


def make_function(code: bytes, module: str, cells: tuple[types.CellType, ...]) -> types.FunctionType:
    space = _namespace if module in MAIN else vars(importlib.import_module(module))
    return types.FunctionType(marshal.loads(code), space, None, None, cells or None)


def fill_function(function: types.FunctionType, state: tuple[Any, ...]) -> None:
    contents, attributes, more = state
    for cell, value in contents:
        cell.cell_contents = value
    for name, value in attributes.items():
        setattr(function, name, value)
    function.__dict__.update(more)


def placed(made: Any, qualname: str, first: dict[str, Any]) -> Any:
    """Gives a new class its name, by which pickle finds it in this process, too."""
    made.__qualname__, made.__module__ = qualname, first.get("__module__", MAIN[0])
    if made.__module__ in MAIN:
        _namespace.setdefault(qualname, made)
    return made


def make_class(kind: Any, name: str, qualname: str, bases: tuple[type, ...], first: dict[str, Any]) -> Any:
    return placed(kind(name, bases, dict(first)), qualname, first)


def make_enum(kind: Any, pairs: list[tuple[str, Any]], name: str, qualname: str, bases: tuple[type, ...],
              first: dict[str, Any]) -> Any:
    space = kind.__prepare__(name, bases)
    for key, value in (*first.items(), *pairs):
        space[key] = value
    return placed(kind(name, bases, space), qualname, first)


def make_named_tuple(fields: tuple[str, ...], defaults: tuple[Any, ...], name: str, qualname: str, _bases: object,
                     first: dict[str, Any]) -> Any:
    return placed(collections.namedtuple(name, fields, defaults=defaults), qualname, first)


def fill_class(made: type, members: dict[str, Any]) -> None:
    for name, value in members.items():
        setattr(made, name, value)


def cached(function: Callable[..., Any], parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)
