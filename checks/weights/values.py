"""On request (--values): are the numbers such that training can start from them?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from doctor.check import Skip, check
from doctor.checks.weights.subject import Weights
from doctor.checks.words import some
from doctor.finding import Evidence, Finding, Severity, Text
from doctor.formats.layers import is_buffer, is_lora, is_state, place
from doctor.rule import Rule

if TYPE_CHECKING:
    from doctor.formats.values import Statistics

_ASK = Text("it reads every value; ask for it with --values", "需要读取全部数值；请加 --values")
_ELSEWHERE = Text(
    "Go back to the last checkpoint before it, or take the file from its source again; look at the loss around that step.",
    "退回到此前的权重，或从源头重新获取；并查看该步附近的 loss。",
)


def statistics(subject: Weights) -> Mapping[str, Statistics]:
    """Of the parameters, without states and buffers. Raises Skip unless values were asked for."""
    if not subject.options.values:
        raise Skip(_ASK)
    return {
        name: row
        for name, row in subject.statistics.items()
        if row.complete and not is_state(row.name) and not is_buffer(row.name)
    }


def _evidence(subject: Weights, rows: Iterable[tuple[str, object]], expected: object = None) -> list[Evidence]:
    listed = list(rows)[:5]
    return [
        Evidence("value", str(subject.path), key=name, observed=observed, expected=expected)
        for name, observed in listed
    ]


@check(
    Rule(
        id="WGT-VAL-001",
        name="weights-not-a-number",
        severity=Severity.ERROR,
        category="nan-overflow",
        title=Text("{count} tensors hold NaN", "有 {count} 个张量含 NaN"),
        why=Text(
            "{names}; the first is at element {first} of {sample}. Every step from these weights has a loss of NaN. They were "
            "saved after the run had diverged, or the file is damaged.",
            "{names_zh}；首个位于 {sample} 的第 {first} 个元素。从这些权重开始的每一步 loss 都是 NaN。权重是在发散之后保存的，或文件已损坏。",
        ),
        fix=_ELSEWHERE,
        verify="doctor check --values {path}",
    )
)
def not_a_number(subject: Weights) -> Iterator[Finding]:
    wrong = [(name, row) for name, row in statistics(subject).items() if row.nan]
    if wrong:
        names = some([name for name, _ in wrong])
        yield not_a_number.finding(
            evidence=_evidence(subject, ((name, f"{row.nan} NaN of {row.elements}") for name, row in wrong), "finite"),
            count=len(wrong),
            names=names.en,
            names_zh=names.zh,
            first=wrong[0][1].first_bad,
            sample=wrong[0][0],
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-VAL-002",
        name="weights-infinite",
        severity=Severity.ERROR,
        category="nan-overflow",
        title=Text("{count} tensors hold infinities", "有 {count} 个张量含 Inf"),
        why=Text(
            "{names}: values became infinite, most often when larger ones were converted to float16 (limit 65504).",
            "{names_zh}：存在无穷大，最常见于把较大的值转换为 float16（上限 65504）。",
        ),
        fix=Text(
            "Convert again from the original to bfloat16: doctor convert SRC DST --dtype bfloat16",
            "从原始权重转换为 bfloat16：doctor convert SRC DST --dtype bfloat16",
        ),
        verify="doctor check --values {path}",
    )
)
def infinite(subject: Weights) -> Iterator[Finding]:
    wrong = [(name, row) for name, row in statistics(subject).items() if row.infinite]
    if wrong:
        names = some([name for name, _ in wrong])
        yield infinite.finding(
            evidence=_evidence(
                subject, ((name, f"{row.infinite} Inf of {row.elements}") for name, row in wrong), "finite"
            ),
            count=len(wrong),
            names=names.en,
            names_zh=names.zh,
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-VAL-003",
        name="weights-all-zero",
        severity=Severity.ERROR,
        category="weights-mismatch",
        title=Text("{count} weights are zero throughout", "有 {count} 个权重全为零"),
        why=Text(
            "{names}: a matrix or a norm of zeros passes nothing on. The tensor was allocated and never written, or the file has a "
            "hole where a copy was interrupted.",
            "{names_zh}：全零的矩阵或归一化参数不会传递任何信号。张量只分配而未写入，或拷贝中断使文件留有空洞。",
        ),
        fix=Text("Take the file from its source again and compare its checksum.", "从源头重新获取该文件并核对校验和。"),
        verify="doctor check --values {path}",
    )
)
def all_zero(subject: Weights) -> Iterator[Finding]:
    wrong = [
        (name, row)
        for name, row in statistics(subject).items()
        if row.elements > 1 and row.zeros == row.elements and not _may_be_zero(row.name) and row.finite
    ]
    if wrong:
        names = some([name for name, _ in wrong])
        yield all_zero.finding(
            evidence=_evidence(subject, ((name, "0 throughout") for name, _ in wrong)),
            count=len(wrong),
            names=names.en,
            names_zh=names.zh,
            path=subject.path,
        )


def _may_be_zero(name: str) -> bool:
    """Biases, shifts of norms, adapters' second halves and balancing terms start at zero and may stay there."""
    return (
        name.endswith((".bias", ".beta", "e_score_correction_bias", "expert_bias", "topk_bias", "_bias"))
        or is_lora(name)
        or "zero" in name
    )


@check(
    Rule(
        id="WGT-VAL-004",
        name="dead-rows",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text("{count} rows of {name} are zero", "{name} 有 {count} 行全为零"),
        why=Text(
            "Rows {rows} hold only zeros{more}. Such outputs are constant: a part of the tensor was never written, or it was pruned.",
            "第 {rows} 行全为零{more_zh}。对应输出恒定：张量有一部分未写入，或经过剪枝。",
        ),
        fix=Text(
            "If the model was not pruned on purpose, take the file from its source again.",
            "若并非有意剪枝，请从源头重新获取该文件。",
        ),
        verify="doctor check --values {path}",
        false_positives=Text(
            "Rows at the end of an embedding or head that pad the vocabulary may be zero.",
            "词表补齐产生的词嵌入或输出层末尾各行可以为零。",
        ),
    )
)
def dead_rows(subject: Weights) -> Iterator[Finding]:
    from doctor.checks.words import ranges

    wrong = []
    for name, row in statistics(subject).items():
        if not row.dead_row_count or row.zeros == row.elements or is_lora(row.name):
            continue
        rows = row.shape[0]
        tail = row.dead_rows == tuple(range(rows - row.dead_row_count, rows))
        if _is_table(row.name) and (tail or row.dead_row_count <= max(8, rows // 100)):
            continue
        wrong.append((name, row))
    if wrong:
        name, first = wrong[0]
        others = some([other for other, _ in wrong[1:]])
        yield dead_rows.finding(
            evidence=_evidence(subject, ((other, f"{row.dead_row_count} rows of zeros") for other, row in wrong)),
            count=first.dead_row_count,
            name=name,
            rows=ranges(first.dead_rows[:50]),
            more=f"; so have {others.en}" if wrong[1:] else "",
            more_zh=f"；{others.zh} 也有" if wrong[1:] else "",
            path=subject.path,
        )


def _is_table(name: str) -> bool:
    return any(
        part in name for part in ("embed", "wte", "wpe", "lm_head", "output_layer", "output.weight", "head.weight")
    )


@check(
    Rule(
        id="WGT-VAL-005",
        name="weights-underflow",
        severity=Severity.WARNING,
        category="nan-overflow",
        title=Text("Many values of {count} tensors are denormal", "{count} 个张量中大量数值为非规格化数"),
        why=Text(
            "{name}: {share:.1%} of the values are below the smallest normal {dtype}, where precision is lost and Ascend may flush "
            "them to zero. They were scaled down, or converted to a type too narrow for them.",
            "{name}：{share:.1%} 的数值小于 {dtype} 的最小规格化数，精度丢失，昇腾上可能被清零。权重被缩小过，或转换到了过窄的类型。",
        ),
        fix=Text(
            "Convert again from the original to bfloat16: doctor convert SRC DST --dtype bfloat16",
            "从原始权重转换为 bfloat16：doctor convert SRC DST --dtype bfloat16",
        ),
        verify="doctor check --values {path}",
    )
)
def underflow(subject: Weights) -> Iterator[Finding]:
    # Weights of the usual size have about 0.2 % of their float16 values below 6e-5.
    wrong = [
        (name, row)
        for name, row in statistics(subject).items()
        if row.elements >= 64 and row.denormal > (0.1 if row.dtype == "float16" else 0.02) * row.elements
        and not row.dtype.startswith("float8")
    ]  # fmt: skip
    if wrong:
        name, first = wrong[0]
        yield underflow.finding(
            evidence=_evidence(subject, ((other, f"{row.denormal} of {row.elements}") for other, row in wrong)),
            count=len(wrong),
            name=name,
            share=first.denormal / first.elements,
            dtype=first.dtype,
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-VAL-006",
        name="values-beyond-float16",
        severity=Severity.INFO,
        category="nan-overflow",
        title=Text("{count} tensors hold values beyond float16", "有 {count} 个张量的数值超出 float16 范围"),
        why=Text(
            "{names}: the largest is {largest:.4g}, float16 ends at 65504. {effect}",
            "{names_zh}：最大值为 {largest:.4g}，而 float16 上限为 65504。{effect_zh}",
        ),
        fix=Text(
            "Use bfloat16 for the parameters (param_init_type: bfloat16).",
            "参数使用 bfloat16（param_init_type: bfloat16）。",
        ),
        verify="doctor check --values {path}",
    )
)
def beyond_half(subject: Weights) -> Iterator[Finding]:
    wrong = [(name, row) for name, row in statistics(subject).items() if row.beyond_half]
    if not wrong:
        return
    names = some([name for name, _ in wrong])
    asked = _half_asked(subject)
    yield beyond_half.finding(
        severity=Severity.ERROR if asked else Severity.INFO,
        evidence=_evidence(subject, ((name, row.largest) for name, row in wrong), "at most 65504"),
        count=len(wrong),
        names=names.en,
        names_zh=names.zh,
        largest=max(row.largest for _, row in wrong),
        effect="The config loads them as float16: they become infinite."
        if asked
        else "They would become infinite if loaded as float16.",
        effect_zh="配置以 float16 加载：这些值会变成无穷大。" if asked else "若以 float16 加载会变成无穷大。",
        path=subject.path,
    )


def _half_asked(subject: Weights) -> bool:
    """Whether a config loads the parameters as float16."""
    for expected in (subject.training, subject.beside):
        if expected is not None and expected.error is None:
            for key in ("param_init_type", "params_dtype", "torch_dtype", "dtype"):
                value = expected.data.get(key)
                if isinstance(value, str):
                    return value.rpartition(".")[2] in {"float16", "fp16", "half"}
    return False


@check(
    Rule(
        id="WGT-VAL-007",
        name="layers-duplicated",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text("Layers {layers} hold the same values", "第 {layers} 层的数值完全相同"),
        why=Text(
            "{count} matrices such as {sample} are equal byte for byte in these layers: a conversion wrote one layer into "
            "several.",
            "{sample} 等 {count} 个矩阵在这些层中逐字节相同：转换时把同一层写入了多层。",
        ),
        fix=Text(
            "Convert again from the original: doctor convert SRC DST", "从原始权重重新转换：doctor convert SRC DST"
        ),
        verify="doctor check --values {path}",
        false_positives=Text("Models deepened by copying layers.", "通过复制层来加深的模型。"),
    )
)
def duplicated(subject: Weights) -> Iterator[Finding]:
    from doctor.checks.words import ranges

    twins: dict[tuple[object, ...], list[tuple[int, str]]] = {}
    for row in statistics(subject).values():
        at = place(row.name)
        if (
            at.layer is None
            or len(row.shape) < 2
            or row.zeros == row.elements
            or row.elements < 16
            or is_lora(row.name)
        ):
            continue
        key = (at.pattern, at.expert, row.shape, row.fingerprint)
        twins.setdefault(key, []).append((at.layer, row.name))
    wrong = [rows for rows in twins.values() if len({layer for layer, _ in rows}) > 1]
    if wrong:
        layers = {layer for rows in wrong for layer, _ in rows}
        yield duplicated.finding(
            evidence=_evidence(subject, ((name, "equal") for _, name in wrong[0])),
            layers=ranges(layers),
            count=len(wrong),
            sample=wrong[0][0][1],
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-VAL-008",
        name="norm-weights-unusual",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text("{count} norm weights have an unusual size", "有 {count} 个归一化权重大小异常"),
        why=Text(
            "{name} has a root mean square of {rms:.3g}, its neighbours {usual:.3g}. A norm that far off scales the whole layer: the "
            "tensor is of another place, or was converted in a type too narrow.",
            "{name} 的均方根为 {rms:.3g}，相邻层为 {usual:.3g}。偏离如此之大的归一化会缩放整层：该张量放错了位置，或转换时类型过窄。",
        ),
        fix=Text(
            "Convert again from the original: doctor convert SRC DST", "从原始权重重新转换：doctor convert SRC DST"
        ),
        verify="doctor check --values {path}",
        confidence=0.7,
    )
)
def norms(subject: Weights) -> Iterator[Finding]:
    wrong = _outliers(
        [row for row in statistics(subject).values() if _is_norm(row.name) and row.finite],
        limit=20.0,
        floor=1e-4,
        ceiling=1e3,
    )
    if wrong:
        row, usual = wrong[0]
        yield norms.finding(
            evidence=_evidence(subject, ((item.name, item.rms) for item, _ in wrong), usual),
            count=len(wrong),
            name=row.name,
            rms=row.rms,
            usual=usual,
            path=subject.path,
        )


def _is_norm(name: str) -> bool:
    return name.endswith((".weight", ".gamma")) and any(part in name for part in ("norm", "ln_", ".ln"))


def _outliers(rows: list[Statistics], limit: float, floor: float, ceiling: float) -> list[tuple[Statistics, float]]:
    """Those `limit` times larger or smaller than the median of the same parameter in the seven layers around, or beyond
    any usual size. Layers differ, but neighbours do not differ that much."""
    groups: dict[tuple[str, int], list[tuple[int, Statistics]]] = {}
    for row in rows:
        at = place(row.name)
        groups.setdefault((at.pattern, at.expert or 0), []).append((at.layer or 0, row))
    found = []
    for members in groups.values():
        members.sort(key=lambda item: item[0])
        for index, (_, row) in enumerate(members):
            around = sorted(other.rms for _, other in members[max(0, index - 3) : index + 4])
            usual = around[len(around) // 2]
            alone = len(members) < 4
            outside = row.rms > ceiling or (row.rms < floor and row.zeros < row.elements)
            if outside or (not alone and usual > 0 and row.rms > 0 and not usual / limit < row.rms < usual * limit):
                found.append((row, usual))
    return found


@check(
    Rule(
        id="WGT-VAL-009",
        name="weights-never-trained",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text("The weights look freshly initialised", "权重像是刚初始化、未经训练"),
        why=Text(
            "Every norm weight is exactly 1 and all matrices have the same spread ({rms:.3g}). A fine-tuning from them starts from "
            "nothing: the checkpoint was saved before training, or the load before it failed silently.",
            "所有归一化权重恰为 1，且各矩阵的离散程度相同（{rms:.3g}）。从它微调等于从零开始：该权重在训练前保存，或此前的加载悄悄失败了。",
        ),
        fix=Text(
            "Use trained weights; check that the run that saved these had loaded its own ('parameters in the net are not loaded').",
            "使用训练过的权重；检查保存它的那次训练是否真正加载了权重（parameters in the 'net' are not loaded）。",
        ),
        verify="doctor check --values {path}",
        confidence=0.8,
    )
)
def untrained(subject: Weights) -> Iterator[Finding]:
    rows = list(statistics(subject).values())
    scales = [row for row in rows if _is_norm(row.name)]
    matrices = [row for row in rows if len(row.shape) == 2 and not is_lora(row.name) and row.elements >= 256]
    if len(scales) < 3 or len(matrices) < 3:
        return
    ones = all(row.finite and row.mean == 1.0 and abs(row.rms - 1.0) < 1e-6 for row in scales)
    sizes = [row.rms for row in matrices if row.finite]
    if ones and sizes and min(sizes) > 0 and max(sizes) / min(sizes) < 1.5:
        yield untrained.finding(
            evidence=_evidence(subject, ((row.name, "1 throughout") for row in scales)),
            rms=sorted(sizes)[len(sizes) // 2],
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-VAL-010",
        name="layer-scale-unusual",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text(
            "{count} matrices are {factor:.3g} times their neighbours' size",
            "有 {count} 个矩阵的大小是相邻层的 {factor:.3g} 倍",
        ),
        why=Text(
            "{name} has a root mean square of {rms:.3g}, the same parameter in the layers around {usual:.3g}: a scale was applied "
            "twice or not at all (quantisation, loss scale), or the tensor is of another model.",
            "{name} 的均方根为 {rms:.3g}，而前后各层同一参数为 {usual:.3g}：缩放被多乘或漏乘（量化、loss scale），或张量来自别的模型。",
        ),
        fix=Text(
            "Convert again from the original: doctor convert SRC DST", "从原始权重重新转换：doctor convert SRC DST"
        ),
        verify="doctor check --values {path}",
        confidence=0.6,
    )
)
def scales(subject: Weights) -> Iterator[Finding]:
    rows = [
        row
        for row in statistics(subject).values()
        if len(row.shape) == 2
        and row.finite
        and row.elements >= 64
        and row.zeros < row.elements
        and not is_lora(row.name)
    ]
    wrong = _outliers(rows, limit=16.0, floor=1e-8, ceiling=1e3)
    if wrong:
        row, usual = wrong[0]
        yield scales.finding(
            evidence=_evidence(subject, ((item.name, item.rms) for item, _ in wrong), usual),
            count=len(wrong),
            factor=row.rms / usual if usual else float("inf"),
            name=row.name,
            rms=row.rms,
            usual=usual,
            path=subject.path,
        )


@check(
    Rule(
        id="WGT-VAL-011",
        name="tied-head-differs",
        severity=Severity.WARNING,
        category="weights-mismatch",
        title=Text("The config ties the head, but the stored head differs", "配置共享词表，但存储的输出层与词嵌入不同"),
        why=Text(
            "With tie_word_embeddings the stored {head} is dropped on load and the embedding used in its place. Here they are not "
            "equal: the model was trained untied, and would lose its head.",
            "启用 tie_word_embeddings 时，加载会丢弃 {head} 而使用词嵌入。两者在此并不相等：模型训练时并未共享，加载后会丢失输出层。",
        ),
        fix=Text("Set tie_word_embeddings: false.", "设置 tie_word_embeddings: false。"),
        verify="doctor check --values {path}",
    )
)
def tied_head(subject: Weights) -> Iterator[Finding]:
    rows = statistics(subject)
    model, expected = subject.model, subject.expected
    if model is None or expected is None or expected.sizes is None or "head" in expected.sizes.features:
        raise Skip(Text("no config that ties the head", "没有共享词表的配置"))
    head = next((member.tensor.name for member in model.members if member.param.when == "head"), None)
    table = next((m.tensor.name for m in model.members if m.param.shape == ("V", "H") and m.param.when != "head"), None)
    if head is None or table is None or head not in rows or table not in rows:
        return
    if rows[head].fingerprint != rows[table].fingerprint and rows[head].dtype == rows[table].dtype:
        yield tied_head.finding(
            evidence=(expected.evidence(("tie_word_embeddings",), "differs", "equal to the embedding"),),
            head=head,
            path=subject.path,
        )
