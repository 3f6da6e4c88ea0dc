"""The second series of slips (`config_slips`), written after the first had been scored: other kinds throughout."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Optional

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
    kind,
    line_of_section,
    put,
    some,
)


@kind(CONFIG, 2)
def header_nested(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    """A whole section went into the one above it."""
    names = [name for name in RUN if name in page.blocks and page.blocks[name].indent == 2]
    rng.shuffle(names)
    for name in names:
        block = page.blocks[name]
        above = [item for item in page.blocks.values() if item.indent == 2 and item.last == block.header - 1]
        if "." in name or block.header < 2 or not page.rows[block.header - 1].startswith(name):
            continue
        end = max([block.last, *(item.last for key, item in page.blocks.items() if key.startswith(f"{name}."))])
        near = page.rows[block.header - 2]
        if not above and not near.startswith("  "):
            continue
        rows = list(page.rows)
        for number in range(block.header - 1, end):
            rows[number] = "  " + rows[number] if rows[number].strip() else rows[number]
        text = "\n".join(rows)
        try:
            yaml.safe_load(text)
        except yaml.YAMLError:
            continue
        yield text, frozenset((block.header,)), frozenset(), f"{name} nested"
        return


@kind(CONFIG, 2)
def first_child_out(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    names = [name for name in RUN if name in page.blocks and page.blocks[name].indent == 2]
    if names:
        block = page.blocks[rng.choice(names)]
        row = page.rows[block.first - 1]
        if re.match(r"^  \w+: *[^ #&{\[]", row) and block.last > block.first + 1:
            rows = list(page.rows)
            rows[block.first - 1] = row[2:]
            yield "\n".join(rows), frozenset((block.first,)), frozenset(), f"{row.strip()} at the margin"


@kind(CONFIG, 2)
def last_child_out(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    names = [name for name in RUN if name in page.blocks and page.blocks[name].indent == 2]
    if names and page.trains:
        block = page.blocks[rng.choice(names)]
        row = page.rows[block.last - 1]
        hit = re.match(r"^  (\w+): *[^ #&{\[]", row)
        if hit is None or hit.group(1) in ("seed", "type", "run_mode", "output_dir") or block.last == block.first:
            return
        if hit.group(1) not in page.config:
            rows = list(page.rows)
            rows[block.last - 1] = row[2:]
            yield "\n".join(rows), frozenset((block.last,)), frozenset((hit.group(1),)), f"{row.strip()} at the margin"


@kind(CONFIG, 2)
def first_child_in(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    names = [name for name in RUN if name in page.blocks and page.blocks[name].indent == 2]
    if names:
        block = page.blocks[rng.choice(names)]
        row, following = page.rows[block.first - 1], page.rows[block.first]
        if re.match(r"^  \w+: *[^ #&{\[]", row) and re.match(r"^  \w+:", following) and block.last > block.first + 1:
            rows = list(page.rows)
            rows[block.first - 1] = rng.choice((" ", "  ")) + row
            yield "\n".join(rows), frozenset((block.first,)), frozenset(), f"{row.strip()} too deep"


@kind(CONFIG, 2)
def dash_lost(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    """The second callback lost its dash and runs into the first."""
    if "callbacks[1].type" in page.keys and page.trains:
        item = page.keys["callbacks[1].type"]
        rows = list(page.rows)
        rows[item.line - 1] = rows[item.line - 1].replace("- ", "  ", 1)
        first = page.keys["callbacks[0].type"].line if "callbacks[0].type" in page.keys else item.line
        yield "\n".join(rows), frozenset((item.line, first)), frozenset(), rows[item.line - 1]


@kind(CONFIG, 2)
def section_as_list(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    for name in rng.sample(["runner_config", "parallel_config", "recompute_config", "lr_schedule", "training"], 5):
        block = page.blocks.get(name)
        if block is None or block.indent != 2 or block.last - block.first > 12:
            continue
        rows = list(page.rows)
        for number in range(block.first - 1, block.last):
            if re.match(r"^  \w+:", rows[number]):
                rows[number] = "  - " + rows[number].lstrip()
        yield "\n".join(rows), frozenset((block.header, block.first)), frozenset((name,)), f"{name} as a list"
        return


@kind(CONFIG, 2)
def mapping_for_scalar(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    key = some(page, rng, *COUNTS, "lr_schedule.learning_rate", "optimizer.weight_decay")
    if key:
        yield put(page, key, f"{{value: {page.keys[key].value}}}")


@kind(CONFIG | {"parallel-strategy"}, 2)
def boolean_for_count(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    yield put(page, some(page, rng, *COUNTS[:9]), rng.choice(("True", "yes", "on", "false")))


@kind(CONFIG | {"nan-overflow"}, 2)
def exponent_without_dot(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    names = (
        "lr_schedule.total_steps",
        "lr_schedule.lr_end",
        "lr_schedule.warmup_lr_init",
        "lr_scheduler.lr_end",
        "optimizer.weight_decay",
        "runner_wrapper.max_grad_norm",
        "runner_wrapper.scale_sense.loss_scale_value",
        "runner_wrapper.scale_sense.scale_window",
        "training.steps",
        "training.max_norm",
        f"{page.model}.vocab_size",
        f"{page.model}.rms_norm_eps",
        f"{page.model}.initializer_range",
    )
    if page.trains:
        yield put(page, some(page, rng, *names), rng.choice(("1e4", "2e3", "1E-6", "3e2")))


@kind(CONFIG | {"nan-overflow"}, 2)
def percent(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    names = (
        "lr_schedule.warmup_ratio",
        "lr_scheduler.warmup_ratio",
        "optimizer.weight_decay",
        "context.max_device_memory",
    )
    drops = tuple(
        f"{page.model}.{name}" for name in ("hidden_dropout_rate", "attention_dropout_rate", "hidden_dropout")
    )
    key = some(page, rng, *names, *drops)
    yield put(page, key, rng.choice(("3%", "10%", '"90%"')))


@kind(CONFIG, 2)
def arithmetic(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    key = some(page, rng, f"{page.model}.seq_length", f"{page.model}.hidden_size", "runner_config.batch_size")
    if key:
        yield put(page, key, f"{max(page.whole(key) // 2, 1)}*2")
    if page.trains:
        key = page.first("lr_schedule.learning_rate", "lr_scheduler.learning_rate")
        yield put(page, key, rng.choice(("1/1000", "2*1.e-5", "float(1e-5)", "1.e-5f")))


_DEEP = (
    "train_dataset.data_loader.",
    "train_dataset.dataloader.",
    "runner_wrapper.scale_sense.",
    "context.jit_config.",
    "context.ascend_config.",
    "parallel.parallel_optimizer_config.",
    "model.arch.",
    "model.model_config.pet_config.",
    "checkpoint.",
    "train_dataset_task.",
    "runner_wrapper.",
    "trainer.",
)


def _swapped_letters(name: str, rng: random.Random) -> str:
    places = [n for n in range(1, len(name) - 1) if name[n] != name[n + 1] and "_" not in name[n : n + 2]]
    if not places:
        return name + name[-1]
    place = rng.choice(places)
    return name[:place] + name[place + 1] + name[place] + name[place + 2 :]


@kind(CONFIG | {"dataset"}, 2)
def deep_key_typo(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if page.trains:
        keys = [key for key in page.keys if key.startswith(_DEEP) and "[" not in key and page.alone(key)]
        keys = [key for key in keys if len(key.rpartition(".")[2]) > 3 and key.count(".") <= 3]
        # what a loader passes on to somebody else's function has names that nobody lists
        keys = [key for key in keys if ".load." not in key and ".config." not in key and ".tokenizer." not in key]
        if keys:
            key = rng.choice(sorted(keys))
            new = _swapped_letters(key.rpartition(".")[2], rng)
            found = call(page, key, new)
            if found:
                section = key.rpartition(".")[0]
                yield found[0], found[1] | {page.blocks[section].header}, found[2] | {key, section}, found[3]


@kind(CONFIG, 2)
def key_in_other_style(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    keys = [
        key
        for key in page.keys
        if key.rpartition(".")[0]
        in (
            "runner_config",
            "parallel_config",
            "parallelism",
            "training",
            "lr_schedule",
            "recompute_config",
            page.model,
        )
        and "_" in key.rpartition(".")[2]
    ]
    # a model of another task takes what words it likes
    if keys and page.trains and get(page.config, "trainer.type", "Causal").startswith("Causal"):
        key = rng.choice(sorted(keys))
        name = key.rpartition(".")[2]
        parts = name.split("_")
        styles = (
            "-".join(parts),
            parts[0] + "".join(part.capitalize() for part in parts[1:]),
            name.upper(),
            name + "s",
        )
        yield call(page, key, rng.choice(styles[:3]))


@kind(PARALLEL | {"shape"}, 2)
def sizes_against_tensor(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    tensor = size(page.config, "tp")
    if tensor > 1 and page.trains and semi_auto(page.config):
        key = page.first(f"{page.model}.intermediate_size", f"{page.model}.ffn_hidden_size")
        yield put(page, key, str(page.whole(key or "") + 1))
        key = page.first(f"{page.model}.num_heads", f"{page.model}.num_attention_heads")
        if key:
            yield put(page, key, str(page.whole(key) + tensor // 2))


@kind(PARALLEL, 2)
def heads_reversed(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    key = page.first(f"{page.model}.n_kv_heads", f"{page.model}.num_key_value_heads")
    heads = page.first(f"{page.model}.num_heads", f"{page.model}.num_attention_heads")
    if key and heads and page.whole(heads):
        yield put(page, key, str(page.whole(heads) * 2))


@kind(PARALLEL, 2)
def offset_slip(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    stages = size(page.config, "pp")
    if stages > 1 and page.trains and not page.torch and page.release >= (1, 3):
        layers = page.first(f"{page.model}.num_layers", f"{page.model}.num_hidden_layers")
        if layers and get(page.config, f"{page.model}.offset") == 0:
            yield put(page, f"{page.model}.offset", "[" + ", ".join(["0"] * (stages + 1)) + "]")
            yield put(page, f"{page.model}.offset", "[1" + ", 0" * (stages - 1) + "]")


@kind(PARALLEL, 2)
def micro_batch_values(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if page.trains and semi_auto(page.config):
        yield put(page, page.first("parallel_config.micro_batch_num"), rng.choice(("0", "-2", "1.5")))


@kind(PARALLEL, 2)
def mode_without_tensor(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    """Data-parallel mode throws the other sizes away."""
    if page.trains and size(page.config, "tp") * size(page.config, "pp") > 1 and not page.torch:
        found = put(page, page.first("parallel.parallel_mode"), "0")
        if found:
            yield found


@kind(RATES, 2)
def schedule_contradictions(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if not page.trains or page.torch:
        return
    rate = get(page.config, "lr_schedule.learning_rate")
    if "lr_schedule.warmup_ratio" in page.keys and get(page.config, "lr_schedule.warmup_ratio"):
        yield add(page, "lr_schedule", "warmup_steps: 100", "lr_schedule.warmup_ratio")
    if isinstance(rate, float):
        yield put(page, page.first("lr_schedule.lr_end"), f"{rate * 20:.9f}")
        yield put(page, page.first("lr_schedule.warmup_lr_init"), f"{rate * 20:.9f}")
    yield put(page, page.first("lr_schedule.warmup_ratio"), rng.choice(("100", "-0.5")))
    if get(page.config, "lr_schedule.total_steps") in (-1, None):
        yield put(page, page.first("lr_schedule.total_steps"), "0")


@kind(WEIGHTS | {"disk-io"}, 2)
def saving(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if not page.trains:
        return
    pairs = {
        "save_checkpoint_steps": ("0.5", "every", "-100"),
        "keep_checkpoint_max": ("all", "-3", "2.5"),
        "prefix": ('"ckpt/llama"', '"run_rank_"'),
        "checkpoint_format": ("safetensor", "bin"),
        "integrated_save": ('"Flase"',),
        "async_save": ('"no"', "Fasle"),
    }
    for key in sorted(page.keys):
        name = key.rpartition(".")[2]
        if key.startswith("callbacks[") and name in pairs:
            yield put(page, key, rng.choice(pairs[name]))


@kind(WEIGHTS, 2)
def loading(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if page.torch:
        yield put(page, page.first("checkpoint.load_path"), "True")
        return
    yield put(page, page.first("load_checkpoint"), rng.choice(("True", "[a.ckpt, b.ckpt]", "12")))
    yield put(page, page.first("load_ckpt_format"), rng.choice(("pth", '"hf"', "safetensors_index")))
    if page.trains:
        yield put(page, page.first("resume_training"), rng.choice(("'True'", "Tru")))
    yield put(page, page.first("auto_trans_ckpt"), rng.choice(("'False'", "Flase")))


@kind(CONFIG | {"oom-device", "parallel-strategy"}, 2)
def machine(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    yield put(page, page.first("context.device_target"), rng.choice(('"Ascend910"', '"CUDA"', '"910B"')))
    yield put(page, page.first("context.mode"), rng.choice(('"0"', '"GRAPH"', "3")))
    yield put(page, page.first("context.max_device_memory"), rng.choice(("64", '"58 G"', '"-1GB"')))
    yield put(page, page.first("context.device_id"), rng.choice(("-1", "64", '"zero"')))
    yield put(page, page.first("context.max_call_depth"), rng.choice(("-1", "0", '"10000x"')))
    yield put(page, page.first("context.jit_config.jit_level"), rng.choice(("1", '"OO"', '"high"')))


@kind(MODEL | {"performance"}, 2)
def training_against_model(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if not page.trains:
        return
    model = page.model
    length = page.whole(f"{model}.seq_length")
    if "run_mode" in page.config:
        yield put(page, page.first(f"{model}.use_past"), "True")
    key = page.first(f"{model}.max_position_embeddings", f"{model}.max_position_embedding")
    stretched = any(
        get(page.config, f"{model}.{name}")
        for name in ("extend_method", "rope_scaling", "scaling_factor", "rotary_scaling_factor")
    )
    if length > 64 and not stretched:
        yield put(page, key, str(length // 2))
    yield put(page, page.first(f"{model}.extend_method"), rng.choice(("YARNN", "linear2")))


@kind(MODEL, 2)
def expert_numbers(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if not page.trains:
        return
    for model in (page.model, "moe_config"):
        experts = max(page.whole(f"{model}.{name}") for name in ("n_routed_experts", "num_experts", "expert_num"))
        layers = page.whole(f"{page.model}.num_layers") or page.whole(f"{page.model}.num_hidden_layers")
        if experts > 1:
            key = page.first(f"{model}.num_experts_per_tok", f"{model}.num_experts_chosen")
            yield put(page, key, str(experts * 2))
            group = page.first(f"{model}.n_group")
            if group and page.whole(group) > 1:
                yield put(page, group, str(next(n for n in (3, 5, 7, 11) if experts % n)))
            if page.whole(f"{model}.topk_group"):
                yield put(page, page.first(f"{model}.topk_group"), str(max(page.whole(f"{model}.n_group"), 1) + 5))
            if layers:
                yield put(page, page.first(f"{model}.first_k_dense_replace"), str(layers + 3))


@kind(DATA | {"performance"}, 2)
def data_numbers(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if page.trains:
        yield put(page, page.first("train_dataset.num_parallel_workers"), rng.choice(("512", "-1", "many")))
        yield put(page, page.first("train_dataset.prefetch_size"), rng.choice(("0", "-1", "0.5")))
        yield put(page, page.first("train_dataset.repeat"), rng.choice(("0", "-2")))
        yield put(page, page.first("train_dataset.drop_remainder"), rng.choice(("Flase", '"yes"')))
        yield put(page, page.first("train_dataset.data_loader.shuffle"), rng.choice(("random", "Ture", '"file"')))


@kind(DATA, 2)
def columns_gone(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    for number, row in enumerate(page.rows):
        hit = re.match(r"^(  )(input_columns): *\[.*\] *(#.*)?$", row)
        if hit and page.trains and number < line_of_section(page, "eval_dataset"):
            rows = list(page.rows)
            rows[number] = "  input_columns: []"
            yield "\n".join(rows), frozenset((number + 1,)), frozenset(("train_dataset.input_columns",)), "no column"
            return


@kind(CONFIG | {"parallel-strategy"}, 2)
def foreign_section(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    """A section of the other generation stands in the file too."""
    rows = page.text.rstrip("\n").split("\n")
    line = len(rows) + 1
    if page.torch:
        name, inside = rng.choice((("parallel_config", "data_parallel: 8"), ("runner_config", "epochs: 2")))
    else:
        name, inside = rng.choice((("parallelism", "tensor_parallel: 2"), ("lr_scheduler", "type: CosineWithWarmUpLR")))
    if name not in page.config and page.trains and len(page.config) > 8:
        yield "\n".join([*rows, f"{name}:", f"  {inside}", ""]), frozenset((line,)), frozenset((name,)), f"+ {name}"


@kind(CONFIG | {"ckpt-format"}, 2)
def saver_twice(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    for key, item in page.keys.items():
        if item.value == "CheckpointMonitor" and key.startswith("callbacks[") and page.trains:
            rows = list(page.rows)
            indent = len(rows[item.line - 1]) - len(rows[item.line - 1].lstrip())
            rows.insert(item.line - 1, " " * indent + "- type: CheckpointMonitor")
            place = int(key[len("callbacks[") : key.index("]")])
            keys = frozenset(f"callbacks[{place + n}]{tail}" for n in (0, 1) for tail in ("", ".type"))
            yield "\n".join(rows), frozenset((item.line, item.line + 1)), keys, "CheckpointMonitor twice"


@kind(CONFIG, 2)
def alias_of_section(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if re.search(r"^train_dataset: *&train_dataset", page.text, re.M):
        block = page.blocks.get("train_dataset")
        later = [key for key in COUNTS if key in page.keys and block and page.keys[key].line > block.last]
        if later:
            yield put(page, rng.choice(later), "*train_dataset")


@kind(CONFIG | {"parallel-strategy", "dataset"}, 2)
def value_lost(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    names = (*COUNTS[:9], "optimizer.type", "lr_schedule.type", "lr_schedule.learning_rate", "trainer.type")
    if page.trains:
        key = some(page, rng, *names)
        item = page.keys.get(key or "")
        if item is not None and item.start != item.end:
            text = page.text[: item.start] + page.text[item.end :]
            yield text, frozenset((item.line,)), frozenset((item.key,)), f"{key}: nothing"


@kind(CONFIG, 2)
def words_after_number(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    key = some(
        page, rng, "runner_config.epochs", f"{page.model}.seq_length", "runner_config.batch_size", "training.steps"
    )
    if key:
        word = rng.choice(("tokens", "epochs", "per card", "(old: 4)"))
        found = put(page, key, f"{page.keys[key].value} {word}")
        if found and ":" in word:
            # a second colon in a line is no YAML
            found = found[0], found[1], frozenset(), found[3]
        yield found


@kind(CONFIG, 2)
def pasted_marks(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    rows = list(page.rows)
    place = rng.choice([0, len(rows) // 2])
    mark = rng.choice(("```yaml", "<<<<<<< HEAD", ">>>>>>> feature/long"))
    if mark == ">>>>>>> feature/long" and place == 0:
        mark = "```yaml"
    if place and (not rows[place].strip() or rows[place - 1].strip().endswith(("|", ">", "\\"))):
        return
    rows.insert(place, mark)
    yield "\n".join(rows), frozenset((place + 1,)), frozenset(), mark


@kind(CONFIG | {"dataset"}, 2)
def full_width_signs(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    key = some(page, rng, "runner_config.epochs", "parallel_config.model_parallel", "parallelism.tensor_parallel")
    if key and page.whole(key) < 10:
        yield put(page, key, chr(0xFF10 + page.whole(key)) + "个")
    for number, row in enumerate(page.rows):
        if re.match(r'^ +input_columns: *\["[^"]+", *"', row) and number < line_of_section(page, "eval_dataset"):
            rows = list(page.rows)
            rows[number] = row.replace(", ", "，", 1).replace('",', '"，', 1)
            yield "\n".join(rows), frozenset((number + 1,)), frozenset(), rows[number].strip()
            return


@kind(CONFIG | {"dataset", "dtype-unsupported-op"}, 2)
def python_words(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    key = some(
        page, rng, f"{page.model}.compute_dtype", f"{page.model}.param_init_type", f"{page.model}.softmax_compute_type"
    )
    yield put(page, key, rng.choice(("mstype.float16", "ms.bfloat16", "np.float32")))
    for number, row in enumerate(page.rows):
        if re.match(r"^ +betas: *\[", row) and page.trains:
            rows = list(page.rows)
            rows[number] = row.replace("[", "(").replace("]", ")")
            yield "\n".join(rows), frozenset((number + 1,)), frozenset(("optimizer.betas",)), rows[number].strip()
            return


@kind(PARALLEL | {"weights-mismatch", "ckpt-format", "dataset", "shape", "nan-overflow"}, 2)
def pynative_slips(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if page.torch:
        pairs = (
            ("training.steps", "0"),
            ("training.local_batch_size", "999"),
            ("parallelism.pipeline_parallel", "3"),
            ("parallelism.tensor_parallel", "3"),
            ("parallelism.data_parallel_shard", "3"),
            ("lr_scheduler.learning_rate", "3e-4"),
            ("lr_scheduler.type", "CosinWithWarmUpLR"),
            ("recompute.mode", "full2"),
            ("checkpoint.save_max", "-1"),
            ("checkpoint.save_interleaved_steps", "0"),
            ("swap.enable", "maybe"),
            ("training.seed", "-4"),
            ("optimizer.type", "adamw"),
            ("train_dataset.dataloader.type", "BlendedMegatronDataLoader"),
            ("model.model_type", "deepseek_v33"),
            ("parallelism.expert_parallel", "7"),
            ("context.mode", "0"),
            ("run_mode", "training"),
        )
        for key, new in pairs:
            yield put(page, page.first(key), new)
