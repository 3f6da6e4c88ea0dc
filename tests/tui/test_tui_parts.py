"""The parts of the screens without a screen: excerpts of files, what is odd about ranks, how long a run will take."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doctor.finding import Evidence
from doctor.records.record import Metric
from doctor.tui.ascii import draws
from doctor.tui.chart import Marker, chart
from doctor.tui.excerpt import excerpt
from doctor.tui.plot import Curve, draw
from doctor.tui.runview import RunView


@given(st.lists(st.binary(max_size=60).map(lambda raw: raw.replace(b"\n", b"")), min_size=1, max_size=60), st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_excerpt_marks_the_line_whether_it_is_found_by_number_or_by_offset(
    tmp_path: Path, lines: list[bytes], data: st.DataObject
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\n".join(lines) + b"\n")
    number = data.draw(st.integers(1, len(lines)))
    offset = len(b"\n".join(lines[: number - 1])) + (1 if number > 1 else 0)
    by_number = excerpt(Evidence("log", str(path), line=number), 5, 5)
    by_offset = excerpt(Evidence("log", str(path), line=number, offset=offset), 5, 5)
    for rows in (by_number, by_offset):
        assert [row.number for row in rows if row.marked] == [number]
        assert all(char.isprintable() or char == " " for row in rows for char in row.text if ord(char) < 0x80)
    assert by_number == by_offset[: len(by_number)]


def test_an_excerpt_of_a_large_file_reads_around_the_place_only(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as out:
        out.truncate(3 << 30)
        out.seek(2 << 30)
        out.write(b"\nbefore\nhere\nafter\n")
    rows = excerpt(Evidence("log", str(path), line=1000, offset=(2 << 30) + 8), 1, 1)
    assert [(row.number, row.text, row.marked) for row in rows] == [
        (999, "before", False),
        (1000, "here", True),
        (1001, "after", False),
    ]


def test_a_line_that_is_not_there_gives_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\n")
    assert excerpt(Evidence("value", str(path), line=9)) == []
    with pytest.raises(OSError):
        excerpt(Evidence("value", str(tmp_path / "gone"), line=1))


def metric(rank: int, step: int, loss: float = 2.0, time: float = 100.0, steps: int = 1000) -> Metric:
    return Metric("log", step, 0, rank=rank, step=step, loss=loss, step_time_ms=time, steps=steps)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (metric(3, 100, loss=float("nan")), "loss nan"),
        (metric(3, 80), "20 steps behind"),
        (metric(3, 100, time=250.0), "2.5x slower"),
        (metric(3, 99), None),
        (metric(3, 100, time=110.0), None),
    ],
)
def test_a_rank_is_odd_when_it_differs_from_the_others(other: Metric, said: str) -> None:
    view = RunView()
    for rank in (0, 1, 2):
        view.add(metric(rank, 100))
    view.add(other)
    assert [(odd.rank, odd.why.en) for odd in view.odd()] == ([(3, said)] if said else [])


def test_when_all_have_no_number_none_is_odd() -> None:
    view = RunView()
    for rank in range(4):
        view.add(metric(rank, 100, loss=float("nan")))
    assert view.odd() == []


def test_the_time_left_is_that_of_the_steps_left() -> None:
    view = RunView()
    for step in range(1, 101):
        view.add(metric(0, step, time=9000.0 if step == 1 else 200.0))
    assert view.seconds_left() == pytest.approx(900 * 0.2)
    now = [0.0]
    silent = RunView(lambda: now[0])
    for step in (1, 11):
        silent.add(Metric("log", step, 0, rank=0, step=step, loss=1.0, steps=111))
        now[0] += 5.0
    assert silent.seconds_left() == pytest.approx(100 * 10.0 / 10)


def test_two_points_are_joined_by_a_line_without_a_gap() -> None:
    curve = Curve()
    curve.add(0, 1.0)
    curve.add(100, 2.0)
    lines = draw(curve, 40, 10)
    assert all(any(line[x] not in " \u2800" for line in lines) for x in range(40))


def test_a_marker_stands_at_its_step_with_its_name() -> None:
    curve = Curve()
    for step in range(101):
        curve.add(step, float("nan") if step > 50 else 2.0)
    rows = chart(curve, 111, 12, markers=[Marker(50, "RUN-NAN-001", "red")]).plain.split("\n")
    assert "RUN-NAN-001" in rows[0] and rows[-1].index("▲") in range(58, 62)
    assert rows[-1].rstrip().endswith("100"), "steps without a number belong to the run"


def test_box_characters_are_for_terminals_that_draw_them() -> None:
    assert draws({"LANG": "zh_CN.UTF-8"}) and draws({}) and draws({"LC_CTYPE": "C.UTF-8"})
    assert not draws({"LC_ALL": "C", "LANG": "en_US.UTF-8"}) and not draws({"LANG": "C", "LC_CTYPE": "C.UTF-8"})
    assert not draws({"LANG": "en_US.UTF-8", "DOCTOR_ASCII": "1"}) and not draws({"LC_ALL": "POSIX"})


def test_records_read_together_give_the_curve_of_those_read_one_by_one(tmp_path: Path) -> None:
    from doctor.match.pack import load_pack
    from doctor.session import DiagnosisSession
    from doctor.session.reading import read_run

    log = tmp_path / "worker_0.log"
    losses = [5 / (1 + step / 100) + (7.0 if step == 3000 else 0.0) for step in range(1, 6001)]
    log.write_text("".join(f"epoch: 1 step: {step}, loss is {loss}\n" for step, loss in enumerate(losses, 1)))
    views = RunView(), RunView()
    for view, together in zip(views, (False, True)):
        session = DiagnosisSession(load_pack(), on_metric=view.add)
        if together:
            session.on_block = view.add_block
        read_run(session, [str(log)], lambda event: None)
    single, block = (view.curves_of()["loss"] for view in views)
    assert (single.first, single.end, single.last) == (1, 6000, losses[-1])
    assert (block.end, block.last) == (single.end, single.last)
    assert max(high for _, _, high in block.points) == max(losses)
    assert min(low for _, low, _ in block.points) == pytest.approx(min(losses), rel=0.05)
    assert views[1].last == views[0].last


def test_ranks_that_differ_are_shown_first_when_ranks_are_gone_through() -> None:
    view = RunView()
    for step in range(1, 40):
        for rank in range(4):
            if rank != 2 or step < 20:
                view.add(metric(rank, step, loss=float(rank + 1)))
    assert view.next_rank(None) == 2
    assert view.curves_of(2)["loss"].last == 3.0
    assert [view.next_rank(2), view.next_rank(0), view.next_rank(3)] == [0, 1, 2]
    assert view.curves_of(99)["loss"].last == 1.0, "of a rank that is not known the first one's"
