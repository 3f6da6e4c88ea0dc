"""Sentences in two languages: filling them into findings, and what the collector says in the document's one language."""

from __future__ import annotations

import re

from doctor.finding import Finding, Text, fill


def phrased(finding: Finding, **texts: Text) -> Finding:
    """Title and message with ``{name}`` replaced by the text in the language of each."""
    english = {name: text.en for name, text in texts.items()}
    chinese = {name: text.zh for name, text in texts.items()}

    def both(text: Text) -> Text:
        return Text(fill(text.en, english), fill(text.zh, chinese))

    return finding.with_(title=both(finding.title), message=both(finding.message))


#: the collector's own sentences; what a tool printed is not among them and stays as it is, in quotation marks
_SENTENCES = (
    (r"npu-smi is not installed: not on PATH, nor in (\S+) or (\S+)", r"没有安装 npu-smi：PATH、\1 和 \2 中都没有"),
    (r"npu-smi is not installed: (.+) is a folder", r"没有安装 npu-smi：\1 是一个目录"),
    (r"npu-smi could not be started: (.+)", r"npu-smi 无法启动：\1"),
    (r"npu-smi did not answer within (\S+) s", r"npu-smi 在 \1 秒内没有响应"),
    (r"npu-smi listed (\d+) devices and did not end within (\S+) s", r"npu-smi 列出 \1 个设备后，\2 秒内没有结束"),
    (r"npu-smi printed a table without devices", r"npu-smi 输出的表中没有设备"),
    (r"npu-smi printed nothing and ended with exit code (.+)", r"npu-smi 没有任何输出，退出码为 \1"),
    (r"npu-smi named no device", r"npu-smi 没有列出设备"),
    (r"it could not be started: (.+)", r"它无法启动：\1"),
    (r"it did not answer within (\S+) s", r"它在 \1 秒内没有响应"),
    (r"it printed without end", r"它不停地输出"),
    (r"it is older than Python 3\.7", r"它的版本低于 Python 3.7"),
    (r"it could not be examined", r"无法检查它"),
    (r"exit code (\S+): (.+)", r"退出码 \1：\2"),
    (r"no answer within (\S+) s", r"\1 秒内没有应答"),
    (r"not there or not readable", r"不存在或无法读取"),
    (r"larger than 8 MiB: not a rank table", r"超过 8 MiB，不是 rank table"),
    (r"not JSON: (.+)", r"不是 JSON：\1"),
    (r"not a JSON object", r"不是 JSON 对象"),
    (r"the old format with group_list", r"是带 group_list 的旧格式"),
    (r"no server_list", r"没有 server_list"),
)


def said(sentence: str) -> Text:
    """A sentence of the collected document in both languages."""
    for pattern, chinese in _SENTENCES:
        match = re.fullmatch(pattern, sentence)
        if match is not None:
            return Text(sentence, match.expand(chinese))
    return Text(sentence, f"“{sentence}”")


def cited(source: str) -> Text:
    """The name of a source in both languages; that of a page or a table row is the same in each."""
    own = re.fullmatch(r"(\S+) of the installed (\S+)", source)
    if own is not None:
        return Text(source, f"已安装的 {own[2]} 自带的 {own[1]}")
    record = re.fullmatch(r"METADATA of (.+)", source)
    return Text(source, f"{record[1]} 的 METADATA" if record is not None else source)
