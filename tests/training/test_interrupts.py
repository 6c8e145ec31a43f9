"""Ctrl-C in the imports of train.py and of the commands over runs: one line, status 130, no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# In every Python that starts with this folder on its path: Ctrl-C comes into an import, once somebody listens to it.
SITE = """
import _signal, os, sys

class Finder:
    left = int(os.environ["INTERRUPT_IMPORT"])

    def find_spec(self, name, path=None, target=None):
        if _signal.getsignal(_signal.SIGINT) not in (_signal.default_int_handler, _signal.SIG_IGN):
            Finder.left -= 1
            if Finder.left == 0:
                os.kill(os.getpid(), _signal.SIGINT)

sys.meta_path.insert(0, Finder())
"""
COMMANDS = {
    "train.py": [str(ROOT / "train.py"), "missing.yaml"],
    "training": ["-m", "training", "export", "missing", "--output", "out"],
}


@pytest.mark.parametrize("number", [3, 60, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 30))])
@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_in_the_imports_is_one_line(tmp_path, command, number):
    (tmp_path / "sitecustomize.py").write_text(SITE)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    result = subprocess.run(
        [sys.executable, *COMMANDS[command]],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path, "INTERRUPT_IMPORT": str(number)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 130, result.stderr
    (line,) = result.stderr.split("\n")[-2:-1]
    assert line.startswith("interrupted") and "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("end_on_signals()\nhit()", "interrupted; run the same command again to go on (no step was under way, so "),
        (
            "with stop_on_signals() as stop:\n    hit()\n    print(stop.exit_code)\n    hit()",
            "interrupted again, without ",
        ),
    ],
)
def test_ctrl_c_that_saves_nothing_says_so(program, said):
    imports = "import os, signal\nfrom training.signals import end_on_signals, stop_on_signals\n"
    hit = "def hit(): os.kill(os.getpid(), signal.SIGINT)\n"
    result = subprocess.run(
        [sys.executable, "-u", "-c", f"{imports}{hit}{program}\nprint('alive')"],
        cwd=ROOT,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 130 and "alive" not in result.stdout
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith(said)
    assert result.stdout == ("130\n" if "again, " in said else "")
