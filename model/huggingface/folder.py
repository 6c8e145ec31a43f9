"""Folders of models: config.json beside one safetensors file, or several with an index."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import numpy as np

from model.config import LlamaConfig
from model.errors import ModelError
from model.functions import Params
from model.huggingface.architecture import from_content, to_content
from model.huggingface.tensors import gather_params, get_tensor, tensor_names, tensor_size

__all__ = ["read_config", "read_model", "write_model"]

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_FILE_BYTES = 5_000_000_000

WeightType = Literal["float32", "bfloat16", "float16"]


def write_model(
    folder: Path,
    params: Params,
    config: LlamaConfig,
    *,
    max_length: int,
    dtype: WeightType = "float32",
    extra: dict[str, Any] | None = None,
    file_bytes: int = _FILE_BYTES,
) -> None:
    """Write config.json and the weights into a folder, which is made; load it with AutoModelForCausalLM.

    Args:
        folder: Where; files of these names are overwritten, config.json last.
        params: Nested dict of arrays, layers stacked.
        config: The model.
        max_length: Longest context that the model is meant for, in tokens.
        dtype: Type of the weights in the files.
        extra: More for config.json, such as the ids of special tokens.
        file_bytes: Most bytes of weights in a file; several files get an index.

    Raises:
        ModelError: transformers has no architecture that computes this, or float16 cannot hold a weight.
    """
    vocab_size = params["embedding"].shape[0]
    content = to_content(config, vocab_size, max_length, dtype) | (extra or {})
    folder.mkdir(parents=True, exist_ok=True)
    _write_weights(folder, params, config, dtype, file_bytes)
    _write_json(folder / "config.json", content)


def read_config(folder: Path) -> tuple[LlamaConfig, int]:
    """Read what a folder's model is, without its weights: (config, rows of the embedding).

    Raises:
        ModelError: config.json is missing or damaged, or the model is not a Llama of ours.
    """
    return from_content(_read_json(folder / "config.json"))


def read_model(folder: Path) -> tuple[Params, LlamaConfig]:
    """Read a folder's model into (float32 NumPy parameters, config).

    Raises:
        ModelError: a file is missing or damaged, or the model is not a Llama of ours.
    """
    from safetensors import SafetensorError, safe_open

    config, vocab_size = read_config(folder)
    with ExitStack() as files:
        try:
            opened = [files.enter_context(safe_open(path, "np")) for path in _weight_files(folder)]
            owners = {name: file for file in opened for name in file.keys()}  # noqa: SIM118 (no mapping)
            params = gather_params(lambda name: owners[name].get_tensor(name), owners.keys(), config, vocab_size)
        except (SafetensorError, OSError) as error:
            raise ModelError(f"weights must be whole safetensors, got {error} in {folder}; copy them again") from None
    return params, config


def _write_weights(folder: Path, params: Params, config: LlamaConfig, dtype: WeightType, file_bytes: int) -> None:
    from safetensors.numpy import save_file

    kind = _numpy_type(dtype)
    groups = _group(tensor_names(config), lambda name: tensor_size(params, name) * kind.itemsize, file_bytes)
    total = len(groups)
    files = [_SINGLE if total == 1 else f"model-{n:05}-of-{total:05}.safetensors" for n in range(1, total + 1)]
    for file, names in zip(files, groups, strict=True):
        beside = folder / f".{file}.tmp"
        save_file({name: _cast(name, get_tensor(params, name), kind) for name in names}, beside, {"format": "pt"})
        beside.replace(folder / file)
    (folder / _INDEX).unlink(missing_ok=True)
    if total > 1:
        size = sum(tensor_size(params, name) for name in tensor_names(config)) * kind.itemsize
        owners = {name: file for file, names in zip(files, groups, strict=True) for name in names}
        _write_json(folder / _INDEX, {"metadata": {"total_size": size}, "weight_map": owners})


def _numpy_type(dtype: WeightType) -> np.dtype:
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def _cast(name: str, tensor: np.ndarray, kind: np.dtype) -> np.ndarray:
    with np.errstate(over="ignore"):
        cast = tensor.astype(kind)
    if not np.isfinite(cast.astype(np.float32)).all():
        raise ModelError(f"weights must be finite in {kind.name}, got others in {name}; export as bfloat16 or float32")
    return cast


def _group(names: list[str], size: Callable[[str], int], most: int) -> list[list[str]]:
    """Split names, in order, into groups of at most `most` bytes (but a tensor is never cut)."""
    groups: list[list[str]] = [[]]
    used = 0
    for name in names:
        if groups[-1] and used + size(name) > most:
            groups.append([])
            used = 0
        groups[-1].append(name)
        used += size(name)
    return groups


def _weight_files(folder: Path) -> list[Path]:
    if (folder / _INDEX).exists():
        owners = _read_json(folder / _INDEX).get("weight_map")
        if not isinstance(owners, dict) or not all(isinstance(file, str) for file in owners.values()):
            raise ModelError(f"{folder / _INDEX} must hold a weight_map of tensors to files; copy it again")
        return [folder / Path(file).name for file in sorted(set(owners.values()))]
    if not (folder / _SINGLE).exists():
        raise ModelError(
            f"model must be a folder with {_SINGLE} or {_INDEX}, got neither in {folder}; convert pickled weights "
            "with save_pretrained of transformers"
        )
    return [folder / _SINGLE]


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"model must be a folder with config.json, got {path} ({error.strerror})") from None
    except ValueError as error:
        raise ModelError(f"{path} must be JSON, got a fault: {error}") from None
    if not isinstance(content, dict):
        raise ModelError(f"{path} must hold a JSON object, got {type(content).__name__}")
    return content


def _write_json(path: Path, content: dict[str, Any]) -> None:
    beside = path.with_name(f".{path.name}.tmp")
    beside.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    beside.replace(path)
