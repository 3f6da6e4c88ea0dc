"""A model family: its parameters under their Hugging Face names, and the other layouts they are kept in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Callable, Union

from doctor.formats.families.ops import SAME, Op

HUGGINGFACE = "huggingface"
META = "meta"
MINDFORMERS = "mindformers"
MCORE = "mcore"


@dataclass(frozen=True)
class Param:
    """A parameter: name with ``{i}`` for the layer, ``{e}`` for the expert, ``{m}`` for the number of an extra
    prediction layer counted from 0; symbolic shape, and when it is there.

    `when` is empty for a parameter that always is, else a feature of the model (``head``: the output layer is
    not tied) or of the layer (``dense``, ``moe``).
    """

    name: str
    shape: tuple[str, ...]
    when: str = ""

    @property
    def in_layer(self) -> bool:
        return "{i}" in self.name or self.extra

    @property
    def extra(self) -> bool:
        """Whether only extra prediction layers have it."""
        return "{m}" in self.name


@dataclass(frozen=True)
class Group:
    """Parameters of a layout (`own`) and the family's (`canonical`) that hold the same values, by an operation."""

    own: tuple[str, ...]
    canonical: tuple[str, ...]
    op: Op = SAME


@dataclass(frozen=True)
class Layout:
    """One way to keep a family. `variant` tells two of the same name apart (fused or split projections)."""

    id: str
    groups: tuple[Group, ...]
    variant: str = ""
    #: a prefix that is as usual as none: published Bloom and GPT-2 files lack ``transformer.``
    optional_prefix: str = ""

    @property
    def title(self) -> str:
        return f"{self.id} ({self.variant})" if self.variant else self.id

    @cached_property
    def moved(self) -> frozenset[str]:
        """Canonical parameters that stand under another name in extra prediction layers."""
        return frozenset(name for group in self.groups if "{m}" in group.own[0] for name in group.canonical)

    @cached_property
    def names(self) -> Mapping[bool, frozenset[str]]:
        """Own names in a usual layer (False) and in an extra prediction layer (True)."""
        return {
            extra: frozenset(name for group in self.groups if self.applies(group, extra) for name in group.own)
            for extra in (False, True)
        }

    def applies(self, group: Group, extra: bool) -> bool:
        """Whether a group names its parameters in a usual layer, or in an extra one."""
        if "{m}" in group.own[0]:
            return extra
        return not (extra and group.canonical[0] in self.moved)


@dataclass(frozen=True)
class Sizes:
    """What a config says about shapes: the symbols, the kind of each layer, and the features of the model."""

    symbols: Mapping[str, int]
    kinds: tuple[frozenset[str], ...]
    features: frozenset[str] = frozenset()
    #: features that a config leaves open (a head may be stored although it is tied)
    open: frozenset[str] = frozenset()
    #: kinds of layers that may follow (extra prediction layers)
    extra: tuple[frozenset[str], ...] = ()

    @property
    def layers(self) -> int:
        return len(self.kinds)


@dataclass(frozen=True)
class Family:
    """A family as data. `sizes` reads a Hugging Face config; it raises KeyError or ValueError when it says too little."""

    id: str
    title: str
    model_types: tuple[str, ...]
    params: tuple[Param, ...]
    layouts: tuple[Layout, ...]
    sizes: Callable[[Mapping[str, Any]], Sizes]
    #: MindFormers classes and aliases, lower case
    aliases: tuple[str, ...] = ()
    #: parameters of extra layers that repeat one of the model (canonical names), for layouts that do not keep them
    copies: Mapping[str, str] = field(default_factory=dict)
    #: parameters that tell this family from one with the same other names
    marks: tuple[str, ...] = ()
    #: features of the model (not of single layers)
    model_features: frozenset[str] = field(default=frozenset({"head"}))

    @cached_property
    def by_name(self) -> Mapping[str, Param]:
        return {param.name: param for param in self.params}

    @cached_property
    def huggingface(self) -> Layout:
        return next(layout for layout in self.layouts if layout.id == HUGGINGFACE)

    def own_params(self, layout: Layout) -> tuple[Param, ...]:
        """The parameters of a layout, with the shapes that its operations give."""
        return _own_params(self, layout)


def _own_params(family: Family, layout: Layout) -> tuple[Param, ...]:
    found = []
    for group in layout.groups:
        sources = [family.by_name[name] for name in group.canonical]
        shapes = group.op.shapes([source.shape for source in sources])
        found += [Param(name, shape, sources[0].when) for name, shape in zip(group.own, shapes)]
    return tuple(found)


Names = Union[str, tuple[str, ...]]


def group(own: Names, canonical: Names, op: Op = SAME) -> Group:
    """`Group` with single names given as they are."""
    return Group(_tuple(own), _tuple(canonical), op)


def _tuple(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def identity(params: Iterable[Param], optional_prefix: str = "") -> Layout:
    """The Hugging Face layout: the family's own names."""
    return Layout(HUGGINGFACE, tuple(group(param.name, param.name) for param in params), "", optional_prefix)


def stacked(params: Iterable[Param], *groups: Group) -> Layout:
    """The Hugging Face layout with the experts of a layer in the tensors of `groups` (``state_dict()`` of
    transformers 5; its files keep them apart)."""
    inside = {name for item in groups for name in item.canonical}
    rest = tuple(group(param.name, param.name) for param in params if param.name not in inside)
    return Layout(HUGGINGFACE, (*rest, *groups), "stacked experts")


def param(name: str, shape: str, when: str = "") -> Param:
    """`Param` with the shape as words: ``"Q H"``."""
    return Param(name, tuple(shape.split()), when)


def layer(prefix: str, rows: Mapping[str, str], when: str = "") -> tuple[Param, ...]:
    """Parameters of a layer: a prefix such as ``model.layers.{i}.`` and name, shape pairs."""
    return tuple(param(prefix + name, shape, when) for name, shape in rows.items())


def number(config: Mapping[str, Any], *names: str) -> int:
    """The first of these config fields that holds a positive whole number. Raises KeyError when none does."""
    for name in names:
        value = config.get(name)
        if type(value) is int and value > 0:
            return value
    raise KeyError(names[0])


def number_or(config: Mapping[str, Any], default: int, *names: str) -> int:
    """`number`, or the default."""
    try:
        return number(config, *names)
    except KeyError:
        return default


def alike(layers: int, *features: str) -> tuple[frozenset[str], ...]:
    """All layers of one kind. Raises ValueError for a number of layers that no model has."""
    if layers > 10_000:
        raise ValueError(f"{layers} layers")
    return (frozenset(features),) * layers
