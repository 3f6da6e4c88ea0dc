"""The first series of slips (`config_slips`): the editor, kinds of values, wrong sections, stale names, swaps, gaps."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import Any, Optional

import yaml
from config_mutations import get, semi_auto, size
from config_slips import (
    CONFIG,
    COUNTS,
    DATA,
    MODEL,
    PARALLEL,
    RATES,
    RUN,
    WEIGHTS,
    Found,
    Page,
    add,
    call,
    drop,
    inner,
    kind,
    line_of_section,
    move,
    put,
    put_all,
    row_as,
    some,
)

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


# ---- slips of the editor ----


def edited(
    page: Page, rng: random.Random, edit: Callable[[str], str], filled: bool = False
) -> Iterator[Optional[Found]]:
    """The line of some setting (`filled`: one that has a value) as `edit` leaves it."""
    key = inner(page, rng, *RUN)
    if key and (not filled or str(page.keys[key].value or "")):
        yield row_as(page, key, edit)


@kind(CONFIG)
def indented_more(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    yield from edited(page, rng, lambda row: rng.choice((" ", "  ", "   ")) + row)


@kind(CONFIG)
def indented_less(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    yield from edited(page, rng, lambda row: row[rng.choice((1, 2)) :] if row.startswith("  ") else row)


@kind(CONFIG)
def tab(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    yield from edited(page, rng, lambda row: "\t" + row.lstrip())


@kind(CONFIG)
def no_blank_after_colon(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    yield from edited(page, rng, lambda row: re.sub(r": +", ":", row, count=1), filled=True)


@kind(CONFIG)
def no_colon(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    yield from edited(page, rng, lambda row: re.sub(r": +", " ", row, count=1), filled=True)


@kind(CONFIG)
def equals_sign(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    yield from edited(page, rng, lambda row: re.sub(r": +", " = ", row, count=1), filled=True)


@kind(CONFIG)
def full_width_colon(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    yield from edited(page, rng, lambda row: re.sub(r": *", "：", row, count=1), filled=True)


@kind(CONFIG)
def open_quote(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    texts = [key for key, item in page.keys.items() if isinstance(item.value, str) and item.value and page.alone(key)]
    if texts:
        key = rng.choice(sorted(texts))
        mark = rng.choice(("'", '"'))
        item = page.keys[key]
        word = str(item.value)
        if "'" not in word and '"' not in word:
            text = page.text[: item.start] + mark + word + page.text[item.end :]
            yield text, frozenset((item.line,)), frozenset(), f"{key}: {mark}{word}"


@kind(CONFIG)
def open_bracket(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    rows = [number for number, row in enumerate(page.rows) if re.match(r"^ *\w+: *\[[^\[\]]*\] *(#.*)?$", row)]
    if rows:
        number = rng.choice(rows)
        changed = list(page.rows)
        changed[number] = changed[number].replace("]", "", 1)
        yield "\n".join(changed), frozenset((number + 1,)), frozenset(), changed[number].strip()


@kind(CONFIG)
def undefined_alias(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    found = put(page, inner(page, rng, *RUN), rng.choice(("*dpp", "*batch", "*seq_len")))
    if found:
        yield found[0], found[1], frozenset(), found[3]


@kind(CONFIG)
def chinese_quotes(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    key = page.first("context.device_target", "optimizer.type", "run_mode", "context.max_device_memory")
    if key:
        yield put(page, key, f"“{page.keys[key].value}”")
    key = page.first(*(f"{page.model}.{name}" for name in ("compute_dtype", "softmax_compute_type", "param_init_type")))
    if key:
        yield put(page, key, f"‘{page.keys[key].value}’")


@kind(CONFIG)
def duplicate_setting(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    key = inner(page, rng, *RUN)
    if key and isinstance(page.keys[key].value, int) and not isinstance(page.keys[key].value, bool):
        item = page.keys[key]
        rows = list(page.rows)
        row = rows[item.line - 1]
        indent = len(row) - len(row.lstrip())
        rows.insert(item.line + 0, " " * indent + f"{key.rpartition('.')[2]}: {item.value + 1}")
        yield "\n".join(rows), frozenset((item.line + 1, item.line)), frozenset((key,)), f"{key} twice"


@kind(CONFIG)
def duplicate_section(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    for name in ("context", "parallel", "runner_config", "optimizer", "training"):
        block = page.blocks.get(name)
        if block and block.header and name in page.config:
            rows = page.text.rstrip("\n").split("\n")
            rows += [f"{name}:", f"  {next(iter(page.config[name]))}: 1"]
            lines = frozenset((len(rows) - 1, block.header))
            yield "\n".join(rows) + "\n", lines, frozenset((name,)), f"{name} twice"
            return


@kind(CONFIG)
def comment_glued(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    for key in ("runner_config.epochs", "runner_config.batch_size", "training.steps", "parallel_config.model_parallel"):
        if key in page.keys:
            yield put(page, key, f"{page.keys[key].value}{rng.choice(('#was 4', ' // was 4', ';', ','))}")


# ---- kinds of values ----


def _model_count(page: Page, rng: random.Random) -> Optional[str]:
    names = ("num_layers", "num_hidden_layers", "hidden_size", "num_heads", "num_attention_heads", "vocab_size")
    return some(page, rng, *(f"{page.model}.{name}" for name in names))


@kind(CONFIG)
def none_word(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    yield put(page, some(page, rng, *COUNTS[:9]), "None")


@kind(CONFIG | {"parallel-strategy", "dataset"})
def list_for_number(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    key = some(page, rng, *COUNTS)
    if key:
        yield put(page, key, f"[{page.keys[key].value}]")


@kind(CONFIG | {"dataset"})
def number_in_quotes(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    deep = [key for key in page.keys if key.endswith((".save_checkpoint_steps", ".keep_checkpoint_max", ".seq_length"))]
    key = some(page, rng, *COUNTS[5:], *deep) if rng.random() < 0.6 else _model_count(page, rng)
    if key and isinstance(page.keys[key].value, int):
        yield put(page, key, f'"{page.keys[key].value}"')


@kind(CONFIG | {"dataset"})
def thousands_comma(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    key = some(page, rng, *(f"{page.model}.{name}" for name in ("vocab_size", "hidden_size", "seq_length")))
    if key and page.whole(key) >= 1000:
        yield put(page, key, f"{page.whole(key):,}")


@kind(CONFIG)
def length_with_unit(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    key = some(page, rng, f"{page.model}.seq_length", f"{page.model}.max_position_embeddings")
    if key and page.whole(key) >= 1024:
        yield put(page, key, f"{page.whole(key) // 1024}{rng.choice(('k', 'K'))}")


@kind(CONFIG | {"oom-device"})
def memory_unit(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    yield put(page, page.first("context.max_device_memory"), rng.choice(('"58GiB"', '"58000MB"', '"58g"', '"0GB"')))


@kind(CONFIG | {"dtype-unsupported-op", "nan-overflow"})
def dtype_word(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    names = (
        "softmax_compute_type",
        "layernorm_compute_type",
        "rotary_dtype",
        "param_init_type",
        "compute_dtype",
        "params_dtype",
        "softmax_compute_dtype",
        "layernorm_compute_dtype",
    )
    key = some(page, rng, *(f"{page.model}.{name}" for name in names))
    yield put(page, key, rng.choice(('"torch.bfloat16"', '"float-16"', '"fp8x"', '"bfloat"', '"double64"')))


@kind(CONFIG | {"dataset", "disk-io", "ckpt-format"})
def boolean_typo_deep(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    shallow = ("parallel_config", "recompute_config", "runner_config", "parallel", "context", "train_dataset")
    deep = [k for k, item in page.keys.items() if isinstance(item.value, bool) and k.rpartition(".")[0] not in shallow]
    if deep:
        yield put(page, rng.choice(sorted(deep)), rng.choice(("Tru", "Flase", "Ture", "Fals", "'False'")))


@kind(CONFIG | {"dataset"})
def columns_as_words(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    for number, row in enumerate(page.rows):
        hit = re.match(r"^( +)(input_columns): *\[(.*)\] *(#.*)?$", row)
        if hit and "train_dataset.input_columns[0]" not in page.keys:
            rows = list(page.rows)
            rows[number] = f"{hit.group(1)}input_columns: " + hit.group(3).replace('"', "").replace("'", "")
            section = "train_dataset" if number < line_of_section(page, "eval_dataset") else "eval_dataset"
            yield "\n".join(rows), frozenset((number + 1,)), frozenset((f"{section}.input_columns",)), rows[number]
            return


@kind(RATES)
def betas_shape(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    for number, row in enumerate(page.rows):
        hit = re.match(r"^( +)betas: *\[(.*)\] *(#.*)?$", row)
        if hit and page.trains:
            rows = list(page.rows)
            new = rng.choice(("0.9", "[0.9]", "[0.9, 0.95, 0.99]", "[0.9, 1.95]", '"0.9, 0.95"'))
            rows[number] = f"{hit.group(1)}betas: {new}"
            keys = frozenset(("optimizer.betas", "optimizer.betas[0]", "optimizer.betas[1]"))
            yield "\n".join(rows), frozenset((number + 1,)), keys, rows[number].strip()
            return


@kind(CONFIG)
def callbacks_as_mapping(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    for number, row in enumerate(page.rows[:-1]):
        if re.match(r"^callbacks: *(#.*)?$", row) and re.match(r"^ *- type: *MFLossMonitor", page.rows[number + 1]):
            rows = list(page.rows)
            end = number + 1
            while end < len(rows) and (rows[end].startswith((" ", "-", "#")) or not rows[end].strip()):
                end += 1
            rows[number + 1 : end] = ["  type: MFLossMonitor"]
            keys = frozenset(("callbacks", "callbacks.type"))
            yield "\n".join(rows), frozenset((number + 1, number + 2)), keys, "callbacks: a mapping"
            return


@kind(CONFIG)
def callback_as_word(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    for number, row in enumerate(page.rows):
        hit = re.match(r"^( *- )type: *MFLossMonitor *(#.*)?$", row)
        if hit and "callbacks[0].type" in page.keys and page.keys["callbacks[0].type"].line == number + 1:
            following = page.rows[number + 1] if number + 1 < len(page.rows) else ""
            if following.strip().startswith("-") or not following.startswith(" "):
                rows = list(page.rows)
                rows[number] = hit.group(1) + "MFLossMonitor"
                yield "\n".join(rows), frozenset((number + 1,)), frozenset(("callbacks[0]", "callbacks")), rows[number]
            return


# ---- wrong section ----

_MOVES = (
    ("runner_config.epochs", "lr_schedule"),
    ("runner_config.epochs", ""),
    ("runner_config.batch_size", "parallel_config"),
    ("runner_config.sink_mode", "context"),
    ("runner_config.sink_size", ""),
    ("parallel_config.model_parallel", "parallel"),
    ("parallel_config.micro_batch_num", "runner_config"),
    ("parallel_config.pipeline_stage", "context"),
    ("parallel.full_batch", "parallel_config"),
    ("parallel.enable_parallel_optimizer", "parallel_config"),
    ("parallel.parallel_mode", "parallel_config"),
    ("context.max_device_memory", ""),
    ("context.device_target", "parallel"),
    ("context.max_call_depth", "runner_config"),
    ("lr_schedule.warmup_steps", "optimizer"),
    ("lr_schedule.total_steps", "runner_config"),
    ("optimizer.weight_decay", "lr_schedule"),
    ("optimizer.eps", "runner_wrapper"),
    ("recompute_config.recompute", "parallel_config"),
    ("recompute_config.select_recompute", "context"),
    ("training.local_batch_size", "parallelism"),
    ("training.global_batch_size", ""),
    ("training.steps", "lr_scheduler"),
    ("parallelism.tensor_parallel", "training"),
    ("train_dataset.drop_remainder", "runner_config"),
    ("train_dataset.num_parallel_workers", "runner_config"),
)


@kind(CONFIG)
def wrong_section(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if page.trains:
        pairs = [pair for pair in _MOVES if move(page, *pair)]
        if pairs:
            for pair in rng.sample(pairs, min(3, len(pairs))):
                yield move(page, *pair)


# ---- stale settings ----


@kind(CONFIG)
def stale_name(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    """Names that the release has no more, or not yet."""
    if not page.trains or page.torch:
        return
    release = page.release
    if release >= (1, 2):
        for key, item in page.keys.items():
            if item.value == "CheckpointMonitor" and key.startswith("callbacks["):
                yield put(page, key, "CheckpointMointor")
    else:
        for key, item in page.keys.items():
            if item.value == "CheckpointMointor" and key.startswith("callbacks["):
                yield put(page, key, "CheckpointMonitor")
    if release >= (1, 6):
        yield put(page, page.first("optimizer.type"), rng.choice(("FP32StateAdamWeightDecay", "FusedAdamWeightDecay")))
        if "callbacks[0].type" in page.keys:
            yield put(page, "callbacks[0].type", "ObsMonitor")
    if release < (1, 2):
        yield put(page, page.first("optimizer.type"), "PmaAdamW")
        yield put(
            page, page.first("lr_schedule.type"), "WarmUpStableDecayLR" if release < (1, 1) else "CosineAnnealingWarmUp"
        )


@kind(CONFIG)
def stale_setting(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    """Settings that the release's own code refuses."""
    if not page.trains or page.torch:
        return
    release = page.release
    if release < (1, 3):
        yield add(page, "parallel_config", "context_parallel: 1")
        yield add(page, "parallel_config", "seq_split_num: 1")
    if release >= (1, 6):
        yield add(page, "runner_config", "has_trained_epoches: 0")
        yield add(page, "swap_config", "swap_layers: 2")
    if release >= (1, 3) and get(page.config, "optimizer.type") == "AdamW":
        yield add(page, "optimizer", "beta1: 0.9")
        yield add(page, "optimizer", "loss_scale: 1.0")


@kind(CONFIG)
def pynative_word_in_graph(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if page.trains and not page.torch:
        yield call(page, page.first("parallel_config.model_parallel"), "tensor_parallel")
        yield call(page, page.first("parallel_config.pipeline_stage"), "pipeline_parallel")
        yield call(page, page.first("runner_config.batch_size"), "local_batch_size")
        yield call(page, page.first("parallel_config.use_seq_parallel"), "sequence_parallel")


@kind(CONFIG)
def graph_word_in_pynative(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if page.torch:
        yield call(page, page.first("parallelism.tensor_parallel"), "model_parallel")
        yield call(page, page.first("parallelism.pipeline_parallel"), "pipeline_stage")
        yield call(page, page.first("training.local_batch_size"), "batch_size")
        yield call(page, page.first("training.max_norm"), "max_grad_norm")
        yield call(page, page.first("checkpoint.load_path"), "load_checkpoint")
        yield call(page, page.first("parallelism.sequence_parallel"), "use_seq_parallel")


# ---- swapped values ----

_SWAPS = (
    ("optimizer.type", "lr_schedule.type"),
    ("optimizer.type", "lr_scheduler.type"),
    ("lr_schedule.learning_rate", "lr_schedule.lr_end"),
    ("lr_scheduler.learning_rate", "lr_scheduler.lr_end"),
    ("{m}.num_heads", "{m}.n_kv_heads"),
    ("{m}.num_attention_heads", "{m}.num_key_value_heads"),
    ("{m}.n_routed_experts", "{m}.num_experts_per_tok"),
    ("moe_config.expert_num", "moe_config.num_experts_chosen"),
    ("model.arch.type", "{m}.type"),
    ("train_dataset.data_loader.type", "train_dataset_task.type"),
    ("trainer.type", "train_dataset_task.type"),
    ("context.mode", "context.max_call_depth"),
    ("context.device_target", "context.max_device_memory"),
    ("runner_wrapper.type", "optimizer.type"),
)


@kind(MODEL | RATES | DATA)
def swapped_values(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if not page.trains:
        return
    for pair in _SWAPS:
        left, right = (name.replace("{m}", page.model) for name in pair)
        if left in page.keys and right in page.keys:
            one, two = page.keys[left], page.keys[right]
            if not one.value or not two.value or one.value == two.value or {1} >= {one.value, two.value}:
                continue
            raw = {left: page.text[two.start : two.end], right: page.text[one.start : one.end]}
            yield put_all(page, raw)


# ---- missing parts ----


@kind(CONFIG | {"dataset"})
def type_missing(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if page.trains:
        for section in (
            "optimizer",
            "lr_schedule",
            "lr_scheduler",
            "train_dataset_task",
            "train_dataset.data_loader",
            "train_dataset.dataloader",
            "trainer",
            "model.arch",
        ):
            yield drop(page, f"{section}.type")


@kind(CONFIG | {"dataset"})
def section_renamed(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    """A section whose own name is misspelt: what it holds is lost."""
    if not page.trains:
        return
    names = ("runner_config", "parallel_config", "lr_schedule", "optimizer", "train_dataset", "parallelism", "training")
    for name in names:
        block = page.blocks.get(name)
        if block and block.header and page.rows[block.header - 1].startswith(f"{name}:"):
            place = rng.randrange(2, len(name) - 1)
            new = name[:place] + name[place + 1 :]
            rows = list(page.rows)
            rows[block.header - 1] = rows[block.header - 1].replace(name, new, 1)
            yield "\n".join(rows), frozenset((block.header,)), frozenset((new,)), f"{name} -> {new}"


@kind(DATA)
def column_slip(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    for number, row in enumerate(page.rows):
        if not re.match(r'^ +input_columns: *\["input_ids"', row) or not page.trains:
            continue
        if number > line_of_section(page, "eval_dataset"):
            return
        rows = list(page.rows)
        new = rng.choice(('"input_id"', '"inputs_ids"', '"input_ids", "input_ids"', '""'))
        rows[number] = row.replace('"input_ids"', new, 1)
        keys = {"train_dataset.input_columns", *(f"train_dataset.input_columns[{n}]" for n in range(9))}
        yield "\n".join(rows), frozenset((number + 1,)), frozenset(keys), rows[number].strip()
        return


@kind(DATA | {"parallel-strategy"})
def strategy_slip(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    for number, row in enumerate(page.rows):
        hit = re.match(r"^( +dataset_strategy: *)(\[\[.*\]\]) *(#.*)?$", row)
        if hit and page.trains and semi_auto(page.config) and get(page.config, "parallel.full_batch") is False:
            value = yaml.load(hit.group(2).replace("*", ""), _LOADER)
            rows = list(page.rows)
            new = rng.choice((hit.group(2)[:-1] + ", [7, 1]]", "[[7, 1]" + ", [7, 1]" * (len(value) - 1) + "]"))
            rows[number] = hit.group(1) + new
            keys = {"parallel.dataset_strategy", *(f"parallel.dataset_strategy[{n}]" for n in range(12))}
            yield "\n".join(rows), frozenset((number + 1,)), frozenset(keys), rows[number].strip()
            return


# ---- contradictions between settings ----


@kind(WEIGHTS)
def foreign_weights(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    path = rng.choice(("./pytorch_model.bin", "/data/model.pth", "/data/llama.gguf", "weights.pt"))
    yield put(page, page.first("load_checkpoint", "checkpoint.load_path"), path)


@kind(CONFIG | {"weights-mismatch", "dataset"})
def variable_in_path(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    names = ("load_checkpoint", "output_dir", "train_dataset.data_loader.dataset_dir", "checkpoint.save_path")
    yield put(page, some(page, rng, *names), rng.choice(("${DATA}/run", '"$HOME/llama"', "${WORKDIR}")))


@kind(CONFIG)
def windows_path(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    found = put(
        page, some(page, rng, "load_checkpoint", "output_dir"), rng.choice(('"D:\\data\\wiki"', '"C:\\models\\q"'))
    )
    if found:
        yield found[0], found[1], frozenset(), found[3]


@kind(PARALLEL)
def sequence_parallel_alone(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    """mcore refuses sequence parallel without tensor parallel."""
    if page.mcore and page.trains and size(page.config, "tp") == 1:
        yield put(page, page.first("parallel_config.use_seq_parallel"), "True")


@kind(PARALLEL)
def batch_ends_not(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if page.torch and page.whole("training.global_batch_size") > 1:
        yield put(page, "training.global_batch_size", str(page.whole("training.global_batch_size") + 1))


@kind(RATES)
def warm_up_and_end(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if not page.trains:
        return
    key = page.first("lr_schedule.warmup_steps", "lr_scheduler.warmup_steps")
    total = max(page.whole("lr_schedule.total_steps"), page.whole("training.steps"))
    if key and total > 1 and not get(page.config, "training.epochs"):
        yield put(page, key, str(total + 100))


@kind(RATES)
def rates_written_wrong(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if page.trains:
        key = page.first("lr_schedule.learning_rate", "lr_scheduler.learning_rate")
        yield put(page, key, rng.choice(("1.e5", "5.0", "10e-5x", "2e", "1.0.e-5", "0,0001")))


@kind(PARALLEL)
def more_stages_than_layers(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    key = page.first(f"{page.model}.num_layers", f"{page.model}.num_hidden_layers")
    stages = size(page.config, "pp")
    if key and stages > 1 and page.trains and semi_auto(page.config):
        yield put(page, key, str(stages - 1))


@kind(CONFIG | {"oom-device", "performance", "graph-compile"})
def context_flags(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if not page.trains or page.torch:
        return
    pairs = (
        ("context.max_call_depth", "10"),
        ("context.save_graphs", "True"),
        ("context.memory_optimize_level", '"O3"'),
        ("context.mode", "7"),
        ("context.enable_graph_kernel", '"Fales"'),
    )
    for key, new in pairs:
        if key in page.keys and str(page.keys[key].value) not in ("True", "2"):
            yield put(page, key, new)


@kind(CONFIG)
def name_in_other_case(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if not page.trains:
        return
    pairs = {
        "CosineWithWarmUpLR": "CosineWithWarmupLR",
        "ConstantWarmUpLR": "ConstantWarmupLR",
        "MindDataset": "Minddataset",
        "CausalLanguageModelDataset": "CausalLanguageModelDataSet",
        "MFTrainOneStepCell": "MfTrainOneStepCell",
        "FP32StateAdamWeightDecay": "Fp32StateAdamWeightDecay",
        "LlamaForCausalLM": "LLamaForCausalLM",
        "LlamaConfig": "LLamaConfig",
        "MFLossMonitor": "MFLossMonitors",
    }
    here = [key for key, item in page.keys.items() if item.value in pairs]
    for key in rng.sample(sorted(here), min(2, len(here))):
        yield put(page, key, pairs[page.keys[key].value])


@kind(MODEL)
def model_sizes(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    model = page.model
    yield put(
        page, page.first(f"{model}.num_layers", f"{model}.num_hidden_layers"), rng.choice(("32.5", "-32", "3e1x"))
    )
    yield put(
        page, page.first(f"{model}.rms_norm_eps", f"{model}.layernorm_epsilon"), rng.choice(("1.0", "-1.e-5", "0.5"))
    )
    yield put(page, page.first(f"{model}.multiple_of"), rng.choice(("0", "-256")))
    yield put(page, page.first(f"{model}.theta", f"{model}.rope_theta"), rng.choice(("0", "-10000.0", '"10000"')))


@kind(MODEL)
def model_words(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    model = page.model
    yield put(page, page.first(f"{model}.hidden_act"), rng.choice(("swigl", "gelu_fast2", "silu6")))
    yield put(page, page.first(f"{model}.position_embedding_type"), rng.choice(("roep", "rope2", "alibii")))
    yield put(page, page.first(f"{model}.normalization"), rng.choice(("RMSNom", "LayerNrm")))


@kind(PARALLEL)
def pynative_words(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if page.torch:
        pairs = (
            # the trainer reads it in lower case: 1F1B would do
            ("parallelism.pipeline_parallel_schedule", "1f1b1"),
            ("parallelism.context_parallel_method", "ring"),
            ("parallelism.moe_token_dispatcher_type", "alltoall_deredundency"),
            ("parallelism.reshard_after_forward_policy", "sometimes"),
            ("parallelism.data_parallel_shard", "0"),
            ("recompute.mode", "partial"),
            ("parallelism.sequence_parallel", "'True'"),
            ("training.max_norm", "one"),
            ("checkpoint.save_max", "0"),
        )
        for key, new in pairs:
            yield put(page, page.first(key), new)


@kind(CONFIG | {"disk-io", "ckpt-format"})
def callback_setting(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if page.trains:
        for key in sorted(page.keys):
            name = key.rpartition(".")[2]
            if key.startswith("callbacks[") and name in ("save_checkpoint_steps", "keep_checkpoint_max", "prefix"):
                place = rng.randrange(2, len(name) - 1)
                yield call(page, key, name[:place] + name[place + 1 :])
