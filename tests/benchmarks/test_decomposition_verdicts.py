import math
from dataclasses import replace

import pytest

from benchmarks.decomposition.findings import FINDINGS, Finding, Outcome, judge_finding
from benchmarks.decomposition.scales import DEFAULT, QUICK, Setting
from benchmarks.verdicts import Verdict, interval_of, judge

SETTING = Setting("up-to-context", 2048)


def outcome(final: float, **others: float) -> Outcome:
    base = Outcome(final, final, 1.0, 10.0, 1.0, 1.0)
    return base._replace(**others)


def test_the_interval_of_two_seeds_is_that_of_students_distribution():
    # With one degree of freedom the distribution is Cauchy's: its 90% point is tan(0.4 pi).
    found = interval_of([1.0, 3.0], 0.01)
    half = math.tan(0.4 * math.pi) * math.sqrt(2) / math.sqrt(2)
    assert found.mean == 2 and found.deviation == pytest.approx(math.sqrt(2))
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half))


def test_seeds_that_agree_by_luck_have_the_resolution_as_their_deviation():
    half = math.tan(0.4 * math.pi) * 0.02 / math.sqrt(2)
    assert interval_of([0.5, 0.5], 0.02).high == pytest.approx(0.5 + half)


@pytest.mark.parametrize(
    ("effects", "bound", "verdict"),
    [
        ([-0.2, -0.21], 0, Verdict.HOLDS),
        ([0.2, 0.21], 0, Verdict.FAILS),
        ([-0.2, 0.1], 0, Verdict.UNSURE),
        ([-0.01, -0.01], 0, Verdict.UNSURE),
        ([-5.0], 0, Verdict.UNSURE),
        ([0.31, 0.32], 0.33, Verdict.UNSURE),
        ([0.1, 0.11], 0.33, Verdict.HOLDS),
        ([math.inf, math.inf], 1, Verdict.FAILS),
        ([math.inf, 0.3], 1, Verdict.UNSURE),
        ([math.inf], 1, Verdict.UNSURE),
        ([-math.inf, -math.inf], 0, Verdict.HOLDS),
    ],
)
def test_a_finding_needs_its_whole_interval_on_one_side_of_the_bound(effects, bound, verdict):
    assert judge(effects, bound, 0.01) == verdict


def test_the_better_of_two_rivals_is_chosen_for_each_seed():
    finding = next(each for each in FINDINGS if "the better of" in each.claim)
    seeds = [
        {"decomposed-8": outcome(3.0), "masked": outcome(3.1), "concat-quarter": outcome(3.3)},
        {"decomposed-8": outcome(3.0), "masked": outcome(3.4), "concat-quarter": outcome(3.2)},
    ]
    found = judge_finding(finding, SETTING, seeds, can_tell=True)
    assert found is not None
    assert found.effects == pytest.approx([-0.1, -0.2])
    assert (found.verdict, found.target, found.target_verdict) == (Verdict.UNSURE, -0.05, Verdict.UNSURE)


def test_a_finding_waits_for_its_arms_and_a_quick_run_tells_nothing():
    finding = Finding(claim="", effect=lambda arms: arms["a"].final_loss)
    assert judge_finding(finding, SETTING, [{}, {"b": outcome(1.0)}], can_tell=True) is None
    seeds = [{"a": outcome(-3.0)}, {"a": outcome(-3.0)}]
    assert [judge_finding(finding, SETTING, seeds, can_tell=can).verdict for can in (True, False)] == [  # type: ignore[union-attr]
        Verdict.HOLDS,
        Verdict.UNSURE,
    ]
    assert DEFAULT.can_tell and not QUICK.can_tell and not replace(QUICK, seeds=3).can_tell


def test_a_run_that_diverges_loses_to_one_that_does_not():
    finding = next(each for each in FINDINGS if "no clipping" in each.claim and "8 cycles" in each.claim)
    seeds = [{"decomposed-8-hot": outcome(3.0), "concat-hot": outcome(math.inf)}] * 2
    assert judge_finding(finding, SETTING, seeds, can_tell=True).verdict == Verdict.HOLDS  # type: ignore[union-attr]
    seeds = [{"decomposed-8-hot": outcome(math.inf), "concat-hot": outcome(3.0)}] * 2
    assert judge_finding(finding, SETTING, seeds, can_tell=True).verdict == Verdict.FAILS  # type: ignore[union-attr]


def test_the_middle_length_is_compared_with_both_ends():
    finding = FINDINGS[-1]
    seeds = [{f"only-{length}": outcome(loss) for length, loss in ((64, 3.0), (128, 2.5), (256, 2.6), (512, 2.9))}] * 2
    found = judge_finding(finding, SETTING, seeds, can_tell=True)
    assert found is not None and found.effects == pytest.approx([-0.4, -0.4]) and found.verdict == Verdict.HOLDS


def test_targets_are_those_of_the_documents_and_the_context():
    finding = FINDINGS[0]
    places = [("up-to-context", 2048), ("whole", 2048), ("up-to-context", 4096), ("whole", 4096)]
    assert [finding.target(Setting(*place)) for place in places] == [0.33, 0.55, 0.3, None]  # type: ignore[arg-type]
