"""Faults of short runs, and what only looks like them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from curves import drive, from_losses, opened

from doctor.detect import RunFacts, detectors
from doctor.detect.processes import Trace
from doctor.detect.processes import judge as judge_processes
from doctor.detect.ranks import RankCurve
from doctor.detect.ranks import judge as judge_ranks
from doctor.detect.stream import RankStream
from doctor.detect.window import rhythms
from doctor.finding import Evidence


def falling(steps: int, seed: int = 0, start: float = 4.6, floor: float = 2.4, noise: float = 0.05) -> list[float]:
    rng = random.Random(seed)
    return [floor + (start - floor) / (1 + (step / 12) ** 2) + rng.gauss(0, noise) for step in range(steps)]


def rules(losses: Sequence[float], facts: RunFacts | None = None, **columns: Sequence[object]) -> list[str]:
    return opened(drive(from_losses(losses, **columns), detectors(facts)))


class TestSlowRise:
    @pytest.mark.parametrize("seed", range(6))
    def test_a_steady_climb_of_two_sigmas(self, seed: int) -> None:
        curve = falling(160, seed)
        climbing = [value + max(0, step - 80) * 0.003 for step, value in enumerate(curve)]
        assert "RUN-LOSS-003" in rules(climbing)
        assert rules(curve) == []

    def test_a_rise_under_a_rate_that_rises_is_a_schedule(self) -> None:
        curve = [
            value + (0.003 * min(60, step - 80) if 80 < step < 150 else 0) for step, value in enumerate(falling(160))
        ]
        rates = [1e-3 if step < 80 else 1e-3 * (0.3 + 0.7 * min(1.0, (step - 80) / 70)) for step in range(160)]
        assert "RUN-LOSS-003" not in rules(curve, lr=rates)

    def test_a_jump_of_four_percent_without_noise(self) -> None:
        curve = [value * (1.06 if step >= 60 else 1) for step, value in enumerate(falling(120, noise=0.004))]
        assert {"RUN-LOSS-001", "RUN-LOSS-002"} & set(rules(curve))


class TestBumpsOfAYoungCurve:
    """Three losses far out: of a curve that still tumbles no wonder, of one that has settled a spike."""

    @pytest.mark.parametrize("seed", range(6))
    @pytest.mark.parametrize(("at", "spike"), [(32, False), (45, False), (90, True), (130, True)])
    def test_three_losses(self, seed: int, at: int, spike: bool) -> None:
        curve = falling(160, seed)
        for step in range(at, at + 3):
            curve[step] += 0.7
        assert ("RUN-LOSS-002" in rules(curve)) == spike

    @pytest.mark.parametrize("seed", range(6))
    def test_a_young_curve_that_stays_up_is_told_all_the_same(self, seed: int) -> None:
        curve = [value + (0.9 if step >= 35 else 0) for step, value in enumerate(falling(100, seed))]
        assert {"RUN-LOSS-001", "RUN-LOSS-002"} & set(rules(curve))


class TestSwings:
    @pytest.mark.parametrize("period", [2, 4, 6])
    def test_a_rhythm_that_begins(self, period: int) -> None:
        curve = falling(150)
        for step in range(80, 150):
            curve[step] += 0.3 if step % period < period // 2 else -0.3
        assert {"RUN-LOSS-008", "RUN-LOSS-002"} & set(rules(curve))

    def test_batches_that_come_round_in_the_same_order(self) -> None:
        hard = [0.2, -0.1, 0.05, -0.15]
        curve = [value + hard[step % 4] for step, value in enumerate(falling(200))]
        assert rules(curve) == []

    def test_noise_has_no_rhythm(self) -> None:
        rng = random.Random(1)
        for _ in range(200):
            values = [rng.gauss(3, 0.3) for _ in range(48)]
            assert max(rhythms(values, 8)) < 0.6
        assert rhythms([1.0, 2.0, 3.0] * 8, 4)[1] == pytest.approx(1, abs=0.05)


class TestTooLow:
    def test_answers_that_are_seen_show_before_the_loss_is_near_zero(self) -> None:
        curve = [4.6 * math.exp(-step / 40) for step in range(100)]
        assert rules(curve) == ["RUN-LOSS-009"]

    def test_it_says_nothing_of_loaded_weights_or_of_the_middle_of_a_run(self) -> None:
        curve = [4.6 * math.exp(-step / 60) + 0.03 * random.Random(step).random() for step in range(100)]
        assert "RUN-LOSS-009" not in rules(curve, RunFacts(loads_weights=True))

    def test_text_is_silent(self) -> None:
        assert rules(falling(300, floor=2.0)) == []


class TestNeverFalls:
    def test_a_fall_that_is_small_but_sure(self) -> None:
        rng = random.Random(2)
        slowly = [5.545 - 0.00015 * step + rng.gauss(0, 0.002) for step in range(120)]
        assert rules(slowly, lr=[1e-3] * 120) == []
        flat = [5.545 + rng.gauss(0, 0.002) for step in range(120)]
        assert rules(flat, lr=[1e-3] * 120) == ["RUN-LOSS-007"]


class TestRate:
    def test_a_rate_that_never_comes_up(self) -> None:
        facts = RunFacts(learning_rate=1e-3, warmup_steps=10)
        assert "RUN-LR-006" in rules(falling(60), facts, lr=[1e-7] * 60)

    def test_warm_ups_that_do_and_those_counted_otherwise(self) -> None:
        facts = RunFacts(learning_rate=1e-3, warmup_steps=10)
        up = [1e-3 * min(1.0, (step + 1) / 10) for step in range(60)]
        assert rules(falling(60), facts, lr=up) == []
        late = RunFacts(learning_rate=1e-3, warmup_steps=50)
        assert rules(falling(60), late, lr=[1e-3 * step / 600 for step in range(60)], steps=[60] * 60) == []


class TestResumedSchedules:
    @staticmethod
    def said(peak: float) -> list[str]:
        """Cosine with a restart at step 100, the run resumed at step 60 of a cycle whose rate is low by then."""
        rates = [1e-3 * (0.51 + 0.49 * math.cos(math.pi * (step % 100) / 100)) for step in range(160)]
        rates = [rate if step < 100 else rate * peak for step, rate in enumerate(rates)]
        metrics = list(from_losses(falling(160), lr=rates))
        stream = RankStream("log", 0, RunFacts())
        found = [alarm for metric in [*metrics[:75], *metrics[65:]] for alarm in stream.feed(metric)]
        return opened([*found, *stream.end()])

    def test_the_peak_before_the_resumption_counts(self) -> None:
        assert self.said(1.0) == []
        assert self.said(4.0) == ["RUN-LR-002"]


class TestRanksWithTheirOwnBatches:
    @staticmethod
    def curves(shift: float, since: int, ranks: int = 4, offset: float = 0.0) -> list[RankCurve]:
        found = []
        for rank in range(ranks):
            values = falling(120, seed=rank, noise=0.1)
            if rank == 2:
                values = [value + offset + (shift if step >= since else 0) for step, value in enumerate(values)]
            curve = RankCurve(f"rank_{rank}/info.log", rank)
            for metric in from_losses(values):
                curve.add(metric)
            found.append(curve)
        return found

    def test_one_that_leaves_the_others(self) -> None:
        alarms = judge_ranks(self.curves(0.6, 80))
        assert [(alarm.rule, dict(alarm.values)["rank"]) for alarm in alarms] == [("RUN-RANK-001", 2)]

    def test_a_start_at_which_all_ranks_look_alike(self) -> None:
        for ranks in (2, 4):
            curves = []
            for rank in range(ranks):
                rng = random.Random(rank)
                flat = [4.56 - 0.0005 * step + rng.gauss(0, 0.002) for step in range(24)]
                own = [*flat, *(4.5 - 0.02 * step + rng.gauss(0, 0.15) for step in range(60))]
                curve = RankCurve(f"rank_{rank}/info.log", rank)
                for metric in from_losses(own):
                    curve.add(metric)
                curves.append(curve)
            assert judge_ranks(curves) == []

    def test_harder_data_from_the_start_and_a_few_hard_batches(self) -> None:
        assert judge_ranks(self.curves(0.0, 0, offset=0.6)) == []
        assert judge_ranks(self.curves(0.2, 116)) == []


class TestFailedByItself:
    @staticmethod
    def trace(rank: int, **more: object) -> Trace:
        source = f"rank_{rank}/info.log"
        end = Evidence("log", source, line=90, text="ValueError: nothing that a rule knows", rank=rank)
        last = Evidence("metric", source, line=80, step=100, rank=rank)
        return Trace(source, rank, last=last, place=end, total=1000, failed=end, **more)  # type: ignore[arg-type]

    def test_the_one_that_did_not_wait(self) -> None:
        traces = [self.trace(rank, waited=rank != 3) for rank in range(8)]
        alarms = judge_processes(traces)
        assert [(alarm.rule, dict(alarm.values)["rank"]) for alarm in alarms] == [("RUN-END-006", 3)]

    def test_all_fail_alike_or_its_cause_is_known(self) -> None:
        assert judge_processes([self.trace(rank) for rank in range(8)]) == []
        assert judge_processes([self.trace(rank, waited=rank != 3, known=rank == 3) for rank in range(8)]) == []
