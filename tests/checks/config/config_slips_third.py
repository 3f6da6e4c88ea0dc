"""The third series of slips (`config_slips`), written after the first two had been scored: other kinds again."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Optional

from config_mutations import get, semi_auto, size
from config_slips import (
    CONFIG,
    COUNTS,
    MODEL,
    PARALLEL,
    RATES,
    RUN,
    WEIGHTS,
    Found,
    Page,
    add,
    call,
    inner,
    kind,
    put,
    put_all,
    some,
)


@kind(CONFIG, 3)
def foreign_comment(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    """A comment of another language on a line of its own."""
    key = inner(page, rng, *RUN)
    if key:
        rows = list(page.rows)
        line = page.keys[key].line
        indent = len(rows[line - 1]) - len(rows[line - 1].lstrip())
        rows.insert(line - 1, " " * indent + rng.choice(("// tuned by hand", "-- tuned by hand", "; tuned by hand")))
        yield "\n".join(rows), frozenset((line,)), frozenset(), rows[line - 1].strip()


@kind(CONFIG, 3)
def second_document(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    names = [name for name in RUN if name in page.blocks and page.blocks[name].indent == 2 and "." not in name]
    content = next(number for number, row in enumerate(page.rows, 1) if row.strip() and not row.startswith("#"))
    starts = [page.blocks[name].header for name in names if page.blocks[name].header > content]
    if starts and not re.search(r"[*]\w", page.text):
        line = rng.choice(starts)
        rows = list(page.rows)
        rows.insert(line - 1, "---")
        yield "\n".join(rows), frozenset((line,)), frozenset(), f"--- at line {line}"


@kind(CONFIG, 3)
def look_alike_letter(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    """A Cyrillic letter that looks like the Latin one."""
    keys = [
        key
        for key in page.keys
        if key.rpartition(".")[0]
        in ("runner_config", "parallel_config", "parallelism", "training", "lr_schedule", "context")
        and re.search("[aeopc]", key.rpartition(".")[2])
    ]
    if keys and page.trains:
        key = rng.choice(sorted(keys))
        letter = re.search("[aeopc]", key.rpartition(".")[2])
        if letter:
            new = key.rpartition(".")[2].replace(letter[0], dict(zip("aeopc", "аеорс"))[letter[0]], 1)
            yield call(page, key, new)


@kind(CONFIG, 3)
def top_level_typo(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if page.trains:
        names = ("load_checkpoint", "output_dir", "run_mode", "use_parallel", "auto_trans_ckpt", "resume_training")
        key = some(page, rng, *names)
        if key:
            place = rng.randrange(1, len(key) - 1)
            yield call(page, key, key[:place] + key[place] + key[place:])


@kind(CONFIG | {"ckpt-format", "parallel-strategy"}, 3)
def top_level_flag(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    names = (
        "use_parallel",
        "auto_trans_ckpt",
        "only_save_strategy",
        "do_eval",
        "profile",
        "use_legacy",
        "resume_training",
    )
    yield put(page, some(page, rng, *names), rng.choice(("Ture", '"False"', "Flase", "Tue", "'True'")))


@kind(CONFIG | {"dataset"}, 3)
def section_as_word(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    """A word where a section with settings belongs."""
    words = {
        "optimizer": "AdamW",
        "lr_schedule": "CosineWithWarmUpLR",
        "runner_config": "default",
        "parallel_config": "8",
        "train_dataset.data_loader": "MindDataset",
        "context.jit_config": '"O1"',
        "model.arch": "LlamaForCausalLM",
        "lr_scheduler": "CosineWithWarmUpLR",
        "recompute_config": "[1, 2]",
        "context": "Ascend",
        "train_dataset.dataloader": "MindDataset",
        "parallelism": "8",
    }
    here = [name for name in words if name in page.blocks and page.trains and "run_mode" in page.config]
    rng.shuffle(here)
    for name in here[:1]:
        block = page.blocks[name]
        end = max([block.last, *(item.last for key, item in page.blocks.items() if key.startswith(f"{name}."))])
        if re.search("&", "\n".join(page.rows[block.header - 1 : end])):
            return
        rows = list(page.rows)
        head = re.match(r"^( *\w+):", rows[block.header - 1])
        if head:
            rows[block.header - 1 : end] = [f"{head.group(1)}: {words[name]}"]
            keys = frozenset((name, f"{name}.type"))
            yield "\n".join(rows), frozenset((block.header,)), keys, f"{name}: {words[name]}"


@kind(CONFIG | {"parallel-strategy"}, 3)
def value_of_the_next_line(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    """What belongs to a switch went to a number."""
    key = some(page, rng, *COUNTS[:9])
    if key:
        yield put(page, key, rng.choice(('"Ascend"', "MindDataset", "./output", "True")))


@kind(CONFIG | {"dataset"}, 3)
def unit_glued(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    names = [
        key for key in page.keys if key.endswith((".save_checkpoint_steps", ".keep_checkpoint_max", ".per_print_times"))
    ]
    key = some(page, rng, *names, "runner_config.epochs", "train_dataset.num_parallel_workers", "training.steps")
    if key and page.trains:
        yield put(page, key, f"{page.keys[key].value}{rng.choice(('steps', 'x', 'min', '个'))}")


@kind(RATES, 3)
def optimizer_numbers(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if not page.trains:
        return
    for number, row in enumerate(page.rows):
        hit = re.match(r"^( +betas: *)\[ *(0\.\d+) *, *(0\.\d+) *\]", row)
        if hit and float(hit.group(2)) < float(hit.group(3)):
            rows = list(page.rows)
            rows[number] = f"{hit.group(1)}[{hit.group(3)}, {hit.group(2)}]"
            keys = frozenset(("optimizer.betas", "optimizer.betas[0]", "optimizer.betas[1]"))
            yield "\n".join(rows), frozenset((number + 1,)), keys, rows[number].strip()
    yield put(page, page.first("optimizer.eps"), rng.choice(("0", "-1.e-8", "0.1")))
    yield put(page, page.first("optimizer.weight_decay"), rng.choice(("-0.01", "3.0", "1.5")))
    yield put(
        page, page.first("lr_schedule.learning_rate", "lr_scheduler.learning_rate"), rng.choice((".inf", ".nan", "0"))
    )
    yield put(page, page.first("lr_schedule.lr_end"), rng.choice(("-1.e-6", ".nan")))


@kind(RATES, 3)
def loss_scale_numbers(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if page.trains:
        scale = "runner_wrapper.scale_sense"
        yield put(page, page.first(f"{scale}.type"), rng.choice(("DynamicLossScaleUpdateCel", "DynamicLossScale")))
        yield put(page, page.first(f"{scale}.scale_window"), rng.choice(("0", "-100")))
        yield put(page, page.first(f"{scale}.scale_factor"), rng.choice(("0", "-2", "1")))
        yield put(page, page.first(f"{scale}.loss_scale_value"), rng.choice(("-65536", "0")))
        yield put(page, page.first(scale), rng.choice(("-1.0", "0", "dynamical")))
        yield put(page, page.first("runner_wrapper.max_grad_norm"), rng.choice(("-1.0", "0", "1.e-9")))


@kind(PARALLEL, 3)
def recompute_values(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if page.trains and not page.torch:
        yield put(page, page.first("recompute_config.recompute"), rng.choice(("[1, two]", "all", "[-1]", "Ture")))
        yield put(page, page.first("recompute_config.recompute_slice_activation"), rng.choice(("Ture", '"no"')))


@kind(PARALLEL, 3)
def context_without_flash(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    """Context parallel takes half the data-parallel devices while flash attention is off."""
    parallel, model = "parallel_config", page.model
    data = size(page.config, "dp")
    flash = f"{model}.use_flash_attention"
    if page.trains and semi_auto(page.config) and page.release >= (1, 3) and data % 2 == 0:
        pairs = {flash: "False", f"{parallel}.context_parallel": "2", f"{parallel}.data_parallel": str(data // 2)}
        yield put_all(page, pairs, flash, f"{parallel}.context_parallel")


@kind(PARALLEL, 3)
def expert_parallel_beyond(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    experts = max(
        page.whole(f"{section}.{name}")
        for section in (page.model, "moe_config")
        for name in ("n_routed_experts", "num_experts", "expert_num")
    )
    if experts > 1 and page.trains:
        yield put(page, page.first("parallel_config.expert_parallel", "parallelism.expert_parallel"), str(experts * 2))


@kind(MODEL, 3)
def mcore_settings(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if page.mcore and page.trains:
        model = page.model
        yield put(page, page.first(f"{model}.hidden_dropout"), "0")
        yield put(page, page.first(f"{model}.attention_dropout"), rng.choice(("1.5", "-0.1")))
        if f"{model}.num_key_value_heads" in page.keys:
            heads = page.whole(f"{model}.num_key_value_heads")
            yield add(page, model, f"n_kv_heads: {heads}", f"{model}.num_key_value_heads")
        if f"{model}.num_hidden_layers" in page.keys:
            layers = page.whole(f"{model}.num_hidden_layers")
            yield add(page, model, f"num_layers: {layers}", f"{model}.num_hidden_layers")
        yield put(page, page.first(f"{model}.num_nextn_predict_layers"), "4")
        yield put(page, page.first(f"{model}.scoring_func"), '"sigmod"')


@kind(CONFIG | {"performance", "oom-device", "shape", "parallel-strategy", "dataset"}, 3)
def absurd_number(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    pairs = {
        "runner_config.epochs": "100000000000",
        "runner_config.batch_size": "10000000000",
        f"{page.model}.num_layers": "1000000",
        f"{page.model}.seq_length": "100000000000",
        "train_dataset.num_parallel_workers": "100000",
        "training.steps": "-5",
    }
    key = some(page, rng, *pairs)
    if key and page.trains:
        yield put(page, key, pairs[key])


@kind(WEIGHTS, 3)
def format_against_file(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if "load_checkpoint" in page.keys and "load_ckpt_format" in page.keys:
        two = {"load_checkpoint": '"./llama2_7b.ckpt"', "load_ckpt_format": "safetensors"}
        yield put_all(page, two)
        if page.release >= (1, 6) and not page.mcore:
            yield put_all(page, {"load_checkpoint": '"./llama2_7b.safetensors"', "load_ckpt_format": "ckpt"})


@kind(WEIGHTS | {"dataset"}, 3)
def wrong_mode(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if page.trains and not page.torch:
        yield put(page, page.first("run_mode"), rng.choice(("Train", "fine_tune", "fine-tune", "inference", "True")))
        if "eval_dataset" not in page.config:
            yield put(page, page.first("do_eval"), "True")


@kind(RATES, 3)
def schedule_numbers(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    if page.trains:
        yield put(page, page.first("lr_schedule.warmup_epochs"), rng.choice(("-1", "0.5x")))
        yield put(
            page, page.first("lr_schedule.warmup_ratio", "lr_scheduler.warmup_ratio"), rng.choice(("1.01", "10", "-1"))
        )
        yield put(
            page, page.first("lr_schedule.total_steps", "lr_scheduler.total_steps"), rng.choice(("-5", "1.5", "many"))
        )
        yield put(page, page.first("lr_schedule.num_cycles"), rng.choice(("half", "-1")))
        yield put(
            page,
            page.first("lr_schedule.warmup_steps", "lr_scheduler.warmup_steps"),
            rng.choice(("10.5", "-10", "auto")),
        )


@kind(CONFIG | {"dataset", "parallel-strategy", "shape"}, 3)
def list_of_one_too_many(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    """A number in a list that is a word, or a word that is a number."""
    for number, row in enumerate(page.rows):
        hit = re.match(r"^( +input_columns: *\[)(.*)(\] *(?:#.*)?)$", row)
        if hit and page.trains:
            rows = list(page.rows)
            rows[number] = f"{hit.group(1)}{hit.group(2)}, {rng.choice(('1', 'null', '[labels]'))}{hit.group(3)}"
            section = "eval_dataset" if 0 < _header(page, "eval_dataset") <= number else "train_dataset"
            if section == "train_dataset":
                keys = {f"{section}.input_columns", *(f"{section}.input_columns[{place}]" for place in range(9))}
                yield "\n".join(rows), frozenset((number + 1,)), frozenset(keys), rows[number].strip()
            return


def _header(page: Page, section: str) -> int:
    block = page.blocks.get(section)
    return block.header if block else 0


@kind(CONFIG | {"dtype-unsupported-op", "nan-overflow"}, 3)
def dtype_of_another_kind(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    names = ("compute_dtype", "softmax_compute_type", "layernorm_compute_type", "param_init_type", "rotary_dtype")
    key = some(page, rng, *(f"{page.model}.{name}" for name in names))
    if page.trains:
        yield put(page, key, rng.choice(("16", "True", '"int32"', '"O2"', '"amp"')))


@kind(CONFIG, 3)
def nested_twice(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    """A section inside a section of the same name."""
    for name in rng.sample(["optimizer", "parallel_config", "lr_schedule", "runner_config", "training"], 5):
        block = page.blocks.get(name)
        if block and block.header and block.indent == 2 and page.trains and "run_mode" in page.config:
            end = max([block.last, *(item.last for key, item in page.blocks.items() if key.startswith(f"{name}."))])
            rows = list(page.rows)
            for number in range(block.header, end):
                rows[number] = "  " + rows[number] if rows[number].strip() else rows[number]
            rows.insert(block.header, f"  {name}:")
            keys = frozenset((f"{name}.{name}", f"{name}.type", name))
            lines = frozenset((block.header, block.header + 1))
            yield "\n".join(rows), lines, keys, f"{name} in {name}"
            return


@kind(CONFIG | {"ckpt-format", "disk-io"}, 3)
def checkpoint_section(page: Page, rng: random.Random) -> Iterator[Optional[Found]]:
    pairs = {
        "checkpoint.save_max": ("0", "many", "-2"),
        "checkpoint.save_interleaved_steps": ("-1", "0.5", "'100'"),
        "checkpoint.enable_save": ("Ture", "'False'"),
        "checkpoint.load_worker_number": ("0", "two"),
        "checkpoint.no_save_optim": ("Flase",),
        "checkpoint.async_save": ("yess",),
        "checkpoint.remove_redundancy": ("Fals", "'True'"),
    }
    for key, words in pairs.items():
        if get(page.config, "checkpoint.enable_save", True):
            yield put(page, page.first(key), rng.choice(words))
