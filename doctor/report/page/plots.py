"""Curves as inline SVG that follows the page's colours: drawn by matplotlib, then freed of what a page must not carry
(styles of its own, fixed colours and sizes, names that other plots have too)."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Sequence
from typing import Any, Optional
from xml.etree import ElementTree

from doctor.report.page.content import Line, Mark, Plot

#: inches; at the width of a column of the page, text is of the size that the page has
_WIDTH, _HEIGHT = 5.4, 2.3
#: lines that are drawn in one plot
MOST_LINES = 8
#: colours that are drawn with, and what they become: a variable of the page, with what is shown where styles are refused
_COLOURS = {
    "#0000a1": "var(--line, #1f6feb)",
    "#0000a2": "var(--other, #8c959f)",
    "#0000a3": "var(--left, #bf8700)",
    "#0000a4": "var(--ink, #57606a)",
    "#0000a5": "var(--grid, #d8dee4)",
    "#0000b0": "var(--info, #0969da)",
    "#0000b1": "var(--warning, #9a6700)",
    "#0000b2": "var(--error, #cf222e)",
}
_LINE, _OTHER, _LEFT, _INK, _GRID, _INFO, _WARNING, _ERROR = _COLOURS
_SEVERITY = {"info": _INFO, "warning": _WARNING, "error": _ERROR, "fatal": _ERROR}
#: properties that are written as attributes, which no policy of a server takes away
_KEPT = frozenset(
    (
        "fill",
        "fill-opacity",
        "stroke",
        "stroke-opacity",
        "stroke-width",
        "stroke-dasharray",
        "stroke-dashoffset",
        "stroke-linecap",
        "stroke-linejoin",
        "opacity",
        "font-size",
        "text-anchor",
    )
)
_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"


def can_draw() -> bool:
    """Whether matplotlib is there and works."""
    try:
        _prepare()
    except (ImportError, OSError, RuntimeError, ValueError):
        return False
    return True


def _prepare() -> None:
    if "MPLCONFIGDIR" not in os.environ:
        from doctor.match.cache import cache_folder

        folder = cache_folder() / "matplotlib"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            os.environ["MPLCONFIGDIR"] = str(folder)
        except OSError:
            pass  # matplotlib finds a temporary place, and says so to its logger
    logging.getLogger("matplotlib").setLevel(logging.CRITICAL)
    import matplotlib.backends.backend_svg
    import matplotlib.figure  # noqa: F401


def draw(plot: Plot, marks: Sequence[Mark], lang: str) -> str:
    """The plot as an SVG element; equal values give equal text. Raises ImportError without matplotlib."""
    _prepare()
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    settings: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": plot.key,
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 9,
        "path.simplify": True,
    }
    text = io.StringIO()
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(_WIDTH, _HEIGHT))
        FigureCanvasSVG(figure)
        axes = figure.add_axes((0.105, 0.13, 0.875, 0.79))
        _lines(axes, plot)
        _frame(axes, plot)
        _marks(axes, plot, marks)
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _freed(text.getvalue(), plot.key, plot.title.pick(lang))


def _lines(axes: Any, plot: Plot) -> None:
    first = True
    for line in plot.lines[:MOST_LINES]:
        colour = _LEFT if line.left else _LINE if first else _OTHER
        if line.left:
            axes.plot(line.steps, line.mean, color=colour, linewidth=1, linestyle=(0, (2, 2)), zorder=1)
            continue
        if first and (line.low != line.high).any():
            axes.fill_between(line.steps, line.low, line.high, color=colour, alpha=0.25, linewidth=0, zorder=2)
        dot = "." if len(line.steps) == 1 else None
        axes.plot(
            line.steps,
            line.mean,
            color=colour,
            linewidth=1.4 if first else 0.8,
            marker=dot,
            zorder=3 if first else 1.5,
        )
        first = False


def _frame(axes: Any, plot: Plot) -> None:
    from matplotlib.ticker import MaxNLocator

    begin, end = plot.span
    room = max(1.0, (end - begin) * 0.02)
    axes.set_xlim(begin - room, end + room)
    if plot.logarithmic:
        axes.set_yscale("log")
    else:
        axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    low, high = _reach(plot.lines)
    if low == high:
        room = abs(low) * 0.05 or 1.0
        axes.set_ylim(*((low / 2, high * 2) if plot.logarithmic else (low - room, high + room)))
    axes.xaxis.set_major_formatter(_count)
    axes.grid(True, color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=_INK, length=0, labelsize=9)
    for name, spine in axes.spines.items():
        spine.set_visible(name == "bottom")
        spine.set_color(_GRID)
    axes.yaxis.get_offset_text().set_color(_INK)


def _count(value: float, place: Optional[int] = None) -> str:
    """A number of steps in few characters: 850, 40k, 1.2M."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * unit or (abs(value) >= unit and value % (unit / 10) == 0):
            return f"{value / unit:g}{name}"
    return f"{value:g}"


def _reach(lines: Sequence[Line]) -> tuple[float, float]:
    return min(float(line.low.min()) for line in lines), max(float(line.high.max()) for line in lines)


def _marks(axes: Any, plot: Plot, marks: Sequence[Mark]) -> None:
    begin, end = plot.span
    if plot.broken_from is not None:
        axes.axvspan(plot.broken_from, max(end, plot.broken_from), color=_ERROR, alpha=0.12, linewidth=0, zorder=0)
    taken: dict[int, int] = {}
    for mark in marks:
        if not begin <= mark.step <= end:
            continue
        colour = _SEVERITY[mark.severity]
        axes.axvline(mark.step, color=colour, linewidth=0.9, linestyle=(0, (4, 3)), zorder=4)
        # Findings at one place stand beside each other.
        place = int(40 * (mark.step - begin) / max(1, end - begin))
        beside = taken[place] = taken.get(place, -1) + 1
        axes.annotate(
            str(mark.number),
            (mark.step, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(2 + 9 * beside, 2),
            textcoords="offset points",
            color=colour,
            fontsize=9,
        )


def _freed(text: str, key: str, title: str) -> str:
    """The drawing as an element of a page."""
    ElementTree.register_namespace("", _SVG)
    root = ElementTree.fromstring(text)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style") or _is_empty(child):
                parent.remove(child)
    meant = {ref for item in root.iter() for ref in _references(item)}
    for item in root.iter():
        _plain_attributes(item, key, meant)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-label", title)
    root.set("class", "plot")
    return ElementTree.tostring(root, encoding="unicode")


def _is_empty(item: ElementTree.Element) -> bool:
    return item.tag == f"{{{_SVG}}}defs" and all(child.tag == f"{{{_SVG}}}style" for child in item)


def _references(item: ElementTree.Element) -> Sequence[str]:
    found = []
    link = item.get(f"{{{_XLINK}}}href")
    if link is not None:
        found.append(link[1:])
    for value in item.attrib.values():
        if value.startswith("url(#"):
            found.append(value[5:-1])
    return found


def _plain_attributes(item: ElementTree.Element, key: str, meant: set[str]) -> None:
    style = item.attrib.pop("style", "")
    for part in style.split(";"):
        name, _, value = part.partition(":")
        if name.strip() in _KEPT:
            item.set(name.strip(), value.strip().replace("px", ""))
    identity = item.attrib.pop("id", None)
    if identity in meant:
        item.set("id", f"{key}-{identity}")
    link: Optional[str] = item.attrib.pop(f"{{{_XLINK}}}href", None)
    if link is not None:
        item.set("href", f"#{key}-{link[1:]}")
    for name, value in list(item.attrib.items()):
        if value.startswith("url(#"):
            item.set(name, f"url(#{key}-{value[5:]}")
        elif name in ("fill", "stroke"):
            item.set(name, _COLOURS.get(value, value))
        elif name in ("d", "points"):
            item.set(name, " ".join(value.split()))
    if item.tag == f"{{{_SVG}}}path" and item.get("fill") is None:
        item.set("fill", "none") if item.get("stroke") else None
