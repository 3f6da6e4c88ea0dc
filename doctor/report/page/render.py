"""The page as text. Whatever came out of logs and configs is escaped by the template and its control characters shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from doctor import __version__
from doctor.errors import UsageError
from doctor.escape import visible
from doctor.finding import Finding, Text, number_text
from doctor.report.page.content import PageContent
from doctor.report.page.words import NO_PLOTS, SEVERITIES, WORDS

#: stands near the beginning of each page: what has it may be written over
MARK = "<!-- doctor report -->"
#: characters of a configuration that are shown, and of one value
_MOST_TEXT, _MOST_VALUE = 128 << 10, 2000


def is_page(path: Path) -> bool:
    """Whether a file is a page of ours, which may be written over."""
    try:
        with path.open("rb") as file:
            return MARK.encode() in file.read(256)
    except OSError:
        return False


def page_of(content: PageContent, lang: str) -> tuple[str, int]:
    """The document, and how many curves it shows. Raises UsageError when jinja2 is missing."""
    try:
        import jinja2
    except ImportError:
        raise UsageError(
            Text("jinja2 is not installed.", "未安装 jinja2。"),
            Text("It comes with the doctor: pip install jinja2", "它是 doctor 的依赖：pip install jinja2"),
        ) from None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
    )
    drawings = _drawings(content, lang)
    text = environment.get_template("page.html.jinja").render(
        mark=_Safe(MARK),
        page=content,
        lang=lang,
        language="zh-CN" if lang == "zh" else "en",
        findings=[_finding(finding, lang) for finding in content.findings],
        drawings=drawings,
        no_plots=NO_PLOTS.pick(lang) if content.plots and not drawings else "",
        configuration=_configuration(content),
        w={name: word.pick(lang) for name, word in WORDS.items()},
        severities={name: word.pick(lang) for name, word in SEVERITIES.items()},
        said=content.said.pick(lang),
        summary=[(label.pick(lang), value.pick(lang)) for label, value in content.summary],
        notices=[notice.pick(lang) for notice in content.notices],
        version=__version__,
    )
    return text, len(drawings)


class _Safe(str):
    """Text that is HTML already: our own drawings."""

    def __html__(self) -> str:
        return str(self)


def _shown(value: Any) -> Any:
    """What the template puts out: control characters visible, numbers as people write them, nothing as a dash."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return number_text(float(f"{value:.5g}"))
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return visible(value, _MOST_VALUE)
    return value


def _drawings(content: PageContent, lang: str) -> list[dict[str, Any]]:
    from doctor.report.page.plots import can_draw, draw

    if not content.plots or not can_draw():
        return []
    return [{"title": plot.title.pick(lang), "svg": _Safe(draw(plot, content.marks, lang))} for plot in content.plots]


def _finding(finding: Finding, lang: str) -> dict[str, Any]:
    row = finding.to_dict(lang)
    row["step"] = next((item.step for item in finding.evidence if item.step is not None), None)
    row["percent"] = f"{finding.confidence:.0%}" if finding.confidence < 0.995 else ""
    row.setdefault("ruled_out", [])
    return row


def _configuration(content: PageContent) -> list[str]:
    if content.configuration is None:
        return []
    lines = content.configuration[0][:_MOST_TEXT].split("\n")
    return [visible(line.rstrip("\r").replace("\t", "    ")) for line in lines]
