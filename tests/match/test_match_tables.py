"""The error_code.json of the CANN on the machine: what its own list says of a code that the tables do not have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doctor.match.tables import guess, installed_messages, lookup

ROW = {
    "errClass": "AICPU Errors",
    "errTitle": "Frobnication failed",
    "ErrCode": "E30077",
    "ErrMessage": "Frob [%s] failed.",
    "Arglist": "name",
    "suggestion": {"Possible Cause": "The frob is gone.", "Solution": "Put the frob back."},
}


@pytest.fixture
def cann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def install(content: object, folder: str = "conf", variable: str = "ASCEND_HOME_PATH") -> None:
        place = tmp_path / folder / "error_manager" / "error_code.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(variable, str(tmp_path))
        installed_messages.cache_clear()

    yield install
    installed_messages.cache_clear()


@pytest.mark.parametrize(
    ("folder", "variable"), [("conf", "ASCEND_HOME_PATH"), ("runtime/conf", "ASCEND_TOOLKIT_HOME")]
)
def test_its_title_its_cause_and_its_solution_are_told(cann: Any, folder: str, variable: str) -> None:
    cann({"error_info_list": [ROW]}, folder, variable)
    code = lookup("message", "E30077")
    assert code is not None
    for text in (code.meaning.en, code.meaning.zh):
        assert "Frobnication failed" in text and "The frob is gone." in text
    for text in (code.action.en, code.action.zh):
        assert text.startswith("Put the frob back.")


def test_a_solution_in_steps_stays_on_its_line(cann: Any) -> None:
    cann({"error_info_list": [{**ROW, "suggestion": {"Solution": "1. Look.\n2. Mend.\x1b[0m"}}]})
    code = lookup("message", "E30077")
    assert code is not None and code.action.en.startswith("1. Look. 2. Mend.\\e[0m")


@pytest.mark.parametrize("word", ["W15001", "WZ0001", "w21000"])
def test_a_warning_is_known_by_its_module(cann: Any, word: str) -> None:
    cann({"error_info_list": []})
    (code,) = guess(word)
    error = lookup("message", "E" + word[1:].upper())
    assert error is not None and code.category == error.category
    assert "warning" in code.meaning.en and "告警" in code.meaning.zh


@pytest.mark.parametrize("nothing", ["", "N/A", "NA", None, ["x"]])
def test_what_the_list_leaves_open_is_not_told(cann: Any, nothing: object) -> None:
    cann({"error_info_list": [{**ROW, "suggestion": {"Possible Cause": nothing, "Solution": nothing}}]})
    code = lookup("message", "E30077")
    assert code is not None
    assert code.meaning.en.endswith("Frobnication failed")
    assert "N/A" not in code.action.en and code.action.en


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"error_info_list": 5}', '{"error_info_list": [1, {"ErrCode": 3}]}']
)
def test_a_damaged_list_is_as_good_as_none(cann: Any, content: str) -> None:
    cann(content)
    assert lookup("message", "E30077") is not None


def test_one_bad_row_does_not_hide_the_others(cann: Any) -> None:
    cann({"error_info_list": [None, {"ErrCode": "E30078"}, ROW]})
    code = lookup("message", "E30077")
    assert code is not None and "Frobnication failed" in code.meaning.en
