"""What a name in a step line means: ``cur_lr`` is the learning rate, ``lm loss`` the loss, ``fps`` a throughput.

One pure function, `role`, from the words before a number to what the number is. All formats share it, those known
beforehand and those met for the first time.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple, Optional

#: qualities of a loss, best first: a line that names several is read for its best one
LOSS_PLAIN, LOSS_NAMED, LOSS_TOTAL, LOSS_MEAN, LOSS_PART, LOSS_SIDE, LOSS_EVAL = range(7)


class Role(NamedTuple):
    """`field` is a field of Metric, or one of epoch_time, sink_time, skipped (iterations), seen (samples so far).
    The lower `quality`, the surer; of losses it is one of the constants above. `unit` was named in the key, as in
    ``elapsed time per iteration (s)``."""

    field: str
    quality: int = 0
    unit: str = ""


_NAMES: dict[str, Role] = {}


def _names(role: Role, names: str) -> None:
    for name in names.split():
        _NAMES[name] = role


# Names are compared as their letters alone, in lower case: `per_step_time` and `per step time` are `persteptime`.
_names(
    Role("step"),
    "step trainstep trainingstep curstep currentstep iter iteration globaliter curiter trainiter trainiteration evalstep"
    " evaliter globalstepmaxsteps 步 步数 步骤 迭代 迭代次数 当前步数 训练步数",
)
_names(Role("step", 1), "batch episode it batchidx batchindex minibatch stepnum totalstep")
_names(Role("global_step"), "globalstep gloablstep 全局步数")
_names(Role("steps"), "steps iters iterations totalsteps maxsteps stepsperepoch totaliters 总步数")
_names(
    Role("epoch"),
    "epoch epcoh epochs curepoch currentepoch trainepoch trainingepoch 轮 轮次 轮数 训练轮次 训练轮数 当前轮次",
)
_names(
    Role("lr"), "lr curlr learningrate currentlr learnrate trainlr lrcur currentlearningrate avglr 学习率 当前学习率"
)
_names(
    Role("loss_scale"),
    "lossscale scale lossscaler lossscaling gradscale scalingsens scalesense curlossscale currentlossscale scalingfactor"
    " 损失缩放 损失缩放系数 损失缩放降为 损失缩放因子",
)
_names(
    Role("grad_norm"),
    "globalnorm gradnorm gradientnorm globalgradnorm gradsnorm totalnorm norm gnorm totalgradnorm globalgradientnorm"
    " traingradnorm 梯度范数 全局范数 梯度全局范数",
)
_names(Role("overflow"), "overflow overflowcond isoverflow overflowflag 溢出 梯度溢出 是否溢出")
_names(
    Role("step_time_ms"),
    "persteptime steptime averagetimeperstep avgsteptime elapsedtimeperiteration itertime timeperstep stepavg stepcost"
    " averagesteptime costtime meansteptime iterationtime elapsedtimeperiter timeperiteration trainsteptime perstepcost"
    " 每步耗时 单步耗时 步耗时 单步时间",
)
_names(Role("step_time_ms", 1), "time timer dt cost timecost 耗时")
_names(Role("data_time_ms"), "datatime dataloadtime dataloadingtime loaddatatime")
_names(Role("epoch_time"), "epochtime trainepochtime evalepochtime epochcost")
_names(Role("sink_time"), "persinksizesteptime")
_names(
    Role("memory_mb"),
    "maxmemoryallocated memory mem maxmemory peakmemory memoryallocated allocatedmemory devicememory npumemory hbm 显存"
    " 显存占用",
)
_names(Role("throughput", 0, "TFLOP/s"), "trainthroughputpernpu tflops throughputpergpu throughputpernpu")
_names(
    Role("throughput", 1, "tokens/s"),
    "tps tokspersec tokensps tokenspersec tokenspersecond toksec tokenssec tokenspers tokenss",
)
_names(Role("throughput", 1, "samples/s"), "samplespersecond samplespersec samplessec sampless samplespers ips")
_names(Role("throughput", 1, ""), "throughput fps meanfps 吞吐 吞吐量 吞吐率")
_names(Role("skipped"), "numberofskippediterations skippediterations")
_names(Role("rank"), "rank rankid")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# `loss` beside one of these is a setting, a count or a judgement, not the loss of a step
_NOT_A_LOSS = _words(
    "scale scaler scaling scaled weight weights coef coeff coefficient factor ratio mask masks type fn func function"
    " threshold limit reduction window interval freq frequency repeat ppl perplexity num number count chunk chunks"
    " local best min max minimum maximum lowest highest initial init final previous prev last target expected"
    " without with monitor callback parallel dtype compute sens reduce worst delta diff change improvement std var"
    " skip patience tolerance tol alpha gamma beta epsilon dim acc accuracy norm time lr"
)
_EVALUATION = _words("eval evaluation val valid validation test dev 验证 评估 测试")
_MEAN = _words("avg average mean aver ave ma smooth smoothed running moving epoch 平均")
_NAMED = _words(
    "lm train training cur current step now language value batch tr is the a info debug warning iter 训练 当前 语言模型"
)
# beside the loss of a policy: they begin at nothing and grow, or shrink, as they should
_SIDE = _words("kl entropy ent aux balance balancing router critic vf")
_TOTAL = _words("total sum overall all reduced 总")

# `number of epochs: 3` names no epoch; a name may stand behind other words but not behind these
_BLOCKS = _words(
    "number num of total max min per every each warmup decay save log interval skipped nan remaining best first from"
    " to than after until resume start initial sink accumulation gradient accumulate micro size any no not within next"
    " previous last restore init scheduler validate eval"
)

# `DP rank`, `lora rank` and `local rank` are others
_RANK_MAY_FOLLOW = _words("info debug warning error global train worker")

_UNIT = re.compile(r"\s*\(([A-Za-z/ ]{1,14})\)$")
_LETTERS = re.compile(r"[^a-z一-鿿]+")
_SPLIT = re.compile(r"[\s/|-]+")
_LOSS = re.compile(r"(?i)loss(?:es)?(?![a-z]{3})|损失")


@lru_cache(maxsize=4096)
def role(key: str) -> Optional[Role]:
    """What the number behind `key` is, or None. `key`: the text before the separator, in any case."""
    found = _UNIT.search(key)
    unit = ""
    if found:
        unit, key = found.group(1).strip(), key[: found.start()]
    key = key.lower()
    words = [word for word in _SPLIT.split(key) if word]
    meaning = None
    for first in range(len(words)):
        meaning = _NAMES.get(_LETTERS.sub("", "".join(words[first:])))
        if meaning is not None:
            before = words[:first]
            if meaning.field == "rank":
                blocked = not _RANK_MAY_FOLLOW.issuperset(before)
            else:
                blocked = any(word in _BLOCKS for word in before) and before[-1] != "at"
            meaning = None if blocked else meaning
            break
    if meaning is None and words and _LOSS.search(" ".join(words[-2:])):
        meaning = _loss(key)
    return meaning._replace(unit=unit) if meaning is not None and unit else meaning


def _loss(key: str) -> Optional[Role]:
    """The quality of a key in which a loss is named."""
    parts = [word for word in re.split(r"[^a-z0-9一-鿿]+", key) if word]
    rest = []
    for word in parts:
        left = re.sub(r"loss(es)?|损失(值|函数值)?", "", word)
        if left:
            rest.append(left)
    if any(word in _NOT_A_LOSS for word in rest):
        return None
    if any(word in _EVALUATION for word in rest):
        return Role("loss", LOSS_EVAL)
    if not rest:
        return Role("loss", LOSS_PLAIN)
    if any(word in _MEAN for word in rest):
        return Role("loss", LOSS_MEAN)
    if any(word in _TOTAL for word in rest):
        return Role("loss", LOSS_TOTAL)
    if all(word in _NAMED for word in rest):
        return Role("loss", LOSS_NAMED)
    if any(word in _SIDE for word in rest) and "cross" not in rest:
        return Role("loss", LOSS_SIDE)
    return Role("loss", LOSS_PART)
