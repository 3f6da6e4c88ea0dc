"""What stands before the lines of a finding has the colon of its language."""

from __future__ import annotations

import re

from doctor.finding import Evidence, Finding, Fix, Severity, Text
from doctor.report.text import finding_lines

FINDING = Finding(
    rule="CFG-ABC-001",
    name="a-name",
    severity=Severity.ERROR,
    category="config",
    title=Text("a title", "标题"),
    message=Text("why", "原因"),
    evidence=(Evidence("value", "run.yaml", line=2, key="num_heads", text="num_heads: 30"),),
    fixes=(Fix(Text("Set 32.", "改为 32。"), verify="doctor check run.yaml"),),
    confidence=0.5,
    ruled_out=(Text("no", "否"),),
    references=("https://example.org",),
)


def test_a_label_has_the_colon_of_its_language_and_a_blank_before_a_place() -> None:
    chinese = "\n".join(finding_lines(FINDING, "zh", verbose=True))
    assert not re.search("[\u4e00-\u9fff]: ", chinese)
    assert "位置： run.yaml:2" in chinese and "验证：doctor check" in chinese and "修复：改为" in chinese
    english = "\n".join(finding_lines(FINDING, "en", verbose=True))
    assert "：" not in english and "at: run.yaml:2" in english and "fix: Set 32." in english
