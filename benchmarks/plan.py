"""The size of a reproduction: chosen by options, kept in its folder, and the same whenever it is run again."""

import argparse
import json
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from tokenizer.output import write_file

__all__ = [
    "PLAN",
    "PlanError",
    "add_size_options",
    "check_as_begun",
    "check_same_documents",
    "check_settings",
    "identify",
    "read_plan",
    "write_plan",
]

PLAN = "plan.json"
DOCUMENTS = "documents.json"
_SHOWN = {"name": "the size", "overrides": "--set"}
"""What fields are to who types options."""


class PlanError(Exception):
    """Options that do not go together, or not with what is in the folder."""


class Scale(Protocol):
    """A dataclass of all sizes."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def identity(self) -> dict[str, Any]:
        """What may not change between two starts over the same folder."""
        ...


SomeScale = TypeVar("SomeScale", bound=Scale)


def add_size_options(parser: argparse.ArgumentParser, *, seeds: str, full: str) -> None:
    """What every reproduction can be told of its size.

    seeds: how many there are by default and otherwise. full: what --full has.
    """
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", action="store_const", dest="scale", const="quick", help="sizes that only show it works"
    )
    size.add_argument("--full", action="store_const", dest="scale", const="full", help=full)
    parser.add_argument("--seeds", type=int, metavar="N", help=f"how many seeds ({seeds})")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="KEY=VALUE", help="more settings of train.py: model.dim=256"
    )
    parser.add_argument("--document", type=Path, metavar="FILE.md", help="put the report there, and plots beside it")
    parser.add_argument("--report", action="store_true", help="render what is there, run nothing")


def write_plan(scale: Scale, output: Path) -> None:
    """Keep the scale in the folder."""
    write_file(output / PLAN, (json.dumps(asdict(scale), indent=1) + "\n").encode())


def read_plan(kind: type[SomeScale], output: Path) -> SomeScale:
    """The scale that a folder was last run with.

    Raises:
        PlanError: the folder has none.
    """
    path = output / PLAN
    if not path.exists():
        raise PlanError(f"--output must be a folder of this command, got {output} without {PLAN}; run it first")
    kept = json.loads(path.read_text(encoding="utf-8"))
    values = {field.name: kept[field.name] for field in fields(kind) if field.name in kept}
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def check_as_begun(scale: Scale, output: Path) -> None:
    """Refuse to go on in a folder that was begun with other sizes.

    Raises:
        PlanError: it was.
    """
    path = output / PLAN
    was = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name, value in json.loads(json.dumps(scale.identity())).items():
        if was and was.get(name) != value:
            raise PlanError(
                f"{_SHOWN.get(name, name)} must be {was.get(name)} in {output}, as it was begun, got {value}; "
                "choose another --output"
            )


def check_settings(base: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Refuse settings that train.py would refuse, before anything is made of them.

    Raises:
        TrainingError: it would.
    """
    from training.config import load_config

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "base.yaml"
        path.write_text(json.dumps(base), encoding="utf-8")  # JSON is YAML
        load_config([str(path), *overrides])


def identify(paths: Collection[str]) -> list[str]:
    """What tells documents from others, or from changed ones, without reading them: sizes and times of their files.

    Raises:
        TokenizerError: there are none.
    """
    from tokenizer.corpus import CorpusConfig, list_shards

    return [str(shard.identity) for shard in list_shards(CorpusConfig(paths=tuple(paths)))] if paths else []


def check_same_documents(output: Path, found: Mapping[str, list[str]]) -> None:
    """Note what documents a folder is begun with.

    found: what tells them from others, by the option that names them.

    Raises:
        PlanError: it was begun with others.
    """
    path = output / DOCUMENTS
    was = json.loads(path.read_text(encoding="utf-8")) if path.exists() else found
    for option in found:
        if was.get(option, []) != found[option]:
            raise PlanError(
                f"{option} must be the documents that {output} was begun with, got others or changed ones; "
                "choose another --output"
            )
    write_file(path, (json.dumps(found) + "\n").encode())
