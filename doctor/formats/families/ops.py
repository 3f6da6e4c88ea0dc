"""How a layout stores parameters: each operation turns the family's own (Hugging Face) tensors into the
layout's and back. All of them only move values, so that a round trip gives the same bits.

Symbolic shapes go through the same operations, so that a layout states its names only once. Arrays are
numpy's; numpy is imported by those who call `forward` and `backward` with arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable

from doctor.formats.families.expr import added

Shape = tuple[str, ...]
Sizes = Mapping[str, int]
#: arrays of numpy; typed loosely so that this module loads without it
Arrays = Sequence[Any]


@dataclass(frozen=True)
class Op:
    """`shapes` maps symbolic shapes forward; `needs` are the symbols that `forward` and `backward` ask for."""

    name: str
    shapes: Callable[[Sequence[Shape]], list[Shape]]
    forward: Callable[[Arrays, Sizes], list[Any]]
    backward: Callable[[Arrays, Sizes], list[Any]]
    needs: tuple[str, ...] = ()


def _keep(shapes: Sequence[Shape]) -> list[Shape]:
    return list(shapes)


SAME = Op("same", _keep, lambda arrays, _: list(arrays), lambda arrays, _: list(arrays))

TRANSPOSED = Op(
    "transposed",
    lambda shapes: [tuple(reversed(shape)) for shape in shapes],
    lambda arrays, _: [array.T for array in arrays],
    lambda arrays, _: [array.T for array in arrays],
)


def _stack_rows(shapes: Sequence[Shape]) -> list[Shape]:
    return [(added(*(shape[0] for shape in shapes)), *shapes[0][1:])]


def _join(arrays: Arrays) -> Any:
    import numpy

    return numpy.concatenate(list(arrays), axis=0)


def _cut_qkv(arrays: Arrays, sizes: Sizes) -> list[Any]:
    (fused,) = arrays
    q, k = sizes["Q"], sizes["K"]
    return [fused[:q], fused[q : q + k], fused[q + k :]]


#: q, k and v one after the other, as in MindFormers up to 1.3 and in ChatGLM.
QKV_PLAIN = Op("qkv-plain", _stack_rows, lambda arrays, _: [_join(arrays)], _cut_qkv, ("Q", "K"))


def _group_qkv(arrays: Arrays, sizes: Sizes) -> list[Any]:
    import numpy

    groups = sizes["K"] // sizes["D"]
    q, k, v = (array.reshape(groups, array.shape[0] // groups, *array.shape[1:]) for array in arrays)
    fused = numpy.concatenate([q, k, v], axis=1)
    return [fused.reshape(-1, *arrays[0].shape[1:])]


def _ungroup_qkv(arrays: Arrays, sizes: Sizes) -> list[Any]:
    (fused,) = arrays
    head, groups = sizes["D"], sizes["K"] // sizes["D"]
    rest = fused.shape[1:]
    grouped = fused.reshape(groups, -1, *rest)
    queries = grouped.shape[1] - 2 * head
    parts = grouped[:, :queries], grouped[:, queries : queries + head], grouped[:, queries + head :]
    return [part.reshape(-1, *rest) for part in parts]


#: Megatron's order: for each KV group its query heads, its key head, its value head.
QKV_GROUPED = Op("qkv-grouped", _stack_rows, _group_qkv, _ungroup_qkv, ("K", "D"))


def _cut_halves(arrays: Arrays, _: Sizes) -> list[Any]:
    (fused,) = arrays
    half = fused.shape[0] // 2
    return [fused[:half], fused[half:]]


#: gate rows, then up rows.
HALVES = Op("halves", _stack_rows, lambda arrays, _: [_join(arrays)], _cut_halves)


def _interleave(arrays: Arrays, _: Sizes) -> list[Any]:
    import numpy

    gate, up = arrays
    return [numpy.stack([gate, up], axis=1).reshape(-1, *gate.shape[1:])]


#: gate and up rows in turn: gate 0, up 0, gate 1, up 1.
INTERLEAVED = Op("interleaved", _stack_rows, _interleave, lambda arrays, _: [arrays[0][0::2], arrays[0][1::2]])


def _thirds(shapes: Sequence[Shape]) -> list[Shape]:
    ((rows, *rest),) = shapes
    return [(rows.replace("3*", "", 1), *rest)] * 3


def _cut_thirds(arrays: Arrays, _: Sizes) -> list[Any]:
    (fused,) = arrays
    third = fused.shape[0] // 3
    return [fused[:third], fused[third : 2 * third], fused[2 * third :]]


#: one q|k|v tensor of the family becomes three tensors of the layout.
THIRDS = Op("thirds", _thirds, _cut_thirds, lambda arrays, _: [_join(arrays)])


def _cut_heads(arrays: Arrays, sizes: Sizes) -> list[Any]:
    (fused,) = arrays
    rest = fused.shape[1:]
    by_head = fused.reshape(-1, 3, sizes["D"], *rest)
    return [by_head[:, part].reshape(-1, *rest) for part in range(3)]


def _join_heads(arrays: Arrays, sizes: Sizes) -> list[Any]:
    import numpy

    rest = arrays[0].shape[1:]
    by_head = numpy.stack([array.reshape(-1, sizes["D"], *rest) for array in arrays], axis=1)
    return [by_head.reshape(-1, *rest)]


#: Bloom and ChatGLM-6B: the fused tensor holds q, k, v of each head in turn.
HEADS = Op("heads", _thirds, _cut_heads, _join_heads, ("D",))

#: GPT-2's Conv1D keeps [in, 3*out]: three transposed thirds.
THIRDS_OF_COLUMNS = Op(
    "thirds-of-columns",
    lambda shapes: [(shapes[0][1].replace("3*", "", 1), shapes[0][0])] * 3,
    lambda arrays, sizes: _cut_thirds([arrays[0].T], sizes),
    lambda arrays, _: [_join(arrays).T],
)


def _to_pairs(array: Any, head: int) -> Any:
    rest = array.shape[1:]
    return array.reshape(-1, 2, head // 2, *rest).swapaxes(1, 2).reshape(-1, *rest)


def _to_halves(array: Any, head: int) -> Any:
    rest = array.shape[1:]
    return array.reshape(-1, head // 2, 2, *rest).swapaxes(1, 2).reshape(-1, *rest)


#: Meta keeps the two halves of a rotary pair next to each other, Hugging Face half a head apart.
ROTARY_PAIRS = Op(
    "rotary-pairs",
    _keep,
    lambda arrays, sizes: [_to_pairs(array, sizes["D"]) for array in arrays],
    lambda arrays, sizes: [_to_halves(array, sizes["D"]) for array in arrays],
    ("D",),
)


def _experts_shape(shapes: Sequence[Shape]) -> list[Shape]:
    columns = shapes[0][1]
    return [(f"E*{columns}", added(*(shape[0] for shape in shapes)))]


def _pack_experts(arrays: Arrays, sizes: Sizes) -> list[Any]:
    """Arrays come projection by projection: all gates, then all ups."""
    import numpy

    count = sizes["E"]
    kinds = [arrays[start : start + count] for start in range(0, len(arrays), count)]
    rows = [numpy.concatenate([kind[expert].T for kind in kinds], axis=1) for expert in range(count)]
    return [numpy.concatenate(rows, axis=0)]


def _unpack(kinds: int) -> Callable[[Arrays, Sizes], list[Any]]:
    def unpack(arrays: Arrays, sizes: Sizes) -> list[Any]:
        (packed,) = arrays
        count = sizes["E"]
        blocks = packed.reshape(count, packed.shape[0] // count, packed.shape[1])
        width = packed.shape[1] // kinds
        return [
            blocks[expert][:, kind * width : (kind + 1) * width].T for kind in range(kinds) for expert in range(count)
        ]

    return unpack


#: all experts of a layer in one matrix [E*in, out], gate and up side by side.
EXPERTS_PAIR = Op("experts-pair", _experts_shape, _pack_experts, _unpack(2), ("E",))
EXPERTS = Op("experts", _experts_shape, _pack_experts, _unpack(1), ("E",))


def _cube(op: Op, name: str) -> Op:
    """The same with the experts as a third dimension: [E, in, out]."""

    def shapes(given: Sequence[Shape]) -> list[Shape]:
        return [("E", given[0][1], op.shapes(given)[0][1])]

    def forward(arrays: Arrays, sizes: Sizes) -> list[Any]:
        (packed,) = op.forward(arrays, sizes)
        return [packed.reshape(sizes["E"], -1, packed.shape[1])]

    def backward(arrays: Arrays, sizes: Sizes) -> list[Any]:
        (packed,) = arrays
        return op.backward([packed.reshape(-1, packed.shape[2])], sizes)

    return Op(name, shapes, forward, backward, op.needs)


EXPERTS_PAIR_CUBE = _cube(EXPERTS_PAIR, "experts-pair-cube")
EXPERTS_CUBE = _cube(EXPERTS, "experts-cube")


def _stack_experts(arrays: Arrays, _: Sizes) -> list[Any]:
    import numpy

    return [numpy.stack(list(arrays))]


#: experts stacked as they are: [E, out, in].
EXPERTS_STACKED = Op(
    "experts-stacked",
    lambda shapes: [("E", *shapes[0])],
    _stack_experts,
    lambda arrays, _: list(arrays[0]),
    ("E",),
)


def _stack_pairs(arrays: Arrays, sizes: Sizes) -> list[Any]:
    import numpy

    count = sizes["E"]
    return [numpy.stack([numpy.concatenate([gate, up]) for gate, up in zip(arrays[:count], arrays[count:])])]


def _unstack_pairs(arrays: Arrays, _: Sizes) -> list[Any]:
    (packed,) = arrays
    half = packed.shape[1] // 2
    return [*(expert[:half] for expert in packed), *(expert[half:] for expert in packed)]


#: the same with gate rows over up rows: [E, 2*out, in].
EXPERTS_STACKED_PAIR = Op(
    "experts-stacked-pair",
    lambda shapes: [("E", added(*(shape[0] for shape in shapes)), *shapes[0][1:])],
    _stack_pairs,
    _unstack_pairs,
    ("E",),
)


# Latent attention: NQ and RQ are the query rows without and with a rotary position over all heads, RP the rotary
# rows of one head, O the value rows over all heads, KL the rank of the latent key-value.


def _by_head(array: Any, sizes: Sizes) -> Any:
    heads = sizes["RQ"] // sizes["RP"]
    return array.reshape(heads, array.shape[0] // heads, *array.shape[1:])


def _flat(array: Any) -> Any:
    return array.reshape(-1, *array.shape[2:])


def _split_query(arrays: Arrays, sizes: Sizes) -> list[Any]:
    rows = _by_head(arrays[0], sizes)
    rotary = sizes["RP"]
    return [_flat(rows[:, :-rotary]), _to_halves(_flat(rows[:, -rotary:]), rotary)]


def _join_query(arrays: Arrays, sizes: Sizes) -> list[Any]:
    import numpy

    plain, rotary = (_by_head(array, sizes) for array in (arrays[0], _to_pairs(arrays[1], sizes["RP"])))
    return [_flat(numpy.concatenate([plain, rotary], axis=1))]


_LATENT = ("NQ", "RQ", "RP")

#: DeepSeek in MindFormers: rows without and with a rotary position apart, rotary pairs half a head apart.
LATENT_QUERY = Op(
    "latent-query", lambda shapes: [("NQ", *shapes[0][1:]), ("RQ", *shapes[0][1:])], _split_query, _join_query, _LATENT
)
LATENT_QUERY_MERGED = Op(
    "latent-query-rotary",
    _keep,
    lambda arrays, sizes: _halves_inside(arrays, sizes, _to_halves),
    lambda arrays, sizes: _halves_inside(arrays, sizes, _to_pairs),
    _LATENT,
)


def _halves_inside(arrays: Arrays, sizes: Sizes, turn: Callable[[Any, int], Any]) -> list[Any]:
    """Turns the rotary rows at the end of each head where they stand."""
    import numpy

    rows, rotary = _by_head(arrays[0], sizes), sizes["RP"]
    turned = _by_head(turn(_flat(rows[:, -rotary:]), rotary), sizes)
    return [_flat(numpy.concatenate([rows[:, :-rotary], turned], axis=1))]


def _split_latent(arrays: Arrays, sizes: Sizes) -> list[Any]:
    rotary = sizes["RP"]
    return [_to_halves(arrays[0][-rotary:], rotary), arrays[0][:-rotary]]


def _join_latent(arrays: Arrays, sizes: Sizes) -> list[Any]:
    return [_join([arrays[1], _to_pairs(arrays[0], sizes["RP"])])]


#: the latent key-value: rotary rows first, then the latent ones.
LATENT_KEY = Op(
    "latent-key", lambda shapes: [("RP", *shapes[0][1:]), ("KL", *shapes[0][1:])], _split_latent, _join_latent, ("RP",)
)
LATENT_KEY_MERGED = Op(
    "latent-key-rotary",
    _keep,
    lambda arrays, sizes: [_join([arrays[0][: -sizes["RP"]], _to_halves(arrays[0][-sizes["RP"] :], sizes["RP"])])],
    lambda arrays, sizes: [_join([arrays[0][: -sizes["RP"]], _to_pairs(arrays[0][-sizes["RP"] :], sizes["RP"])])],
    ("RP",),
)


def _split_value(arrays: Arrays, sizes: Sizes) -> list[Any]:
    rows = _by_head(arrays[0], sizes)
    plain = sizes["NQ"] // rows.shape[0]
    return [_flat(rows[:, :plain]), _flat(rows[:, plain:])]


def _join_value(arrays: Arrays, sizes: Sizes) -> list[Any]:
    import numpy

    return [_flat(numpy.concatenate([_by_head(array, sizes) for array in arrays], axis=1))]


#: keys and values of each head, apart.
LATENT_VALUE = Op(
    "latent-value", lambda shapes: [("NQ", *shapes[0][1:]), ("O", *shapes[0][1:])], _split_value, _join_value, _LATENT
)


def _cut_latents(arrays: Arrays, sizes: Sizes) -> list[Any]:
    return [arrays[0][: sizes["QL"]], arrays[0][sizes["QL"] :]]


#: the down projections of query and key-value in one matrix.
LATENT_FUSED = Op("latent-fused", _stack_rows, lambda arrays, _: [_join(arrays)], _cut_latents, ("QL",))
