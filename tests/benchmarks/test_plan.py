"""Both reproductions refuse what cannot be run before they keep anything of it."""

import json
from pathlib import Path

import pytest

from benchmarks import reproduce_decomposition, reproduce_sabpe
from benchmarks.plan import PlanError, check_same_documents, identify

COMMANDS = {
    "sabpe": (reproduce_sabpe.main, ["--train", "{train}", "--on", "{other}"]),
    "decomposition": (reproduce_decomposition.main, ["--data", "train={train}", "eval={other}"]),
}


@pytest.fixture
def documents(tmp_path: Path) -> dict[str, str]:
    """Two files of documents."""
    paths = {name: tmp_path / f"{name}.jsonl" for name in ("train", "other")}
    for name, path in paths.items():
        rows = [{"text": f"{name} {row} " * 30, "repo": f"{name}/{row % 3}", "language": "Python"} for row in range(9)]
        path.write_text("\n".join(map(json.dumps, rows)))
    return {name: str(path) for name, path in paths.items()}


@pytest.fixture(params=COMMANDS)
def start(request, tmp_path: Path):
    """Run a reproduction, as (places, more words) to its exit code."""
    main, sources = COMMANDS[request.param]

    def run(places: dict[str, str], *words: str) -> int:
        return main(
            ["--quick", "--output", str(tmp_path / "output"), *(word.format(**places) for word in sources), *words]
        )

    return run


def assert_one_line(text: str, *parts: str) -> None:
    assert text.count("\n") == 1 and all(part in text for part in parts), text


@pytest.mark.parametrize(
    ("setting", "part"),
    [
        ("foo", "argument must be CONFIG.yaml or key=value, got 'foo'"),
        ("model.dmi=5", "'model.dmi' is unknown; did you mean model.dim?"),
        ("model.dim=x", "model.dim must be a whole number"),
    ],
)
def test_settings_that_train_refuses_are_refused_before_anything_is_made(
    start, documents, tmp_path, capsys, setting, part
):
    assert start(documents, "--set", setting) == 2
    assert_one_line(capsys.readouterr().err, part)
    assert not (tmp_path / "output").exists()


def test_documents_that_are_not_there_leave_nothing_that_a_right_start_would_meet(start, documents, tmp_path, capsys):
    assert start({**documents, "train": str(tmp_path / "nosuch.jsonl")}) == 2
    assert_one_line(capsys.readouterr().err, "nosuch.jsonl")
    assert not list((tmp_path / "output").glob("*.json")) and not list((tmp_path / "output").glob("*.txt"))


def test_a_folder_does_not_go_on_with_other_documents(start, documents, tmp_path, capsys):
    output = tmp_path / "output"
    output.mkdir()
    begun = {option: identify([documents["train"]]) for option in ("--train", "--data train=")}
    check_same_documents(output, begun)
    kept = {path: path.read_bytes() for path in output.iterdir() if path.is_file()}
    assert start({"train": documents["other"], "other": documents["train"]}) == 2
    assert_one_line(capsys.readouterr().err, "must be the documents that", "choose another --output")
    assert {path: path.read_bytes() for path in output.iterdir() if path.is_file()} == kept


def test_documents_that_changed_are_others(tmp_path, documents):
    check_same_documents(tmp_path, {"--train": identify([documents["train"]])})
    check_same_documents(tmp_path, {"--train": identify([documents["train"]])})
    Path(documents["train"]).write_text('{"text": "changed"}\n')
    with pytest.raises(PlanError, match=r"--train must be the documents .* got others or changed ones"):
        check_same_documents(tmp_path, {"--train": identify([documents["train"]])})
