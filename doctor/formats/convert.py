"""Converts weights from one layout of a family to another.

The source's groups give the family's own parameters, the target's groups take them. Groups that share
parameters make up one step (q, k and v of a layer; the experts of a layer): a step is read, turned and written
before the next, so that memory holds one step and not the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Optional

from doctor.finding import Text
from doctor.formats.families.expr import evaluate
from doctor.formats.families.family import HUGGINGFACE, Family, Group, Layout
from doctor.formats.iteration import Iteration
from doctor.formats.ranks import RankSet
from doctor.formats.recognise import Model
from doctor.formats.tensor import DTYPE_BITS, FLOATS, Tensor
from doctor.formats.weightset import WeightSet
from doctor.formats.write import Entry

#: A family's parameter: pattern, layer, expert.
Key = tuple[str, Optional[int], Optional[int]]
SCALE = "_scale_inv"


class ConversionError(Exception):
    """The conversion cannot be done; `what` says why, `hint` what would help."""

    def __init__(self, what: Text, hint: Optional[Text] = None) -> None:
        super().__init__(what.en)
        self.what = what
        self.hint = hint


@dataclass(frozen=True)
class Instance:
    """A group at one layer: full names in the files, and the family's parameters they stand for."""

    group: Group
    names: tuple[str, ...]
    keys: tuple[Key, ...]


@dataclass(frozen=True)
class Step:
    """Source groups that are read together and target groups that are written from them."""

    sources: tuple[Instance, ...]
    targets: tuple[Instance, ...]
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Conversion:
    """What will be done. `left` are names that are not carried over: buffers, optimizer states, adapters, unknown."""

    model: Model
    layout: Layout
    steps: tuple[Step, ...]
    sizes: Mapping[str, int]
    left: tuple[str, ...]
    dtype: Optional[str]
    scales: Mapping[str, Tensor]

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(entry for step in self.steps for entry in step.entries)

    @property
    def bytes(self) -> int:
        return sum(entry.bytes for entry in self.entries)


def plan(
    found: WeightSet,
    model: Model,
    layout: Layout,
    sizes: Mapping[str, int],
    dtype: Optional[str] = None,
    untie: bool = False,
) -> Conversion:
    """Plans the conversion of `model` to `layout`. `sizes` complete the symbols that shapes cannot tell (head size).
    Raises ConversionError when something is missing or does not fit."""
    _refuse_odd(model)
    symbols = {**sizes, **model.symbols}
    _refuse_unknown_sizes(model, layout, symbols)
    tensors = found.tensors
    source = [item for item in _instances(model.family, model.layout, model, symbols, True) if _there(item, tensors)]
    available: dict[Key, Instance] = {}
    for item in source:
        for key in item.keys:
            available[key] = item
    aliases = _untied(model.family, available) if untie else {}
    if layout.id == HUGGINGFACE != model.layout.id:
        aliases.update(_copied(model, available))
    targets = []
    for item in _instances(model.family, layout, model, symbols, False):
        have = [key for key in item.keys if aliases.get(key, key) in available]
        if have and len(have) < len(item.keys):
            lost = next(key for key in item.keys if key not in available)
            raise ConversionError(
                Text(f"{_plain(lost)} is missing in the source", f"源权重缺少 {_plain(lost)}"),
                Text("Check it first: doctor check SRC", "请先检查：doctor check SRC"),
            )
        if have:
            keys = tuple(aliases.get(key, key) for key in item.keys)
            targets.append(Instance(item.group, item.names, keys))
    scales = {name[: -len(SCALE)]: tensor for name, tensor in tensors.items() if name.endswith(SCALE)}
    steps = tuple(_steps(source, targets, available, model, layout, symbols, tensors, dtype, scales))
    kept = {name for item in source for name in item.names} | {name + SCALE for name in scales}
    left = tuple(name for name in tensors if name not in kept)
    return Conversion(model, layout, steps, symbols, left, dtype, scales)


def _refuse_odd(model: Model) -> None:
    if model.odd:
        odd = model.odd[0]
        raise ConversionError(
            Text(
                f"{odd.tensor.name} has the shape {odd.tensor.shape}, which does not fit the others",
                f"{odd.tensor.name} 的形状 {odd.tensor.shape} 与其余张量不符",
            ),
            Text("Check it first: doctor check SRC", "请先检查：doctor check SRC"),
        )


def _refuse_unknown_sizes(model: Model, layout: Layout, symbols: Mapping[str, int]) -> None:
    used = {name for group in (*model.layout.groups, *layout.groups) for name in group.op.needs}
    present = {member.param.name for member in model.members}
    needs = {
        symbol
        for group in model.layout.groups
        if set(group.own) & present
        for symbol in (*group.op.needs, *_needs_of(layout, group.canonical))
        if symbol not in symbols
    }
    if needs & used:
        raise ConversionError(
            Text(
                "the head size is not in the shapes, and there is no config that tells it",
                "仅凭形状无法得知每头维度，且没有可用的配置",
            ),
            Text("Give the model's config: --model-config config.json", "请提供模型配置：--model-config config.json"),
        )


def _needs_of(layout: Layout, canonical: Sequence[str]) -> Iterator[str]:
    for group in layout.groups:
        if set(group.canonical) & set(canonical):
            yield from group.op.needs


def _untied(family: Family, available: Mapping[Key, Instance]) -> dict[Key, Key]:
    """The output layer read from the embedding, for programs that keep two."""
    head = next((param.name for param in family.params if param.when == "head"), None)
    table = next((param.name for param in family.params if param.shape == ("V", "H") and not param.when), None)
    if head is None or table is None or (head, None, None) in available:
        return {}
    return {(head, None, None): (table, None, None)}


def _copied(model: Model, available: Mapping[Key, Instance]) -> dict[Key, Key]:
    """The tables that Hugging Face's extra prediction layers repeat, read from the model's own."""
    layers = [layer for layer in model.layers if "mtp" in model.kinds[layer]]
    return {
        (copy, layer, None): (table, None, None)
        for layer in layers
        for copy, table in model.family.copies.items()
        if (copy, layer, None) not in available and (table, None, None) in available
    }


def _instances(
    family: Family, layout: Layout, model: Model, symbols: Mapping[str, int], source: bool
) -> Iterator[Instance]:
    layers = sorted(set(model.layers))
    experts = range(symbols.get("E", 0))
    for group in layout.groups:
        in_layer = "{i}" in group.canonical[0]
        for layer in layers if in_layer else [None]:
            if layer is not None and not layout.applies(group, "mtp" in model.kinds[layer]):
                continue
            spread = "{e}" in group.canonical[0]
            singly = spread and "{e}" in group.own[0]
            for expert in experts if singly else [None]:
                names = tuple(_name(model, own, layer, expert, source) for own in group.own)
                if spread and not singly:
                    keys: tuple[Key, ...] = tuple((name, layer, e) for name in group.canonical for e in experts)
                else:
                    keys = tuple((name, layer, expert) for name in group.canonical)
                yield Instance(group, names, keys)


def _name(model: Model, own: str, layer: Optional[int], expert: Optional[int], source: bool) -> str:
    name = own
    if layer is not None:
        name = name.replace("{i}", str(layer)).replace("{m}", str(layer - model.depth))
    if expert is not None:
        name = name.replace("{e}", str(expert))
    if not source:
        return name
    for candidate in (
        model.prefix + name,
        name,
        name[len(model.lacking) :] if name.startswith(model.lacking) else name,
        model.prefix + name[len(model.lacking) :],
    ):
        if candidate in model.names:
            return candidate
    return name


def _there(item: Instance, tensors: Mapping[str, Tensor]) -> bool:
    have = [name for name in item.names if name in tensors]
    if have and len(have) < len(item.names):
        lost = next(name for name in item.names if name not in tensors)
        raise ConversionError(
            Text(f"{lost} is missing in the source", f"源权重缺少 {lost}"),
            Text("Check it first: doctor check SRC", "请先检查：doctor check SRC"),
        )
    return bool(have)


def _plain(key: Key) -> str:
    name, layer, expert = key
    return name.replace("{i}", str(layer)).replace("{e}", str(expert))


def _steps(
    sources: Sequence[Instance],
    targets: Sequence[Instance],
    available: Mapping[Key, Instance],
    model: Model,
    layout: Layout,
    symbols: Mapping[str, int],
    tensors: Mapping[str, Tensor],
    dtype: Optional[str],
    scales: Mapping[str, Tensor],
) -> Iterator[Step]:
    """Joins groups that share parameters, in the order of layers and of the target's names."""
    parent: dict[int, int] = {}

    def root(node: int) -> int:
        while parent.setdefault(node, node) != node:
            node = parent[node]
        return node

    number = {id(item): index for index, item in enumerate(sources)}
    for at, target in enumerate(targets):
        for key in target.keys:
            parent[root(number[id(available[key])])] = root(len(sources) + at)
    shapes = {param.name: param.shape for param in model.family.own_params(layout)}
    together: dict[int, tuple[list[Instance], list[Instance]]] = {}
    for at, target in enumerate(targets):
        together.setdefault(root(len(sources) + at), ([], []))[1].append(target)
    for index, item in enumerate(sources):
        if root(index) in together:
            together[root(index)][0].append(item)
    ordered = sorted(together.values(), key=lambda pair: _order(pair[1][0]))
    for mine, theirs in ordered:
        types = {_stored_type(tensors[name], dtype, scales) for item in mine for name in item.names}
        if len(types) > 1 and not types <= FLOATS:
            raise ConversionError(
                Text(
                    f"{mine[0].names[0]} and its neighbours have types that do not go together: {', '.join(sorted(types))}",
                    f"{mine[0].names[0]} 等张量的类型不一致：{'、'.join(sorted(types))}",
                )
            )
        widest = max(sorted(types), key=lambda name: DTYPE_BITS[name])
        kind = dtype if dtype is not None and types <= FLOATS else widest
        entries = tuple(
            Entry(name, kind, _shape(shapes[own], symbols, own))
            for target in theirs
            for name, own in zip(target.names, target.group.own)
        )
        yield Step(tuple(mine), tuple(theirs), entries)


def _stored_type(tensor: Tensor, dtype: Optional[str], scales: Mapping[str, Tensor]) -> str:
    if tensor.name in scales:
        return dtype or "bfloat16"
    return tensor.dtype


def _order(item: Instance) -> tuple[int, int, str]:
    layer = item.keys[0][1]
    return (
        0 if layer is None and "embed" in item.names[0] else 1 if layer is not None else 2,
        layer or 0,
        item.names[0],
    )


def _shape(axes: Iterable[str], symbols: Mapping[str, int], name: str) -> tuple[int, ...]:
    shape = tuple(evaluate(axis, symbols) for axis in axes)
    if None in shape:
        raise ConversionError(Text(f"the shape of {name} is not known", f"无法得知 {name} 的形状"))
    return tuple(length for length in shape if length is not None)


def _not_whole(name: str) -> ConversionError:
    return ConversionError(
        Text(f"the slices of {name} do not make up the whole", f"{name} 的切片无法拼成完整参数"),
        Text("Check it first: doctor check SRC", "请先检查：doctor check SRC"),
    )


class Source:
    """Reads the tensors of a set by name; one open file at a time for each of its files."""

    def __init__(self, found: WeightSet, stack: ExitStack) -> None:
        self.found = found
        self.stack = stack
        self.files: dict[Path, BinaryIO] = {}
        self.tensors = {file.path: {tensor.name: tensor for tensor in file.tensors} for file in found.files}

    def read(self, name: str) -> Any:
        """The whole tensor, joined from its slices where the files hold those."""
        from doctor.formats.arrays import Array, read_array

        homes = self.found.homes[name]
        if self.found.ranks is not None:
            return self.from_ranks(name, self.found.ranks)
        if self.found.iteration is not None and name in self.found.iteration.wholes:
            return self.from_iteration(name, self.found.iteration)
        parts = [read_array(self.open(home.path), self.tensors[home.path][name]) for home in homes[: self.count(homes)]]
        if len(parts) == 1:
            return parts[0]
        import numpy

        from doctor.formats import meta

        cut = meta.axis(self.tensors[homes[0].path][name], meta.hidden_size(self.found.files))
        if cut is None:
            return parts[0]
        return Array(numpy.concatenate([part.values for part in parts], axis=cut), parts[0].dtype)

    def from_ranks(self, name: str, ranks: RankSet) -> Any:
        """Joined from the slices of the devices that hold it, by their strategy files."""
        from doctor.formats.arrays import Array, read_array
        from doctor.formats.merge import join, piece_of

        pieces: dict[tuple[int, ...], Any] = {}
        dtype = ""
        for rank in ranks.ranks:
            tensor = self.tensors[rank.file.path].get(name) if rank.file is not None else None
            if rank.file is None or tensor is None:
                continue
            plan = ranks.strategy_of(rank.number)
            cut = plan.cuts.get(name) if plan is not None else None
            if cut is not None and cut.full(tensor.shape) is None:
                raise _not_whole(name)
            index = piece_of(rank.number, cut) if cut is not None else tuple(0 for _ in tensor.shape)
            if index not in pieces:
                array = read_array(self.open(rank.file.path), tensor)
                pieces[index], dtype = array.values, array.dtype
        whole = join(pieces, self.found.tensors[name].shape) if pieces else None
        if whole is None:
            raise _not_whole(name)
        return Array(whole, dtype)

    def from_iteration(self, name: str, iteration: Iteration) -> Any:
        """Joined from the pieces that metadata.json lists (MindFormers 2.x)."""
        from doctor.formats.arrays import Array, read_array
        from doctor.formats.merge import join

        whole = iteration.wholes[name]
        pieces: dict[tuple[int, ...], Any] = {}
        dtype = ""
        for offset, shape in whole.pieces:
            for file in iteration.storage.get((name, offset), ()):
                tensor = self.tensors.get(iteration.folder / file, {}).get(name)
                if tensor is not None and tensor.shape == shape:
                    array = read_array(self.open(iteration.folder / file), tensor)
                    pieces[whole.index_of(offset) or (0,) * len(shape)], dtype = array.values, array.dtype
                    break
        joined = join(pieces, whole.shape) if pieces else None
        if joined is None:
            raise _not_whole(name)
        return Array(joined, dtype)

    def count(self, homes: Sequence[object]) -> int:
        return len(homes) if self.found.parallel else 1

    def open(self, path: Path) -> BinaryIO:
        if path not in self.files:
            self.files[path] = self.stack.enter_context(path.open("rb", buffering=0))
        return self.files[path]


def run_step(step: Step, source: Source, conversion: Conversion) -> Iterator[tuple[Entry, Any, int]]:
    """Reads, turns and casts one step: each entry with its contiguous array, and how many values became infinite."""
    import numpy

    from doctor.formats.arrays import Array, cast, overflows, unscale

    types: dict[Key, str] = {}
    parameters: dict[Key, Any] = {}
    target_type = step.entries[0].dtype
    for item in step.sources:
        arrays = []
        for name in item.names:
            array = source.read(name)
            if name in conversion.scales:
                array = unscale(array, source.read(name + SCALE))
            arrays.append(array)
        mixed = len({array.dtype for array in arrays}) > 1
        if mixed or any(name in conversion.scales for name in item.names):
            arrays = [cast(array, target_type) for array in arrays]
        kind = arrays[0].dtype
        values = item.group.op.backward([array.values for array in arrays], conversion.sizes)
        for key, value in zip(item.keys, values):
            parameters[key] = value
            types[key] = kind
    entries = iter(step.entries)
    for target in step.targets:
        kinds = {types[key] for key in target.keys}
        parts = [Array(parameters[key], types[key]) for key in target.keys]
        if len(kinds) > 1:
            parts = [cast(part, target_type) for part in parts]
        kind = parts[0].dtype
        for value in target.group.op.forward([part.values for part in parts], conversion.sizes):
            entry = next(entries)
            whole = Array(numpy.ascontiguousarray(value), kind)
            lost = overflows(whole, entry.dtype) if entry.dtype != kind else 0
            yield entry, numpy.ascontiguousarray(cast(whole, entry.dtype).values), lost
