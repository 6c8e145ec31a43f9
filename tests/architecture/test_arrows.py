"""The import arrows of the packages, and no others: see ARCHITECTURE.md."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("tokenizer", "dataservice", "model", "training", "evaluation")
ALLOWED = {
    "tokenizer": set(),
    "model": set(),
    "dataservice": {"tokenizer"},
    "training": {"model", "dataservice", "tokenizer"},
    "evaluation": {"training", "model", "dataservice", "tokenizer"},
    "train.py": {"training", "model", "dataservice", "tokenizer"},
}
OWNERS = sorted(name for name in ALLOWED if (ROOT / name).exists())


def imported_packages(source: str) -> set[str]:
    """Packages of ours that a module imports anywhere, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.split(".")[0])
    return names & set(PACKAGES)


def files_of(owner: str) -> list[Path]:
    return [ROOT / owner] if owner.endswith(".py") else sorted((ROOT / owner).rglob("*.py"))


@pytest.mark.parametrize("owner", OWNERS)
def test_package_imports_only_along_the_arrows(owner):
    for path in files_of(owner):
        others = imported_packages(path.read_text(encoding="utf-8")) - {owner}
        assert others <= ALLOWED[owner], f"{path.relative_to(ROOT)} imports {sorted(others - ALLOWED[owner])}"


def test_a_wrong_arrow_is_found():
    assert imported_packages("def f():\n    from training.step import State\n") - {"model"} == {"training"}


def test_train_py_reads_as_one_page():
    assert len((ROOT / "train.py").read_text(encoding="utf-8").splitlines()) <= 200


def test_no_root_package_shadows_the_standard_library():
    import sys

    assert not set(PACKAGES) & sys.stdlib_module_names
