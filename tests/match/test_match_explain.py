"""`doctor explain` from outside: texts, files, codes, rules, questions, and input nobody should give it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from doctor.diagnosis import diagnose_text
from doctor.match.pack import load_pack
from doctor.match.question import is_question
from tests.conftest import Run
from tests.match.packs import rule

OOM = "RuntimeError: Device(id:5) memory isn't enough and alloc failed, kernel name: Default/Add-op12, alloc size: 2147483648B."


def report(doctor: Run, *words: str, stdin: str = "") -> tuple[int, dict[str, Any]]:
    done = doctor("explain", *words, "--format", "json", stdin=stdin)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_cause_is_found(doctor: Run) -> None:
    code, said = report(doctor, OOM)
    assert code == 0 and said["verdict"] == "error"
    first = said["findings"][0]
    assert (first["rule"], first["category"], first["root_cause"]) == ("LOG-MS-001", "oom-device", True)
    assert "2 GB" in first["title"] and first["evidence"][0]["line"] == 1
    assert first["fixes"][0]["verify"]


def test_both_languages(doctor: Run) -> None:
    assert "显存不足" in doctor("explain", OOM, "--lang", "zh").stdout
    english = doctor("explain", OOM, "--lang", "en").stdout
    assert not any("\u4e00" <= char <= "\u9fff" for char in english)


def test_stdin_and_file_and_folder(doctor: Run, tmp_path: Path) -> None:
    log = tmp_path / "job" / "worker_5.log"
    log.parent.mkdir()
    log.write_text("fine\n" * 9 + OOM + "\n", encoding="utf-8")
    for words, stdin, source in (
        (["-"], log.read_text(), "<stdin>"),
        (["job/worker_5.log"], "", "job/worker_5.log"),
        (["job"], "", "job/worker_5.log"),
    ):
        code, said = report(doctor, *words, stdin=stdin)
        place = said["findings"][0]["evidence"][0]
        assert (code, place["source"], place["line"], place["offset"]) == (0, source, 10, 45)


@pytest.mark.parametrize(
    ("word", "category"),
    [
        ("507011", "operator-execution"),
        ("EI0006", "hccl-timeout"),
        ("137", "oom-host"),
        ("-9", "oom-host"),
        ("SIGSEGV", "other"),
        ("0x80e01801", "hardware-fault"),
        ("ERR02200", "hccl-timeout"),
        ("-8005", "device-unavailable"),
        ("HCCL_E_TIMEOUT", "hccl-timeout"),
    ],
)
def test_codes_are_shown(doctor: Run, word: str, category: str) -> None:
    code, said = report(doctor, word)
    assert code == 0
    assert said["facts"]["codes"][0]["category"] == category
    assert said["findings"][0]["category"] == category
    assert said["facts"]["codes"][0]["meaning"]["zh"]


def test_rules_are_shown(doctor: Run) -> None:
    for word in ("LOG-MS-001", "log-ms-001", "device-memory-exhausted"):
        code, said = report(doctor, word)
        assert code == 0 and said["facts"]["rule"]["id"] == "LOG-MS-001"
    assert report(doctor, "RUN-NAN-001")[1]["facts"]["rule"]["detector"]
    text = doctor("explain", "LOG-MS-001", "--lang", "zh").stdout
    assert "<size>" in text and "修复" in text and "{" not in text


def test_a_rule_of_a_check_is_shown(doctor: Run) -> None:
    code, said = report(doctor, "CFG-PAR-001")
    assert code == 0 and said["facts"]["rule"]["category"] == "parallel-strategy"


@pytest.mark.parametrize(
    ("question", "category"),
    [
        ("训练启动就OOM", "oom-device"),
        ("loss is nan", "nan-overflow"),
        ("loss 变成 nan 了", "nan-overflow"),
        ("training is slow", "performance"),
        ("训练太慢了", "performance"),
        ("why does the loss not decrease", "loss-not-converging"),
        ("loss 不下降", "loss-not-converging"),
        ("key mismatch when loading weights", "weights-mismatch"),
        ("加载权重参数名对不上", "weights-mismatch"),
        ("checkpoint cannot be loaded", "ckpt-format"),
        ("断点续训失败", "ckpt-format"),
        ("stall while saving the checkpoint", "stall-hang"),
        ("保存权重时卡住", "stall-hang"),
        ("tensor parallel is bound by communication", "performance"),
        ("训练卡死不动", "stall-hang"),
        ("process was killed without any message", "oom-host"),
    ],
)
def test_symptoms_in_words(question: str, category: str) -> None:
    found = diagnose_text(question).findings
    assert found and found[0].category == category, [item.rule for item in found]


def test_a_log_is_no_question() -> None:
    assert is_question("训练启动就OOM") and is_question("why is my loss nan?")
    for text in ("step: 3, loss: 2.1", "[ERROR] x", "ValueError: loss nan", "a" * 500, "", "E19999", "x\ny\nz"):
        assert not is_question(text)


def test_unknown_is_an_answer(doctor: Run) -> None:
    code, said = report(doctor, "FrobnicationError: the frobnicator 12 in /opt/x/y refused 0xdeadbeef")
    assert code == 1 and said["verdict"] == "unknown" and said["findings"] == []
    assert all(item["command"] and item["what"] for item in said["collect"])
    skeleton = yaml.safe_load(said["skeleton"])
    assert skeleton["match"]["line"][0]["regex"].startswith("FrobnicationError: the frobnicator")
    assert "0xdeadbeef" not in skeleton["match"]["line"][0]["regex"]


def test_the_skeleton_of_an_unknown_error_is_a_rule_when_completed() -> None:
    from doctor.match.examples import failures
    from doctor.match.rulefile import build_rule

    row = yaml.safe_load(
        diagnose_text("FrobnicationError: it's the frobnicator 12 of '/opt/x' that [refused]").skeleton or ""
    )
    text = {"en": "Words", "zh": "文字"}
    row.update(id="LOG-TST-001", title=text, why=text, fix=text)
    assert not list(failures(build_rule(row, "x.yaml", "test")))


def test_nothing_wrong_is_said_so(doctor: Run) -> None:
    done = doctor("explain", "INFO - all is well today", "-v")
    assert done.returncode == 1 and "Nothing in this text speaks of a failure" in done.stdout


@pytest.mark.parametrize(
    "content",
    [
        b"",
        bytes(range(256)) * 50,
        OOM.encode("utf-16"),
        OOM.encode("utf-16-be"),
        ("显存分配失败 " + OOM).encode("gb18030"),
        b"\x1b[31m" + OOM.replace("memory", "mem\x1b[1mory").encode() + b"\x1b[0m",
        OOM.replace("memory", "mem\x00ory").encode(),
        b"x" * 2_000_000 + OOM.encode() + b"y" * 100_000,
        ("显" * 100).encode()[:-1] + b"\n" + OOM.encode() + "存".encode()[:2],
        OOM.replace("\n", "\r\n").encode() + b"\r\n",
        b"\xef\xbb\xbf" + OOM.encode(),
    ],
    ids=["empty", "binary", "utf16", "utf16be", "gbk", "ansi", "nul", "long", "torn", "crlf", "bom"],
)
def test_any_bytes(doctor: Run, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.log"
    path.write_bytes(content)
    code, said = report(doctor, "odd.log")
    assert code in (0, 1)
    if b"Default/Add-op12".replace(b"\x00", b"") in content or b"D\x00e" in content or b"\x00D" in content:
        assert said["findings"][0]["rule"] == "LOG-MS-001"


def test_a_path_that_is_not_there(doctor: Run) -> None:
    for word in ("absent.log", "/nowhere/at/all.txt"):
        done = doctor("explain", word)
        assert done.returncode == 2 and "no such file" in done.stderr and not done.stdout


def test_own_rules_from_the_settings(doctor: Run, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    row = rule(1, match={"line": ["our cluster says no"]}, category="network-link")
    (tmp_path / "own" / "a.yaml").write_text(yaml.safe_dump(row, allow_unicode=True), encoding="utf-8")
    (tmp_path / "doctor.toml").write_text('[doctor]\nrules = ["own"]\n', encoding="utf-8")
    code, said = report(doctor, "our cluster says no today")
    assert code == 0 and said["findings"][0]["rule"] == "LOG-TST-001"


def test_rules_check(doctor: Run, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    good, bad = rule(1), rule(2, "bad", match={"line": [{"regex": "(x+)+needle"}]})
    for name, row in (("a", good), ("b", bad)):
        (tmp_path / "own" / f"{name}.yaml").write_text(yaml.safe_dump(row, allow_unicode=True), encoding="utf-8")
    done = doctor("rules", "check", "own")
    assert done.returncode == 1 and "own/b.yaml" in done.stdout and "exponential" in done.stdout
    assert "2 rules" not in done.stdout
    assert doctor("rules", "check", "own/a.yaml").returncode == 0
    assert doctor("rules", "check", "absent").returncode == 2


def test_equal_input_equal_bytes(doctor: Run) -> None:
    text = f"{OOM}\nEZ9999: Inner Error!\nEI0006: Getting socket times out."
    assert len({doctor("explain", text, "--format", "json").stdout for _ in range(3)}) == 1


def test_the_python_face() -> None:
    from doctor import explain

    assert explain(OOM).findings[0].category == "oom-device"
    assert explain("507011").findings
    assert explain("never seen before frobnication").unknown


def test_every_rule_can_be_shown() -> None:
    from doctor.commands.shown import rule_report
    from doctor.report.text import render

    rules = load_pack()
    for item in rules.rules:
        shown = rule_report(item.id, rules)
        assert shown is not None
        for lang in ("en", "zh"):
            assert list(render(shown, lang))


def test_a_paste_that_is_one_quotation(doctor: Run) -> None:
    _, said = report(doctor, stdin=f"> > Traceback (most recent call last):\n>\n> > {OOM}\n")
    assert said["findings"][0]["rule"] == "LOG-MS-001"
    assert said["findings"][0]["evidence"][0]["line"] == 3
