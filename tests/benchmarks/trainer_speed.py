"""Speed of the trainer beside Hugging Face's LLaMA on torch: the same model, the same cores, in turns, in one run.

    python tests/benchmarks/trainer_speed.py --torch /path/to/venv/bin/python [--rounds 3] [--compile] [--profile]
        [--mindformers /path/to/venv/bin/python --mindformers-runner DIR]
    python tests/benchmarks/trainer_speed.py --monitors

The peers' interpreters need torch and transformers, and MindFormers 1.8.0; DIR holds a `run.py`, a `mkdata.py` and a
`tiny_llama.yaml` that make it train on a CPU. Each round starts one process of each; the fastest step of all rounds
counts, CPU time of a step beside it, because other work on the machine only ever slows a step down. `--monitors` compares
steps with and without monitors, one after the other in one process.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

SIZES = {
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 8192,
    "intermediate_size": 688,
}
BATCH, LENGTH, WARM = 8, 256, 2

PEER = """
import json, resource, sys, time
import torch
from transformers import LlamaConfig, LlamaForCausalLM
sizes, batch, length, steps, compiled, threads = json.loads(sys.argv[1])
torch.set_num_threads(threads)
model = LlamaForCausalLM(LlamaConfig(**sizes, use_cache=False, attn_implementation="sdpa"))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
run = torch.compile(model) if compiled else model
ids = torch.randint(0, sizes["vocab_size"], (batch, length))
rows = []
for _ in range(steps):
    wall, cpu = time.perf_counter(), time.process_time()
    optimizer.zero_grad()
    loss = run(ids, labels=ids).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    float(loss.detach())
    rows.append((time.perf_counter() - wall, time.process_time() - cpu))
print(json.dumps({"rows": rows, "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def stepper(monitors: bool = True) -> Any:
    """Our compiled step of that model with one batch, ready to run, monitors included."""
    import numpy as np

    from doctor.trainer import runtime

    runtime.start("CPU")
    from doctor.trainer.arguments import TrainingArguments
    from doctor.trainer.data.batches import Batch
    from doctor.trainer.fields import Place
    from doctor.trainer.models.config import ModelConfig
    from doctor.trainer.models.decoder import CausalLM, LanguageModelLoss, initialise
    from doctor.trainer.models.families import named
    from doctor.trainer.monitors import Monitors
    from doctor.trainer.schedule import Schedule
    from doctor.trainer.step import Stepper

    config = ModelConfig.read(SIZES, Place(), named("llama", Place()))
    network = CausalLM(config, BATCH, LENGTH)
    network.set_train()
    initialise(network, config, 0)
    args = TrainingArguments(learning_rate=1e-3, monitors=monitors)
    schedule = Schedule("constant", 1e-3, 0.0, 0, 1)
    made = Stepper(network, LanguageModelLoss(network), args, schedule, guarded=False)
    watch = Monitors(args, schedule, made.shadow(), lambda kind, words: print(kind, words)) if monitors else None
    random = np.random.default_rng(0)
    ids = random.integers(0, config.vocab_size, (BATCH, LENGTH + 1)).astype(np.int32)
    batch = Batch(np.ascontiguousarray(ids[:, :-1]), np.ascontiguousarray(ids[:, 1:]), 0, 0)

    def run(update: int) -> None:
        outcome = made.run([(batch.ids, batch.labels)], 1 / (BATCH * LENGTH), 1.0, update)
        if watch is not None:
            watch.batches([replace(batch, index=update)], per_epoch=1)
            watch.step(outcome.seen, outcome.rate, 1.0, update, outcome.applied, outcome.grad_norm)

    return run


def ours(steps: int) -> dict[str, Any]:
    run = stepper()
    rows = []
    for update in range(steps):
        wall, cpu = time.perf_counter(), time.process_time()
        run(update)
        rows.append((time.perf_counter() - wall, time.process_time() - cpu))
    return {"rows": rows, "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def monitors(rounds: int) -> None:
    """Steps with and without monitors in turns: the fastest of each, and the median of the differences of neighbours."""
    runs = {True: stepper(True), False: stepper(False)}
    clocks = {"CPU": time.process_time, "wall": time.perf_counter}
    times: dict[tuple[str, bool], list[float]] = {(name, watched): [] for name in clocks for watched in runs}
    for update in range(WARM + rounds):
        for watched in (True, False) if update % 2 else (False, True):
            begun = {name: clock() for name, clock in clocks.items()}
            runs[watched](update)
            if update >= WARM:
                for name, clock in clocks.items():
                    times[name, watched].append(clock() - begun[name])
    for name in clocks:
        with_them, without = times[name, True], times[name, False]
        plain = min(without)
        median = statistics.median(a - b for a, b in zip(with_them, without))
        print(
            f"{name:<5}step {plain * 1000:7.1f} ms, with monitors {min(with_them) / plain - 1:+.2%} (fastest), "
            f"{median / plain:+.2%} (median of neighbours); goal 1 %"
        )


def mindformers(python: str, runner: Path, steps: int) -> dict[str, Any]:
    """The same model in MindFormers on the CPU, from the step times that it logs."""
    settings = {
        "hidden_size": SIZES["hidden_size"],
        "num_layers": SIZES["num_hidden_layers"],
        "num_heads": SIZES["num_attention_heads"],
        "n_kv_heads": SIZES["num_key_value_heads"],
        "vocab_size": SIZES["vocab_size"],
        "intermediate_size": SIZES["intermediate_size"],
        "seq_length": LENGTH,
        "batch_size": BATCH,
    }
    with tempfile.TemporaryDirectory() as name:
        data = str(Path(name) / "speed.mindrecord")
        sizes = [str(LENGTH), str(SIZES["vocab_size"]), str(BATCH * steps), data]
        environment = {**os.environ, "PYTHONPATH": str(runner), "OMP_NUM_THREADS": str(os.cpu_count())}
        subprocess.run([python, str(runner / "mkdata.py"), *sizes], check=True, env=environment, capture_output=True)
        words = [f"model.model_config.{key}={value}" for key, value in settings.items()]
        words += [f"train_dataset.data_loader.dataset_dir={data}", "runner_wrapper.scale_sense=1.0"]
        words += [
            f"train_dataset_task.dataset_config.data_loader.dataset_dir={data}",
            "callbacks=[{'type':'MFLossMonitor'}]",
        ]
        command = [python, str(runner / "run.py"), str(runner / "tiny_llama.yaml"), *words]
        begun = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            command, cwd=name, env=environment, capture_output=True, text=True, timeout=1800, check=False
        )
    found = [int(item) / 1000 for item in re.findall(r"per_step_time: (\d+)ms", done.stdout + done.stderr)]
    if len(found) <= WARM:
        raise SystemExit(f"MindFormers trained nothing: {(done.stderr or done.stdout)[-400:]}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = (used.ru_utime + used.ru_stime - begun.ru_utime - begun.ru_stime) / len(found)
    return {"rows": [(seconds, cpu) for seconds in found], "rss": used.ru_maxrss / 1024}


def profile() -> None:
    """Where a step goes, by operator, in milliseconds."""
    import mindspore as ms
    from mindspore.profiler import ProfilerActivity

    run = stepper()
    for update in range(3):
        run(update)
    count = 4
    with tempfile.TemporaryDirectory() as root:
        handler = ms.profiler.tensorboard_trace_handler(root)
        recorder = ms.profiler.profile(activities=[ProfilerActivity.CPU], on_trace_ready=handler)
        recorder.start()
        for update in range(3, 3 + count):
            run(update)
        recorder.stop()
        table = next(Path(root).rglob("cpu_op_type_info_*.csv")).read_text().splitlines()
    rows = sorted(csv.DictReader(table), key=lambda row: -float(row["total_compute_time"]))
    total = sum(float(row["total_compute_time"]) for row in rows) / count
    print(f"\n{'operator':<22}{'a step':>8}{'ms':>9}{'share':>8}")
    for row in rows[:16]:
        spent = float(row["total_compute_time"]) / count
        print(f"{row['op_type']:<22}{int(row['type_occurrences']) // count:>8}{spent:>9.1f}{spent / total:>8.1%}")


def child(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=True)
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", help="interpreter with torch and transformers")
    parser.add_argument("--compile", action="store_true", help="torch.compile as well")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--mindformers", help="interpreter with MindFormers 1.8.0")
    parser.add_argument("--mindformers-runner", type=Path, help="folder with what makes it train on a CPU")
    parser.add_argument("--monitors", action="store_true", help="what monitors cost, instead")
    parser.add_argument("--profile", action="store_true", help="also show where our step goes")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(ours(args.steps)))
        return
    if args.monitors:
        monitors(args.steps * args.rounds)
        return
    runs = {"doctor": [sys.executable, __file__, "--child", "--steps", str(args.steps)]}
    if args.torch:
        from doctor.trainer.runtime import cores

        for name, compiled in (("torch eager", False), *((("torch.compile", True),) if args.compile else ())):
            words = json.dumps([SIZES, BATCH, LENGTH, args.steps, compiled, cores()])
            runs[name] = [args.torch, "-c", PEER, words]
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in runs}
    for _ in range(args.rounds):
        for name, command in runs.items():
            seen[name].append(child(command))
        if args.mindformers:
            found = mindformers(args.mindformers, args.mindformers_runner.resolve(), args.steps)
            seen.setdefault("MindFormers", []).append(found)
    print(f"{'':<16}{'step ms':>9}{'CPU ms':>9}{'tokens/s':>10}{'RSS MB':>9}{'doctor is':>11}")
    fastest: dict[str, float] = {}
    for name, results in seen.items():
        rows = [row for result in results for row in result["rows"][WARM:]]
        wall, cpu = min(row[0] for row in rows), min(row[1] for row in rows)
        fastest[name] = wall
        rss = max(result["rss"] for result in results)
        ratio = f"{wall / fastest['doctor']:.2f}x" if name != "doctor" else ""
        print(f"{name:<16}{wall * 1000:>9.0f}{cpu * 1000:>9.0f}{BATCH * LENGTH / wall:>10.0f}{rss:>9.0f}{ratio:>11}")
    if args.profile:
        subprocess.run([sys.executable, "-c", f"import runpy; runpy.run_path({__file__!r})['profile']()"], check=True)


if __name__ == "__main__":
    main()
