"""`doctor report RUN`: a page that opens anywhere, whatever stood in the logs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from doctor.cli import main
from doctor.report.page import plots as drawing
from doctor.report.page.render import MARK

_HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\x07 {{ 7*7 }} \u202e"


def make_run(folder: Path, steps: int = 60, bad: int = 0, ranks: int = 1, note: str = "") -> Path:
    (folder / "metrics").mkdir(parents=True)
    for rank in range(ranks):
        with (folder / "metrics" / f"rank_{rank}.jsonl").open("w") as file:
            for step in range(1, steps + 1):
                loss: Any = "nan" if bad and step >= bad else round(2 + 4 / (1 + step / 12) + (step * 37 % 11) / 100, 6)
                row = {
                    "event": "metric", "source": f"log/rank_{rank}.log", "line": step, "rank": rank, "epoch": 1,
                    "step": step, "global_step": step, "steps": steps, "epochs": 1, "loss": loss, "lr": 0.001,
                    "grad_norm": 0.7 + step % 5 / 10, "loss_scale": 65536.0, "overflow": False,
                    "step_time_ms": 90.0 + step % 7 + rank, "throughput": 88.0, "throughput_unit": "samples/s",
                    "memory_mb": 634.7, "note": note,
                }  # fmt: skip
                file.write(json.dumps(row) + "\n")
    (folder / "config.yaml").write_text(
        "model: {type: llama, hidden_size: 128, num_hidden_layers: 2, num_attention_heads: 4, vocab_size: 512}\n"
        "train_dataset: {data_loader: {type: Generated, samples: 1024}, max_length: 64}\n"
        f"training_args: {{max_steps: {steps}, per_device_train_batch_size: 8, learning_rate: 1.0e-3}}\n"
        "service: {api_key: hunter2hunter2}\n"
        "versions: {mindspore: 2.10.0}\n"
        f"# {note.encode('unicode_escape').decode()}\n"
    )
    (folder / "end.json").write_text(json.dumps({"state": "ended", "exit_code": 0, "last_step": steps}))
    return folder


@pytest.fixture
def curves() -> None:
    """For tests that look at curves; the others make their pages without, which is quicker."""
    pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "curves" not in request.fixturenames:
        monkeypatch.setattr(drawing, "can_draw", lambda: False)


class Elements(HTMLParser):
    """Every tag with its attributes; raises when tags do not close in order."""

    VOID = frozenset(("meta", "br", "img", "link", "path", "use", "rect"))

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, Any]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page(folder: Path, *words: str, code: int = 0) -> str:
    assert main(["report", "--lang", "en", str(folder), *words]) == code
    return (folder / "report.html").read_text(encoding="utf-8")


def test_the_page_is_whole_and_loads_nothing(curves: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = page(make_run(tmp_path / "run", bad=30), code=1)
    assert "written, " in capsys.readouterr().out
    elements = Elements(text)
    tags = [tag for tag, _ in elements.found]
    assert {"script", "link", "iframe", "img", "object", "form"}.isdisjoint(tags)
    assert tags.count("svg") == 7
    policy = next(
        attrs["content"] for tag, attrs in elements.found if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'")
    for tag, attrs in elements.found:
        assert not any(name.startswith("on") or name == "src" for name in attrs), tag
        for name in ("href", "xlink:href"):
            assert attrs.get(name, "#").startswith("#")
        assert "style" not in attrs, tag  # a server may refuse styles: drawings keep their lines and colours
    drawn = text[text.index("<svg") : text.rindex("</svg>")]
    assert (
        "url(http" not in text
        and "@import" not in text
        and "http://" not in drawn.replace("http://www.w3.org/2000/svg", "")
    )
    ids = [attrs["id"] for _, attrs in elements.found if "id" in attrs]
    assert len(ids) == len(set(ids))
    for shown in ("RUN-NAN-001", "The loss is nan from step 30 on", "Stop the run", "llama", "60 / 60"):
        assert shown in elements.text


@pytest.mark.heavy
def test_equal_runs_give_equal_bytes(curves: None, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", bad=30)
    assert page(folder, code=1) == page(folder, code=1)


def test_what_stood_in_logs_and_configs_is_text(tmp_path: Path) -> None:
    text = page(make_run(tmp_path / "run", bad=30, note=_HOSTILE), code=1)
    elements = Elements(text)
    assert "script" not in [tag for tag, _ in elements.found] and "<img" not in text
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text
    assert "hunter2" not in text


@pytest.mark.heavy
def test_a_name_of_a_folder_is_text(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "<b onclick=x>run")
    assert "<b onclick" not in page(folder)


def test_chinese_is_complete(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", bad=30)
    assert main(["report", "--lang", "zh", str(folder)]) == 1
    text = Elements((folder / "report.html").read_text(encoding="utf-8")).text
    for word in ("诊断", "曲线", "环境", "配置", "第 30 步起损失为 nan", "修复", "正常结束"):
        assert word in text
    for word in ("Findings", "Curves", "Environment", "Last loss"):
        assert word not in text


def test_without_matplotlib_the_rest_is_there(
    curves: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise ImportError("no matplotlib")

    monkeypatch.setattr(drawing, "_prepare", missing)
    text = page(make_run(tmp_path / "run", bad=30), code=1)
    assert "<svg" not in text and "pip install matplotlib" in text and "RUN-NAN-001" in text
    assert "pip install matplotlib" in " ".join(capsys.readouterr().out.split())


@pytest.mark.heavy
def test_many_ranks_and_steps_stay_small(curves: None, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", steps=200, ranks=100)
    slow = folder / "metrics" / "rank_93.jsonl"
    slow.write_text("".join(slow.read_text().splitlines(keepends=True)[:120]))
    text = page(folder)
    assert len(text) < 700_000
    shown = Elements(text).text
    assert "36 more ranks" in shown and "rank_93.jsonl" in shown.split("Ranks")[-1]


def test_a_file_that_is_none_of_ours_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run(tmp_path / "run")
    foreign = tmp_path / "thesis.html"
    foreign.write_text("<html>mine</html>")
    assert main(["report", "--lang", "en", str(folder), "-o", str(foreign)]) == 2
    assert foreign.read_text() == "<html>mine</html>" and "was not made by the doctor" in capsys.readouterr().err
    foreign.write_text(f"<!DOCTYPE html>\n{MARK}\nold")
    assert main(["report", "--lang", "en", str(folder), "-o", str(foreign)]) == 0
    assert not list(tmp_path.glob(".thesis*"))


@pytest.mark.parametrize("output", ["nowhere/page.html", ".", "/dev/full"])
def test_a_place_that_refuses_is_one_clear_line(tmp_path: Path, capfd: pytest.CaptureFixture[str], output: str) -> None:
    folder = make_run(tmp_path / "run")
    target = output if output.startswith("/") else str(tmp_path / output)
    assert main(["report", "--lang", "en", str(folder), "-o", target]) == 2
    captured = capfd.readouterr()
    assert captured.err.count("\n") == 1 and "Traceback" not in captured.err


@pytest.mark.parametrize("raw", [b"", bytes(range(256)) * 40])
def test_nothing_to_report_on_makes_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str], raw: bytes) -> None:
    (tmp_path / "a.log").write_bytes(raw)
    assert main(["report", "--lang", "en", str(tmp_path / "a.log"), "-o", str(tmp_path / "p.html")]) == 2
    assert "not one line of a log" in capsys.readouterr().err and not (tmp_path / "p.html").exists()


def test_a_log_needs_a_place_and_stdout_is_one(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    log = make_run(tmp_path / "run") / "metrics" / "rank_0.jsonl"
    assert main(["report", "--lang", "en", str(log)]) == 2
    assert b"-o report.html" in capfdbinary.readouterr().err
    assert main(["report", "--lang", "en", str(log), "-o", "-"]) == 0
    assert capfdbinary.readouterr().out.startswith(b"<!DOCTYPE html>")


def test_json_says_where_the_page_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run(tmp_path / "run", bad=30)
    assert main(["report", "--lang", "en", "--format", "json", str(folder)]) == 1
    row = json.loads(capsys.readouterr().out)
    assert row["command"] == "report" and row["verdict"] == "error"
    assert row["facts"]["page"]["bytes"] == os.path.getsize(folder / "report.html")


@pytest.mark.heavy
def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", steps=300)
    with subprocess.Popen(
        [sys.executable, "-m", "doctor", "report", str(folder), "-o", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as done:
        assert done.stdout is not None and done.stderr is not None
        assert done.stdout.read(10) == b"<!DOCTYPE "
        done.stdout.close()
        assert done.stderr.read() == b"" and done.wait() == 0
