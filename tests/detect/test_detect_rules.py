"""Each rule on a short series that shows its fault, and on one that only looks like it."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from curves import drive, from_losses, opened

from doctor.detect import Alarm, Detector, RunFacts, detectors
from doctor.detect.pace import SaveTime, Stall
from doctor.detect.processes import Trace
from doctor.detect.processes import judge as judge_processes
from doctor.detect.ranks import RankCurve
from doctor.detect.ranks import judge as judge_ranks
from doctor.detect.stream import RankStream
from doctor.finding import Evidence
from doctor.records.record import Metric

NAN = math.nan


def falling(steps: int, seed: int = 0, start: float = 9.0, floor: float = 2.0, noise: float = 0.02) -> list[float]:
    """A loss curve as training gives it."""
    rng = random.Random(seed)
    return [floor + (start - floor) / (1 + step / 12) + rng.gauss(0, noise) for step in range(steps)]


def rules(losses: Sequence[float], facts: RunFacts | None = None, **columns: Sequence[object]) -> list[str]:
    return opened(drive(from_losses(losses, **columns), detectors(facts)))


def warm(steps: int, peak: float = 1e-3, warmup: int = 10) -> list[float]:
    return [peak * min(1.0, (step + 1) / warmup) for step in range(steps)]


class TestLoss:
    def test_standing_still_half_way_down(self) -> None:
        rng = random.Random(3)
        stuck = [max(6.8, 11 - step / 8) * (1 + rng.gauss(0, 0.008)) for step in range(700)]
        up, decayed = [3e-4] * 700, [3e-4 * 0.99**step for step in range(700)]
        assert rules(stuck, lr=up) == ["RUN-LOSS-010"]
        assert rules(stuck, lr=decayed) == []  # a rate that is gone moves nothing
        assert rules(stuck[:300], lr=up[:300]) == []  # too early to say
        slow = [loss - 0.8 * step / 700 for step, loss in enumerate(stuck)]
        assert rules(slow, lr=up) == []  # it moves
        assert rules([loss - 5 for loss in stuck], lr=up) == []  # where text ends
        assert "RUN-LOSS-010" not in rules(stuck, RunFacts(loads_weights=True), lr=up)
        assert rules([*stuck, *(6.8 - step / 50 for step in range(60))], lr=[3e-4] * 760) == ["RUN-LOSS-010"]

    def test_losses_of_either_sign_measure_no_fit(self) -> None:
        """Policy gradients: round zero, in waves, with single ones far out."""
        rng = random.Random(8)
        losses = [
            0.02 * math.sin(step / 2) + rng.gauss(0, 0.01) + (0.9 if step % 60 == 59 else 0) for step in range(300)
        ]
        assert rules(losses) == []

    def test_small_data_learnt_by_heart_are_no_fault(self) -> None:
        losses = [max(0.01, 9.0 * 0.9**step) for step in range(120)]
        found = drive(from_losses(losses, epoch=[1.0 + step // 4 for step in range(120)]), detectors())
        told = [alarm for alarm in found if alarm.rule == "RUN-LOSS-009"]
        assert [str(alarm.severity and alarm.severity.value) for alarm in told] == ["info"]
        assert told[0].message is not None and "by heart" in told[0].message.en and "背" in told[0].message.zh

    def test_a_high_batch_in_large_noise_is_no_jump(self) -> None:
        """The noise of small batches is that of a logarithm: 2.4 times the level is four of its sigmas here."""
        rng = random.Random(5)
        losses = [0.8 * math.exp(rng.gauss(0, 0.2)) for step in range(200)]
        losses[120] = 0.8 * 2.4
        assert rules(losses) == []

    def test_a_curve_that_falls_is_silent(self) -> None:
        for seed in range(20):
            assert rules(falling(300, seed), lr=warm(300)) == []

    def test_nan_and_recovery(self) -> None:
        curve = falling(60)
        curve[40:42] = [NAN, NAN]
        alarms = drive(from_losses(curve))
        assert [(alarm.kind, alarm.rule, alarm.onset) for alarm in alarms] == [
            ("opened", "RUN-NAN-001", 41),
            ("resolved", "RUN-NAN-001", 41),
        ]

    def test_infinity_counts(self) -> None:
        assert rules([*falling(30), math.inf, math.inf]) == ["RUN-NAN-001"]

    def test_one_skipped_step_of_a_loss_scaler_is_normal(self) -> None:
        curve = falling(60)
        curve[30] = math.inf
        overflow = [step == 30 for step in range(60)]
        assert rules(curve, overflow=overflow, loss_scale=[65536.0] * 60) == []

    def test_gradient_norm_not_finite(self) -> None:
        norms = [1.0] * 30 + [NAN] * 10
        assert rules(falling(40), grad_norm=norms) == ["RUN-NAN-003"]
        # PyNative prints NaN where a rank does not know the norm.
        assert rules(falling(40), grad_norm=[NAN] * 40) == []

    def test_a_spike_that_recovers_is_resolved(self) -> None:
        curve = falling(120)
        curve[80:84] = [6.0, 7.0, 5.5, 4.0]
        alarms = drive(from_losses(curve))
        assert [(alarm.kind, alarm.rule) for alarm in alarms] == [
            ("opened", "RUN-LOSS-002"),
            ("resolved", "RUN-LOSS-002"),
        ]
        assert alarms[0].onset == 81

    def test_a_jump_that_stays_is_an_error(self) -> None:
        curve = falling(80) + [value + 3 for value in falling(80, 1, start=3.0)]
        assert rules(curve) == ["RUN-LOSS-002", "RUN-LOSS-001"]

    def test_single_hard_batches_are_silent(self) -> None:
        curve = falling(300)
        for step in (100, 150, 151, 220):
            curve[step] += 0.3  # fifteen sigmas
        assert rules(curve) == []

    def test_a_slow_rise(self) -> None:
        curve = falling(150) + [2.5 + 0.004 * step + random.Random(step).gauss(0, 0.1) for step in range(250)]
        assert set(rules(curve)) & {"RUN-LOSS-003", "RUN-LOSS-002", "RUN-LOSS-001"}

    def test_zero_after_values(self) -> None:
        assert rules(falling(40) + [0.0] * 5, grad_norm=[1.0] * 40 + [0.0] * 5) == ["RUN-LOSS-005"]

    def test_zero_on_another_pipeline_stage_is_normal(self) -> None:
        assert rules([0.0] * 60, grad_norm=[1.3] * 60) == []

    def test_zero_from_the_start_with_no_gradient(self) -> None:
        assert rules([0.0] * 20, grad_norm=[0.0] * 20) == ["RUN-LOSS-005"]

    def test_constant(self) -> None:
        assert rules([*falling(40), *[3.141593] * 12]) == ["RUN-LOSS-006"]
        # Three decimals repeat by chance near the end of a run.
        assert rules([*falling(40), *[2.345] * 12]) == []

    def test_never_falls(self) -> None:
        flat = [6.24 + random.Random(step).gauss(0, 0.01) for step in range(64)]
        facts = RunFacts(vocab_size=512)
        assert rules(flat, facts, lr=warm(64), grad_norm=[0.6] * 64) == ["RUN-LOSS-007"]

    def test_a_long_warm_up_is_not_never(self) -> None:
        flat = [10.8 + random.Random(step).gauss(0, 0.01) for step in range(200)]
        assert rules(flat, lr=warm(200, warmup=2000)) == []

    def test_a_flat_fine_tune_is_silent(self) -> None:
        flat = [1.4 + random.Random(step).gauss(0, 0.15) for step in range(300)]
        assert rules(flat, RunFacts(loads_weights=True), lr=warm(300, 1e-5)) == []

    def test_too_low_too_soon(self) -> None:
        curve = [6.0 * math.exp(-step / 15) + 0.02 for step in range(120)]
        assert rules(curve) == ["RUN-LOSS-009"]

    def test_a_classifier_may_reach_zero(self) -> None:
        assert rules([2.3 * math.exp(-step / 15) + 0.002 * random.Random(step).random() for step in range(120)]) == []

    def test_zigzag(self) -> None:
        curve = falling(80) + [2.6 + (0.3 if step % 2 else -0.3) for step in range(80)]
        assert "RUN-LOSS-008" in rules(curve)


class TestFirstLoss:
    def test_a_fine_tune_that_begins_at_the_logarithm_of_the_vocabulary(self) -> None:
        facts = RunFacts(vocab_size=32000, loads_weights=True)
        assert "RUN-INIT-001" in rules([10.4, 10.3, 10.2], facts)

    def test_without_the_vocabulary_a_known_one_must_be_hit(self) -> None:
        assert "RUN-INIT-001" in rules([11.93, 11.9], RunFacts(loads_weights=True))  # ln(151936) = 11.931

    @pytest.mark.parametrize("loss", [1.8, 4.0, 7.5])
    def test_weights_that_arrived(self, loss: float) -> None:
        assert rules([loss] * 3, RunFacts(vocab_size=32000, loads_weights=True)) == []

    def test_a_run_from_scratch_begins_there(self) -> None:
        assert rules([10.4, 10.3, 10.2], RunFacts(vocab_size=32000)) == []


class TestScale:
    @staticmethod
    def scaler(overflows: Sequence[bool], start: float, fixed: bool = False) -> list[float]:
        scales, scale = [], start
        for bad in overflows:
            scales.append(scale)
            scale = scale / 2 if bad and not fixed else scale
        return scales

    def test_rare_overflows_are_silent(self) -> None:
        overflows = [step in (0, 1, 60, 130, 131) for step in range(200)]
        assert rules(falling(200), overflow=overflows, loss_scale=self.scaler(overflows, 65536.0)) == []

    def test_the_search_at_the_start_is_information(self) -> None:
        overflows = [step < 9 for step in range(60)]
        curve = [9.0] * 9 + falling(51)
        alarms = drive(from_losses(_shaken(curve), overflow=overflows, loss_scale=self.scaler(overflows, 2.0**28)))
        assert [(alarm.kind, alarm.rule) for alarm in alarms] == [
            ("opened", "RUN-OVF-001"),
            ("resolved", "RUN-OVF-001"),
        ]
        assert alarms[0].severity is not None and alarms[0].severity.value == "info"

    def test_a_collapse_has_a_forecast(self) -> None:
        overflows = [step >= 50 and step % 3 > 0 for step in range(90)]
        alarms = drive(from_losses(falling(90), overflow=overflows, loss_scale=self.scaler(overflows, 2.0**16)))
        first = next(alarm for alarm in alarms if alarm.rule == "RUN-OVF-002")
        forecast = dict(first.values)["forecast"]
        assert "It reaches 1" in str(getattr(forecast, "en", "")) or "reaches 1 in about" in str(forecast)

    def test_every_step_at_a_fixed_scale(self) -> None:
        overflows = [step >= 20 for step in range(60)]
        scales = self.scaler(overflows, 2.0**20, fixed=True)
        assert "RUN-OVF-003" in rules(falling(60), overflow=overflows, loss_scale=scales)


class TestGradient:
    def test_vanishing(self) -> None:
        assert rules(falling(60), grad_norm=[1.0] * 40 + [1e-6] * 20) == ["RUN-GRAD-001"]

    def test_small_where_nothing_is_left_to_learn(self) -> None:
        curve = [6.0 * math.exp(-step / 15) + 0.02 for step in range(120)]
        assert "RUN-GRAD-001" not in rules(curve, grad_norm=[max(1e-5, value / 6) ** 2 for value in curve])

    def test_exploding(self) -> None:
        assert "RUN-GRAD-002" in rules(falling(60), grad_norm=[1.0] * 50 + [60.0] * 10)

    def test_one_large_norm_is_silent(self) -> None:
        norms = [1.0] * 60
        norms[40] = 90.0
        assert rules(falling(60), grad_norm=norms) == []

    def test_rising_before_a_spike(self) -> None:
        norms = [0.24] * 40 + [0.95, 2.4, 16.0]
        assert "RUN-GRAD-003" in rules(falling(43), grad_norm=norms)

    def test_always_clipped(self) -> None:
        norms = [0.9 + 0.1 * (step % 3) for step in range(80)]
        assert rules(falling(80), RunFacts(clip_norm=0.01), grad_norm=norms) == ["RUN-GRAD-004"]
        assert rules(falling(80), RunFacts(clip_norm=1.0), grad_norm=norms) == []


class TestRate:
    def test_zero_in_the_middle(self) -> None:
        assert rules(falling(200), lr=[*warm(100), *[0.0] * 100]) == ["RUN-LR-001"]

    def test_zero_at_the_announced_end_is_a_schedule(self) -> None:
        rates = [1e-3 * (1 - step / 199) for step in range(200)]
        rates[-3:] = [0.0] * 3
        assert rules(falling(200), lr=rates, steps=[200] * 200) == []

    def test_jump(self) -> None:
        assert rules(falling(100), lr=[*warm(60), *[1.2e-2] * 40]) == ["RUN-LR-002"]

    def test_schedules_are_silent(self) -> None:
        steps = range(300)
        cosine = [1e-3 * (0.55 + 0.45 * math.cos(math.pi * step / 299)) for step in steps]
        restarts = [1e-3 * (0.5 + 0.499 * math.cos(math.pi * (step % 100) / 99)) for step in steps]
        staircase = [1e-3 * 0.1 ** (step // 100) for step in steps]
        for rates in (warm(300), cosine, restarts, staircase, [1e-5] * 300):
            assert rules(falling(300), lr=rates) == []

    def test_a_schedule_that_starts_again(self) -> None:
        assert rules(falling(200), lr=[*warm(120), *warm(80)]) == ["RUN-LR-004"]

    def test_skipped_steps_hold_a_warm_up_up(self) -> None:
        rates = [2e-4 * min(10, 1 + max(0, step - 20) + min(step, 2)) for step in range(80)]
        skipped = [2 < step < 20 for step in range(80)]
        assert not any(rule.startswith("RUN-LR") for rule in rules(falling(80), lr=rates, overflow=skipped))

    def test_zero_after_a_rate_that_is_one_unit(self) -> None:
        rates = [*[1e-5] * 60, *[0.0] * 40]
        assert "RUN-LR-001" not in rules(falling(100), lr=rates)  # 0.00001 and 0.00000 may be rounded
        line = '{"step": 1, "lr": 1e-05}'
        assert "RUN-LR-001" in rules(falling(100), lr=rates, text=[line] * 100)

    def test_running_away(self) -> None:
        rates = [*warm(60), *[1e-3 * 1.03**step for step in range(80)]]
        assert "RUN-LR-005" in rules(falling(140), lr=rates)

    def test_a_warm_up_that_was_configured_and_is_not_there(self) -> None:
        facts = RunFacts(warmup_steps=100, learning_rate=1e-3)
        assert rules(falling(40), facts, lr=[1e-3] * 40) == ["RUN-LR-003"]
        assert rules(falling(40), facts, lr=warm(40, warmup=100)) == []


class TestPace:
    def test_steps_that_get_slower(self) -> None:
        times = [60_000.0] + [3500.0 + step % 9 for step in range(60)] + [7000.0 + step % 9 for step in range(60)]
        assert rules(falling(121), step_time_ms=times) == ["RUN-TIME-001"]

    def test_a_busy_machine_is_not_slower(self) -> None:
        rng = random.Random(4)
        times = [90.0 * rng.choice([1, 1, 1.5, 2.5, 4]) for _ in range(200)]
        assert rules(falling(200), step_time_ms=times) == []

    def test_throughput_where_there_is_no_time(self) -> None:
        rates = [2000.0 + step % 7 for step in range(60)] + [600.0] * 60
        assert rules(falling(72), throughput=rates[:72]) == []  # a dozen steps prove nothing
        assert rules(falling(120), throughput=rates) == ["RUN-TIME-005"]
        assert rules(falling(120), throughput=[rate / 2000 for rate in rates]) == ["RUN-TIME-005"]

    def test_more_work_in_a_step_is_not_slower(self) -> None:
        times = [60_000.0] + [3500.0 + step % 9 for step in range(60)] + [7000.0 + step % 9 for step in range(60)]
        assert rules(falling(121), step_time_ms=times, throughput=[150.0 + step % 3 for step in range(121)]) == []
        assert rules(falling(121), step_time_ms=times, throughput=[155.0] * 121) == ["RUN-TIME-001"]  # not measured
        rates = [5e5 / time for time in times]
        assert rules(falling(121), step_time_ms=times, throughput=rates) == ["RUN-TIME-001"]

    def test_waiting_for_data(self) -> None:
        waits = [2.0] * 40 + [700.0] * 40
        assert rules(falling(80), step_time_ms=[1000.0] * 80, data_time_ms=waits) == ["RUN-TIME-002"]

    def test_saves_that_take_longer_than_the_steps(self) -> None:
        detector = SaveTime()
        said: list[Alarm] = []
        for metric in from_losses(falling(60), step_time_ms=[1000.0] * 60):
            detector.feed(metric)
            if metric.step and metric.step % 20 == 0:
                said.extend(detector.saved(30.0))
        assert opened(said) == ["RUN-TIME-003"]

    def test_a_stall_and_its_end(self) -> None:
        detector = Stall()
        metrics = list(from_losses(falling(12), step_time_ms=[1000.0] * 12))
        said: list[Alarm] = []
        for now, metric in enumerate(metrics[:-1]):
            detector.feed(metric)
            said.extend(detector.tick(float(now)))
        said.extend(detector.tick(28.0))
        assert said == []
        said.extend(detector.tick(40.0))
        assert [(alarm.kind, alarm.onset) for alarm in said] == [("opened", 11)]
        detector.feed(metrics[-1])
        assert [alarm.kind for alarm in detector.tick(41.0)] == ["resolved"]

    def test_compiling_is_no_stall(self) -> None:
        detector = Stall()
        detector.feed(next(iter(from_losses([9.0]))))
        assert [alarm for now in range(600) for alarm in detector.tick(float(now))] == []


class TestRestart:
    @staticmethod
    def stream(metrics: Sequence[Metric]) -> list[Alarm]:
        stream = RankStream("log", 0, RunFacts())
        return [alarm for metric in metrics for alarm in stream.feed(metric)] + list(stream.end())

    def test_a_resumed_run_that_repeats_steps_is_silent(self) -> None:
        first = list(from_losses(falling(150)))
        again = list(from_losses(falling(300, seed=5)))[100:]
        assert self.stream([*first, *again]) == []

    def test_a_loss_that_does_not_go_on_where_it_was(self) -> None:
        first = list(from_losses(falling(150)))
        again = list(from_losses([value + 1.5 for value in falling(300, seed=5)]))[100:]
        assert opened(self.stream([*first, *again])) == ["RUN-RES-001"]

    def test_a_new_run_in_the_same_file_resolves_what_was_wrong_with_the_old(self) -> None:
        broken = list(from_losses([*falling(40), NAN, NAN, NAN]))
        said = self.stream([*broken, *from_losses(falling(100, seed=2))])
        assert [(alarm.kind, alarm.rule) for alarm in said] == [("opened", "RUN-NAN-001"), ("resolved", "RUN-NAN-001")]


class TestRanks:
    @staticmethod
    def curves(losses: Sequence[Sequence[float]], times: Sequence[float] = ()) -> list[RankCurve]:
        found = []
        for rank, values in enumerate(losses):
            curve = RankCurve(f"rank_{rank}/info.log", rank)
            time = times[rank] if times else 1000.0
            for metric in from_losses(values, step_time_ms=[time + step % 5 for step in range(len(values))]):
                curve.add(metric)
            found.append(curve)
        return found

    def test_equal_ranks_are_silent(self) -> None:
        assert judge_ranks(self.curves([falling(80)] * 4)) == []

    def test_ranks_with_their_own_batches_are_silent(self) -> None:
        assert judge_ranks(self.curves([falling(80, seed=rank) for rank in range(4)])) == []

    def test_other_stages_print_zero(self) -> None:
        assert judge_ranks(self.curves([[0.0] * 80, falling(80), [0.0] * 80, falling(80)])) == []

    def test_one_that_drifts_away(self) -> None:
        odd = falling(80)
        odd[50:] = [value + 0.1 for value in odd[50:]]
        alarms = judge_ranks(self.curves([falling(80), falling(80), odd, falling(80)]))
        assert [(alarm.rule, alarm.onset, dict(alarm.values)["rank"]) for alarm in alarms] == [("RUN-RANK-001", 51, 2)]

    def test_nan_on_one_rank_only(self) -> None:
        odd = falling(80)
        odd[60:] = [NAN] * 20
        alarms = judge_ranks(self.curves([falling(80), odd, falling(80), falling(80)]))
        assert [(alarm.rule, alarm.onset) for alarm in alarms] == [("RUN-NAN-002", 61)]
        assert judge_ranks(self.curves([odd] * 4)) == []

    def test_a_straggler(self) -> None:
        alarms = judge_ranks(self.curves([falling(80)] * 4, times=[1000, 1000, 2600, 1010]))
        assert [(alarm.rule, dict(alarm.values)["rank"]) for alarm in alarms] == [("RUN-TIME-004", 2)]

    def test_the_order_and_the_limit_do_not_matter(self) -> None:
        odd = falling(900)
        odd[500:] = [value + 0.5 for value in odd[500:]]
        curves = self.curves([falling(900), odd, falling(900)])
        small = self.curves([falling(900), odd, falling(900)])
        for curve in small:
            curve.shrink(128)
        assert judge_ranks(curves) == judge_ranks(curves[::-1])
        assert dict(judge_ranks(small)[0].values)["rank"] == 1


class TestProcesses:
    @staticmethod
    def trace(rank: int, step: int, **more: object) -> Trace:
        source = f"worker_{rank}.log"
        last = Evidence("metric", source, line=step, rank=rank, step=step)
        return Trace(source, rank, last=last, place=last, total=1000, **more)  # type: ignore[arg-type]

    def test_all_complete_is_silent(self) -> None:
        assert judge_processes([self.trace(rank, 1000) for rank in range(4)]) == []

    def test_the_rank_that_stopped_first(self) -> None:
        traces = [self.trace(rank, 90 if rank == 2 else 100) for rank in range(4)]
        alarms = judge_processes(traces)
        assert [alarm.rule for alarm in alarms] == ["RUN-HANG-002", "RUN-END-001"]
        assert dict(alarms[0].values)["rank"] == 2

    def test_one_step_behind_is_no_news(self) -> None:
        assert [alarm.rule for alarm in judge_processes([self.trace(0, 100), self.trace(1, 99)])] == ["RUN-END-001"]

    def test_a_killed_worker_by_the_launchers_code(self) -> None:
        line = Evidence("log", "launcher.log", line=3)
        launcher = Trace("launcher.log", exits={77: (-9, line)})
        alarms = judge_processes([launcher, self.trace(0, 100, pid=76), self.trace(1, 100, pid=77)])
        assert alarms[0].rule == "RUN-END-002"
        assert alarms[0].evidence[0].rank == 1

    def test_a_worker_that_failed_by_itself_was_not_killed(self) -> None:
        line = Evidence("log", "worker_1.log", line=3)
        launcher = Trace("launcher.log", exits={77: (-9, line)})
        assert "RUN-END-002" not in [
            alarm.rule for alarm in judge_processes([launcher, self.trace(1, 100, pid=77, failed=line)])
        ]


def _shaken(values: Sequence[float]) -> list[float]:
    return [value + 0.001 * (step * 7 % 5) for step, value in enumerate(values)]


def test_every_rule_of_a_detector_has_its_text() -> None:
    from doctor.match.pack import load_pack

    pack = load_pack()
    named: set[str] = {rule for detector in detectors() for rule in detector.rules}
    assert not [rule for rule in sorted(named) if pack.get(rule) is None]
    assert all(isinstance(detector, Detector) for detector in detectors())
