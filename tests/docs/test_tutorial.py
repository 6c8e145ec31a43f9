"""The tutorial, every line of it, in a copy of what git has."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = "source .venv/bin/activate\n"
"""The environment is that of the tests."""


def blocks() -> list[str]:
    return BLOCK.findall(PAGE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """The files that git knows, as they are now."""
    folder = tmp_path_factory.mktemp("clone")
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in names.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_every_line_of_the_tutorial_runs(clone, tmp_path):
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "JAX_PLATFORMS": "cpu",
        "DYADLM_COMPILE_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": "",
    }
    found = blocks()
    assert found[0] == NOT_RUN
    for block in found[1:]:
        done = subprocess.run(
            ["bash", "-euxo", "pipefail", "-c", block], cwd=clone, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{block}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    folder = clone / "tutorial"
    made = set(re.findall(r"tutorial/[\w.]+\.(?:html|json|yaml)", PAGE.read_text(encoding="utf-8")))
    assert made and all((clone / name).stat().st_size for name in made)
    assert (folder / "run" / "checkpoints" / "200").is_dir()
    assert (folder / "hub" / "model.safetensors").is_file()


def test_all_code_of_the_tutorial_is_found():
    """A fence that the pattern above misses would not be run."""
    page = PAGE.read_text(encoding="utf-8")
    assert len(re.findall("^ *```", page, re.MULTILINE)) == 2 * len(blocks())
