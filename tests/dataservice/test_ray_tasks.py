import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from dataservice import IngestError, prepare
from dataservice.executors import MAX_TRIES, Failure, run_in_order
from tokenizer import CorpusConfig, Tokenizer
from tokenizer.errors import CorpusError

TOKENIZER = Tokenizer(np.array([[101, 32], [116, 104]]), ("<eot>", "<eod>"))


def test_without_ray_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(IngestError, match=r"got no module ray; pip install 'dyadlm\[ray\]'"):
        list(run_in_order(str, ["task"], 1, "ray"))


@pytest.fixture(scope="module")
def cluster():
    """A real cluster of this machine."""
    ray = pytest.importorskip("ray")
    root = str(Path(__file__).parents[2])
    ray.init(
        num_cpus=2,
        object_store_memory=100_000_000,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join([root, str(Path(__file__).parent)])}},
    )
    yield ray
    ray.shutdown()


def folder_bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("workers", [0, 1])
def test_ray_writes_the_bytes_of_one_process(cluster, tmp_path, workers):
    (tmp_path / "corpus").mkdir()
    for index in range(6):
        lines = (f'{{"text": "document {index} {row}", "repo": "r{row % 5}"}}\n' for row in range(20))
        (tmp_path / "corpus" / f"part-{index}.jsonl").write_text("".join(lines))
    corpus = CorpusConfig(paths=(str(tmp_path / "corpus/*.jsonl"),), held_out_fraction=0.3)
    prepare(corpus, TOKENIZER, tmp_path / "local", workers=1)
    prepare(corpus, TOKENIZER, tmp_path / "ray", workers=workers, executor="ray")
    assert folder_bytes(tmp_path / "ray") == folder_bytes(tmp_path / "local")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_lost_workers_of_ray_are_replaced_and_poisoned_tasks_fail_alone(cluster, tmp_path):
    def name_of(marker: str) -> str:
        """Kills its worker as often as there are letters x in the marker's name; pickled by value."""
        path = Path(marker)
        for number in range(path.name.count("x")):
            trace = path.with_name(f"{path.name}-{number}")
            if not trace.exists():
                trace.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        if path.name == "bad":
            raise CorpusError("line 3 must be whole")
        return path.name

    names = ["a", "x", "b", "x" * MAX_TRIES, "bad", "c"]
    tasks = [str(tmp_path / name) for name in names]
    found = [outcome for group in run_in_order(name_of, tasks, 2, "ray") for outcome in group]
    assert [found[0], found[1], found[2], found[5]] == ["a", "x", "b", "c"]
    assert isinstance(found[3], Failure) and found[3].tries == MAX_TRIES and "killed worker" in str(found[3].error)
    assert isinstance(found[4], Failure) and isinstance(found[4].error, CorpusError)
