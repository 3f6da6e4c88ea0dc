"""What a setting should hold, in both languages: `expected` of evidence is written once, in English, by the rules.

Names, words that stand in a file and numbers are the same in both; the few phrases around them are listed here.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Union

from doctor.finding import Text

#: a phrase (the whole text, or its beginning or end around what `…` stands for) and how it is said in Chinese
_PHRASES: tuple[tuple[str, str], ...] = (
    ("a number", "一个数字"),
    ("a whole number", "整数"),
    ("a whole number >= 1", ">= 1 的整数"),
    ("an even number", "偶数"),
    ("a text", "字符串"),
    ("a list", "列表"),
    ("a mapping", "映射"),
    ("a section", "配置段"),
    ("settings", "设置项"),
    ("a value", "一个取值"),
    ("one value", "单个取值"),
    ("a path", "一个路径"),
    ("a path of yours", "自己的路径"),
    ("an existing path", "存在的路径"),
    ("a path in …", "… 中的路径"),
    ("a shared folder", "共享目录"),
    ("a regular expression", "正则表达式"),
    ("a column's name", "列名"),
    ("a dynamic scale from …", "从 … 开始的动态 loss scale"),
    ("a multiple of …, such as …", "… 的整数倍，例如 …"),
    ("a multiple of …", "… 的整数倍"),
    ("a divisor of …: …", "… 的约数：…"),
    ("a divisor of …", "… 的约数"),
    ("an offset list whose sum is …", "总和为 … 的 offset 列表"),
    ("at most … entries", "最多 … 项"),
    ("at most …", "最多 …"),
    ("below …", "小于 …"),
    ("about …", "约 …"),
    ("above 0, usually …", "大于 0，常用 …"),
    ("… to …, usually …", "… 到 …，常用 …"),
    ("product …", "乘积为 …"),
    ("sum …", "总和为 …"),
    ("… entries for each of … stages", "… 个阶段各 … 项"),
    (">= … in every entry", "每项 >= …"),
    ("… rows of …", "… 行，每行 … 项"),
    ("… entries", "… 项"),
    ("… or more", "… 或更多"),
    ("… or less", "… 或更少"),
    ("True, or a dataset_strategy", "True，或给出 dataset_strategy"),
    ("pairs of weight and path", "权重与路径成对"),
    ("backward_prefetch and layers", "backward_prefetch 与 layers"),
    ("the value itself", "具体取值"),
    ("one of the two", "两者之一"),
    ("once", "只写一次"),
    ("one", "一个"),
    ("blanks", "空格"),
    ("no marker", "没有冲突标记"),
    ("no alias of an enclosing anchor", "不引用外层锚点的别名"),
    ("no tag", "不带标签"),
    ("a name", "一个名称"),
    ("0 to below 1", "0 到 1（不含 1）"),
    ("auto or a list", "auto 或列表"),
    ("seq_length …", "seq_length …"),
    ("0, 1, 2 or 3", "0、1、2 或 3"),
    ("…, … or …", "…、… 或 …"),
    ("…, or …", "…，或 …"),
    ("… or …", "… 或 …"),
    ("… to …", "… 到 …"),
    ("… beside it", "与之并列的 …"),
    ("mapping with … keys", "含 … 个键的映射"),
    ("list of …", "… 项的列表"),
)


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """The phrases as patterns, in the order of the table."""
    made = []
    for english, chinese in _PHRASES:
        pattern = "(.+?)".join(re.escape(part) for part in english.split("…"))
        made.append((re.compile(pattern, re.DOTALL), chinese))
    return tuple(made)


def both(words: str) -> Union[str, Text]:
    """The words in both languages; as they are where nothing in them is a phrase of ours."""
    for pattern, chinese in _patterns():
        hit = pattern.fullmatch(words)
        if hit is not None:
            parts = chinese.split("…")
            filled = parts[0]
            for group, part in zip(hit.groups(), parts[1:]):
                filled += group + part
            return Text(words, filled)
    return words
