"""What the checks on the order of rows share: rows are read on request, and a verdict is told in the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from doctor.check import Skip
from doctor.checks.weights.subject import Weights
from doctor.finding import Evidence, Text

if TYPE_CHECKING:
    from doctor.formats.roworder import Verdict

#: layers looked at: a few tell as much as eighty
MAX_LAYERS = 16


def wants_values(subject: Weights) -> None:
    """Raises Skip unless values were asked for."""
    if not subject.options.values:
        raise Skip(Text("it reads values; ask for it with --values", "需要读取数值；请加 --values"))


def told(
    subject: Weights, verdict: Verdict, observed: Text, expected: Text, key: Optional[str] = None
) -> dict[str, Any]:
    """What a finding says of a verdict: the order that the rows are in, and the one in which they are read."""
    note = Text(
        f"log likelihood ratio {verdict.likelihood:.0f} over {verdict.layers} layers",
        f"{verdict.layers} 层的对数似然比为 {verdict.likelihood:.0f}",
    )
    evidence = Evidence("value", str(subject.path), key=key, note=note, observed=observed, expected=expected)
    return {
        "confidence": verdict.confidence,
        "evidence": (evidence,),
        "observed": observed.en,
        "observed_zh": observed.zh,
        "expected": expected.en,
        "expected_zh": expected.zh,
        "agreeing": verdict.agreeing,
        "layers": verdict.layers,
        "path": subject.path,
    }
