"""``python -m tests.benchmarks.silent_errors``: errors that no exception tells of, planted into real steps of the trainer.

Each is planted into the loop of a tiny model (PyNative, so that nothing is compiled) where it would happen: in the
network, the gradients, the optimizer, the schedule, the data. It is caught when a monitor speaks in the very step in
which it does harm for the first time, or before. Healthy runs of every kind of setting must stay silent.
"""

from __future__ import annotations

import argparse
import io
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import numpy as np

#: the step before which what happens on the way is planted
AT = 3
STEPS = 6
Plant = Callable[[Any], None]
BEFORE: dict[str, Plant] = {}
DURING: dict[str, Plant] = {}
CHANGES: dict[str, dict[str, Any]] = {}
HARM: dict[str, int] = {}


def before(name: str, **changes: Any) -> Callable[[Plant], Plant]:
    """Planted into the network before the optimizer is made."""
    return _into(BEFORE, name, changes)


def during(name: str, harm: int = AT, **changes: Any) -> Callable[[Plant], Plant]:
    """Planted into the loop before step `AT`; `harm` is the first step that comes out otherwise."""
    HARM[name] = harm
    return _into(DURING, name, changes)


def _into(table: dict[str, Plant], name: str, changes: dict[str, Any]) -> Callable[[Plant], Plant]:
    def add(plant: Plant) -> Plant:
        table[name] = plant
        CHANGES[name] = changes
        return plant

    return add


# the network


def _freeze(network: Any, word: str) -> None:
    for item in network.get_parameters():
        if word in item.name:
            item.requires_grad = False


@before("a projection is frozen")
def _(network: Any) -> None:
    _freeze(network, "q_proj")


@before("the embedding is frozen")
def _(network: Any) -> None:
    _freeze(network, "embed_tokens")


@before("norms are frozen")
def _(network: Any) -> None:
    _freeze(network, "norm")


@before("the head is not tied", model={"tie_word_embeddings": True})
def _(network: Any) -> None:
    from doctor.trainer.models.blocks import Linear
    from doctor.trainer.precision import Precision

    config = network.config
    network.tied = False
    network.lm_head = Linear(config.hidden_size, config.vocab_size, False, Precision())
    network.lm_head.weight.name = "lm_head.weight"


def _masked(network: Any, change: Callable[[Any], Any]) -> None:
    from mindspore import Tensor

    network.model.mask = Tensor(change(network.model.mask.asnumpy()).astype(np.float32))


@before("the mask hides nothing")
def _(network: Any) -> None:
    _masked(network, np.zeros_like)


@before("the mask lets the next token through")
def _(network: Any) -> None:
    length = network.length
    _masked(
        network,
        lambda mask: np.tile(np.triu(np.full((length, length), -6e4), 2), (len(mask), mask.shape[1] // length, 1)),
    )


@before("the mask hides half of the past")
def _(network: Any) -> None:
    length = network.length
    window = np.tril(np.full((length, length), -6e4), -length // 2)
    _masked(network, lambda mask: mask + np.tile(window, (len(mask), mask.shape[1] // length, 1)))


@before("a layer is left out")
def _(network: Any) -> None:
    layer = network.model.layers[1]
    layer.construct = lambda x, places: x


@before("positions are all the first")
def _(network: Any) -> None:
    model = network.model
    for name in ("q_cos", "q_sin", "k_cos", "k_sin"):
        table = getattr(model, name).asnumpy()
        from mindspore import Tensor

        setattr(model, name, Tensor(np.broadcast_to(table[:1], table.shape).copy()))


# gradients


def _gradients(loop: Any, change: Callable[[list[Any]], list[Any]]) -> None:
    cell = loop.stepper.fused.gradients
    inner = cell.construct

    def construct(*words: Any) -> Any:
        value, gradients = inner(*words)
        return value, tuple(change(list(gradients)))

    cell.construct = construct


@during("the gradient of one weight is dropped")
def _(loop: Any) -> None:
    _gradients(loop, lambda found: [item * (0.0 if number == 2 else 1.0) for number, item in enumerate(found)])


@during("all gradients are dropped")
def _(loop: Any) -> None:
    _gradients(loop, lambda found: [item * 0.0 for item in found])


@during("gradients are not clipped", args={"max_grad_norm": 0.01})
def _(loop: Any) -> None:
    loop.stepper.fused.measure.max_norm = 0.0


@during("gradients are clipped at another norm", args={"max_grad_norm": 1.0})
def _(loop: Any) -> None:
    loop.stepper.fused.measure.max_norm = 0.001


@during("the loss scale is not taken out again", args={"mixed_precision": "O1", "loss_scale": 1024.0})
def _(loop: Any) -> None:
    inner = loop.stepper.fused.measure.construct
    loop.stepper.fused.measure.construct = lambda gradients, scale: inner(gradients, scale * 0.0 + 1.0)


@during("a micro batch is left out", args={"gradient_accumulation_steps": 2})
def _(loop: Any) -> None:
    inner = loop.stepper.run
    loop.stepper.run = lambda batches, *more: inner(batches[:1], *more)


@during("sums are not cleared after an update", args={"gradient_accumulation_steps": 2}, harm=AT + 1)
def _(loop: Any) -> None:
    loop.stepper.apply.assign = lambda to, value: to


@during("a micro batch takes the place of another", args={"gradient_accumulation_steps": 2})
def _(loop: Any) -> None:
    gather = loop.stepper.gather
    gather.add = lambda to, value: to.set_data(value)


@during("the loss is divided twice")
def _(loop: Any) -> None:
    inner = loop.stepper.run
    loop.stepper.run = lambda batches, share, *more: inner(batches, share / 4, *more)


# the optimizer and its rate


@during("the rate is that of the first update")
def _(loop: Any) -> None:
    inner = loop.stepper.schedule
    loop.stepper.schedule = replace(inner, kind="constant", warmup=0)


@during("the rate is ten times what it is said to be")
def _(loop: Any) -> None:
    _kernel(loop, rate=10.0)


@during("decay is missing")
def _(loop: Any) -> None:
    _kernel(loop, decay=0.0)


def _kernel(loop: Any, rate: float = 1.0, decay: float = 1.0, epsilon: float = 1.0) -> None:
    optimizer = loop.stepper.optimizer
    inner = optimizer.construct

    def construct(gradients: Any, factor: Any, a: Any, b: Any, c: Any) -> Any:
        return inner(gradients, factor, a * rate, b * epsilon, c * decay)

    optimizer.construct = construct


@during("decay on norms", args={"weight_decay": 1.0})
def _(loop: Any) -> None:
    optimizer = loop.stepper.optimizer
    optimizer.decayed = tuple(True for _ in optimizer.decayed)


@during("another beta1")
def _(loop: Any) -> None:
    loop.stepper.optimizer.beta1 = 0.5


@during("another beta2")
def _(loop: Any) -> None:
    loop.stepper.optimizer.beta2 = 0.5


@during("a large epsilon")
def _(loop: Any) -> None:
    _kernel(loop, epsilon=1e7)


@during("moments are lost")
def _(loop: Any) -> None:
    for item in (*loop.stepper.optimizer.m, *loop.stepper.optimizer.v):
        item.set_data(item * 0.0)


@during("the count of updates starts anew")
def _(loop: Any) -> None:
    inner = loop.stepper.run

    def run(batches: Any, share: float, scale: float, updates: int) -> Any:
        return inner(batches, share, scale, updates - AT + 1)

    loop.stepper.run = run


@during("one weight is not updated")
def _(loop: Any) -> None:
    optimizer = loop.stepper.optimizer
    inner = optimizer.kernel
    left_out = optimizer.parameters[3].name
    optimizer.kernel = lambda weight, *more: weight if weight.name == left_out else inner(weight, *more)


@during("no weight is updated")
def _(loop: Any) -> None:
    optimizer = loop.stepper.optimizer
    optimizer.kernel = lambda weight, *more: weight


@during("a matrix is overwritten between two steps")
def _(loop: Any) -> None:
    weight = loop.stepper.optimizer.parameters[2]
    weight.set_data(weight * 1.5)


@during("one bit of one weight flips")
def _(loop: Any) -> None:
    from mindspore import Tensor

    weight = loop.stepper.optimizer.parameters[2]
    values = weight.asnumpy().copy()
    values.reshape(-1)[7] *= -2.0
    weight.set_data(Tensor(values))


# the data


def _stream(loop: Any, change: Callable[[Any], Any]) -> None:
    inner = loop._take
    loop._take = lambda stream: [change(batch) for batch in inner(stream)]


@during("a batch comes again and again")
def _(loop: Any) -> None:
    first = loop.last
    _stream(loop, lambda batch: replace(batch, ids=first.ids, labels=first.labels))


@during("the position goes back")
def _(loop: Any) -> None:
    _stream(loop, lambda batch: replace(batch, index=0))


@during("labels are shifted twice")
def _(loop: Any) -> None:
    _stream(loop, lambda batch: replace(batch, labels=np.roll(batch.labels, -1, 1)))


@during("labels are the input")
def _(loop: Any) -> None:
    _stream(loop, lambda batch: replace(batch, labels=batch.ids))


@during("labels are all ignored")
def _(loop: Any) -> None:
    _stream(loop, lambda batch: replace(batch, labels=np.full_like(batch.labels, -100)))


@during("labels of other rows")
def _(loop: Any) -> None:
    _stream(loop, lambda batch: replace(batch, labels=batch.labels[::-1].copy()))


def config(root: Path, model: Optional[dict[str, Any]] = None, args: Optional[dict[str, Any]] = None) -> Any:
    from doctor.trainer.config import build_config
    from doctor.trainer.fields import Place

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 40}
    raw = {
        "model": {"type": "llama", **sizes, "initializer_range": 0.2, **(model or {})},
        "train_dataset": {"data_loader": {"type": "Generated", "samples": 64}, "max_length": 8},
        "training_args": {
            "max_steps": STEPS,
            "per_device_train_batch_size": 4,
            "learning_rate": 0.01,
            "save_steps": 0,
            "mode": "pynative",
            "device_target": "CPU",
            **(args or {}),
        },
    }
    return build_config(raw, Place("silent.yaml"), "silent")


@contextmanager
def planted_before(plant: Optional[Plant]) -> Iterator[None]:
    from doctor.trainer.models import decoder

    inner = decoder.initialise

    def initialise(network: Any, *more: Any) -> None:
        inner(network, *more)
        if plant is not None:
            plant(network)

    decoder.initialise = initialise
    try:
        yield
    finally:
        decoder.initialise = inner


def alarms(changes: dict[str, Any], first: Optional[Plant] = None, then: Optional[Plant] = None) -> list[str]:
    """What monitors say in a run of `STEPS` steps: the message of each, with its step."""
    from doctor.trainer.assemble import _assemble
    from doctor.trainer.runfolder import Journal, RunFolder

    with tempfile.TemporaryDirectory() as name, planted_before(first):
        folder = RunFolder(Path(name) / "out")
        folder.create(False)
        journal = Journal(folder, io.StringIO())
        loop = _assemble(config(Path(name), **changes), folder, journal, None, None)
        inner, take = loop._one, loop._take

        def taking(stream: Any) -> Any:
            taken = take(stream)
            loop.last = taken[-1]
            return taken

        loop._take = taking

        def one(stream: Any) -> None:
            if then is not None and loop.progress.step == AT - 1:
                held = loop.last
                then(loop)
                loop.last = held
            inner(stream)

        loop._one = one
        loop.run()
        journal.close()
        lines = folder.log().read_text(encoding="utf-8").splitlines()
    return [line.split("monitor ", 1)[1] for line in lines if "monitor " in line]


def step_of(alarm: str) -> int:
    return int(alarm.split("step ", 1)[1].split(":", 1)[0])


HEALTHY: dict[str, dict[str, Any]] = {
    **{family: {"model": {"type": family}} for family in ("llama", "qwen2", "qwen3", "glm", "glm4", "bloom", "gpt2")},
    "tied": {"model": {"tie_word_embeddings": True}},
    "grouped heads": {"model": {"num_key_value_heads": 1}},
    "accumulation": {"args": {"gradient_accumulation_steps": 3}},
    "O1": {"args": {"mixed_precision": "O1"}},
    "O2": {"args": {"mixed_precision": "O2"}},
    "O3": {"args": {"mixed_precision": "O3"}},
    "O2, overflow dropped": {"args": {"mixed_precision": "O2", "loss_scale": {"loss_scale_value": 2.0**40}}},
    "accumulation in O2": {"args": {"mixed_precision": "O2", "gradient_accumulation_steps": 2}},
    "warm-up": {"args": {"warmup_steps": 4}},
    "rate zero": {"args": {"learning_rate": 0.0}},
    "no decay, no clipping": {"args": {"weight_decay": 0.0, "max_grad_norm": 0.0}},
    "clipped hard": {"args": {"max_grad_norm": 1e-3}},
    "large decay": {"args": {"weight_decay": 5.0}},
    "recompute": {"args": {"recompute": True}},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="planted errors whose name holds this")
    args = parser.parse_args()
    false = 0
    for name, changes in HEALTHY.items():
        if not args.only:
            said = alarms(changes)
            false += bool(said)
            print(f"{'FALSE ALARM' if said else 'silent':<12}{name:<44}{said[0][:120] if said else ''}", flush=True)
    caught, planted = 0, [*BEFORE, *DURING]
    planted = [name for name in planted if not args.only or args.only in name]
    for name in planted:
        said = alarms(CHANGES[name], BEFORE.get(name), DURING.get(name))
        due = 1 if name in BEFORE else HARM.get(name, AT)
        fine = bool(said) and step_of(said[0]) == due
        caught += fine
        verdict = "caught" if fine else f"at step {step_of(said[0])}" if said else "MISSED"
        print(f"{verdict:<12}{name:<44}{said[0][:120] if said else ''}", flush=True)
    print(
        f"caught within one step {caught} of {len(planted)}; false alarms {false} of {len(HEALTHY)} healthy runs; goal 22 of 24"
    )


if __name__ == "__main__":
    main()
