"""Lines of healthy logs, made up: step lines of one trainer among the chatter of the framework. Several kinds."""

from __future__ import annotations

import random
from collections.abc import Callable

#: share of lines that tell of a step
STEPS = 0.45

Line = Callable[[random.Random, int], str]


def _stamp(rng: random.Random) -> str:
    return f"2026-03-01 10:{rng.randrange(60):02d}:{rng.randrange(60):02d},{rng.randrange(1000):03d}"


def _loss(rng: random.Random, step: int) -> float:
    return 2 + 8 / (1 + step / 2000) + rng.gauss(0, 0.02)


def _graph(rng: random.Random, step: int) -> str:
    """MindFormers 1.x, graph mode."""
    return (
        f"{_stamp(rng)} - /job/output/log[mindformers/core/callback/callback.py:523] - INFO - "
        f"{{ Epoch:[  1/  2], step:[{step:5d}/100000], loss: {_loss(rng, step):.3f}, per_step_time: {rng.randrange(990, 1010)}ms,"
        f" lr: {1e-4:.6e}, overflow cond: False, loss_scale: 65536.0, global_norm: [{rng.uniform(0.8, 1.2):.4f}],"
        f" train_throughput_per_npu: {rng.uniform(150, 160):.3f}T"
    )


def _float32(value: float) -> str:
    """About as numpy prints it: seven to nine digits."""
    return f"{value:.{7 + int(value * 1e4) % 3}g}"


def _graph_widths(rng: random.Random, step: int) -> str:
    """The same with numbers of many widths: a falling rate, norms as numpy prints them."""
    rate = 1e-4 * (1 - step % 100_000 / 100_000) + 1e-6
    return (
        f"{_stamp(rng)} - mindformers./output/log[mindformers/core/callback/callback.py:529] - INFO - "
        f"{{ Epoch:[{1 + step // 2048:3d}/200], step:[{1 + step % 2048:5d}/ 2048], loss: {_loss(rng, step):5.3f},"
        f" per_step_time: {int(rng.lognormvariate(6.9, 0.2))}ms, lr: {_float32(rate)}, overflow cond: False,"
        f" loss_scale: 1.0, global_norm: [{_float32(rng.lognormvariate(0, 0.7))}],"
        f" train_throughput_per_npu: {rng.uniform(90, 110):.3f}T"
    )


def _pynative(rng: random.Random, step: int) -> str:
    """MindFormers 2.1, PyNative mode."""
    return (
        f"{_stamp(rng)} - mindformers/job/output/log[mindformers/pynative/callback/loss_callback.py:341] - INFO - "
        f"{{ step:[{step:5d}/{10**6:5d}], consumed_samples: {step * 8}, global_batch_size: 8, loss: {_loss(rng, step):10.6f},"
        f" lm_loss: {_loss(rng, step):10.6f}, per_step_time: {rng.randrange(950, 1050):6d}ms, lr: {3e-4:10.6e},"
        f" grad_norm: {rng.uniform(0.8, 1.2):10.6f}, throughput: {rng.uniform(150, 160):6.2f}T }}"
    )


def _loss_monitor(rng: random.Random, step: int) -> str:
    """MindSpore's own LossMonitor."""
    return f"epoch: {1 + step // 5000} step: {1 + step % 5000}, loss is {_loss(rng, step)!r}"


def _megatron(rng: random.Random, step: int) -> str:
    return (
        f" [2026-03-14 09:{rng.randrange(60):02d}:06] iteration {step:8d}/{10**6:8d} | consumed samples: {step * 8:12d} |"
        f" elapsed time per iteration (ms): {rng.uniform(990, 1010):.1f} | learning rate: {1.5e-4:.6E} | global batch size: {8:5d} |"
        f" lm loss: {_loss(rng, step):.6E} | loss scale: 1.0 | grad norm: {rng.uniform(0.8, 1.2):.3f} |"
        " number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def _bars(rng: random.Random, step: int) -> str:
    """A progress bar that rewrites its line."""
    bars = []
    for at in range(8 * step, 8 * step + 8):
        done = at % 3000
        bars.append(
            f"\rTraining:  {done // 30:3d}%|{'█' * (done // 300):10s}| {done}/3000 [{done // 60:02d}:{done % 60:02d}<50:00,"
            f"  1.{rng.randrange(10, 99)}it/s, loss={_loss(rng, at):.3f}]"
        )
    return "".join(bars)


def _ranks(rng: random.Random, step: int) -> str:
    """All ranks of a host in one file, each line with its rank in front."""
    return (
        f"[rank{step % 8}]: [INFO] {_stamp(rng)} [train.py:88] step {step // 8} | loss {_loss(rng, step // 8):.4f} |"
        f" lr 3.00e-04 | norm: {rng.uniform(0.8, 1.2):.2f} | dt: {rng.randrange(950, 1050)}ms"
    )


_FEW = (
    "2026-03-01 10:{m:02d}:{s:02d},{ms:03d} - /job/output/log[mindformers/core/callback/callback.py:{n}] - INFO - Save checkpoint of rank {r} finished.",
    "[WARNING] ME({p}:140233,MainProcess):2026-03-01-10:{m:02d}:{s:02d}.{ms:03d}.000 [mindspore/train/serialization.py:{n}] The type of parameter {r} is cast.",
    "[INFO] DEVICE({p},fffe,python):2026-03-01-10:{m:02d}:{s:02d}.{ms:03d}.100 [mindspore/ccsrc/runtime/pynative/op_runner.cc:{n}] UpdateStreams] stream {r}",
    "2026-03-01 10:{m:02d}:{s:02d},{ms:03d} - /job/output/log[mindformers/trainer/base_trainer.py:{n}] - INFO - current sample position {p} of rank {r}",
    "  {r:.1f}% |{bar}| {n} samples/s/p  0:{m:02d}:{s:02d} }}",
)
_HEADS = (
    "2026-03-01 10:{m:02d}:{s:02d},{ms:03d} - mindformers./output/log[mindformers/{place}.py:{n}] - INFO - {words}",
    "2026-03-01 10:{m:02d}:{s:02d},{ms:03d} - mindformers./output/log[mindformers/{place}.py:{n}] - WARNING - {words}",
    "[WARNING] ME({p}:140233{p:06d},MainProcess):2026-03-01-10:{m:02d}:{s:02d}.{ms:03d}.{n} [mindspore/{place}.py:{n}] {words}",
    "[INFO] RUNTIME_FRAMEWORK({p},ffff{n:04x},python):2026-03-01-10:{m:02d}:{s:02d}.{ms:03d}.{n} [mindspore/ccsrc/{place}.cc:{n}] {words}",
    "[INFO] PARALLEL({p},7f{n:04x},python):2026-03-01-10:{m:02d}:{s:02d}.{ms:03d}.{n} [mindspore/ccsrc/frontend/parallel/{place}.cc:{n}] {words}",
)
_PLACES = (
    "core/callback/callback",
    "dataset/engine/datasets",
    "train/serialization",
    "models/build_model",
    "tools/utils",
)
_WORDS = (
    "current sample position {p} of rank {r}",
    "dataset batch {n} of epoch {r} is ready, queue size {m}, pushed {p} samples",
    "Skip parameter model.layers.{s}.attention.wq.weight of shape ({n}, {n}) dtype Float16 as it is not trained",
    "The pushing data of device {r} takes {n}.{ms}us, device_queue size {m}",
    "Network parameters are not changed in layer {s}; {p} of them are kept in bfloat16",
    "Set recompute for block {s} of stage {r} with select pattern {ms:03d}",
    "host memory used {n} MB of {p} MB, device memory {m}.{ms:03d} GB peak {m}.{n} GB",
    "Rank {r} joins group hccl_world_group of {n} members with tag {p}, {ms} ms",
    "Allocated buffer {p} of {n} bytes at stream {r} from pool {s}",
    "kernel MatMul-op{p} launched on stream {r} in {ms} us, workspace {n}",
    "tokens of sample {p}: {n} padded to 4096, {ms} ignored",
    "Graph kernel fusion merges {n} nodes of kernel_graph_{r} into {m}",
    "learning rate schedule cosine: warm-up {n}, total {p}, end 1e-06",
    "evaluation of subset {r}: {n} samples, accuracy 0.{ms:03d}, perplexity {s}.{n}",
    "op-{p} input layouts [{r}, {s}, {m}] of device matrix [{r}, 2, {r}] tensor map [-1, 1, 0]",
    "profiling is off; step interval {n} of rank {r}",
)  # fmt: skip


def chatter(rng: random.Random, shapes: tuple[str, ...]) -> str:
    return rng.choice(shapes).format(
        m=rng.randrange(60),
        s=rng.randrange(60),
        ms=rng.randrange(1000),
        p=rng.randrange(10**6),
        n=rng.randrange(2000),
        r=rng.randrange(8),
        bar="█" * rng.randrange(40),
    )


def _shapes() -> tuple[str, ...]:
    """Some hundred shapes of lines, as a real run prints them over its life."""
    found = [_FEW[-1]]
    for number, words in enumerate(_WORDS):
        for at, head in enumerate(_HEADS):
            found.append(head.replace("{place}", _PLACES[(number + at) % len(_PLACES)]).replace("{words}", words))
    return tuple(found)


#: name -> step lines and the other lines among them
KINDS: dict[str, tuple[Line, tuple[str, ...]]] = {
    "graph": (_graph, _FEW),
    "shapes": (_graph_widths, _shapes()),
    "pynative": (_pynative, _shapes()),
    "megatron": (_megatron, _shapes()),
    "ranks": (_ranks, _shapes()),
    "loss-monitor": (_loss_monitor, _shapes()),
    "bars": (_bars, _shapes()),
}


def healthy_lines(rng: random.Random, kind: str, count: int, first: int = 1) -> list[str]:
    """So many lines of a run that is at step `first`, nothing wrong in any of them."""
    step_line, shapes = KINDS[kind]
    lines, step = [], first - 1
    for _ in range(count):
        if rng.random() < STEPS:
            step += 1
            lines.append(step_line(rng, step))
        else:
            lines.append(chatter(rng, shapes))
    return lines
