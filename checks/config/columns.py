"""Columns of a data set, and what Megatron data sets ask for."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.check import Skip, check
from doctor.checks.config.dataset import BASE_TRAINER
from doctor.checks.config.judge import (
    GRAPH,
    MINDFORMERS,
    RUNS,
    applies,
    because,
    change,
    listed,
    seen,
    shown,
)
from doctor.finding import Finding, Severity, Text
from doctor.plan.plan import Dialect, Plan
from doctor.plan.schema import as_number
from doctor.rule import Rule


@check(
    Rule(
        id="CFG-DAT-012",
        name="megatron-needs-sinking",
        severity=Severity.ERROR,
        category="dataset",
        title=Text(
            "BlendedMegatronDatasetDataLoader needs sink_mode True",
            "BlendedMegatronDatasetDataLoader 需要 sink_mode 为 True",
        ),
        why=Text(
            "It is read by one rank and broadcast (dataset_broadcast_opt_level 3), which works in sink mode only.",
            "数据由一个 rank 读取再广播（dataset_broadcast_opt_level 3），只支持下沉模式。",
        ),
        fix=Text("Set sink_mode: True.", "设置 sink_mode: True。"),
        references=(f"{BASE_TRAINER} _check_sink_mode_with_ds_broadcast",),
    )
)
@applies(GRAPH, training=True)
def megatron_sinking(plan: Plan) -> Iterator[Finding]:
    mode = plan.data.sink_mode
    if plan.data.loader_type.words == "BlendedMegatronDatasetDataLoader" and mode.value is False:
        yield megatron_sinking.finding(
            evidence=seen(plan, mode, plan.data.loader_type, expected=True), fixes=(change(plan, mode, True),)
        )


@check(
    Rule(
        id="CFG-DAT-013",
        name="megatron-needs-broadcast-file",
        severity=Severity.WARNING,
        category="dataset",
        title=Text(
            "BlendedMegatronDatasetDataLoader without parallel_speed_up_json_path",
            "BlendedMegatronDatasetDataLoader 未设置 parallel_speed_up_json_path",
        ),
        why=Text(
            "MindFormers requires dataset_broadcast_opt_level 3 in that file and stops without it.",
            "MindFormers 要求该文件中 dataset_broadcast_opt_level 为 3，否则报错退出。",
        ),
        fix=Text(
            'Point context.ascend_config.parallel_speed_up_json_path to a file with {"dataset_broadcast_opt_level": 3}.',
            '把 context.ascend_config.parallel_speed_up_json_path 指向内容为 {"dataset_broadcast_opt_level": 3} 的文件。',
        ),
        references=(f"{BASE_TRAINER} _process_megatron_dataset",),
    )
)
@applies((Dialect.LEGACY,), training=True)
def megatron_broadcast(plan: Plan) -> Iterator[Finding]:
    path = plan.context.section.get("ascend_config", "parallel_speed_up_json_path")
    if plan.data.loader_type.words == "BlendedMegatronDatasetDataLoader" and not path.words:
        yield megatron_broadcast.finding(evidence=seen(plan, plan.data.loader_type, path, expected="a path"))


@check(
    Rule(
        id="CFG-DAT-014",
        name="megatron-needs-sliced-input",
        severity=Severity.ERROR,
        category="dataset",
        title=Text(
            "Legacy models need input_sliced_sig True with this data loader",
            "该 data loader 要求 legacy 模型设置 input_sliced_sig: True",
        ),
        why=Text(
            "Megatron and Hugging Face loaders give rows of seq_length with labels already shifted; without the switch the model shifts again.",
            "Megatron/HF 加载器给出的标签已经移位；不打开该开关模型会再移一次。",
        ),
        fix=Text("Set model.model_config.input_sliced_sig: True.", "设置 model.model_config.input_sliced_sig: True。"),
        references=(f"{BASE_TRAINER} _check_input_sliced_sig",),
    )
)
@applies((Dialect.LEGACY,), training=True)
def sliced_input(plan: Plan) -> Iterator[Finding]:
    value = plan.model.section.get("input_sliced_sig")
    if (
        plan.data.loader_type.words in {"BlendedMegatronDatasetDataLoader", "HFDataLoader"}
        and value.value is not True
        and plan.model.section.mapping
    ):
        yield sliced_input.finding(
            evidence=seen(plan, value if value.given else plan.data.loader_type, plan.data.loader_type, expected=True),
            fixes=(change(plan, value, True),),
        )


@check(
    Rule(
        id="CFG-DAT-015",
        name="mask-columns-disagree",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("The columns do not match the masks that the data set makes", "数据列与数据集生成的掩码不一致"),
        why=Text(
            "GPTDataset gives input_ids, labels, loss_mask, position_ids, and attention_mask or actual_seq_len only when it is told to make them.",
            "GPTDataset 输出 input_ids、labels、loss_mask、position_ids；只有开启对应选项时才输出 attention_mask 或 actual_seq_len。",
        ),
        fix=Text("List exactly the columns that are made.", "只列出实际生成的列。"),
        references=("mindformers/dataset/blended_datasets/gpt_dataset.py",),
    )
)
@applies(MINDFORMERS, training=True)
def mask_columns(plan: Plan) -> Iterator[Finding]:
    section = plan.data.loader.get("config")
    if plan.data.loader_type.words != "BlendedMegatronDatasetDataLoader" or not plan.data.columns.is_sequence:
        raise Skip(Text("not a Megatron data set with columns", "不是带数据列的 Megatron 数据集"))
    names = {item.words for item in plan.data.columns.sequence}
    full, packed = section.get("create_attention_mask"), section.get("create_compressed_eod_mask")
    if full.on and packed.on:
        yield mask_columns.finding(
            Text(
                "create_attention_mask and create_compressed_eod_mask are both on: one mask replaces the other.",
                "create_attention_mask 与 create_compressed_eod_mask 同时开启：两种掩码互斥。",
            ),
            evidence=seen(plan, packed, full, expected="one of the two"),
            fixes=(change(plan, full, False),),
        )
    elif full.flag is not None and full.flag != ("attention_mask" in names) and not packed.on:
        verb = (
            Text("is made but not listed", "会生成但未列出")
            if full.flag
            else Text("is listed but not made", "已列出但不会生成")
        )
        yield mask_columns.finding(
            because(mask_columns, f"attention_mask {verb.en}.", f"attention_mask {verb.zh}。"),
            evidence=seen(plan, full, plan.data.columns, expected="attention_mask" in names),
            fixes=(change(plan, full, "attention_mask" in names),),
        )
    elif packed.flag is not None and packed.flag != ("actual_seq_len" in names) and packed.flag:
        yield mask_columns.finding(
            because(mask_columns, "actual_seq_len is made but not listed.", "actual_seq_len 会生成但未列出。"),
            evidence=seen(plan, packed, plan.data.columns, expected=False),
            fixes=(change(plan, packed, False),),
        )


@check(
    Rule(
        id="CFG-DAT-016",
        name="column-twice",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("Column {name} stands twice in {key}", "{key} 中列 {name} 重复"),
        why=Text("Column names are unique.", "列名必须唯一。"),
        fix=Text("Remove one.", "删除一个。"),
    )
)
@applies(RUNS)
def column_twice(plan: Plan) -> Iterator[Finding]:
    for columns in (plan.data.columns, plan.data.construct_columns, plan.data.section.get("output_columns")):
        seen_names: set[str] = set()
        for item in columns.sequence:
            if item.words in seen_names and item.words:
                yield column_twice.finding(evidence=seen(plan, item, columns), name=item.words, key=columns.key)
            seen_names.add(item.words)


@check(
    Rule(
        id="CFG-DAT-017",
        name="columns-missing",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("{key} is empty", "{key} 为空"),
        why=Text("Without a column the model gets no input.", "没有数据列，模型就没有输入。"),
        fix=Text('Write ["input_ids"] or ["input_ids", "labels"].', '写成 ["input_ids"] 或 ["input_ids", "labels"]。'),
    )
)
@applies(RUNS, training=True)
def columns_missing(plan: Plan) -> Iterator[Finding]:
    columns = plan.data.columns
    bare = (
        not columns.given
        and plan.data.task.words in {"CausalLanguageModelDataset", "KeyWordGenDataset"}
        and plan.data.loader_type.words == "MindDataset"
        and plan.complete
    )
    if bare or (columns.given and columns.is_sequence and not columns.sequence):
        yield columns_missing.finding(
            evidence=seen(plan, columns, expected='["input_ids"]'),
            fixes=(change(plan, columns, ["input_ids"]),),
            severity=Severity.WARNING if bare else None,
            key=columns.key,
        )
    for item in columns.sequence:
        if item.text is not None and not item.words:
            yield columns_missing.finding(evidence=seen(plan, item, columns, expected="a column's name"), key=item.key)


@check(
    Rule(
        id="CFG-DAT-018",
        name="unknown-language-model-column",
        severity=Severity.WARNING,
        category="dataset",
        title=Text("Column {name} is probably misspelt", "列 {name} 可能拼写有误"),
        why=Text(
            "Columns are looked up in the data by name; a missing one stops the pipeline.",
            "数据管道按名称查找列，找不到会报错。",
        ),
        fix=Text(
            "Use the name in the data, usually input_ids, labels, attention_mask.",
            "使用数据中的列名，通常为 input_ids、labels、attention_mask。",
        ),
    )
)
@applies(MINDFORMERS, training=True)
def unknown_column(plan: Plan) -> Iterator[Finding]:
    from doctor.plan.names import nearest

    if plan.dialect is Dialect.PYNATIVE:
        yield from _no_inputs(plan)
        return
    for columns in (plan.data.columns, plan.data.construct_columns):
        for item in columns.sequence:
            word = item.words
            if word and word not in _COLUMNS:
                hint = nearest(word, _COLUMNS, 0.85)
                if hint is not None and "cross" not in word and not word.startswith(("chosen", "rejected", "ref")):
                    yield unknown_column.finding(
                        evidence=seen(plan, item, columns, expected=hint),
                        fixes=(change(plan, item, hint),),
                        name=shown(item),
                    )


#: what the networks of pynative/base_models/gpt/gpt_model.py take by name (2.0 and 2.1)
_INPUTS = (
    "input_ids",
    "labels",
    "attention_mask",
    "loss_mask",
    "position_ids",
    "actual_seq_len",
    "decoder_input",
)


def _no_inputs(plan: Plan) -> Iterator[Finding]:
    """Columns that are no input of the network: PyNative passes every column to it by name."""
    from doctor.plan.names import nearest

    columns = plan.data.columns
    lacking = [name for name in _INPUTS if name not in {item.words for item in columns.sequence}]
    for item in columns.sequence:
        if item.words and item.words not in _INPUTS:
            hint = nearest(item.words, lacking, 0.6)
            yield unknown_column.finding(
                Text(
                    f"PyNative passes the columns to the network by name, which takes {', '.join(_INPUTS[:6])}: any "
                    "other name is an unexpected argument.",
                    f"PyNative 按列名把数据传给网络，网络接受 {', '.join(_INPUTS[:6])}，其他列名会报参数错误。",
                ),
                evidence=seen(plan, item, columns, expected=hint),
                fixes=(change(plan, item, hint),) if hint else None,
                severity=Severity.ERROR,
                name=shown(item),
            )


_COLUMNS = frozenset(
    (
        "input_ids",
        "labels",
        "label",
        "label_id",
        "label_ids",
        "attention_mask",
        "loss_mask",
        "position_ids",
        "position_id",
        "actual_seq_len",
        "target_ids",
        "input_mask",
        "token_type_id",
        "token_type_ids",
        "segment_ids",
        "image",
        "images",
        "text",
        "mask",
        "img",
        "prompt",
        "index",
        "content",
        "summary",
        "pixel_values",
    )
)


@check(
    Rule(
        id="CFG-DAT-019",
        name="megatron-sizes-invalid",
        severity=Severity.ERROR,
        category="dataset",
        title=Text("The Megatron sizes or paths are not usable", "Megatron 的 sizes 或 data_path 不可用"),
        why=Text(
            "sizes are three counts, train, test and eval, the first above zero; data_path alternates weight and path.",
            "sizes 为训练、测试、评测三个数量，第一个大于 0；data_path 为“权重、路径”交替。",
        ),
        fix=Text(
            "Write sizes: [samples, 0, 0] and data_path: ['1', path].",
            "写成 sizes: [样本数, 0, 0] 和 data_path: ['1', 路径]。",
        ),
        references=("mindformers/dataset/dataloader/blended_megatron_dataloader.py",),
    )
)
@applies(MINDFORMERS, training=True)
def megatron_sizes(plan: Plan) -> Iterator[Finding]:
    loader = plan.data.loader
    if loader.get("type").words != "BlendedMegatronDatasetDataLoader":
        raise Skip(Text("not a Megatron data set", "不是 Megatron 数据集"))
    sizes, paths = loader.get("sizes"), loader.get("config", "data_path")
    if sizes.is_sequence:
        counts = [item.whole for item in sizes.sequence]
        if len(counts) != 3 or None in counts or (counts[0] or 0) < 1 or any((count or 0) < 0 for count in counts):
            broken = next((item for item in sizes.sequence if item.whole is None or item.whole < 0), None)
            first = sizes.sequence[0] if sizes.sequence and (sizes.sequence[0].whole or 0) < 1 else None
            spot = broken or first or sizes
            yield megatron_sizes.finding(
                because(megatron_sizes, f"sizes is {shown(sizes)}.", f"sizes 为 {shown(sizes)}。"),
                evidence=seen(plan, spot, *((sizes,) if spot is not sizes else ()), expected="[samples, 0, 0]"),
            )
    # One entry alone is a path; more are pairs. A weight alone has lost its path.
    bare = len(paths.sequence) == 1 and as_number(str(paths.sequence[0].value)) is not None
    odd = len(paths.sequence) > 1 and len(paths.sequence) % 2 == 1
    if paths.is_sequence and (not paths.sequence or bare or odd):
        yield megatron_sizes.finding(
            because(
                megatron_sizes,
                f"data_path has {len(paths.sequence)} entries.",
                f"data_path 共 {len(paths.sequence)} 项。",
            ),
            evidence=seen(plan, paths, expected="pairs of weight and path"),
        )


@check(
    Rule(
        id="CFG-DAT-022",
        name="construct-columns-differ",
        severity=Severity.WARNING,
        category="dataset",
        title=Text(
            "construct_args_key names columns that the data does not give", "construct_args_key 中有数据未提供的列"
        ),
        why=Text(
            "The model is called with these columns; each must come from input_columns (or output_columns).",
            "模型按这些列调用，每一列都应来自 input_columns（或 output_columns）。",
        ),
        fix=Text("Use the names of input_columns.", "使用 input_columns 中的名称。"),
    )
)
@applies(GRAPH, training=True)
def construct_columns(plan: Plan) -> Iterator[Finding]:
    construct = plan.data.construct_columns
    made = {item.words for item in (*plan.data.columns.sequence, *plan.data.section.get("output_columns").sequence)}
    if not construct.is_sequence or not plan.data.columns.is_sequence:
        return
    for item in construct.sequence:
        if item.words and item.words not in made:
            yield construct_columns.finding(
                because(
                    construct_columns,
                    f"{item.words} is not among {listed(sorted(made))}.",
                    f"{item.words} 不在 {listed(sorted(made))} 中。",
                ),
                evidence=seen(plan, item, construct, plan.data.columns),
            )
