import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.decomposition.arms import arms_of, longest_row, settings_of_arm
from benchmarks.decomposition.documents import select
from benchmarks.decomposition.jobs import base_config, hot_jobs, main_jobs, train_command, trial_jobs
from benchmarks.decomposition.results import SettingResult, as_json
from benchmarks.decomposition.scales import DEFAULT, FULL, QUICK, SCALES, Setting
from benchmarks.decomposition.tables import format_spread, report
from benchmarks.plan import PlanError, write_plan
from benchmarks.reproduce_decomposition import choose_scale, make_parser, read_sources
from dataservice import DataConfig
from training.config import load_config, resolved_settings


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_every_arm_is_one_that_the_data_service_knows(scale):
    for setting in scale.settings:
        names = [arm.name for arm in arms_of(scale, setting)]
        assert len(set(names)) == len(names)
        for arm in arms_of(scale, setting):
            config = DataConfig(**settings_of_arm(arm, scale, setting))
            assert longest_row(arm, setting) <= config.max_length <= setting.context


def test_mixtures_take_as_many_tokens_as_the_other_arms_have():
    setting = Setting("whole", 2048)
    mixtures = [arm.data["mixture"] for arm in arms_of(FULL, setting) if "mixture" in arm.data]
    assert len(mixtures) == 2  # up to 2k is equal here, and 256 and up is 256 to 2k
    for mixture in mixtures:
        assert FULL.tokens - len(mixture) < sum(mixture.values()) <= FULL.tokens


def test_the_arms_of_a_seed_differ_in_the_data_alone(tmp_path):
    scale = DEFAULT
    (tmp_path / "base.yaml").write_text(json.dumps(base_config(scale)), encoding="utf-8")
    found = []
    for job in main_jobs(replace(scale, seeds=1), {}):
        settings = resolved_settings(load_config(train_command(job, scale, tmp_path)[2:]))
        assert settings["data"].pop("store") == str(tmp_path / "stores" / job.setting.name)
        assert settings["train"].pop("run") == str(job.folder(tmp_path))
        found.append((settings.pop("data"), settings))
    assert len(found) == 12
    assert all(settings == found[0][1] for _, settings in found)
    assert len({json.dumps(data, sort_keys=True) for data, _ in found}) == 6  # the same in both settings
    assert {(data["tokens_per_step"], data["seed"], data["epochs"]) for data, _ in found} == {(4096, 0, 1)}


def test_runs_have_folders_of_their_own_and_hot_ones_do_not_clip(tmp_path):
    scale = replace(FULL, contexts=(2048,))
    jobs = [*main_jobs(scale, {}), *trial_jobs(scale), *hot_jobs(scale)]
    folders = [job.folder(tmp_path) for job in jobs]
    assert len(set(folders)) == len(folders)
    commands = [train_command(job, scale, tmp_path) for job in hot_jobs(scale)]
    assert len(commands) == 9
    assert all({"optimizer.clip_norm=0", "optimizer.learning_rate=0.05"} <= set(command) for command in commands)


def test_documents_are_drawn_once_within_the_budget_and_the_limit():
    lengths = np.random.default_rng(3).integers(0, 500, 2000)
    for budget, limit in ((10_000, 64), (10_000, None), (10**9, 500)):
        chosen = select(lengths, budget, limit)
        assert len(set(chosen.tolist())) == len(chosen)
        assert lengths[chosen].sum() <= budget
        assert lengths[chosen].max() <= (budget // 16 if limit is None else limit)
        assert lengths[chosen].min() > 1
    assert lengths[select(lengths, 10_000, 128)].sum() > 9_990
    assert sorted(select(lengths, 10**9, 500)) == np.flatnonzero((lengths > 1) & (lengths <= 500)).tolist()


def options(tmp_path: Path, *words: str):
    return make_parser().parse_args(["--output", str(tmp_path), *words])


def test_a_folder_goes_on_with_more_seeds_and_not_with_another_size(tmp_path):
    first = choose_scale(options(tmp_path, "--quick", "--tokens", "65536"), tmp_path)
    write_plan(first, tmp_path)
    more = choose_scale(options(tmp_path, "--quick", "--tokens", "65536", "--seeds", "3", "--arms", "packed"), tmp_path)
    assert (more.seeds, [arm.name for arm in arms_of(more, more.settings[0])]) == (3, ["packed"])
    assert choose_scale(options(tmp_path, "--report"), tmp_path) == first
    with pytest.raises(PlanError, match=r"tokens must be 65536 in .*, got 131072; choose another --output"):
        choose_scale(options(tmp_path, "--quick"), tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seeds", "0"], "--seeds must be 1 or more, got 0"),
        (["--contexts", "3000"], "--contexts must be powers of two from 256 to .* 4096, got 3000"),
        (["--contexts", "8192"], "--contexts must be .* got 8192"),
        (["--tokens", "4096"], "--tokens must be at least 131072, got 4096"),
        (["--arms", "concatenated"], "--arms must be among concat, .* got concatenated"),
        (["--report"], "--output must be a folder of this command"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_in_one_line(words, message, tmp_path):
    with pytest.raises(PlanError, match=message) as raised:
        choose_scale(options(tmp_path, *words), tmp_path)
    assert ";" in str(raised.value) and "\n" not in str(raised.value)


def test_sources_are_documents_or_one_store():
    found = read_sources(["train=a", "b", "eval=c"], has_data=False)
    assert found == (("a", "b"), ("c",), None)
    assert read_sources(["store=s"], has_data=False).store == "s"
    assert read_sources([], has_data=True).train == ()
    for words in ([], ["train=a", "store=s"], ["store=a", "b"]):
        with pytest.raises(PlanError, match="--data must"):
            read_sources(words, has_data=False)


def test_means_are_shown_with_their_deviation_and_what_is_never_reached_as_that():
    assert format_spread([1.0, 2.0, 3.0], 1) == "2.0 ± 1.0"
    assert format_spread([0.5], 2) == "0.50"
    assert format_spread([np.inf, np.inf], 2) == "never"
    assert format_spread([np.inf, 1.0, 1.0], 2) == "not in 1 of 3 seeds"


def test_a_report_of_nothing_yet_says_what_is_missing_and_json_has_no_infinity():
    empty = [SettingResult(Setting("whole", 512), {}, {"concat": {0: np.inf}}, {}, None, {}, [], 6)]
    text = report(QUICK, empty, "the command")
    assert "Partial: 6 runs are not done" in text and "Too small to tell anything" in text and "`the command`" in text
    assert json.loads(json.dumps(as_json(QUICK, empty), allow_nan=False))["settings"][0]["high_learning_rate"] == {
        "concat": {"0": None}
    }
