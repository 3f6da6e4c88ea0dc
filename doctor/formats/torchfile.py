"""Reads the structure of what ``torch.save`` writes: the zip form (since 1.6) and the older sequence of pickles.

The pickle is followed (`pickles`), never executed; the tensors' bytes stay where they are.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Optional

from doctor.finding import Text
from doctor.formats import pickles
from doctor.formats.pickles import Call, Followed, Global, Persistent, PickleError
from doctor.formats.tensor import DTYPE_BITS, Kind, Problem, Tensor, WeightFile, count

MAX_PICKLE = 256_000_000
MAX_DIRECTORY = 64_000_000
MAX_TENSORS = 1_000_000
MAX_NESTING = 12
MAX_VISITS = 3_000_000

_STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "UntypedStorage": "uint8",
}
_DTYPES = {
    "float8_e4m3fn": "float8_e4m3",
    "float8_e5m2": "float8_e5m2",
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
}
#: Where a checkpoint keeps the model when it holds more than that.
_CONTAINERS = ("state_dict", "model_state_dict", "model", "module", "net", "network", "params", "weights")


class _Storage(NamedTuple):
    key: str
    dtype: str
    elements: int


class _Found(NamedTuple):
    """A tensor as the pickle describes it."""

    storage: _Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_zip(path: Path) -> WeightFile:
    """The zip form. Raises OSError when it cannot be opened."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        reader = _Reader(path, size, "torch")
        try:
            reader.directory_is_sane(file)
            with zipfile.ZipFile(file) as archive:
                return reader.from_zip(file, archive)
        except _Refused as refused:
            return reader.result(refused.problem)
        except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, KeyError, struct.error) as error:
            return reader.result(
                Problem(
                    Kind.TRUNCATED if "not a zip" in str(error) else Kind.HEADER,
                    path,
                    Text("the list of its parts at the end is not there", "文件末尾的目录不存在")
                    if "not a zip" in str(error)
                    else Text(f"a damaged zip: {error}", f"zip 已损坏：{error}"),
                    observed=size,
                )
            )


def read_legacy(path: Path) -> WeightFile:
    """The sequence of pickles that torch wrote before 1.6. Raises OSError when it cannot be opened."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        reader = _Reader(path, size, "torch-legacy")
        try:
            return reader.from_pickles(file)
        except PickleError as error:
            kind = Kind.TRUNCATED if error.truncated else Kind.HEADER
            return reader.result(Problem(kind, path, error.what, offset=error.offset, observed=size))
        except _Refused as refused:
            return reader.result(refused.problem)


def read_pickle(path: Path) -> WeightFile:
    """A pickle that torch did not write: nothing is read from it but what it would import."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            followed = pickles.follow(_bounded(file))
        except PickleError as error:
            return WeightFile(path, "unknown", size, problems=(Problem(Kind.HEADER, path, error.what),))
        reader = _Reader(path, size, "unknown")
        reader.judge_imports(followed)
        what = Text("pickle", "pickle")
        if not reader.problems:
            reader.problems.append(Problem(Kind.FOREIGN, path, what, observed=size))
        return reader.result()


class _Refused(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail.en)
        self.problem = problem


class _Reader:
    def __init__(self, path: Path, size: int, form: str) -> None:
        self.path = path
        self.size = size
        self.form = form
        self.problems: list[Problem] = []

    def say(self, kind: Kind, detail: Text, **more: Any) -> None:
        self.problems.append(Problem(kind, self.path, detail, **more))

    def result(
        self, *more: Problem, tensors: tuple[Tensor, ...] = (), scalars: Optional[Mapping[str, object]] = None
    ) -> WeightFile:
        return WeightFile(self.path, self.form, self.size, tensors, {}, (*self.problems, *more), scalars or {})

    # The zip form ------------------------------------------------------------------------------------

    def directory_is_sane(self, file: BinaryIO) -> None:
        """Refuses a central directory so large that listing it would fill the memory."""
        span = min(self.size, 66_000)
        file.seek(self.size - span)
        tail = file.read(span)
        at = tail.rfind(b"PK\x05\x06")
        if at >= 0 and len(tail) >= at + 16:
            length = struct.unpack_from("<I", tail, at + 12)[0]
            if MAX_DIRECTORY < length < 0xFFFFFFFF:
                self.refuse(
                    Kind.HOSTILE, Text("its list of parts is larger than any model's", "其目录大于任何模型"), length
                )
        file.seek(0)

    def refuse(self, kind: Kind, detail: Text, observed: object = None) -> None:
        raise _Refused(Problem(kind, self.path, detail, observed=observed))

    def from_zip(self, file: BinaryIO, archive: zipfile.ZipFile) -> WeightFile:
        parts = {info.filename: info for info in archive.infolist()}
        pickle_name = next((name for name in parts if name.endswith("/data.pkl") or name == "data.pkl"), None)
        if pickle_name is None:
            what = "TorchScript" if any(name.endswith("/constants.pkl") for name in parts) else _zip_content(parts)
            self.form = "unknown"
            return self.result(Problem(Kind.FOREIGN, self.path, Text(what, what), observed=self.size))
        info = parts[pickle_name]
        if info.file_size > MAX_PICKLE:
            self.refuse(
                Kind.HOSTILE,
                Text("its pickle unpacks to more than any model's", "其 pickle 解压后大于任何模型"),
                info.file_size,
            )
        root = pickle_name[: -len("data.pkl")]
        order = parts.get(root + "byteorder")
        if order is not None and archive.open(order).read(16).strip() == b"big":
            self.say(Kind.DTYPE, Text("written in big-endian order", "以大端字节序写入"))
        with archive.open(info) as stream:
            raw = stream.read(MAX_PICKLE + 1)
        followed = self.follow(io.BytesIO(raw))
        if followed is None:
            return self.result()
        places = {}
        for name, part in parts.items():
            if name.startswith(root + "data/"):
                places[name[len(root) + 5 :]] = self.place(file, part)
        return self.describe(followed, places)

    def place(self, file: BinaryIO, part: zipfile.ZipInfo) -> Optional[tuple[int, int]]:
        """Offset and size of a stored part; the local header repeats the name and may have another extra field."""
        if part.compress_type != zipfile.ZIP_STORED:
            return None
        file.seek(part.header_offset)
        header = file.read(30)
        if len(header) < 30 or header[:4] != b"PK\x03\x04":
            return part.header_offset + 30 + len(part.filename), part.file_size
        name, extra = struct.unpack_from("<HH", header, 26)
        return part.header_offset + 30 + name + extra, part.file_size

    # The older form ----------------------------------------------------------------------------------

    def from_pickles(self, file: BinaryIO) -> WeightFile:
        pickles.follow(file)  # the magic number
        pickles.follow(file)  # the version of the protocol
        system = pickles.follow(file).value
        if isinstance(system, dict) and system.get("little_endian") is False:
            self.say(Kind.DTYPE, Text("written in big-endian order", "以大端字节序写入"))
        followed = self.follow(file)
        if followed is None:
            return self.result()
        keys = pickles.follow(file).value
        sizes = {storage.key: storage for storage in _storages(followed.value)}
        places: dict[str, Optional[tuple[int, int]]] = {}
        at = file.tell()
        for key in keys if isinstance(keys, list) else ():
            storage = sizes.get(str(key))
            file.seek(at)
            raw = file.read(8)
            if len(raw) < 8:
                break
            elements = struct.unpack("<q", raw)[0]
            width = DTYPE_BITS.get(storage.dtype, 0) // 8 if storage is not None else 0
            if not width or elements < 0:
                self.say(Kind.HEADER, Text("its list of storages does not fit", "存储列表不一致"), offset=at)
                break
            places[str(key)] = (at + 8, elements * width)
            at += 8 + elements * width
            if at > self.size:
                break
        if at < self.size:
            self.say(
                Kind.TRAILING,
                Text("bytes after the last storage", "最后一个存储之后还有字节"),
                offset=at,
                observed=self.size - at,
            )
        return self.describe(followed, places)

    # Both --------------------------------------------------------------------------------------------

    def follow(self, file: BinaryIO) -> Optional[Followed]:
        try:
            followed = pickles.follow(file)
        except PickleError as error:
            kind = Kind.TRUNCATED if error.truncated else Kind.HEADER
            self.say(kind, error.what, offset=error.offset, observed=self.size)
            return None
        self.judge_imports(followed)
        return followed

    def judge_imports(self, followed: Followed) -> None:
        bad = pickles.dangerous(followed.imports)
        if bad:
            what = ", ".join(bad[:5])
            self.say(Kind.CODE, Text(f"it would call {what}", f"加载时会调用 {what}"), observed=bad, expected="tensors")

    def describe(self, followed: Followed, places: Mapping[str, Optional[tuple[int, int]]]) -> WeightFile:
        state, scalars = _model_of(followed.value)
        tensors: list[Tensor] = []
        short: list[tuple[str, int]] = []
        for name, found in _tensors(state):
            if len(tensors) >= MAX_TENSORS:
                self.say(
                    Kind.HOSTILE, Text("more tensors than any model has", "张量数超过任何模型"), observed=len(tensors)
                )
                break
            tensor = self.tensor(name, found, places, short)
            if tensor is not None:
                tensors.append(tensor)
        if short:
            name = min(short, key=lambda item: item[1])[0]
            self.say(
                Kind.TRUNCATED,
                Text(f"{len(short)} tensors lie beyond the end", f"{len(short)} 个张量超出文件末尾"),
                tensor=name,
                offset=self.size,
                observed=self.size,
                expected=max(end for _, end in short),
            )
        return self.result(tensors=tuple(tensors), scalars=scalars)

    def tensor(
        self,
        name: str,
        found: _Found,
        places: Mapping[str, Optional[tuple[int, int]]],
        short: list[tuple[str, int]],
    ) -> Optional[Tensor]:
        shape, strides = found.shape, found.strides
        if found.dtype not in DTYPE_BITS:
            self.say(Kind.DTYPE, Text("a type that is not known", "未知的数据类型"), tensor=name, observed=found.dtype)
            return Tensor(name, found.dtype, shape, ((0, 0),))
        if any(length < 0 for length in shape) or found.offset < 0 or len(strides) != len(shape):
            self.say(Kind.SHAPE, Text("a negative size", "尺寸为负数"), tensor=name, observed=shape)
            return None
        width = DTYPE_BITS[found.dtype] // 8
        reach = 1 + sum((length - 1) * stride for length, stride in zip(shape, strides)) if count(shape) else 0
        if found.storage.key not in places:
            self.say(
                Kind.TRUNCATED,
                Text("its bytes are not in the file", "其数据不在文件中"),
                tensor=name,
                observed=self.size,
            )
            return Tensor(name, found.dtype, shape, ((0, 0),))
        place = places[found.storage.key]
        if place is None:
            self.say(Kind.COMPRESSED, Text("its bytes are compressed", "其数据被压缩"), tensor=name)
            return Tensor(name, found.dtype, shape, ((0, 0),))
        start, length = place
        if (found.offset + reach) * width > length or any(stride < 0 for stride in strides):
            self.say(
                Kind.SIZE,
                Text(f"{found.dtype} {shape}", f"{found.dtype} {shape}"),
                tensor=name,
                offset=start,
                observed=length,
                expected=(found.offset + reach) * width,
            )
        begin = start + found.offset * width
        if begin + reach * width > self.size:
            short.append((name, begin + reach * width))
        dense = strides == _dense(shape) or count(shape) <= 1
        return Tensor(name, found.dtype, shape, ((begin, reach * width),), None if dense else strides)


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


def _zip_content(parts: Mapping[str, object]) -> str:
    if any(name.endswith(".npy") for name in parts):
        return "NumPy archive"
    return "zip archive"


def _storage(value: object) -> Optional[_Storage]:
    """('storage', class, key, place, elements[, view]) as torch.save leaves it."""
    if not isinstance(value, Persistent) or not isinstance(value.key, tuple) or len(value.key) < 5:
        return None
    kind, of_class, key, _, elements = value.key[:5]
    if kind != "storage" or not isinstance(of_class, Global) or type(elements) is not int:
        return None
    dtype = _STORAGES.get(of_class.name)
    return _Storage(str(key), dtype, elements) if dtype else _Storage(str(key), of_class.name, elements)


def _tensor(value: object) -> Optional[_Found]:
    """The tensor that a call would rebuild, through parameters and subclasses."""
    for _ in range(4):
        if not isinstance(value, Call) or not isinstance(value.function, Global) or not isinstance(value.args, tuple):
            return None
        name, args = value.function.name, value.args
        if name in {"_rebuild_parameter", "_rebuild_parameter_with_state"} and args:
            value = args[0]
            continue
        if name == "_rebuild_from_type_v2" and len(args) >= 3 and isinstance(args[2], tuple):
            value = Call(args[0], args[2])
            continue
        if name in {"_rebuild_tensor_v2", "_rebuild_tensor", "_rebuild_tensor_v3"} and len(args) >= 4:
            return _rebuilt(args)
        return None
    return None


def _rebuilt(args: tuple[Any, ...]) -> Optional[_Found]:
    storage = _storage(args[0])
    offset, shape, strides = args[1], args[2], args[3]
    if storage is None or type(offset) is not int:
        return None
    sizes, steps = _whole(shape), _whole(strides)
    if sizes is None or steps is None:
        return None
    dtype = storage.dtype
    if len(args) >= 7 and isinstance(args[6], Global):
        dtype = _DTYPES.get(args[6].name, args[6].name)
    return _Found(storage, dtype, offset, sizes, steps)


def _whole(value: object) -> Optional[tuple[int, ...]]:
    if isinstance(value, Call):  # torch.Size
        value = value.args[0] if isinstance(value.args, tuple) and value.args else ()
    if isinstance(value, (tuple, list)) and all(type(item) is int for item in value) and len(value) <= 64:
        return tuple(value)
    return None


def _storages(value: object) -> Iterator[_Storage]:
    """Every storage that is referred to, wherever it stands. Shared parts are visited once."""
    todo, seen = [value], set()
    while todo:
        item = todo.pop()
        if isinstance(item, (dict, list, tuple, Call)):
            if id(item) in seen:
                continue
            seen.add(id(item))
        if isinstance(item, Persistent):
            storage = _storage(item)
            if storage is not None:
                yield storage
        elif isinstance(item, dict):
            todo.extend(item.values())
        elif isinstance(item, (list, tuple)):
            todo.extend(item)
        elif isinstance(item, Call):
            todo.extend((item.args, item.state, item.items))


def _model_of(value: object) -> tuple[object, dict[str, object]]:
    """The part that holds the model, and the plain values that stand beside it (epoch, step)."""
    scalars: dict[str, object] = {}
    for _ in range(4):
        table = _as_table(value)
        if table is None:
            break
        scalars.update(
            {
                str(key): item
                for key, item in table.items()
                if isinstance(item, (int, float, str, bool)) and len(str(item)) < 200
            }
        )
        if any(_tensor(item) is not None for item in table.values()):
            break
        inner = next((table[key] for key in _CONTAINERS if _as_table(table.get(key)) is not None), None)
        if inner is None:
            break
        value = inner
    return value, scalars


def _as_table(value: object) -> Optional[Mapping[Any, Any]]:
    """A dict, or what a pickled module keeps of its parts."""
    if isinstance(value, dict):
        return value
    if isinstance(value, Call):
        state = value.state
        if isinstance(state, tuple) and state and isinstance(state[0], dict):
            state = state[0]
        if isinstance(state, dict) and "_modules" in state:
            merged: dict[Any, Any] = {}
            for part in ("_parameters", "_buffers", "_modules"):
                inner = state.get(part)
                if isinstance(inner, dict):
                    merged.update(inner)
            return merged
        if value.items:
            return value.items
    return None


def _tensors(value: object) -> Iterator[tuple[str, _Found]]:
    """Name and tensor of everything inside, in order. A part that stands in two places is named twice, but the steps
    are counted: parts of parts of parts may be an attack."""
    todo = [(value, "", 0)]
    for _ in range(MAX_VISITS):
        if not todo:
            return
        item, name, depth = todo.pop()
        found = _tensor(item)
        if found is not None:
            yield name, found
            continue
        table = _as_table(item)
        if table is not None and depth <= MAX_NESTING:
            lead = f"{name}." if name else ""
            todo.extend((inner, f"{lead}{key}", depth + 1) for key, inner in reversed(list(table.items())))


def _bounded(file: BinaryIO) -> BinaryIO:
    return io.BytesIO(file.read(MAX_PICKLE))
