"""One fault at a time in healthy configs: the right category, at the changed key and its line.

The same generator runs over every official YAML in `test_config_official.py`.
"""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import pytest
import yaml
from config_bases import BASES
from config_mutations import HELD_OUT, WRITTEN_FOR, Mutation, devices_of, mutations

from doctor import registry
from doctor.plan.build import plan_of
from doctor.plan.reader import parse
from doctor.runner import run_checks

SEED = 20251
DRAWS = 6
CONFIGS = {name: base for name, base in BASES.items() if name not in ("huggingface",)}


def flagged(mutation: Mutation, devices: int, release: str) -> bool:
    """Whether a finding of an expected category has the changed key and its line as evidence."""
    plan = plan_of(parse(mutation.text.encode(), Path("run.yaml")), devices=devices, mindformers=release)
    outcomes = run_checks(registry.checks("config"), plan)
    crashed = [(outcome.rule, outcome.reason) for outcome in outcomes if outcome.state == "crashed"]
    assert not crashed, crashed
    return any(
        finding.category in mutation.categories
        and any(item.key == mutation.key and item.line == mutation.line for item in finding.evidence)
        for outcome in outcomes
        for finding in outcome.findings
    )


@cache
def _drawn(kinds: tuple[str, ...]) -> list[tuple[str, Mutation]]:
    drawn = []
    for base, (text, _, _) in sorted(CONFIGS.items()):
        for kind in kinds:
            seen: dict[str, Mutation] = {}
            for draw in range(DRAWS):
                rng = random.Random(f"{SEED}{base}{kind}{draw}")
                offered = mutations(text, kind, rng)
                if offered:
                    item = rng.choice(offered)
                    seen.setdefault(item.text, item)
            drawn += [(base, item) for item in seen.values()]
    return drawn


@pytest.mark.parametrize("half", ["written for", "held out"])
def test_mutations_are_flagged_at_their_key_and_line(half: str) -> None:
    drawn = _drawn(WRITTEN_FOR if half == "written for" else HELD_OUT)
    assert len(drawn) >= 200
    missed = [
        f"{base} {item.kind}: {item.note} (line {item.line})"
        for base, item in drawn
        if not flagged(item, CONFIGS[base][1], CONFIGS[base][2])
    ]
    assert len(missed) <= 0.02 * len(drawn), f"{len(missed)} of {len(drawn)} missed: " + "; ".join(missed)


def test_every_kind_changes_one_thing() -> None:
    for base, item in (*_drawn(WRITTEN_FOR), *_drawn(HELD_OUT)):
        old, new = (text.split("\n") for text in (CONFIGS[base][0], item.text))
        assert len(old) == len(new)
        assert [number for number, pair in enumerate(zip(old, new), 1) if pair[0] != pair[1]] == [item.line]


def test_devices_are_read_from_the_parallel_sizes() -> None:
    for base in ("legacy", "mcore"):
        text, devices, _ = CONFIGS[base]
        assert devices_of(yaml.safe_load(text)) == devices
