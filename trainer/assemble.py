"""Puts a run together from its config: device, data, model, loop; says once what is in effect."""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, TextIO

import yaml

from doctor import __version__
from doctor.errors import UsageError
from doctor.finding import Text
from doctor.trainer import checkpoint as checkpoints
from doctor.trainer import runtime
from doctor.trainer.callbacks import Callback
from doctor.trainer.cluster import ALONE, Cluster, join
from doctor.trainer.config import RunConfig
from doctor.trainer.runfolder import Journal, RunFolder, write_atomically, write_end
from doctor.trainer.summary import SummaryCollector

RESUME_NEWEST, RESUME_START = "newest", "start"


class RunFailed(UsageError):
    """What ends a run that was under way, in one clear line: a disk that is full, say."""


@dataclass(frozen=True)
class Ended:
    """How a run ended: ended, failed or interrupted; `code` is the exit code."""

    state: str
    code: int
    last_step: int


def train(
    config: RunConfig,
    folder: RunFolder,
    resume: Optional[str] = None,
    screen: Optional[TextIO] = None,
    parent: Optional[int] = None,
    weights: Optional[Mapping[str, Any]] = None,
    callbacks: Sequence[Callback] = (),
    cluster: Cluster = ALONE,
) -> Ended:
    """Runs `config` in `folder`, which is created already, writing all that the contract of a run folder names.

    `resume` is None, "newest", "start" (in a folder that holds a run, from its beginning) or the path of a checkpoint;
    `parent` is the process without which the run is to end, `weights` are those to begin with by the trainer's names.
    Raises UsageError for a bad config before anything is compiled, RunFailed for what stops a run that was under way;
    any other exception is recorded in the log and end.json and raised again.
    """
    started = time.perf_counter()
    journal = Journal(folder, screen, cluster.rank)
    last, under_way = 0, False

    def end(state: str, code: int, step: int, **more: Any) -> None:
        if cluster.leads:
            write_end(folder, state, code, step, **more)

    try:
        if config.args.summary_dir is not None and cluster.leads:
            callbacks = (*callbacks, SummaryCollector(config.args.summary_dir))
        loop = _assemble(config, folder, journal, resume, weights, cluster)
        journal.say(f"set-up took {time.perf_counter() - started:.1f} s")
        loop.stop.parent, loop.stop.launched = parent, cluster.shared
        loop.callbacks = tuple(callbacks)
        from doctor.trainer.stopping import Stopped

        under_way = True
        try:
            loop.run()
        except Stopped as stop:
            journal.say(f"stopped by {stop}; the state is saved at step {loop.progress.step}", level="WARNING")
            ended = Ended("interrupted", stop.code, loop.progress.step)
        else:
            journal.say(f"peak memory of this process (RSS): {loop.peak_memory_mb:.0f}MB")
            journal.say(".........Training Over!.............")
            ended = Ended("ended", 0, loop.progress.step)
        finally:
            last = loop.progress.step
        end(ended.state, ended.code, ended.last_step)
        return ended
    except BaseException as error:
        if isinstance(error, UsageError) and not under_way:
            # Refused: the one line is for whoever started it. In the log it would be diagnosed as a failed run.
            end("failed", 2, last, reason=str(error), rule=error.rule)
        elif isinstance(error, UsageError):
            journal.say(str(error), "ERROR")
            end("failed", 1, last, reason=str(error), rule=error.rule)
            raise RunFailed(error.what, error.hint, error.rule) from None
        else:
            end("failed", 1, last, reason=f"{type(error).__name__}: {error}")
        raise
    finally:
        journal.close()


def _assemble(
    config: RunConfig,
    folder: RunFolder,
    journal: Journal,
    resume: Optional[str],
    weights: Optional[Mapping[str, Any]],
    cluster: Cluster = ALONE,
) -> Any:
    from doctor.trainer.data.batches import Batches
    from doctor.trainer.data.samples import AS_THEY_ARE, load_samples

    args = config.args
    refuse_devices(config, cluster)
    if args.eval_steps and config.eval_dataset is None:
        raise UsageError(
            Text(
                f"training_args.eval_steps: {args.eval_steps}, but there is no eval_dataset.",
                f"training_args.eval_steps：为 {args.eval_steps}，但没有 eval_dataset。",
            ),
            Text(
                "Give the section eval_dataset, or leave eval_steps out.", "请给出 eval_dataset 段，或去掉 eval_steps。"
            ),
            "CFG-RUN-004",
        )
    refuse_full_disk(config, folder.root)
    if resume == RESUME_NEWEST:
        checkpoints.newest(folder.checkpoints)
    samples = load_samples(config.dataset, config.length, config.model.vocab_size, args.seed, "train_dataset")
    shuffle = config.dataset.data_loader.shuffle
    batches = Batches(
        samples,
        args.per_device_train_batch_size * cluster.size,
        args.seed,
        shuffle,
        "train_dataset",
        config.dataset.drop_remainder,
    )
    started_on = runtime.start(args.device_target, args.mode, args.jit_level, folder.root / "dumps", args.device_id)
    if args.optimizer_offload and started_on.device == "CPU":
        raise UsageError(
            Text(
                "training_args.optimizer_offload: on the CPU the optimizer's states are in host memory already.",
                "training_args.optimizer_offload：在 CPU 上优化器状态本来就在主机内存中。",
            ),
            Text("Set it to false here.", "请在本机设为 false。"),
            "CFG-OPT-015",
        )

    from doctor.trainer.evaluation import Evaluation
    from doctor.trainer.loop import Loop
    from doctor.trainer.models.decoder import CausalLM, initialise, recompute
    from doctor.trainer.precision import Precision

    precision = Precision.of(args, started_on.device)
    if cluster.leads:
        checkpoints.clean(folder.checkpoints)
    if cluster.shared:
        # After all that can be refused, which all of them refuse, and before the first operator.
        join()
    network = CausalLM(config.model, args.per_device_train_batch_size, config.length, precision, started_on.device)
    network.set_train()
    recompute(network, args.recompute)
    initialise(network, config.model, args.seed)
    if _begins(folder, resume):
        _load(config, network, weights, journal)
    loop = Loop(config, network, batches, folder, journal, cluster)
    if config.eval_dataset is not None:
        evaluated = load_samples(
            config.eval_dataset, config.length, config.model.vocab_size, args.seed + 1, "eval_dataset"
        )
        loop.evaluation = Evaluation(network, evaluated)
    if cluster.leads and (resume is None or not folder.config.exists()):
        write_config(config, folder, started_on)
    journal.say("Now Running Task is: text_generation, Model is: " + config.model.family)
    for name, value in started_on.__dict__.items():
        journal.say(f"runtime {name}: {value}")
    for line in yaml.safe_dump(config.effective(), sort_keys=False, allow_unicode=True).splitlines():
        journal.say(f"config | {line}")
    if config.left_out:
        journal.say(f"not used by this trainer: {', '.join(config.left_out)}", "WARNING")
    journal.say(batch_words(config, cluster.size))
    journal.say(f"Create train dataset finish, dataset size:{batches.per_epoch}")
    journal.say(f"labels: {samples.labelled}")
    if args.monitors and samples.labelled.startswith(f"{AS_THEY_ARE}:"):
        state = samples.labelled.split(": ", 1)[1]
        journal.say(f"monitor labels: step 1: labels of the data are {state}, and shift_labels is never", "ERROR")
    journal.say(f"Network Parameters: {config.model.parameters // 1_000_000} M.")
    if resume is not None:
        _resume(loop, folder, resume)
    journal.say(".........Starting Training Model..........")
    journal.say(".........Model Compiling, Please Wait a Moment...........")
    return loop


def _begins(folder: RunFolder, resume: Optional[str]) -> bool:
    """Whether the run starts from its first step: also when it is resumed before its first save, or sent back there."""
    if resume == RESUME_NEWEST:
        return checkpoints.newest(folder.checkpoints) is None
    return resume is None or resume == RESUME_START


def _load(config: RunConfig, network: Any, weights: Optional[Mapping[str, Any]], journal: Journal) -> None:
    """Weights to begin with: those given, or those of `load_checkpoint`."""
    from doctor.trainer.models.weights import fill, read_weights

    source = Path(config.load_checkpoint or "the model given")
    if weights is None:
        if config.load_checkpoint is None:
            return
        journal.say(f".............Start load checkpoint from {source}..................")
        weights = read_weights(source, config.model)
    unused = fill(network.trainable_params(), weights, source)
    journal.say(f"Network parameters are not loaded: ([], {list(unused)})")


def _resume(loop: Any, folder: RunFolder, word: str) -> None:
    if word == RESUME_START:
        loop.journal.say("starts from the beginning")
        return
    if word != RESUME_NEWEST:
        loop.resume(checkpoints.find(Path(word)))
        return
    found = checkpoints.newest(folder.checkpoints)
    if found is not None:
        for bad in checkpoints.torn(folder.checkpoints):
            loop.journal.say(f"passed over a checkpoint that is not whole: {bad}", "WARNING")
        loop.resume(found)
    else:
        # Ended before its first save: nothing is lost by starting over.
        loop.journal.say("no checkpoint yet: starts from the beginning", "WARNING")


def batch_words(config: RunConfig, workers: int = 1) -> str:
    """The batch arithmetic in full, because it is so often miscounted."""
    batch, accumulation = config.args.per_device_train_batch_size, config.args.gradient_accumulation_steps
    total = batch * workers * accumulation
    return (
        f"global_batch_size = batch_size_per_card * device_num * gradient_accumulation_steps = "
        f"{total} = {batch} * {workers} * {accumulation}; tokens per step = {total} * {config.length} = {total * config.length}"
    )


def write_config(config: RunConfig, folder: RunFolder, started_on: runtime.Runtime) -> None:
    """config.yaml: every setting as used, with versions; it runs again as it is."""
    import numpy

    versions = {
        "mindspore_doctor": __version__,
        "mindspore": started_on.mindspore,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
        "device": started_on.device,
    }
    row = {**config.effective(), "versions": versions}
    head = f"# {config.source}, as it was run\n"
    write_atomically(folder.config, head + yaml.safe_dump(row, sort_keys=False, allow_unicode=True))


#: names of the sizes whose product is the number of devices
_SIZES = (
    ("data_parallel",),
    ("model_parallel", "tensor_parallel", "tensor_model_parallel_size"),
    ("pipeline_stage", "pipeline_stages", "pipeline_model_parallel_size"),
    ("context_parallel",),
)


def refuse_devices(config: RunConfig, cluster: Cluster = ALONE) -> None:
    """Raises UsageError for a config that asks for other devices than the workers there are, or for a model in parts."""
    if not config.args.use_parallel:
        return
    wanted = config.args.parallel_config

    def size(names: Sequence[str]) -> int:
        value = next((wanted[name] for name in names if name in wanted), 1)
        return value if isinstance(value, int) and value > 0 else 1

    parts = {names[0]: size(names) for names in _SIZES}
    data = parts.pop("data_parallel")
    name = max(parts, key=lambda part: parts[part])
    if parts[name] > 1:
        raise UsageError(
            Text(
                f"training_args.parallel_config: {name} {parts[name]}: this trainer parallelises over data only.",
                f"training_args.parallel_config：{name} 为 {parts[name]}，而本训练器只支持数据并行。",
            ),
            Text(
                "Train it with MindFormers. To try the config small, here: doctor train CONFIG --smoke",
                "请用 MindFormers 训练。在本机缩小试跑：doctor train CONFIG --smoke",
            ),
            "CFG-PAR-001",
        )
    devices = max(data, wanted["device_num"] if isinstance(wanted.get("device_num"), int) else 1)
    if devices not in (1, cluster.size):
        here = (
            Text("one process", "一个进程")
            if not cluster.shared
            else Text(f"{cluster.size} workers", f"{cluster.size} 个进程")
        )
        raise UsageError(
            Text(
                f"training_args.use_parallel: the config is for {devices} devices, and there is {here.en}.",
                f"training_args.use_parallel：该配置需要 {devices} 个设备，而当前只有{here.zh}。",
            ),
            Text(
                f"With as many workers: doctor train CONFIG --workers {devices}. For one device: use_parallel: false. "
                "Small, here: --smoke",
                f"以同样多的进程训练：doctor train CONFIG --workers {devices}。单设备请设 use_parallel: false。缩小试跑：--smoke",
            ),
            "CFG-PAR-001",
        )


#: a weight, and two moments of it, in FP32
_BYTES_SAVED = 12


def refuse_full_disk(config: RunConfig, root: Path) -> None:
    """Raises UsageError when the first checkpoint does not fit: a run is not to find that out at its end."""
    if not config.args.save_steps:
        return
    needed, free = _BYTES_SAVED * config.model.parameters, shutil.disk_usage(root).free
    if needed > free:
        raise UsageError(
            Text(
                f"output_dir {root}: {free / 1e6:.3g} MB are free, a checkpoint takes {needed / 1e6:.3g} MB.",
                f"output_dir {root}：剩余 {free / 1e6:.3g} MB，而一个检查点需要 {needed / 1e6:.3g} MB。",
            ),
            Text(
                "Free space, or name another disk: --output-dir DIR", "请清理磁盘，或用 --output-dir DIR 指定其他磁盘。"
            ),
            "LOG-SYS-002",
        )
