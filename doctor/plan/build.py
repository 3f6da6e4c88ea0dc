"""From a file to a `Plan`: read it, see its dialect, follow what it refers to, find its release."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

from doctor.bundled import manifest_of
from doctor.errors import UsageError
from doctor.finding import Text
from doctor.plan import graph, own, pynative
from doctor.plan.dialect import dialect_of
from doctor.plan.infer import infer_release
from doctor.plan.plan import Dialect, Plan
from doctor.plan.reader import Document, read_document
from doctor.plan.release import Release, installed_version, named, valid_version
from doctor.plan.value import Value

MAX_BASES = 20


def load_plan(
    path: Path,
    *,
    devices: Optional[int] = None,
    device_memory: Optional[int] = None,
    mindformers: Optional[str] = None,
    forgiving: bool = False,
) -> Plan:
    """Reads `path` into a plan. Raises UsageError when it cannot be read, or `mindformers` is no version. `forgiving`
    makes a plan, that says so, also of text that is no YAML."""
    document = read_document(path, forgiving=forgiving)
    return plan_of(document, devices=devices, device_memory=device_memory, mindformers=mindformers)


def plan_of(
    document: Document,
    *,
    devices: Optional[int] = None,
    device_memory: Optional[int] = None,
    mindformers: Optional[str] = None,
) -> Plan:
    """As `load_plan`, from a document that is already read."""
    document = _with_bases(document)
    dialect = dialect_of(document.root)
    return Plan(
        document=document,
        dialect=dialect,
        release=_release(document, dialect, mindformers),
        devices=devices,
        device_memory=device_memory,
        **_parts(document, dialect),
    )


def _parts(document: Document, dialect: Dialect) -> Mapping[str, Any]:
    root = document.root
    if dialect is Dialect.HUGGINGFACE:
        return own.huggingface_parts(root)
    if dialect is Dialect.OTHER:
        return own.nothing_parts(root)
    if dialect is Dialect.TRAINER:
        return own.trainer_parts(root, _pretrained(document, root.get("model", "checkpoint")))
    found = _pretrained(document, root.get("pretrained_model_dir"))
    return pynative.parts(root, found) if dialect is Dialect.PYNATIVE else graph.parts(root, found)


def _release(document: Document, dialect: Dialect, asked: Optional[str]) -> Release:
    root = document.root
    if asked is not None:
        # Tags and branches of the repository carry a letter: v1.6.0, r1.8.0.
        asked = re.sub(r"^[vVrR](?=\d)", "", asked.strip())
        if not valid_version(asked):
            raise UsageError(
                Text(f"--mindformers {asked}: not a version.", f"--mindformers {asked}：不是版本号。"),
                Text("Write it as 1.8.0.", "请写成 1.8.0 的形式。"),
            )
        return named(asked, "given")
    # A run that came in a bundle was made elsewhere: what is installed here says nothing of it.
    here = (dialect.graph or dialect is Dialect.PYNATIVE) and manifest_of(document.path) is None
    installed = installed_version() if here else None
    return named(installed, "installed") if installed is not None else infer_release(root, dialect)


def _pretrained(document: Document, folder: Value) -> Optional[Value]:
    """The Hugging Face config.json in the folder that the file names, when it can be read."""
    if not folder.words:
        return None
    place = Path(folder.words)
    path = (place if place.is_absolute() else document.path.parent / place) / "config.json"
    try:
        if not path.is_file():
            return None
        return read_document(path).root
    except (UsageError, OSError, ValueError):
        return None


def _with_bases(document: Document) -> Document:
    """MindFormers 0.3 builds a run from a list of files: `base_config:`. Later files of the list win over earlier
    ones section by section, and the file itself wins over them key by key."""
    bases = document.root.get("base_config")
    if not bases.given:
        return document
    sections: dict[str, Value] = {}
    for item in (bases.sequence or (bases,))[:MAX_BASES]:
        if not item.words:
            continue
        try:
            base = read_document(document.path.parent / item.words)
        except (UsageError, OSError, ValueError):
            continue
        sections.update(base.root.mapping)
    if not sections:
        return document
    merged = _merge(document.root, replace(document.root, value=sections), depth=0)
    return replace(document, root=merged)


def _merge(own_value: Value, base: Value, depth: int) -> Value:
    if not own_value.is_mapping or not base.is_mapping or depth > 20:
        return own_value
    merged = dict(base.mapping)
    for name, item in own_value.mapping.items():
        merged[name] = _merge(item, merged[name], depth + 1) if name in merged else item
    return replace(own_value, value=merged)
