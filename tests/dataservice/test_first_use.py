"""What a first-time user does wrong is one line that says what is there and how to mend it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataservice
from dataservice import DataConfig, DataError
from dataservice.__main__ import main
from tokenizer import Tokenizer

CONFIG = DataConfig(min_length=4, max_length=32, tokens_per_step=32, prefetch=0)


@pytest.fixture
def place(tmp_path: Path, monkeypatch) -> Path:
    """A folder with sources of several kinds, in which commands run."""
    Tokenizer(np.array([[101, 32]]), ("<eot>", "<eod>")).save(tmp_path / "tok")
    for name in ("a", "b"):
        lines = [json.dumps({"text": f"{name} {row} " * 30}) for row in range(9)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "file").write_text("no store")
    pq.write_table(pa.table({"text": [1, 2]}), tmp_path / "numbers.parquet")
    pq.write_table(pa.table({"texts": ["one", "two"], "repo": ["", ""]}), tmp_path / "other.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def prepare(*sources: str, store: str = "store") -> int:
    return main(["prepare", *sources, "--tokenizer", "tok", "--output", store, "--workers", "1"])


def said(capsys) -> str:
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("error: ")
    return line


@pytest.mark.parametrize(
    ("source", "store", "parts"),
    [
        ("a.jsonl", "file", ["must be a folder, got the file file"]),
        ("numbers.parquet", "store", ["--text-column must name a column of strings, got int64 in 'text'"]),
        ("other.parquet", "store", ["--text-column must be one of texts, repo (did you mean texts?), got 'text'"]),
    ],
)
def test_preparing_what_cannot_be_says_what_to_name(place, capsys, source, store, parts):
    assert prepare(source, store=store) == 2
    line = said(capsys)
    assert all(part in line for part in parts) and "on-error" not in line and "skip" not in line


def test_more_documents_need_the_old_sources_first(place, capsys):
    assert prepare("a.jsonl") == 0
    assert prepare("b.jsonl") == 2
    assert "must begin with what it was made from, got b in the place of a; name the old sources first" in said(capsys)
    assert prepare("a.jsonl", "b.jsonl") == 0


def test_an_empty_store_is_said_to_be_empty(place, capsys):
    assert prepare("empty.jsonl") == 0
    assert main(["stats", "store"]) == 2
    assert "must hold documents to count, got none; " in (line := said(capsys)) and "prepare PATH" in line
    assert main(["stats", "file"]) == 2
    assert "got file, which is a file" in said(capsys)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--port", "99999"], "--port must be at most 65535, got 99999; --port 0"),
        (["--host", "host.invalid"], "--host must be a name or address of this machine, got host.invalid"),
        (["--tls-certificate", "file"], "got tls_certificate alone; set --tls-certificate FILE and --tls-key FILE"),
        (["--tls-certificate", "file", "--tls-key", "no.pem"], "tls_key must be a file that can be read, got no.pem"),
        (["--tls-certificate", "file", "--tls-key", "file"], "must be PEM and fit tls_key, got file and file"),
        (["--max-request-bytes", "1"], "set --max-request-bytes 1024"),
        (["--log-every", "0"], "set --log-every 10"),
    ],
)
def test_a_server_that_cannot_be_names_its_own_options(place, capsys, options, part):
    assert prepare("a.jsonl") == 0
    assert main(["serve", "store", *options]) == 2
    assert part.replace("_", "-") in said(capsys).replace("_", "-")


def test_a_limit_on_the_size_of_files_is_named(place):
    limited = str(Path(__file__).with_name("limited_file_size.py"))
    command = ["dataservice", "prepare", "a.jsonl", "--tokenizer", "tok", "--output", "store", "--workers", "1"]
    done = subprocess.run(
        [sys.executable, limited, "600", *command],
        env={"PYTHONPATH": str(Path(dataservice.__file__).parents[1]), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "limit of 600 bytes on the size of files (ulimit -f)" in done.stderr or "File too large" in done.stderr


def test_a_path_is_as_good_as_a_store(make_store):
    store = make_store([[3, 40, 9]])
    path = str(store.path)
    assert dataservice.open_store(path).shards.digests == store.shards.digests
    assert dataservice.verify(path) == []
    np.testing.assert_equal(list(dataservice.batches(path, CONFIG)), list(dataservice.batches(store, CONFIG)))


def test_other_things_are_refused_in_a_line(make_store):
    store = make_store([[3, 40, 9]])
    for call in (
        lambda: dataservice.open_store(None),  # type: ignore[arg-type]
        lambda: dataservice.verify(7),  # type: ignore[arg-type]
        lambda: dataservice.batches(store, None),  # type: ignore[arg-type]
        lambda: dataservice.batches(None, CONFIG),  # type: ignore[arg-type]
        lambda: store.read_rows(99, np.array([0]), 1),
        lambda: store.tokens(99),
        lambda: store.sources(-1),
        lambda: store.documents("a"),  # type: ignore[arg-type]
    ):
        with pytest.raises(DataError, match=r"must be .*, got .*;"):
            call()


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("change", [None, 7, {}, {"step": -1}, {"step": "1"}, {"step": True}, {"data": 1}])
def test_a_state_that_is_none_is_refused_and_changes_nothing(make_store, prefetch, change):
    config = DataConfig(min_length=4, max_length=32, tokens_per_step=32, prefetch=prefetch)
    iterator = iter(dataservice.batches(make_store([[3, 40, 9]]), config))
    state = {**iterator.get_state(), **change} if isinstance(change, dict) and change else change
    with pytest.raises(DataError, match="data state must have data, schedule, step"):
        iterator.set_state(state)
    assert next(iterator)["step"] == 0
    iterator.close()


def test_held_out_documents_of_few_repositories_are_said_to_be_many(place, capsys):
    rows = [{"text": f"the {row} ", "repository": f"r{min(row, 2)}"} for row in range(100)]
    Path("few.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for seed in range(20):
        options = ["--held-out-fraction", "0.3", "--held-out-seed", str(seed), "--workers", "1"]
        assert main(["prepare", "few.jsonl", "--tokenizer", "tok", "--output", f"few{seed}", *options]) == 0
        said = capsys.readouterr().err
        many = dataservice.open_store(f"few{seed}").held_out
        count = 0 if many is None else int(many.shards.documents.sum())
        assert ("held-out-by document" in said) == (count > 60)
        if count > 60:
            assert f"{count} of 100 documents are held out, {count}% instead of 30%" in said
            return
    pytest.fail("no seed holds the large repository out")


def test_a_shard_that_was_removed_behind_training_is_not_called_damage(make_store):
    store = make_store([[3, 40, 9]] * 12)
    config = DataConfig(
        min_length=4, max_length=32, tokens_per_step=32, prefetch=0, window_shards=2, ahead_windows=1, keep_windows=0
    )
    schedule = dataservice.open_schedule(store, config)
    dataservice.Retention(store, config, schedule).release(schedule.num_steps() - 1)
    with pytest.raises(DataError, match=r"was removed behind training .*keep_windows") as caught:
        dataservice.Store.open(store.path).documents(0)
    assert "prepare" not in str(caught.value)


def test_documents_are_not_mixed_with_themselves(place):
    prepare("a.jsonl")
    prepare("a.jsonl", store="again")
    for other in ("./store", "again"):
        with pytest.raises(DataError, match=r"must differ, got the documents of .* twice"):
            dataservice.open_store(DataConfig(store={"store": 1.0, other: 1.0}, cache="cache"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"root_certificates": "file"}, "root_certificates must hold certificates in PEM, got file without one"),
        ({"token_file": "empty.jsonl"}, "token must be one word of ASCII characters, got nothing in empty.jsonl"),
        ({"store": "grpcs://localhost:1"}, r"must be grpc://HOST.*or grpc\+tls://"),
    ],
)
def test_what_does_not_reach_a_server_is_told_without_asking_one(place, settings, words):
    with pytest.raises(DataError, match=words):
        dataservice.open_store(DataConfig(**{"store": "grpc+tls://localhost:1", "cache": "cache"} | settings))
