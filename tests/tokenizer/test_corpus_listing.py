import os
import pickle
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tokenizer import train
from tokenizer.corpus import CorpusConfig, list_shards, read_shard
from tokenizer.errors import CorpusError


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "projects"
    for n in range(30):
        path = root / f"repository{n % 3}" / "src" / f"module{n}.{'py' if n % 2 else 'c'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text {n}\n" * 5)
    (root / "loose.py").write_text("loose = 1\n")
    for hidden in (".git", "__pycache__", "repository0/.venv"):
        (root / hidden).mkdir()
        (root / hidden / "hidden.py").write_text("hidden = 1\n")
    (root / "picture.png").write_bytes(b"\x89PNG")
    (root / "data.json").write_text("{}")
    (root / ".git").rename(root / "repository1" / ".git")
    return root


def documents(config):
    return list(chain.from_iterable(read_shard(shard, config) for shard in list_shards(config)))


def test_a_folder_gives_its_source_files_with_their_repositories(project):
    found = {document.path: document for document in documents(CorpusConfig(paths=(str(project),)))}
    assert len(found) == 31
    assert found["repository2/src/module5.py"][1:3] == ("repository2", "py")
    assert found["repository0/src/module6.c"].language == "c"
    assert found["loose.py"].repository == "projects"


def test_tokenizers_and_stores_written_among_the_sources_are_no_sources(project):
    before = [shard.identity for shard in list_shards(CorpusConfig(paths=(str(project),)))]
    train([("some text", "r", "x")], vocab_size=270).save(project / "runs" / "tokenizer")
    store = project / "runs" / "store"
    store.mkdir()
    for name in ("manifest.json", "shards.parquet", "notes.py"):
        (store / name).write_text("{}")
    assert [shard.identity for shard in list_shards(CorpusConfig(paths=(str(project),)))] == before


def test_a_git_work_tree_is_one_repository(project):
    config = CorpusConfig(paths=(str(project / "repository1"),))
    assert {document.repository for document in documents(config)} == {"repository1"}


def test_shards_are_of_the_size_asked_and_hold_every_file_once(project):
    config = CorpusConfig(paths=(str(project),), shard_bytes=150)
    shards = list_shards(config)
    assert all(shard.size <= 150 for shard in shards) and len(shards) > 5
    assert len({shard.name for shard in shards}) == len(shards)
    paths = [file.path for shard in shards for file in shard.files]
    assert len(paths) == 31 == len(set(paths))
    assert pickle.loads(pickle.dumps(shards)) == shards


def test_the_first_shard_is_a_sample_of_all_repositories(project):
    first = list_shards(CorpusConfig(paths=(str(project),), shard_bytes=500))[0]
    assert {file.repository for file in first.files} >= {"repository0", "repository1", "repository2"}


def test_the_list_does_not_depend_on_when_and_in_which_order_files_were_made(tmp_path):
    names = [f"{letter}{n}.txt" for letter in "ab" for n in range(20)]
    for place, order in (("one", names), ("two", names[::-1])):
        for name in order:
            path = tmp_path / place / "corpus" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
    one, two = (
        list_shards(CorpusConfig(paths=(str(tmp_path / place / "corpus"),), shard_bytes=40)) for place in ("one", "two")
    )
    assert [shard.name for shard in one] == [shard.name for shard in two]
    assert [[file.path for file in shard.files] for shard in one] == [
        [file.path for file in shard.files] for shard in two
    ]


def test_identity_changes_with_a_file_and_not_otherwise(project):
    config = CorpusConfig(paths=(str(project),), shard_bytes=150)
    before = {shard.name: shard.identity for shard in list_shards(config)}
    assert before == {shard.name: shard.identity for shard in list_shards(config)}
    (project / "loose.py").write_text("loose = 2\n")
    after = {shard.name: shard.identity for shard in list_shards(config)}
    assert sum(before[name] != after[name] for name in before) == 1


def test_row_groups_are_grouped_by_size(tmp_path):
    table = pa.table({"text": [f"{n:08}" * 100 for n in range(40)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=4, compression="none", use_dictionary=False)
    one = list_shards(CorpusConfig(paths=(str(tmp_path / "a.parquet"),)))
    assert [shard.row_groups for shard in one] == [tuple(range(10))]
    size = pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(0).total_byte_size
    config = CorpusConfig(paths=(str(tmp_path / "*.parquet"),), shard_bytes=2 * size + 10)
    many = list_shards(config)
    assert [shard.row_groups for shard in many] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert [document.text for document in documents(config)] == table["text"].to_pylist()


def test_equal_names_in_different_folders_are_told_apart(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "part.jsonl").write_text('{"text": "x"}\n')
    shards = list_shards(CorpusConfig(paths=(str(tmp_path / "*" / "*.jsonl"),)))
    assert len({shard.name for shard in shards}) == 2


def test_names_are_safe_for_file_systems(tmp_path):
    path = tmp_path / "a b:c*d%.jsonl"
    path.write_text('{"text": "x"}\n')
    (shard,) = list_shards(CorpusConfig(paths=(str(path),)))
    assert shard.name == "a_b_c_d_"


def test_file_names_that_are_no_text_are_shown_as_text(tmp_path):
    name = os.fsencode(tmp_path) + b"/caf\xe9.py"
    try:
        with open(name, "w") as file:  # noqa: PTH123 (a name in bytes)
            file.write("x")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    (document,) = documents(CorpusConfig(paths=(str(tmp_path),)))
    assert document.path == "caf\ufffd.py" and document.text == "x"


def test_text_files_given_one_by_one_share_shards(tmp_path):
    for n in range(5):
        (tmp_path / f"{n}.log").write_text(str(n))
    config = CorpusConfig(paths=tuple(str(tmp_path / f"{n}.log") for n in range(5)))
    assert [shard.name for shard in list_shards(config)] == ["files-00000"]
    assert sorted(document.text for document in documents(config)) == list("01234")


def test_installed_packages_are_read_by_distribution():
    config = CorpusConfig(paths=("packages:PyYAML,pytest",), extensions=("py",))
    found = documents(config)
    assert {document.repository for document in found} == {"pyyaml", "pytest"}
    assert {document.language for document in found} == {"py"}
    assert not any(".dist-info" in document.path for document in found)
    assert "yaml/__init__.py" in {document.path for document in found}


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ((), "corpus.paths must name at least one source"),
        (("nowhere/at/all",), "corpus.paths must be files, folders, globs or packages:NAMES, got 'nowhere/at/all'"),
        (("packages:pytset",), "must be installed distributions, got 'pytset'; did you mean 'pytest'"),
        (("packages:qqqqqqqq",), "pip install qqqqqqqq"),
        (("packages:pytest,,numpy",), "corpus.paths must name packages between commas, none of them empty, got"),
    ],
)
def test_sources_that_are_not_there_are_named(paths, message):
    with pytest.raises(CorpusError, match=message):
        list_shards(CorpusConfig(paths=paths))


def test_an_empty_folder_and_a_file_given_twice_are_refused(tmp_path):
    with pytest.raises(CorpusError, match=r"corpus.paths must hold at least one document"):
        list_shards(CorpusConfig(paths=(str(tmp_path),)))
    (tmp_path / "a.py").write_text("a")
    with pytest.raises(CorpusError, match=r"corpus.paths must give every file once, got .*a.py 2 times"):
        list_shards(CorpusConfig(paths=(str(tmp_path), str(tmp_path / "a.py"))))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"held_out_fraction": 1.0}, "held_out_fraction must be at least 0 and below 1, got 1.0"),
        ({"shard_bytes": 0}, "shard_bytes must be at least 1, got 0"),
        ({"max_document_bytes": 0}, "max_document_bytes must be null or at least 1, got 0"),
        ({"on_error": "ignore"}, "on_error must be raise or skip, got 'ignore'"),
        ({"extensions": (".py",)}, "extensions must be lower case without a dot, got '.py'"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(CorpusError, match=message):
        CorpusConfig(**settings)
