"""Comments behind a line of a config or of code: they speak of a run, but no run wrote them."""

from __future__ import annotations

import re
from functools import lru_cache

_TOKEN = r"""(?:"[^"]*"|'[^']*'|\[[^\]]*\]|\{[^}]*\}|[^\s#"'\[{][^\s#]*)"""
#: what stands before the comment: nothing, a setting of a YAML file, an assignment, options of a command, a call
_BEFORE = rf"""\s*(?:
        (?:-\s+)?["']?[a-z][\w.-]*["']?\s*:(?:\s+[&*!][\w/]+)?(?:\s+{_TOKEN})?,?   # learning_rate: 1.0e-5
      | -\s+{_TOKEN}                                                             # - item
      | [{{(\[]?["'][\w.-]+["']\s*:\s*{_TOKEN},?                                  # {{"lr": 1e-4,
      | (?:export\s+|set\s+|self\.)?[A-Za-z_][\w.\[\]'"]*\s*(?::\s*\w+\s*)?[-+*/|]?=[^=].*  # lr = 1e-4
      | --?[A-Za-z][\w-]*(?:[\s=].*)?                                            # --lr 1e-4
      | (?:[\w.]+\s+)?[\w.]+\(.*[)(,:]                                            # train(net)
      | (?:return|yield|if|elif|else|for|while|with|import|from)\b.*
      | [\w.]+,                                                                  # an argument on its own line
    )?"""
_MARK = re.compile(r"(?:^|(?<=\s))(?:#+|//+)(?=\s*\S)(?!!)")
#: a log may put a mark before its steps: ``## Epoch 3, loss 2.1``
_COUNTS = re.compile(r"\s*\[?(?:train\w*\W{1,3})?(?:epoch|step|iter(?:ation)?)\b\W{0,4}\d", re.IGNORECASE)


@lru_cache(maxsize=1)
def _before() -> re.Pattern[str]:
    return re.compile(_BEFORE, re.VERBOSE)


def without_comment(line: str) -> str:
    """The line up to the comment that ends it, when what stands before is a setting, code or nothing; else the line."""
    if line.lstrip().startswith(";"):  # a comment of an INI file
        return ""
    if "#" not in line and "//" not in line:
        return line
    found = _MARK.search(line)
    if found is None or not _before().fullmatch(line[: found.start()].rstrip()):
        return line
    before = line[: found.start()]
    if not before.strip() and _COUNTS.match(line, found.end()):
        return line
    return before
