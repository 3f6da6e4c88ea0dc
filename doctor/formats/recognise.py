"""Which model do these tensors make up? Family, naming layout and sizes, from names and shapes alone.

A layout is recognised by what its names look like inside a layer, so that a prefix too many or too few does
not hide it. Sizes are solved from the shapes by majority: one odd tensor does not change them, it stands out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Optional

from doctor.formats.families import FAMILIES
from doctor.formats.families import known as known_models
from doctor.formats.families.expr import evaluate, parse, solve
from doctor.formats.families.family import HUGGINGFACE, Family, Layout, Param
from doctor.formats.families.known import Known
from doctor.formats.layers import Place, by_pattern, is_buffer, is_lora, is_state, place
from doctor.formats.tensor import Tensor

#: Below this share of names explained and parameters present, no family is claimed.
ENOUGH = 0.45
#: The same when a config names the family and no other fits better: many names may be wrong then.
ENOUGH_NAMED = 0.2
#: The share of layers that makes a parameter a usual one.
USUAL = 0.8


@dataclass(frozen=True)
class Fit:
    """How well one layout of one family explains the names."""

    family: Family
    layout: Layout
    #: what stands before the layout's names, and what the names lack of it
    prefix: str
    lacking: str
    #: parts of the observed patterns that are explained, and of the required parameters that are there
    explained: float
    present: float

    @property
    def score(self) -> float:
        return self.explained * self.present


@dataclass(frozen=True)
class Member:
    """A tensor that is a parameter of the model."""

    tensor: Tensor
    param: Param
    layer: Optional[int]
    expert: Optional[int]


@dataclass(frozen=True)
class Odd:
    """A tensor whose shape does not agree with the sizes that the others agree on."""

    tensor: Tensor
    expected: tuple[Optional[int], ...]


@dataclass(frozen=True)
class Model:
    """What was recognised. `symbols` are sizes by letter (see families.expr)."""

    family: Family
    layout: Layout
    prefix: str
    lacking: str
    score: float
    members: tuple[Member, ...]
    #: names that are neither parameters, states, buffers nor adapters
    unknown: tuple[str, ...]
    states: tuple[str, ...]
    buffers: tuple[str, ...]
    adapters: tuple[str, ...]
    symbols: Mapping[str, int]
    odd: tuple[Odd, ...] = field(default=())

    @cached_property
    def layers(self) -> tuple[int, ...]:
        """Numbers of the layers that have at least one tensor."""
        return tuple(sorted({member.layer for member in self.members if member.layer is not None}))

    @cached_property
    def names(self) -> frozenset[str]:
        """Full names of the members."""
        return frozenset(member.tensor.name for member in self.members)

    @property
    def depth(self) -> int:
        """Layers as the highest number tells, without extra prediction layers."""
        plain = [layer for layer in self.layers if "mtp" not in self.kinds.get(layer, frozenset())]
        return max(plain) + 1 if plain else 0

    @cached_property
    def kinds(self) -> Mapping[int, frozenset[str]]:
        """The features seen in each layer."""
        found: dict[int, set[str]] = {}
        for member in self.members:
            if member.layer is not None:
                seen = found.setdefault(member.layer, set())
                if member.param.when:
                    seen.add(member.param.when)
        return {layer: frozenset(features) for layer, features in found.items()}

    @cached_property
    def features(self) -> frozenset[str]:
        """Features of the model as a whole (``head``)."""
        return frozenset(member.param.when for member in self.members if member.layer is None and member.param.when)

    @cached_property
    def known(self) -> Optional[Known]:
        """The published model of these sizes."""
        return known_models.lookup(self.family.id, self.depth, self.symbols)

    @cached_property
    def by_place(self) -> Mapping[tuple[str, Optional[int], Optional[int]], Member]:
        """Members by pattern, layer and expert."""
        return {(member.param.name, member.layer, member.expert): member for member in self.members}


def fits(names: Iterable[str]) -> list[Fit]:
    """Every layout that explains a part of the names, the best first."""
    patterns = list(by_pattern(name for name in names if not (is_state(name) or is_buffer(name) or is_lora(name))))
    if not patterns:
        return []
    found = []
    for order, family in enumerate(FAMILIES):
        for layout in family.layouts:
            fit = _fit(family, layout, patterns)
            if fit is not None:
                found.append((-round(fit.score, 6), bool(fit.prefix) + bool(fit.lacking), order, fit))
    found.sort(key=lambda row: row[:3])
    return [fit for *_, fit in found]


def recognise(
    tensors: Mapping[str, Tensor],
    prefer: Optional[Family] = None,
    named: Optional[str] = None,
    complete: bool = True,
) -> Optional[Model]:
    """The model, or None when no family fits. `prefer` wins over a better fit that is only a little better; `named` is
    the kind of model that a config says, where no family stands for that; `complete` says that all files are there."""
    model = _recognise(tensors, prefer)
    if model is None or prefer is not None or model.layout.id != HUGGINGFACE:
        return model
    return None if _other_kind(model, named is not None, complete) else model


def _other_kind(model: Model, named: bool, complete: bool) -> bool:
    """Whether it is rather a model that only shares a part of its names with the family (Phi-3, Gemma 2, Cohere): what
    is unknown, missing or of another shape is so in every layer. A kind of its own `named` by a config has to agree
    in everything."""
    layers = set(model.layers)
    unknown = _layers_of((place(name).pattern, place(name).layer) for name in model.unknown)
    turned = {item.tensor.name for item in model.odd if item.tensor.shape == tuple(reversed(item.expected))}
    odd = _layers_of(
        (place(item.tensor.name).pattern, place(item.tensor.name).layer)
        for item in model.odd
        if item.tensor.name not in turned
    )
    there = _layers_of((member.param.name, member.layer) for member in model.members)
    kinds = {kind for kinds in model.kinds.values() for kind in kinds} | {""}
    own = model.family.own_params(model.layout) if complete else ()
    lost = [param for param in own if param.when in kinds and not param.extra and param.name not in there]
    if named:
        return bool(unknown or odd or lost)
    usual = USUAL * len(layers)
    return any(len(seen) >= usual for seen in (*unknown.values(), *odd.values())) or any(p.in_layer for p in lost)


def _layers_of(rows: Iterable[tuple[str, Optional[int]]]) -> dict[str, set[int]]:
    """In which layers each pattern stands; those outside of layers stand in none."""
    found: dict[str, set[int]] = {}
    for pattern, layer in rows:
        found.setdefault(pattern, set()).update(set() if layer is None else {layer})
    return found


def _recognise(tensors: Mapping[str, Tensor], prefer: Optional[Family]) -> Optional[Model]:
    ranked = [fit for fit in fits(tensors) if fit.family is prefer or not _other_experts(fit, tensors)]
    if ranked and ranked[0].family is prefer and ranked[0].score >= ENOUGH_NAMED:
        return model_of(ranked[0], tensors)
    if not ranked or ranked[0].score < ENOUGH:
        return None
    best = ranked[0]
    if prefer is not None:
        mine = next((fit for fit in ranked if fit.family is prefer), None)
        if mine is not None and mine.score >= max(ENOUGH, best.score - 0.25) and not _told_apart(mine, best, tensors):
            best = mine
    return model_of(best, tensors)


def _other_experts(fit: Fit, names: Iterable[str]) -> bool:
    """Whether there are numbered experts and the layout stands for none of them: a model of another kind that shares
    its attention (Mixtral's ``block_sparse_moe``)."""
    numbered = [pattern for pattern in by_pattern(names) if "{e}" in pattern and not is_lora(pattern)]
    table = {param.name: param for param in fit.family.own_params(fit.layout)}
    return bool(numbered) and not any(own_name(pattern, table, fit.prefix, fit.lacking) for pattern in numbered)


def _told_apart(mine: Fit, best: Fit, names: Iterable[str]) -> bool:
    """Whether the marks of the two families decide against the preferred one: all marks of the other are there and
    are not its own, or it has marks and none of them is there."""
    if mine.family is best.family:
        return False
    seen = set(by_pattern(names))
    own, other = _marks(mine, seen), _marks(best, seen)
    foreign = not set(best.family.marks) <= {param.name for param in mine.family.params}
    return (bool(other) and all(other) and foreign) or (bool(own) and not any(own))


def _marks(fit: Fit, seen: set[str]) -> list[bool]:
    """Which of the family's marks stand among the observed patterns."""
    table = {param.name: param for param in fit.family.own_params(fit.layout)}
    names = {own_name(pattern, table, fit.prefix, fit.lacking) for pattern in seen}
    return [
        any(mark in group.canonical and any(own in names for own in group.own) for group in fit.layout.groups)
        for mark in fit.family.marks
    ]


def _fit(family: Family, layout: Layout, patterns: list[str]) -> Optional[Fit]:
    params = family.own_params(layout)
    inside = {
        name.partition("{i}.")[2]: name.partition("{i}.")[0]
        for name in (p.name for p in params if p.in_layer and not p.extra)
    }
    heads = Counter(
        pattern.partition("{i}.")[0]
        for pattern in patterns
        if "{i}." in pattern and pattern.partition("{i}.")[2] in inside
    )
    if not heads:
        return None
    seen = min(heads, key=lambda head: (-heads[head], len(head), head))
    wanted = next(iter(inside.values()))
    if seen.endswith(wanted) and _at_a_dot(seen, wanted):
        prefix, lacking = seen[: len(seen) - len(wanted)], ""
    elif wanted.endswith(seen) and _at_a_dot(wanted, seen):
        prefix, lacking = "", wanted[: len(wanted) - len(seen)]
    else:
        # A wrapper's name before the bare names of a published file.
        lacking = layout.optional_prefix
        bare = wanted[len(lacking) :]
        if not lacking or not seen.endswith(bare) or not _at_a_dot(seen, bare):
            return None
        prefix = seen[: len(seen) - len(bare)]
    table = {param.name: param for param in params}
    hit = {name for name in (own_name(pattern, table, prefix, lacking) for pattern in patterns) if name}
    explained = sum(own_name(pattern, table, prefix, lacking) is not None for pattern in patterns) / len(patterns)
    required = [param.name for param in params if not (param.when or param.extra)]
    present = sum(name in hit for name in required) / len(required)
    return Fit(family, layout, prefix, lacking, explained, present)


def _at_a_dot(longer: str, shorter: str) -> bool:
    return len(longer) == len(shorter) or longer[len(longer) - len(shorter) - 1] == "."


def own_name(pattern: str, table: Mapping[str, Param], prefix: str, lacking: str) -> Optional[str]:
    """The layout's name for an observed pattern, or None."""
    if prefix and pattern.startswith(prefix) and pattern[len(prefix) :] in table:
        return pattern[len(prefix) :]
    if lacking and lacking + pattern in table:
        return lacking + pattern
    if lacking and prefix and pattern.startswith(prefix) and lacking + pattern[len(prefix) :] in table:
        return lacking + pattern[len(prefix) :]
    return pattern if pattern in table else None


def model_of(fit: Fit, tensors: Mapping[str, Tensor]) -> Model:
    """The tensors as a layout explains them: members, sizes by majority, and what falls out of line."""
    table = {param.name: param for param in fit.family.own_params(fit.layout)}
    cache: dict[str, Optional[Param]] = {}
    placed: list[tuple[Tensor, Param, Place]] = []
    unknown, states, buffers, adapters = [], [], [], []
    for name, tensor in tensors.items():
        at = place(name)
        if at.pattern not in cache:
            own = own_name(at.pattern, table, fit.prefix, fit.lacking)
            cache[at.pattern] = table[own] if own else None
        param = cache[at.pattern]
        if param is not None:
            placed.append((tensor, param, at))
        elif is_state(name) or tensor.elements <= 1:  # counters that append_dict put there
            states.append(name)
        elif is_buffer(name) or (fit.prefix and is_buffer(name[len(fit.prefix) :])):
            buffers.append(name)
        elif is_lora(name):
            adapters.append(name)
        else:
            unknown.append(name)
    base = _extra_base(fit, placed)
    members = [_member(tensor, param, at, base) for tensor, param, at in placed]
    order = {param: index for index, param in enumerate(table.values())}
    members_in_order = sorted(members, key=lambda member: order[member.param])
    symbols = _solve(members_in_order)
    odd = _odd(members, symbols)
    if odd:
        symbols = _turned(members_in_order, odd) or symbols
        odd = _odd(members, symbols)
    return Model(
        fit.family,
        fit.layout,
        fit.prefix,
        fit.lacking,
        fit.score,
        tuple(members),
        tuple(unknown),
        tuple(states),
        tuple(buffers),
        tuple(adapters),
        symbols,
        odd,
    )


def _odd(members: Iterable[Member], symbols: Mapping[str, int]) -> tuple[Odd, ...]:
    """Members whose shape is not the one that the symbols give."""
    return tuple(
        Odd(member.tensor, expected)
        for member in members
        if ((expected := _expected(member.param, symbols)) != member.tensor.shape and None not in expected)
        or len(expected) != len(member.tensor.shape)
    )


def _turned(members: Iterable[Member], odd: Iterable[Odd]) -> Optional[dict[str, int]]:
    """The sizes when all odd matrices are taken for transposed ones, if everything fits then: where most matrices
    that tell a size are turned, the majority is wrong."""
    names = {item.tensor.name for item in odd if len(item.tensor.shape) == 2}
    turned = [
        replace(member, tensor=member.tensor._replace(shape=tuple(reversed(member.tensor.shape))))
        if member.tensor.name in names
        else member
        for member in members
    ]
    symbols = _solve(turned)
    return None if _odd(turned, symbols) else symbols


def _member(tensor: Tensor, param: Param, at: Place, base: int) -> Member:
    layer = at.layer if at.layer is None or not at.extra else base + at.layer
    return Member(tensor, param, layer, at.expert)


def _extra_base(fit: Fit, placed: Iterable[tuple[Tensor, Param, Place]]) -> int:
    """The number of the first extra layer: they follow the others, and are among the numbered ones where a layout
    keeps their attention there."""
    placed = list(placed)
    plain = {at.layer for _, _, at in placed if at.layer is not None and not at.extra}
    extra = {at.layer for _, _, at in placed if at.layer is not None and at.extra}
    after = max(plain, default=-1) + 1
    inside = {param for _, param, _ in placed if param.extra and not param.when}
    return after if inside else max(after - len(extra), 0)


def _expected(param: Param, symbols: Mapping[str, int]) -> tuple[Optional[int], ...]:
    return tuple(evaluate(axis, symbols) for axis in param.shape)


def _solve(members: Iterable[Member]) -> dict[str, int]:
    """Sizes of the symbols by majority, those that stand alone first."""
    equations: Counter[tuple[str, int]] = Counter()
    first: dict[tuple[str, int], int] = {}
    experts: set[int] = set()
    for order, member in enumerate(members):
        if member.expert is not None:
            experts.add(member.expert)
        if len(member.param.shape) == len(member.tensor.shape):
            for axis, length in zip(member.param.shape, member.tensor.shape):
                equations[axis, length] += 1
                first.setdefault((axis, length), order)
    symbols: dict[str, int] = {"E": max(experts) + 1} if experts else {}
    while True:
        votes: dict[str, Counter[int]] = {}
        earliest: dict[tuple[str, int], int] = {}
        fewest = min((_unknown(axis, symbols) for axis, _ in equations if _unknown(axis, symbols)), default=0)
        if fewest != 1:
            return symbols
        simple = min(len(parse(axis)) for axis, _ in equations if _unknown(axis, symbols) == 1)
        for (axis, length), count in equations.items():
            if len(parse(axis)) > simple:
                continue
            answer = solve(axis, length, symbols)
            if answer is not None:
                symbol, value = answer
                votes.setdefault(symbol, Counter())[value] += count
                key = (symbol, value)
                earliest[key] = min(earliest.get(key, 1 << 60), first[axis, length])
        if not votes:
            return symbols
        for symbol, found in votes.items():
            symbols[symbol] = min(found, key=lambda value: (-found[value], earliest[symbol, value]))


def _unknown(axis: str, symbols: Mapping[str, int]) -> int:
    return len({symbol for _, names in parse(axis) for symbol in names if symbol not in symbols})
