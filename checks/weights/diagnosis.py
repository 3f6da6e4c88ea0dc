"""Compares what is there with what is meant to be there, and groups the differences by cause.

A checkpoint of another size differs in hundreds of tensors for one reason. The reasons are looked for from
the largest to the smallest; each takes the tensors that it explains out of what is left to list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from doctor.checks.weights.expected import Expected
    from doctor.checks.weights.subject import Weights
    from doctor.formats.families.family import Sizes
    from doctor.formats.recognise import Member, Model, Odd

#: Symbols that tell models of one family apart; two of them different (or the hidden size) is another model.
_SIZE = ("H", "F", "Q", "K", "E", "M", "QL", "KL", "NQ", "RQ", "O", "L")


@dataclass(frozen=True)
class Difference:
    """One size that is not what the config says."""

    symbol: str
    observed: int
    expected: int


@dataclass(frozen=True)
class Diagnosis:
    """The causes. Empty fields mean that nothing of the kind is wrong."""

    model: Model
    expected: Optional[Expected]
    #: what the config says about shapes, in the symbols of the model; None when it says nothing of use
    sizes: Optional[Sizes] = None
    differences: tuple[Difference, ...] = ()
    #: the sizes are those of another model of the family
    other_size: bool = False
    #: the config means another family
    other_family: bool = False
    missing_layers: tuple[int, ...] = ()
    surplus_layers: tuple[int, ...] = ()
    #: names of single parameters that should be there
    missing: tuple[str, ...] = ()
    head_missing: bool = False
    #: experts that are not there: layer, expert
    missing_experts: tuple[tuple[int, int], ...] = ()
    odd: tuple[Odd, ...] = ()
    transposed: tuple[Odd, ...] = ()
    #: embedding and output layer have another number of rows
    vocabulary_split: tuple[Odd, ...] = ()
    #: of the tensors that are no parameters
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def difference(self, symbol: str) -> Optional[Difference]:
        """The difference in one symbol."""
        return next((item for item in self.differences if item.symbol == symbol), None)


def diagnose(subject: Weights) -> Optional[Diagnosis]:
    """The comparison; None when no family was recognised."""
    model = subject.model
    if model is None:
        return None
    expected = subject.expected
    sliced = subject.set.sliced
    other_family = bool(
        expected is not None
        and expected.family is not None
        and expected.family is not model.family
        and not _same_names(expected, model)
    )
    sizes = None if other_family or expected is None else _sizes(expected, model)
    differences = () if sizes is None or sliced else _differences(model, sizes.symbols, sizes.layers, subject)
    changed = {item.symbol for item in differences}
    other_size = bool(differences) and ("H" in changed or len(changed & set(_SIZE)) >= 2)
    wanted = model.depth if sizes is None or other_size or not sizes.layers else sizes.layers
    present = set(model.layers)
    extra = sizes.extra if sizes is not None else ()
    missing_layers = tuple(layer for layer in range(wanted) if layer not in present)
    surplus = () if other_size else tuple(
        layer for layer in model.layers if layer >= wanted + len(extra) and "mtp" not in model.kinds.get(layer, ())
    )  # fmt: skip
    missing, experts = _missing(model, None if other_size else sizes, wanted)
    # A tensor whose entry is broken is there, and its file's own finding says what is wrong.
    broken = {problem.tensor for problem in subject.set.problems}
    missing = tuple(name for name in missing if name not in broken)
    head = "head" in {param.when for param in model.family.params}
    head_missing = head and "head" not in model.features and _head_wanted(model, expected)
    odd, transposed, vocabulary = ((), (), ()) if sliced else _sort_odd(model)
    if any(item.tensor.shape[0] == difference.expected for item in vocabulary for difference in differences):
        differences = tuple(item for item in differences if item.symbol != "V")
    return Diagnosis(
        model,
        expected,
        sizes,
        differences,
        other_size,
        other_family,
        missing_layers,
        surplus,
        missing,
        head_missing,
        experts,
        odd,
        transposed,
        vocabulary,
        {name: subject.set.tensors[name].shape for name in model.unknown},
    )


def _sizes(expected: Expected, model: Model) -> Optional[Sizes]:
    """What the config says, in the symbols of the model; a made-up family reads the usual fields."""
    from doctor.formats.modelconfig import sizes_of

    return sizes_of(model.family, expected.data) if expected.family is None else expected.sizes


def _same_names(expected: Expected, model: Model) -> bool:
    """Families whose Hugging Face names are the same are one for a loader (a Mistral in a LLaMA's place)."""
    theirs = {param.name for param in expected.family.params if not param.when} if expected.family else set()
    return theirs == {param.name for param in model.family.params if not param.when}


def _differences(model: Model, symbols: Mapping[str, int], layers: int, subject: Weights) -> tuple[Difference, ...]:
    found = [
        Difference(symbol, model.symbols[symbol], value)
        for symbol, value in symbols.items()
        if symbol in model.symbols and model.symbols[symbol] != value
    ]
    if model.depth and layers and model.depth != layers and subject.set.complete:
        found.append(Difference("L", model.depth, layers))
    return tuple(found)


def _head_wanted(model: Model, expected: Optional[Expected]) -> bool:
    """Whether an output layer of its own must be there: the config says so, or the published model has one."""
    if expected is not None and expected.sizes is not None:
        return "head" in expected.sizes.features
    return model.known is not None and not model.known.tied


def _missing(model: Model, sizes: Optional[Sizes], wanted: int) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...]]:
    """Parameters that should be there inside the layers that are, and outside of layers."""
    params = model.family.own_params(model.layout)
    names: list[str] = []
    experts: list[tuple[int, int]] = []
    there = model.by_place
    for param in params:
        if param.in_layer or param.when:
            continue
        if (param.name, None, None) not in there:
            names.append(full_name(model, param.name))
    whens = {param.when for param in params if param.when and param.in_layer}
    count = model.symbols.get("E", 0)
    for layer in model.layers:
        kinds = model.kinds.get(layer, frozenset())
        if layer >= wanted and "mtp" not in kinds:
            continue
        own = model.layout.names["mtp" in kinds]
        if sizes is not None and layer < sizes.layers:
            kinds = frozenset(kind for kind in sizes.kinds[layer] if kind in whens)
        elif {"dense", "moe"} <= whens and not kinds & {"dense", "moe"}:
            names.append(full_name(model, "{i}.mlp", layer))
        for param in params:
            if not param.in_layer or param.name not in own or (param.when and param.when not in kinds):
                continue
            if "{e}" in param.name:
                experts += [(layer, e) for e in range(count) if (param.name, layer, e) not in there]
            elif (param.name, layer, None) not in there:
                names.append(full_name(model, param.name, layer))
    return tuple(names), tuple(sorted(set(experts)))


def full_name(model: Model, own: str, layer: Optional[int] = None) -> str:
    """A layout's name as it would stand in these files."""
    name = own if layer is None else own.replace("{i}", str(layer)).replace("{m}", str(layer - model.depth))
    if model.lacking and name.startswith(model.lacking):
        return model.prefix + name[len(model.lacking) :]
    return model.prefix + name


def _sort_odd(model: Model) -> tuple[tuple[Odd, ...], tuple[Odd, ...], tuple[Odd, ...]]:
    """Odd shapes into: the rest, transposed ones, and a vocabulary that embedding and head disagree on."""
    by_name = {member.tensor.name: member for member in model.members}
    rest, transposed, vocabulary = [], [], []
    for odd in model.odd:
        shape = odd.tensor.shape
        member = by_name[odd.tensor.name]
        if len(shape) == 2 and shape == tuple(reversed(odd.expected)):
            transposed.append(odd)
        elif _only_vocabulary(member, odd):
            vocabulary.append(odd)
        else:
            rest.append(odd)
    return tuple(rest), tuple(transposed), tuple(vocabulary)


def _only_vocabulary(member: Member, odd: Odd) -> bool:
    return (
        len(member.param.shape) == len(odd.tensor.shape)
        and member.param.shape[0] == "V"
        and odd.tensor.shape[1:] == odd.expected[1:]
    )
