"""The weights behind a path: one file, numbered shards with or without an index, or a folder of files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Optional

from doctor.formats import index as shard_index
from doctor.formats import locate, meta
from doctor.formats.index import ShardIndex
from doctor.formats.iteration import FOLDER, Iteration, Tracker, iteration_folders, read_iteration, read_tracker
from doctor.formats.ranks import RankSet, rank_folders, read_ranks
from doctor.formats.read import read_file
from doctor.formats.sniff import EXTENSIONS, INDEX_SUFFIX, is_folder, list_folder, sniff_path
from doctor.formats.tensor import Problem, Tensor, WeightFile

#: A folder with more weight files than this is read in part, and said to be.
MAX_FILES = 20_000
_FORMAT_ORDER = (".safetensors", ".ckpt", ".bin", ".pth", ".pt")


@dataclass(frozen=True)
class WeightSet:
    """The files that a loader would read together.

    `missing` are file names that the index or the numbering calls for; `others` are weights in the same
    folder that do not belong to the set; `partial` says that one file of a larger set was given.
    """

    root: Path
    files: tuple[WeightFile, ...] = ()
    index: Optional[ShardIndex] = None
    missing: tuple[str, ...] = ()
    others: tuple[WeightFile, ...] = ()
    leftovers: tuple[Path, ...] = ()
    groups: tuple[locate.Shards, ...] = ()
    #: the folders of a checkpoint that each device wrote for itself
    ranks: Optional[RankSet] = None
    #: the side files of a MindFormers 2.x checkpoint
    iteration: Optional[Iteration] = None
    tracker: Optional[Tracker] = None
    #: shapes of whole parameters where the files hold slices, as far as the side files tell
    whole_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    partial: bool = False
    #: each file holds a slice of every tensor (tensor parallelism), so that shapes are not the model's
    sliced: bool = False
    #: the same names are meant to stand in several files
    parallel: bool = False
    unread: int = 0

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """By name; the first file that holds a name wins."""
        merged: dict[str, Tensor] = {}
        for file in self.files:
            for tensor in file.tensors:
                merged.setdefault(tensor.name, tensor)
        for name, shape in self.whole_shapes.items():
            if name in merged:
                merged[name] = merged[name]._replace(shape=shape)
        return merged

    @property
    def bytes(self) -> int:
        """Of all tensors; each once, but for slices."""
        if self.parallel:
            return sum(tensor.bytes for file in self.files for tensor in file.tensors)
        return sum(tensor.bytes for tensor in self.tensors.values())

    @cached_property
    def homes(self) -> Mapping[str, list[WeightFile]]:
        """Which files hold each tensor."""
        found: dict[str, list[WeightFile]] = {}
        for file in self.files:
            for name in {tensor.name for tensor in file.tensors}:
                found.setdefault(name, []).append(file)
        return found

    @cached_property
    def disagreeing(self) -> tuple[str, ...]:
        """Names that the index places in a shard that was read and does not hold them."""
        if self.index is None:
            return ()
        held = {file.path.name: {tensor.name for tensor in file.tensors} for file in self.files if file.listed}
        return tuple(name for name, home in self.index.weight_map.items() if home in held and name not in held[home])

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Of the files; the index has its own."""
        return tuple(problem for file in (*self.files, *self.others) for problem in file.problems)

    @property
    def format(self) -> str:
        names = {file.format for file in self.files if file.readable}
        return names.pop() if len(names) == 1 else "mixed" if names else "unknown"

    @property
    def complete(self) -> bool:
        """Whether every file of the set is there and could be read to its end."""
        ranks_whole = self.ranks is None or not (self.ranks.missing or any(r.file is None for r in self.ranks.ranks))
        return ranks_whole and not self.partial and not self.missing and all(file.listed for file in self.files)


def open_set(path: Path) -> WeightSet:
    """The weights behind a file, an index or a folder. Raises FileNotFoundError when a folder holds none."""
    if path.is_dir():
        return _folder(path)
    if path.name.endswith(INDEX_SUFFIX) or path.name == "param_name_map.json":
        return _indexed(path.parent, shard_index.read(path), _weight_names(path.parent))
    partial = bool(locate.SHARD.fullmatch(path.name) and not path.name.endswith(("-00001-of-00001.safetensors",)))
    return WeightSet(path, (read_file(path),), partial=partial)


def weight_files(folder: Path) -> list[str]:
    """Names of the files in a folder that hold model weights, by extension and content."""
    return _weight_names(folder)


def _weight_names(folder: Path) -> list[str]:
    names = []
    for entry in list_folder(folder):
        name = entry.name
        suffix = PurePath(name).suffix.lower()
        if suffix not in EXTENSIONS or locate.BESIDE.fullmatch(name) or is_folder(entry):
            continue
        if suffix == ".bin" and (folder / (name[:-4] + ".idx")).exists():
            continue
        if suffix == ".ckpt" and sniff_path(folder / name) == "strategy":
            continue
        names.append(name)
    return names


def _folder(folder: Path) -> WeightSet:
    names = _weight_names(folder)
    indexes = _indexes(folder)
    if rank_folders(folder):
        return _ranks(folder, names)
    if not names and iteration_folders(folder):
        return _iterations(folder)
    if FOLDER.fullmatch(folder.name) or _is_file(folder / "metadata.json"):
        return _iteration(folder, names)
    if not names and not indexes:
        raise FileNotFoundError(folder)
    chosen = next((name for name in locate.SINGLE_ORDER if name in names), None)
    ordered = [name for name in locate.INDEX_ORDER if name in indexes] or indexes
    if chosen == "pytorch_model.bin" and locate.INDEX_ORDER[0] in indexes:
        chosen = None
    if chosen is None and ordered:
        return _indexed(folder, shard_index.read(folder / ordered[0]), names)
    if chosen is not None:
        return _assemble(folder, [chosen], names)
    return _unindexed(folder, names)


def _indexes(folder: Path) -> list[str]:
    return [
        entry.name
        for entry in list_folder(folder)
        if entry.name.endswith(INDEX_SUFFIX) or entry.name == "param_name_map.json"
    ]


def _indexed(folder: Path, index: ShardIndex, names: list[str]) -> WeightSet:
    listed = set(index.files)
    there = [name for name in index.files if _is_file(folder / name)]
    stems = {(match["stem"], match["ext"]) for match in map(locate.SHARD.fullmatch, listed) if match}
    kin = [
        name
        for name in names
        if name not in listed and (match := locate.SHARD.fullmatch(name)) and (match["stem"], match["ext"]) in stems
    ]
    if not index.weight_map:  # an index that could not be read: fall back on the numbering
        extension = ".safetensors" if "safetensors" in index.path.name else ".bin"
        kin = [name for name in names if name.endswith(extension)]
    missing = [name for name in index.files if name not in there]
    if not index.weight_map:
        missing += [name for group in locate.shards(kin)[:1] for name in group.missing]
    return _assemble(folder, [*there, *kin], names, index=index, missing=sorted(set(missing)))


def _unindexed(folder: Path, names: list[str]) -> WeightSet:
    groups = locate.shards(names)
    if groups:
        best = min(groups, key=lambda group: (_FORMAT_ORDER.index("." + group.ext), -len(group.names), group.stem))
        same = [group for group in groups if group.stem == best.stem and group.ext == best.ext]
        chosen = [name for group in same for name in group.names]
        missing = [name for group in same for name in group.missing] if len(same) == 1 else []
        return _assemble(folder, chosen, names, missing=missing)
    consolidated = [name for name in names if locate.META_SHARD.fullmatch(name)]
    if consolidated:
        return _meta(_assemble(folder, consolidated, names))
    suffix = next(suffix for suffix in _FORMAT_ORDER if any(name.lower().endswith(suffix) for name in names))
    kin = [name for name in names if name.lower().endswith(suffix)]
    stepped = [name for name in kin if locate.step_of(name)]
    if stepped:
        newest = max(stepped, key=lambda name: (locate.step_of(name), name))
        return _assemble(folder, [newest], names)
    return _parts(folder, kin, names)


def _meta(found: WeightSet) -> WeightSet:
    """Meta's files: with several, each holds a slice of every matrix."""
    there = {file.path.name for file in found.files}
    wanted = (f"consolidated.{number:02d}.pth" for number in range(min(meta.parts(found.files) or 1, 100)))
    missing = tuple(name for name in wanted if name not in there)
    if missing:
        return replace(found, missing=missing, parallel=True, sliced=True)
    if len(found.files) < 2:
        return found
    shapes = meta.whole_shapes(found.files)
    return replace(found, whole_shapes=shapes, parallel=True, sliced=not shapes)


def _ranks(folder: Path, names: list[str]) -> WeightSet:
    ranks = read_ranks(folder, tuple(names))
    files = tuple(rank.file for rank in ranks.ranks if rank.file is not None)
    if not files and not names:
        raise FileNotFoundError(folder)
    shapes: dict[str, tuple[int, ...]] = {}
    for rank in ranks.ranks:
        plan = ranks.strategy_of(rank.number)
        if plan is None or rank.file is None or not ranks.counted:
            continue
        for tensor in rank.file.tensors:
            cut = plan.cuts.get(tensor.name)
            whole = cut.full(tensor.shape) if cut is not None else None
            if whole is not None:
                shapes.setdefault(tensor.name, whole)
    leftovers = [
        Path(entry.path)
        for rank in ranks.ranks
        for entry in list_folder(rank.folder)
        if locate.LEFTOVER.fullmatch(entry.name)
    ]
    sliced = len(files) > 1 and not shapes
    return WeightSet(
        folder, files, leftovers=tuple(leftovers), ranks=ranks, whole_shapes=shapes, sliced=sliced, parallel=True
    )


def _iterations(folder: Path) -> WeightSet:
    """The iteration that the tracker names, else the newest one."""
    tracker = read_tracker(folder)
    by_number = dict(iteration_folders(folder))
    number = tracker.said if tracker.said in by_number else max(by_number)
    chosen = by_number[number]
    return replace(_iteration(chosen, _weight_names(chosen)), tracker=tracker)


def _iteration(folder: Path, names: list[str]) -> WeightSet:
    side = read_iteration(folder)
    groups = locate.shards(names)
    chosen = [name for group in groups for name in group.names] or names
    if not chosen and not side.files:
        raise FileNotFoundError(folder)
    missing = {name for group in groups for name in group.missing}
    missing |= {name for name in side.files if not _is_file(folder / name)}
    found = _assemble(folder, chosen, names, missing=sorted(missing))
    shapes = {name: whole.shape for name, whole in side.wholes.items()}
    twice = any(len(files) > 1 for files in found.homes.values())
    return replace(
        found, iteration=side, whole_shapes=shapes, parallel=twice or bool(shapes), sliced=twice and not shapes
    )


def _parts(folder: Path, kin: list[str], names: list[str]) -> WeightSet:
    """Files without numbers: together one model when no name stands in two of them, else the largest alone."""
    whole = _assemble(folder, kin, names)
    if len(kin) > 1 and any(len(files) > 1 for files in whole.homes.values()):
        largest = max(whole.files, key=lambda file: (len(file.tensors), file.size, file.path.name))
        rest = tuple(file for file in whole.files if file is not largest)
        return replace(whole, files=(largest,), others=(*rest, *whole.others))
    return whole


def _assemble(
    folder: Path,
    chosen: Iterable[str],
    names: Iterable[str],
    index: Optional[ShardIndex] = None,
    missing: Iterable[str] = (),
) -> WeightSet:
    chosen, missing = list(dict.fromkeys(chosen)), list(missing)
    left_out = {*chosen, *missing}
    rest = [name for name in names if name not in left_out]
    unread = max(0, len(chosen) + len(rest) - MAX_FILES)
    return WeightSet(
        folder,
        tuple(read_file(folder / name) for name in chosen[:MAX_FILES]),
        index,
        tuple(missing),
        tuple(read_file(folder / name) for name in rest[: max(0, MAX_FILES - len(chosen))]),
        tuple(folder / entry.name for entry in list_folder(folder) if locate.LEFTOVER.fullmatch(entry.name)),
        locate.shards([*chosen, *rest]),
        unread=unread,
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False
