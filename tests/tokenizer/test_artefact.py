import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tokenizer import Tokenizer, TokenizerError, artefact
from tokenizer.output_folder import new_folder

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(small_tokenizer, tmp_path):
    small_tokenizer.save(tmp_path / "tokenizer")
    return tmp_path / "tokenizer"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_loading_gives_back_what_was_saved(small_tokenizer, folder):
    loaded = Tokenizer.load(folder)
    assert loaded.merges is not None and small_tokenizer.merges is not None
    assert loaded.fingerprint == small_tokenizer.fingerprint
    assert loaded.special_tokens == small_tokenizer.special_tokens
    assert loaded.provenance == json.loads(json.dumps(small_tokenizer.provenance))
    for name in ("pairs", "frequency", "repositories", "languages"):
        np.testing.assert_array_equal(getattr(loaded.merges, name), getattr(small_tokenizer.merges, name))
    assert loaded.merges.steps == small_tokenizer.merges.steps


def test_saving_again_gives_the_same_bytes(folder, tmp_path):
    Tokenizer.load(folder).save(tmp_path / "again")
    assert contents(tmp_path / "again") == contents(folder)
    assert sorted(contents(folder)) == ["merges.parquet", "provenance.json", "tokenizer.json", "tokenizer_config.json"]


def test_merges_are_told_with_their_bytes_and_sources(small_tokenizer, folder):
    rows = pq.read_table(folder / "merges.parquet").to_pylist()
    assert [row["id"] for row in rows] == list(range(256, 380))
    assert all(row["bytes"] == small_tokenizer.token_bytes[row["id"]] for row in rows)
    assert all(1 <= row["languages"] <= 4 and 1 <= row["repositories"] <= 6 <= row["frequency"] for row in rows[:20])


def test_a_tokenizer_without_training_data_keeps_no_counts(tmp_path):
    Tokenizer(np.array([[97, 98]]), ["<e>"], "none").save(tmp_path / "made")
    loaded = Tokenizer.load(tmp_path / "made")
    assert loaded.merges is None and loaded.pattern == "" and loaded.encode("abab") == [256, 256]


def test_a_vocabulary_of_bytes_alone_is_one(tmp_path):
    Tokenizer(np.zeros((0, 2)), []).save(tmp_path / "bytes")
    assert Tokenizer.load(tmp_path / "bytes").encode("é") == [0xC3, 0xA9]


def test_a_tokenizer_is_replaced_and_an_empty_folder_filled(folder, tmp_path):
    other = Tokenizer(np.array([[97, 98]]), ["<e>"])
    other.save(folder)
    assert Tokenizer.load(folder).fingerprint == other.fingerprint
    (tmp_path / "empty").mkdir()
    other.save(tmp_path / "empty")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "tokenizer"]


def test_nothing_else_is_ever_replaced(small_tokenizer, tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.txt").write_text("years")
    for path in (tmp_path / "work", tmp_path / "work" / "thesis.txt"):
        with pytest.raises(TokenizerError, match="output must be a new folder or that of a tokenizer"):
            small_tokenizer.save(path)
    assert contents(tmp_path / "work") == {"thesis.txt": b"years"}


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, OSError(28, "No space left on device")])
def test_an_interrupted_save_leaves_the_old_tokenizer_and_nothing_else(folder, monkeypatch, error):
    def fail(_):
        raise error

    before = contents(folder)
    monkeypatch.setattr(artefact, "_merges_parquet", fail)
    with pytest.raises(TokenizerError if isinstance(error, OSError) else error):
        Tokenizer(np.array([[97, 98]]), ["<e>"]).save(folder)
    assert contents(folder) == before and list(folder.parent.iterdir()) == [folder]


def alter(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


ALTERATIONS = {
    "another special token": (lambda c: c["added_tokens"][0].update(content="<bot>"), "fingerprint must be"),
    "another pattern": (
        lambda c: c["pre_tokenizer"]["pretokenizers"][0]["pattern"].update(Regex="a"),
        "fingerprint must",
    ),
    "two merges swapped": (lambda c: c["model"]["merges"].reverse(), "must be byte-level BPE"),
    "ids swapped": (lambda c: c["model"]["vocab"].update(a=98, b=97), "must hold the merges of"),
    "a merge left out": (lambda c: c["model"]["merges"].pop(), "1 tokens that no merge makes"),
    "another model": (lambda c: c.update(model={"type": "WordPiece"}), "must be byte-level BPE"),
    "another splitter": (lambda c: c.update(pre_tokenizer={"type": "Whitespace"}), "must be byte-level BPE"),
    "a special token in the middle": (lambda c: c["added_tokens"][0].update(id=3), "so with gaps"),
}


@pytest.mark.parametrize(("change", "message"), ALTERATIONS.values(), ids=ALTERATIONS)
def test_an_altered_tokenizer_is_refused_in_one_line(folder, change, message):
    alter(folder / "tokenizer.json", change)
    with pytest.raises(TokenizerError, match=message) as caught:
        Tokenizer.load(folder)
    assert "tokenizer.json" in str(caught.value) and "\n" not in str(caught.value)


def test_other_merges_beside_it_are_refused(folder):
    table = pq.read_table(folder / "merges.parquet")
    pq.write_table(table.take(pa.array(range(len(table)))[::-1]), folder / "merges.parquet")
    with pytest.raises(TokenizerError, match=r"merges.parquet must hold the merges of tokenizer.json, got others"):
        Tokenizer.load(folder)


@pytest.mark.parametrize("name", ["tokenizer.json", "merges.parquet", "provenance.json"])
def test_a_truncated_or_missing_file_is_named(folder, name):
    (folder / name).write_bytes((folder / name).read_bytes()[:-30])
    with pytest.raises(TokenizerError, match=name):
        Tokenizer.load(folder)
    (folder / name).unlink()
    with pytest.raises(TokenizerError, match=name):
        Tokenizer.load(folder)


def test_what_a_killed_save_left_is_removed_by_the_next_one_there(small_tokenizer, tmp_path):
    left = [tmp_path / f".tokenizer.{letter * 32}" for letter in "ab"]
    left[1] = left[1].with_name(left[1].name + ".old")
    others = [tmp_path / ".tokenizer.kept", tmp_path / f".other.{'a' * 32}"]
    for folder in (*left, *others):
        folder.mkdir()
        (folder / "tokenizer.json").write_text("{}")
    small_tokenizer.save(tmp_path / "tokenizer")
    assert sorted(tmp_path.iterdir()) == sorted([*others, tmp_path / "tokenizer"])


def test_a_part_of_a_run_or_a_store_is_replaced_by_its_maker_alone(small_tokenizer, owned):
    other = Tokenizer(np.array([[97, 98]]), ["<e>"])
    for folder in (Path("run/tokenizer"), Path("store/tokenizer")):
        artefact.place_tokenizer(small_tokenizer, Path("made"))
        shutil.rmtree(folder, ignore_errors=True)
        Path("made").rename(folder)
        with pytest.raises(TokenizerError, match=f"output must not be part of a .*, got {folder} of"):
            other.save(folder)
        assert Tokenizer.load(folder).fingerprint == small_tokenizer.fingerprint
        artefact.place_tokenizer(other, folder)
        assert Tokenizer.load(folder).fingerprint == other.fingerprint
        (folder / "note").write_text("mine")
        with pytest.raises(TokenizerError, match=r"a tokenizer and nothing else, got .* with note; choose"):
            artefact.place_tokenizer(small_tokenizer, folder)
        assert (folder / "note").read_text() == "mine"


def test_a_save_that_is_under_way_elsewhere_is_left_alone(small_tokenizer, tmp_path):
    with new_folder(tmp_path / "tokenizer") as folder:
        (folder / "note").write_text("mine")
        small_tokenizer.save(tmp_path / "tokenizer")
        assert (folder / "note").exists()
    assert contents(tmp_path / "tokenizer") == {"note": b"mine"}


def test_a_place_where_nothing_can_be_written_is_refused_before_anything_is_done(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "tokenizer", Path("/proc/tokenizer")):
        with pytest.raises(TokenizerError, match=f"output must be writable, got .*: {path}"):
            artefact.check_output(path)
    assert not artefact.check_output(tmp_path / "new" / "tokenizer") and list(tmp_path.iterdir()) == [tmp_path / "file"]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted by Linux's /proc")
def test_loading_leaves_no_thread_that_holds_its_bytes_when_the_interpreter_ends(folder):
    program = (
        "import os, sys, pyarrow.dataset, tokenizer.artefact\n"
        "count = lambda: len(os.listdir('/proc/self/task'))\n"
        "before = count()\n"
        "tokenizer.Tokenizer.load(sys.argv[1])\n"
        "assert count() == before, (before, count())\n"
    )
    subprocess.run([sys.executable, "-c", program, str(folder)], cwd=ROOT, check=True)
