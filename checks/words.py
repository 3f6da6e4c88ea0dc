"""Short ways to say many names, sizes and shapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from doctor.escape import visible
from doctor.finding import Text


def some(names: Iterable[str], limit: int = 3) -> Text:
    """``a, b, c and 12 more``."""
    listed = [visible(str(name), 120) for name in names]
    rest = len(listed) - limit
    if rest <= 1:
        return Text(", ".join(listed), "、".join(listed))
    return Text(
        f"{', '.join(listed[:limit])} and {rest} more",
        f"{'、'.join(listed[:limit])} 等 {len(listed)} 个",
    )


#: What is seen of a file, a folder or a parameter that should be there.
NOT_THERE = Text("not there", "不存在")


def size(count: int) -> str:
    """Bytes as a person reads them: ``13.5 GB``, decimal units."""
    value = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(value) < 1000 or unit == "GB":
            return f"{count} bytes" if unit == "bytes" else f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def shape(sizes: Sequence[int]) -> str:
    """``[4096, 11008]``."""
    return "[" + ", ".join(str(length) for length in sizes) + "]"


def ranges(numbers: Iterable[int]) -> str:
    """``0-3, 7, 9-10``."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def amount(count: int) -> str:
    """A number of parameters: ``6.74B``, ``494M``."""
    for limit, unit in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if count >= limit:
            return f"{count / limit:.3g}{unit}"
    return str(count)
