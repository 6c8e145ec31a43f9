"""The settings of a run: composed here from the dataclasses of their owners, read from YAML and the command line.

The only module that knows YAML or the options of train.py.
"""

import dataclasses
import difflib
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from dataservice.config import DataConfig
from model.config import LlamaConfig
from tokenizer.config import TokenizerConfig
from tokenizer.corpus import CorpusConfig
from tokenizer.option_types import OptionTypeError, Raw, convert, describe, option_types
from tokenizer.options import discard_unwritten
from training.errors import ConfigError
from training.optimizers.config import OptimizerConfig
from training.settings import DistributedConfig, TrainConfig

DEFAULT_CONFIG = Path("configs/demo.yaml")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """Every setting of a run."""

    corpus: CorpusConfig = dataclasses.field(default_factory=CorpusConfig)
    tokenizer: TokenizerConfig = dataclasses.field(default_factory=TokenizerConfig)
    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    model: LlamaConfig = dataclasses.field(default_factory=LlamaConfig)
    optimizer: OptimizerConfig = dataclasses.field(default_factory=OptimizerConfig)
    train: TrainConfig = dataclasses.field(default_factory=TrainConfig)
    distributed: DistributedConfig = dataclasses.field(default_factory=DistributedConfig)

    def __post_init__(self) -> None:
        self.optimizer.check_lengths(self.data.lengths)
        parts = self.distributed.tensor_parallel
        for name in ("num_heads", "kv_heads", "hidden_width"):
            if getattr(self.model, name) % parts:
                raise ConfigError(
                    f"distributed.tensor_parallel must divide the model's {name} {getattr(self.model, name)}, "
                    f"got {parts}; change either"
                )


class Setting(NamedTuple):
    """What a user wrote for one key, and where."""

    value: Raw
    place: str


def load_config(arguments: Sequence[str]) -> Config:
    """Read `[CONFIG.yaml] [key=value ...]`; without a file, configs/demo.yaml.

    Raises:
        ConfigError: one line that names the setting, the value and what was expected.
        FileNotFoundError is never raised: a missing file is a ConfigError too.
    """
    path, overrides = parse_arguments(arguments)
    settings = read_yaml(path)
    for key, value in overrides:
        settings[key] = Setting(_parse_flow(key, value), "command line")
    return build_config(settings)


def parse_arguments(arguments: Sequence[str]) -> tuple[Path, list[tuple[str, str]]]:
    """Split a command line into the config's path and (key, text) pairs.

    `key=value`, `--key=value` and `--key value` are the same.

    >>> parse_arguments(["a.yaml", "x=1", "--y.z-w", "2"])
    (PosixPath('a.yaml'), [('x', '1'), ('y.z_w', '2')])
    """
    path: Path | None = None
    pairs: list[tuple[str, str]] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        key, equals, value = word.partition("=")
        if word.startswith("--") and not equals:
            if not rest:
                raise ConfigError(f"{word} must be followed by a value, got nothing; write {word[2:]}=VALUE")
            value, equals = rest.pop(0), "="
        if equals:
            pairs.append((key.removeprefix("--").replace("-", "_"), value))
        elif path is None and word.endswith((".yaml", ".yml")):
            path = Path(word)
        else:
            raise ConfigError(f"argument must be CONFIG.yaml or key=value, got {word!r}; see python train.py --help")
    return path or Path(__file__).parent.parent / DEFAULT_CONFIG, pairs


def read_yaml(path: Path) -> dict[str, Setting]:
    """Read a YAML file into {dotted key: Setting}, refusing duplicate keys.

    Raises:
        ConfigError: a fault, named by file and line.
    """
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    except OSError as error:
        raise ConfigError(
            f"config must be a readable file, got {path} ({error.strerror}); try {DEFAULT_CONFIG}"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: must be UTF-8, got other bytes at {error.start}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{path}{line}: must be YAML, got a fault: {problem}") from None
    settings: dict[str, Setting] = {}
    if node is not None:
        _collect(node, "", path, settings)
    return settings


def build_config(settings: dict[str, Setting]) -> Config:
    """Check every setting against the type of its key and construct the Config."""
    types = option_types(Config)
    values: dict[str, Any] = {}
    for key, (raw, place) in settings.items():
        if key not in types:
            raise ConfigError(f"{place}: setting {key!r} is unknown; {_suggest(key, list(types))}")
        try:
            values[key] = convert(raw, types[key])
        except OptionTypeError:
            raise ConfigError(f"{place}: {key} must be {describe(types[key])}, got {raw!r}") from None
    return _construct(Config, values, "")


def resolved_settings(config: Config) -> dict[str, Any]:
    """The whole config as nested plain values, ready for YAML or JSON."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def config_yaml(config: Config) -> str:
    """The resolved config as YAML that `load_config` reads back to an equal Config."""
    return yaml.safe_dump(resolved_settings(config), sort_keys=False, allow_unicode=True)


def config_digest(config: Config) -> str:
    """SHA-256 of all settings that every process of a run must share (not who it is among them)."""
    shared = resolved_settings(dataclasses.replace(config, distributed=config.distributed.shared))
    return hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()


def print_help() -> None:
    """Print every option with its doc and default."""
    import tyro

    description = (
        "Train a language model: python train.py [CONFIG.yaml] [key=value ...]. Without a file: configs/demo.yaml. "
        "Options may be written model.num_layers=4, --model.num_layers=4 or --model.num_layers 4. "
        "The defaults below are those of a config file that says nothing."
    )
    os.environ.setdefault("COLUMNS", "120")
    flags = (tyro.conf.FlagConversionOff,)
    try:
        tyro.cli(Config, prog="train.py", description=description, args=["--help"], use_underscores=True, config=flags)
    except BrokenPipeError:  # the reader has left, as head does
        discard_unwritten()


def _collect(node: yaml.Node, prefix: str, path: Path, settings: dict[str, Setting]) -> None:
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError(f"{path}:{node.start_mark.line + 1}: must be a map of settings, got {_plain(node)!r}")
    types = option_types(Config)
    sections = {key.partition(".")[0] for key in types}
    for key_node, value_node in node.value:
        key = prefix + str(key_node.value)
        place = f"{path}:{key_node.start_mark.line + 1}"
        if key in settings:
            raise ConfigError(f"{place}: {key} must be given once, got it again (first at {settings[key].place})")
        if isinstance(value_node, yaml.MappingNode) and value_node.value and key not in types:
            _collect(value_node, key + ".", path, settings)
        elif key not in sections:
            settings[key] = Setting(_plain(value_node), place)
        elif value_node.value:
            raise ConfigError(f"{place}: {key} must be a map of settings, got {_plain(value_node)!r}")


def _plain(node: yaml.Node) -> Raw:
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item) for item in node.value]
    return str(node.value)


def _parse_flow(key: str, text: str) -> Raw:
    """Lists and maps on the command line are written as in YAML: [1, 2] and {64: 1e6}."""
    if not text.startswith(("[", "{")):
        return text
    try:
        return _plain(yaml.compose(text, Loader=yaml.BaseLoader))
    except yaml.YAMLError:
        raise ConfigError(f"command line: {key} must be written [a, b] or {{a: b}}, got {text!r}") from None


def _construct(config_class: type, values: dict[str, Any], prefix: str) -> Any:
    arguments: dict[str, Any] = {}
    for field in dataclasses.fields(config_class):
        key = prefix + field.name
        section = field.default_factory
        if isinstance(section, type) and dataclasses.is_dataclass(section):
            arguments[field.name] = _construct(section, values, key + ".")
        elif key in values:
            arguments[field.name] = values[key]
    try:
        return config_class(**arguments)
    except ValueError as error:
        message = str(error)
        # The owners of settings name the field; its section is known only here.
        is_field = message.split(" ", 1)[0] in arguments or message.split(" ", 1)[0] in option_types(config_class)
        raise ConfigError(f"{prefix}{message}" if is_field else message) from None


def _suggest(key: str, known: list[str]) -> str:
    """Name the closest setting: by its whole dotted key, else by its last part alone."""
    best = difflib.get_close_matches(key, known, n=1, cutoff=0.8)
    if not best:
        leaves = {name.rsplit(".", 1)[-1]: name for name in reversed(known)}
        leaf = difflib.get_close_matches(key.rsplit(".", 1)[-1], list(leaves), n=1, cutoff=0.7)
        best = [leaves[name] for name in leaf]
    return f"did you mean {best[0]}?" if best else "see python train.py --help"
