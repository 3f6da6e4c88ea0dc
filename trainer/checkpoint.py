"""Checkpoints: written beside, brought to disk, renamed. What stood before is touched only afterwards.

``checkpoints/step-N/`` holds model.safetensors (or model.ckpt), optimizer.safetensors and state.json, which is
written last and lists the size of each file: a folder without it, or with another size, is torn and passed over.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np

from doctor.errors import UsageError
from doctor.finding import Text

_NAME = re.compile(r"step-(\d+)")
STATE = "state.json"
Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint on disk. `sound` is False when a weight or an optimizer state was not finite."""

    path: Path
    step: int
    state: Mapping[str, Any]

    @property
    def sound(self) -> bool:
        return bool(self.state.get("sound", True))


def save(
    root: Path,
    step: int,
    weights: Arrays,
    optimizer: Arrays,
    state: Mapping[str, Any],
    file_format: str = "safetensors",
) -> Checkpoint:
    """Writes ``root/step-N``. Raises OSError (disk full, no permission); the earlier checkpoints are as they were."""
    target = root / f"step-{step}"
    beside = root / f".step-{step}.{os.getpid()}.tmp"
    _remove(beside)
    beside.mkdir(parents=True)
    try:
        model = f"model.{file_format}"
        _write_arrays(beside / model, weights)
        _write_arrays(beside / "optimizer.safetensors", optimizer)
        sizes = {name: (beside / name).stat().st_size for name in (model, "optimizer.safetensors")}
        sound = all(_finite(values) for values in (*weights.values(), *optimizer.values()))
        row = {"step": step, **state, "sound": sound, "files": sizes}
        _write_text(beside / STATE, json.dumps(row, ensure_ascii=False, indent=1) + "\n")
        _to_disk(beside)
        if target.exists():
            # Only after a rollback: the same step is reached again. The old one steps aside before it is deleted.
            aside = root / f".step-{step}.{os.getpid()}.old"
            _remove(aside)
            target.rename(aside)
            beside.rename(target)
            _remove(aside)
        else:
            beside.rename(target)
    except OSError:
        _remove(beside)
        raise
    _to_disk(root)
    _point_latest(root, target.name)
    return Checkpoint(target, step, row)


def prune(root: Path, keep: int, best: Optional[int] = None) -> list[int]:
    """Removes all but the last `keep`, the newest sound one and the best one. Returns the steps removed."""
    found = whole(root)
    kept = {item.step for item in found[-keep:]}
    kept |= {item.step for item in [item for item in found if item.sound][-1:]}
    if best is not None:
        kept.add(best)
    removed = [item for item in found if item.step not in kept]
    for item in removed:
        _discard(root, item)
    return [item.step for item in removed]


def whole(root: Path) -> list[Checkpoint]:
    """All whole checkpoints under `root`, the oldest first; torn ones are left out."""
    if not root.is_dir():
        return []
    found = [item for path in root.iterdir() if _NAME.fullmatch(path.name) and (item := _read(path)) is not None]
    return sorted(found, key=lambda item: item.step)


@dataclass(frozen=True)
class Torn:
    """A folder that would be a checkpoint, and what it lacks."""

    path: Path
    why: Text

    def __str__(self) -> str:
        return f"{self.path.name} ({self.why.en})"


def torn(root: Path) -> list[Torn]:
    """The checkpoints under `root` that are not whole, the oldest first."""
    if not root.is_dir():
        return []
    found = [path for path in root.iterdir() if _NAME.fullmatch(path.name) and path.is_dir() and _read(path) is None]
    return [Torn(path, _lack(path)) for path in sorted(found, key=lambda path: int(path.name[len("step-") :]))]


def newest(root: Path) -> Optional[Checkpoint]:
    """The newest whole checkpoint, or None where there never was one. Raises UsageError when those there are are torn: a run
    that began anew would look like one that went on."""
    found = whole(root)
    if found:
        return found[-1]
    bad = torn(root)
    if not bad:
        return None
    en = "; ".join(f"{item.path.name} {item.why.en}" for item in bad[-3:])
    zh = "；".join(f"{item.path.name} {item.why.zh}" for item in bad[-3:])
    raise UsageError(
        Text(f"{root}: no checkpoint is whole: {en}.", f"{root}：没有完整的检查点：{zh}。"),
        Text(
            f"Copy a whole one back, or begin anew: rm -r {root}/step-* and the same command, or --output-dir DIR",
            f"请恢复完整的检查点；或从头开始：rm -r {root}/step-* 后执行同一命令，或换用 --output-dir DIR",
        ),
        "WGT-FILE-003",
    )


def _lack(path: Path) -> Text:
    """Why `_read` finds no whole checkpoint there."""
    try:
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
        for name, size in state["files"].items():
            there = (path / name).stat().st_size if (path / name).exists() else None
            if there is None:
                return Text(f"has no {name}", f"缺少 {name}")
            if there != size:
                return Text(f"{name} has {there} of {size} bytes", f"{name} 只有 {there}/{size} 字节")
    except FileNotFoundError:
        return Text(f"has no {STATE}", f"缺少 {STATE}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return Text(f"{STATE} cannot be read", f"{STATE} 无法读取")


def discard_after(root: Path, step: int) -> list[int]:
    """Removes the checkpoints of later steps, when a run goes back to `step`. Returns their steps."""
    later = [item for item in whole(root) if item.step > step]
    for item in later:
        _discard(root, item)
    kept = whole(root)
    if kept:
        _point_latest(root, kept[-1].path.name)
    else:
        _remove(root / "latest")
    return [item.step for item in later]


def find(path: Path) -> Checkpoint:
    """The checkpoint at `path`: itself, or the newest whole one of a ``checkpoints`` or run folder. Raises UsageError."""
    for root in (path, path / "checkpoints"):
        found = whole(root)
        if found:
            return found[-1]
    item = _read(path) if path.is_dir() else None
    if item is not None:
        return item
    raise UsageError(
        Text(f"{path}: no whole checkpoint there.", f"{path}：没有完整的检查点。"),
        Text("Expected checkpoints/step-N with state.json.", "应为带有 state.json 的 checkpoints/step-N。"),
        "LOG-MF-953",
    )


def read_arrays(checkpoint: Checkpoint) -> tuple[dict[str, Any], dict[str, Any]]:
    """Weights and optimizer states by name. Raises UsageError when a file cannot be read."""
    model = next(name for name in checkpoint.state["files"] if name.startswith("model."))
    return _read_arrays(checkpoint.path / model), _read_arrays(checkpoint.path / "optimizer.safetensors")


def clean(root: Path) -> None:
    """Removes what an interrupted save left behind, and puts back a checkpoint that was only set aside."""
    if not root.is_dir():
        return
    for path in sorted(root.iterdir()):
        left = re.fullmatch(r"\.(step-\d+|latest)\.\d+\.(tmp|old|gone)", path.name)
        if left is None:
            continue
        if left.group(2) == "old" and not (root / left.group(1)).exists() and _read(path) is not None:
            path.rename(root / left.group(1))
        else:
            _remove(path)


def _read(path: Path) -> Optional[Checkpoint]:
    try:
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
        if all((path / name).stat().st_size == size for name, size in state["files"].items()):
            return Checkpoint(path, int(state["step"]), state)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return None


def _write_arrays(path: Path, arrays: Arrays) -> None:
    if path.suffix == ".ckpt":
        import mindspore as ms

        rows = [{"name": name, "data": ms.Tensor(values)} for name, values in arrays.items()]
        ms.save_checkpoint(rows, str(path))
        path.chmod(0o644)
    else:
        from safetensors import SafetensorError
        from safetensors.numpy import save_file

        try:
            save_file({name: np.ascontiguousarray(values) for name, values in arrays.items()}, str(path))
        except SafetensorError as error:
            # Its own exception for what the system refused; the words of the system are in it.
            raise OSError(str(error)) from None
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _read_arrays(path: Path) -> dict[str, Any]:
    try:
        if path.suffix == ".ckpt":
            import mindspore as ms

            return {name: item.asnumpy() for name, item in ms.load_checkpoint(str(path)).items()}
        from safetensors.numpy import load_file

        return dict(load_file(str(path)))
    except Exception as error:  # noqa: BLE001 - both libraries raise bare exceptions of their own for a torn file
        first = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise UsageError(
            Text(f"{path}: cannot be read: {first}.", f"{path}：无法读取：{first}。"),
            Text(
                "Resume from an earlier step: --resume checkpoints/step-N",
                "请从更早的检查点续训：--resume checkpoints/step-N",
            ),
            "WGT-FILE-003" if path.suffix != ".ckpt" else "LOG-MS-032",
        ) from None


def _finite(values: Any) -> bool:
    return bool(np.isfinite(values).all())


def _write_text(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _discard(root: Path, item: Checkpoint) -> None:
    """Out of sight in one rename: a half deleted folder must not pass for a checkpoint."""
    aside = root / f".{item.path.name}.{os.getpid()}.gone"
    item.path.rename(aside)
    _remove(aside)


def _to_disk(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _point_latest(root: Path, name: str) -> None:
    """``latest`` -> step-N as a link, or as a file with the name where the file system has no links."""
    beside = root / f".latest.{os.getpid()}.tmp"
    _remove(beside)
    try:
        beside.symlink_to(name)
    except OSError:
        _write_text(beside, name + "\n")
    beside.replace(root / "latest")


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)
