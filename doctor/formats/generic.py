"""A family made up from the tensors themselves, for models that no module of families knows.

Patterns that most layers have are taken for parameters of every layer, the lengths that they agree on for the
sizes. That is enough to see a layer, a parameter or a shape that falls out of line, and to compare vocabulary,
hidden size and number of layers with a config.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Optional

from doctor.formats.families.family import Family, Layout, Param, Sizes, alike, identity, number, number_or
from doctor.formats.layers import by_pattern, is_buffer, is_lora, is_state
from doctor.formats.recognise import USUAL, Fit, Model, model_of
from doctor.formats.tensor import Tensor

#: Layers from which on a majority means something.
ENOUGH_LAYERS = 3
_EMBEDDING = re.compile(
    r"(?:^|\.)(?:wte|embed_tokens|tok_embeddings|word_embeddings?|embedding|embed_in|embed)\.(?:weight|embedding_weight|embedding_table)$"
)
_HEAD = re.compile(r"(?:^|\.)(?:lm_head|embed_out|output_layer|output|head)\.weight$")
ID = "unknown"


def generic_model(tensors: Mapping[str, Tensor], name: Optional[str] = None) -> Optional[Model]:
    """A model whose family is deduced; None when there are too few numbered layers to tell."""
    usable = {
        key: tensor
        for key, tensor in tensors.items()
        if not (is_state(key) or is_buffer(key) or is_lora(key)) and tensor.elements > 1
    }
    groups = by_pattern(usable)
    layers = {place.layer for members in groups.values() for place, _ in members if place.layer is not None}
    if len(layers) < ENOUGH_LAYERS:
        return None
    hidden = _hidden(usable)
    params = []
    for order, (pattern, members) in enumerate(groups.items()):
        shapes = Counter(usable[full].shape for _, full in members)
        shape = min(shapes, key=lambda item: (-shapes[item], item))
        axes = tuple("H" if length == hidden else f"X{order}_{axis}" for axis, length in enumerate(shape))
        when = ""
        if "{i}" in pattern:
            seen = {place.layer for place, _ in members}
            when = "" if len(seen) >= USUAL * len(layers) else f"kind{len(seen)}-{min(item or 0 for item in seen)}"
        elif len(shape) == 2 and _EMBEDDING.search(pattern):
            axes = ("V", axes[1])
        elif len(shape) == 2 and _HEAD.search(pattern):
            axes, when = ("V", axes[1]), "head"
        params.append(Param(pattern, axes, when))
    family = Family(ID, name or "unknown", (), tuple(params), (Layout(ID, identity(params).groups),), _sizes)
    return model_of(Fit(family, family.layouts[0], "", "", 1.0, 1.0), tensors)


def _hidden(tensors: Mapping[str, Tensor]) -> Optional[int]:
    """The width of the embedding; None when none is recognised by its name."""
    tables = [tensor for name, tensor in tensors.items() if len(tensor.shape) == 2 and _EMBEDDING.search(name)]
    return max(tables, key=lambda tensor: tensor.shape[0]).shape[1] if tables else None


def _sizes(config: Mapping[str, Any]) -> Sizes:
    symbols = {
        "V": number(config, "vocab_size", "padded_vocab_size"),
        "H": number(config, "hidden_size", "n_embd", "d_model"),
    }
    layers = number_or(config, 0, "num_hidden_layers", "num_layers", "n_layer", "n_layers")
    return Sizes(symbols, alike(layers), frozenset(), frozenset({"head"}))
