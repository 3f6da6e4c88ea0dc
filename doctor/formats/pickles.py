"""Follows a pickle without executing it: a small machine that builds plain values and descriptions, nothing else.

What the pickle would import becomes a `Global`, what it would call becomes a `Call`; neither is ever looked
up. Python's own opcodes are decoded by the standard library's pickletools, which only splits bytes.
"""

from __future__ import annotations

import pickletools
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple

from doctor.finding import Text

#: No state dict needs more; a pickle that does is an attack or a data set.
MAX_OPCODES = 6_000_000
MAX_DEPTH = 1_000_000


class PickleError(Exception):
    """The bytes are no pickle that can be followed."""

    def __init__(self, what: Text, offset: int = 0, truncated: bool = False) -> None:
        super().__init__(what.en)
        self.what = what
        self.offset = offset
        self.truncated = truncated


class Global(NamedTuple):
    """Something the pickle would import."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass
class Call:
    """Something the pickle would call or create: `state` is what it would then set."""

    function: object
    args: object = ()
    state: object = None
    items: dict[object, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Persistent:
    """A reference to what is kept outside the pickle: torch's storages."""

    key: object


@dataclass(frozen=True)
class Followed:
    """The value, and everything the pickle would have imported."""

    value: Any
    imports: frozenset[Global]


class _Mark:
    pass


_MARK = _Mark()
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: Mapping[str, Any] = {"EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set}
_NUMBERS = {"BININT", "BININT1", "BININT2", "LONG1", "LONG4", "INT", "LONG", "FLOAT", "BINFLOAT"}
_TEXTS = {
    "STRING", "BINSTRING", "SHORT_BINSTRING", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE",
    "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
}  # fmt: skip
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def follow(file: BinaryIO) -> Followed:
    """Follows one pickle from where the file stands to its STOP, and leaves the file behind it. Raises PickleError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pickletools warns of odd escapes in old text strings
        return _Machine().run(file)


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.imports: set[Global] = set()

    def run(self, file: BinaryIO) -> Followed:
        offset = 0
        try:
            for count, (opcode, argument, position) in enumerate(pickletools.genops(file)):
                offset = position or 0
                if count >= MAX_OPCODES or len(self.stack) > MAX_DEPTH:
                    raise PickleError(Text("it has more steps than any model needs", "步骤数超过任何模型所需"), offset)
                if opcode.name == "STOP":
                    return Followed(self.pop(), frozenset(self.imports))
                self.step(opcode.name, argument)
        except PickleError:
            raise
        except (IndexError, KeyError, TypeError, AttributeError) as error:
            raise PickleError(Text("its steps do not fit together", "其指令前后不一致"), offset) from error
        except (ValueError, UnicodeDecodeError, OverflowError, MemoryError) as error:
            short = "not enough data" in str(error) or "exhausted" in str(error) or "expected" in str(error)
            raise PickleError(Text(f"no pickle: {error}", f"不是 pickle：{error}"), offset, truncated=short) from error
        raise PickleError(Text("it ends before its STOP", "在 STOP 之前结束"), offset, truncated=True)

    def pop(self) -> Any:
        return self.stack.pop()

    def to_mark(self) -> list[Any]:
        at = len(self.stack) - 1
        while self.stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise IndexError
        items = self.stack[at + 1 :]
        del self.stack[at:]
        return items

    def step(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in _NUMBERS or name in _TEXTS:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name in {"BINPUT", "LONG_BINPUT", "PUT"}:
            self.memo[int(argument)] = stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in {"BINGET", "LONG_BINGET", "GET"}:
            stack.append(self.memo[int(argument)])
        elif name == "MARK":
            stack.append(_MARK)
        elif name in _TUPLES:
            size = _TUPLES[name]
            items = stack[-size:]
            del stack[-size:]
            stack.append(tuple(items))
        elif name in {"TUPLE", "LIST", "FROZENSET"}:
            items = self.to_mark()
            stack.append(tuple(items) if name != "LIST" else items)
        elif name == "DICT":
            items = self.to_mark()
            stack.append(_pairs(items))
        elif name in {"APPEND", "APPENDS", "ADDITEMS"}:
            items = [self.pop()] if name == "APPEND" else self.to_mark()
            target = stack[-1]
            if isinstance(target, list):
                target.extend(items)
        elif name in {"SETITEM", "SETITEMS"}:
            self.set_items(name)
        elif name in {"POP", "POP_MARK"}:
            self.to_mark() if name == "POP_MARK" else self.pop()
        elif name == "DUP":
            stack.append(stack[-1])
        elif name in {"PROTO", "FRAME", "READONLY_BUFFER"}:
            pass
        else:
            self.object_step(name, argument)

    def set_items(self, name: str) -> None:
        if name == "SETITEM":
            value, key = self.pop(), self.pop()
            items = [key, value]
        else:
            items = self.to_mark()
        target = self.stack[-1]
        table = target if isinstance(target, dict) else target.items
        table.update(_pairs(items))

    def object_step(self, name: str, argument: Any) -> None:
        """The steps that would import, call or change objects."""
        stack = self.stack
        if name == "GLOBAL":
            module, _, attribute = argument.partition(" ")
            stack.append(self.imported(module, attribute))
        elif name == "STACK_GLOBAL":
            attribute, module = self.pop(), self.pop()
            stack.append(self.imported(str(module), str(attribute)))
        elif name in {"REDUCE", "NEWOBJ"}:
            args, function = self.pop(), self.pop()
            stack.append(_called(function, args))
        elif name == "NEWOBJ_EX":
            self.pop()
            args, function = self.pop(), self.pop()
            stack.append(Call(function, args))
        elif name == "OBJ":
            function, *args = self.to_mark()
            stack.append(Call(function, tuple(args)))
        elif name == "INST":
            module, _, attribute = argument.partition(" ")
            stack.append(Call(self.imported(module, attribute), tuple(self.to_mark())))
        elif name == "BUILD":
            state = self.pop()
            if isinstance(stack[-1], Call):
                stack[-1].state = state
        elif name == "BINPERSID":
            stack.append(Persistent(self.pop()))
        elif name == "PERSID":
            stack.append(Persistent(argument))
        else:
            raise PickleError(Text(f"a step that no model needs: {name}", f"模型不需要的指令：{name}"))

    def imported(self, module: str, name: str) -> Global:
        found = Global(module[:200], name[:200])
        self.imports.add(found)
        return found


def _called(function: object, args: object) -> object:
    """A call that stays a description, but for the one container that state dicts are made of."""
    if function == Global("collections", "OrderedDict"):
        return _pairs([item for pair in args[0] for item in pair]) if isinstance(args, tuple) and args else {}
    return Call(function, args)


def _pairs(items: list[Any]) -> dict[Any, Any]:
    found = {}
    for key, value in zip(items[0::2], items[1::2]):
        # Only plain keys can be names; hashing anything nested could take forever.
        if isinstance(key, (str, int, bytes)):
            found[key] = value
    return found


#: Modules that a file of tensors has no business with: loading it with a plain pickle.load would run code.
_DANGEROUS = frozenset({
    "os", "posix", "nt", "sys", "subprocess", "socket", "shutil", "pty", "commands", "ctypes", "importlib", "runpy",
    "code", "codeop", "webbrowser", "http", "urllib", "requests", "asyncio", "multiprocessing", "threading", "signal",
    "pathlib", "tempfile", "pickle", "_pickle", "marshal", "imp", "pip", "bdb", "pdb", "timeit", "platform", "inspect",
    "operator", "_operator", "functools", "itertools", "zipimport", "distutils", "setuptools", "dill", "cloudpickle",
})  # fmt: skip
_DANGEROUS_BUILTINS = frozenset({
    "eval", "exec", "compile", "open", "__import__", "getattr", "setattr", "delattr", "globals", "locals", "vars",
    "input", "breakpoint", "apply", "execfile", "file", "memoryview",
})  # fmt: skip


def dangerous(imports: frozenset[Global]) -> list[str]:
    """Imports that would run something when the pickle is loaded the ordinary way."""
    found = []
    for item in imports:
        root = item.module.partition(".")[0]
        is_builtin = root in {"builtins", "__builtin__"} and item.name in _DANGEROUS_BUILTINS
        if is_builtin or (root in _DANGEROUS) or item.name.startswith("__") or item == Global("torch", "load"):
            found.append(str(item))
    return sorted(found)


def foreign(imports: frozenset[Global]) -> list[str]:
    """Classes that are no part of torch or numpy: torch.load(weights_only=True) refuses them."""
    harmless = {"torch", "numpy", "collections", "_codecs", "builtins", "__builtin__"}
    return sorted(str(item) for item in imports if item.module.partition(".")[0] not in harmless)
