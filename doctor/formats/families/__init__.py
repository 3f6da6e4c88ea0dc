"""Model families as data: one module a kin, each with names, symbolic shapes and layouts."""

from __future__ import annotations

from collections.abc import Mapping

from doctor.formats.families.deepseek import DEEPSEEK_V3
from doctor.formats.families.family import Family
from doctor.formats.families.glm import CHATGLM, CHATGLM2, GLM, GLM4
from doctor.formats.families.gpt import BLOOM, GPT2
from doctor.formats.families.llama import LLAMA, QWEN2, QWEN3
from doctor.formats.families.moe import GLM4_MOE, QWEN3_MOE
from doctor.formats.families.qwen import QWEN

#: In the order in which equally good matches are preferred.
FAMILIES: tuple[Family, ...] = (
    LLAMA, QWEN2, QWEN3, QWEN3_MOE, QWEN, CHATGLM2, GLM, GLM4, GLM4_MOE, CHATGLM, BLOOM, GPT2, DEEPSEEK_V3,
)  # fmt: skip

BY_ID: Mapping[str, Family] = {family.id: family for family in FAMILIES}
