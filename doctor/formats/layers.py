"""Takes parameter names apart: the pattern they share between layers and experts, and the numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, Optional

_LAYER = re.compile(r"(?:(?<=\.)|^)(layers|layer|h|blocks|block)\.(\d+)(?=\.|$)")
#: Extra prediction layers, which MindFormers counts from 0 under names of their own.
_EXTRA = re.compile(r"(?:(?<=\.)|^)(?:mtp_hidden_fusers|mtp_norms|mtp\.layers)\.(\d+)(?=\.|$)")
_EXPERT = re.compile(r"(?<=\.)(experts)\.(\d+)(?=\.|$)")

#: Optimizer states and run counters that MindSpore and its optimizers keep beside the parameters.
STATE = re.compile(
    r"(?:(?:adam_m|adam_v|moment1|moment2|moments|accu_grads|accum|exp_avg|exp_avg_sq|momentum|stat|grad_fp32"
    r"|fp32_master|master_weight|exp_avg_sq_row|exp_avg_sq_col|exp_avg_insta)\..+"
    r"|global_step|loss_scale|epoch_num|step_num|current_iterator_step|last_overflow_iterator_step|learning_rate"
    r"|beta1_power|beta2_power|scale_sense|scaling_sens|assigner|current_step|consumed_samples|global_batch_size"
    r"|optimizer\..+|rank_id|data_skip_steps|train_state.*|network_type|arch_type|has_trained_.*)"
)
#: Buffers that a model computes anew: rotary tables, causal masks, position numbers.
BUFFER = re.compile(
    r"(?:.*\.)?(?:rotary_emb\.(?:inv_freq|cos_cached|sin_cached)|rotary_pos_emb\.inv_freq|rope\.freqs|inv_freq"
    r"|position_ids|attention\.beta|attention\.masked_beta|freqs_cis|freqs_cos|freqs_sin|swap_mask)"
    r"|(?:transformer\.)?h\.\d+\.attn\.(?:bias|masked_bias)"
)
#: Low-rank adapters in the spellings of PEFT, mindpet and MindFormers, and prompt tuning.
LORA = re.compile(
    r".*\.(?:lora_[AB](?:\.default)?\.weight|lora_[ab]|lora_embedding_[AB](?:\.default)?|lora_magnitude_vector.*"
    r"|mindpet_delta_lora_[ab]|tk_delta_lora_[ab]|mindpet_delta_\w+)|prefix_encoder\..+|prompt_encoder\..+"
)


class Place(NamedTuple):
    """A name without its numbers: ``model.layers.{i}.mlp.experts.{e}.up_proj.weight``, layer 3, expert 7."""

    pattern: str
    layer: Optional[int]
    expert: Optional[int]
    #: whether the layer is counted among the extra prediction layers ({m} in the pattern)
    extra: bool = False


@lru_cache(maxsize=1 << 17)
def place(name: str) -> Place:
    """Takes the layer and the expert number out of a name; the first layer-like number counts."""
    layer = expert = None
    extra = _EXTRA.search(name)
    match = _LAYER.search(name)
    if extra:
        layer = _number(extra[1])
        name = f"{name[: extra.start(1)]}{{m}}{name[extra.end(1) :]}"
    elif match:
        layer = _number(match[2])
        name = f"{name[: match.start(2)]}{{i}}{name[match.end(2) :]}"
    match = _EXPERT.search(name)
    if match:
        expert = _number(match[2])
        name = f"{name[: match.start(2)]}{{e}}{name[match.end(2) :]}"
    return Place(name, layer, expert, extra is not None)


def _number(digits: str) -> int:
    return int(digits[:9])


def is_state(name: str) -> bool:
    """Whether it is an optimizer state or a counter and no parameter of the model."""
    return STATE.fullmatch(name) is not None


def is_buffer(name: str) -> bool:
    """Whether it is a table that the model computes itself; present or absent, it does not matter."""
    return BUFFER.fullmatch(name) is not None


def is_lora(name: str) -> bool:
    """Whether it belongs to an adapter."""
    return LORA.fullmatch(name) is not None


def by_pattern(names: Iterable[str]) -> Mapping[str, list[tuple[Place, str]]]:
    """Groups names by their pattern, in the order they come."""
    groups: dict[str, list[tuple[Place, str]]] = {}
    for name in names:
        found = place(name)
        groups.setdefault(found.pattern, []).append((found, name))
    return groups
