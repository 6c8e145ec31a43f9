"""Folders in Hugging Face's format: what transformers computes from ours, and we from theirs."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import model
from model import LlamaConfig, ModelError
from model.huggingface import read_model, write_model

VOCAB_SIZE = 97
BASE = LlamaConfig(num_layers=2, dim=64, num_heads=4, hidden_dim=96, dtype="float32", attention="chunked")
CONFIGS = {
    "heads": BASE,
    "grouped": dataclasses.replace(BASE, num_kv_heads=2, rope_base=10_000.0),
    "one-key": dataclasses.replace(BASE, num_kv_heads=1, tied_embeddings=True, norm_epsilon=1e-6),
    "wide-heads": dataclasses.replace(BASE, head_dim=32),
    "linear": dataclasses.replace(BASE, rope_scaling="linear", rope_factor=4.0),
    "window": dataclasses.replace(BASE, num_kv_heads=2, sliding_window=5),
    "llama3": dataclasses.replace(BASE, rope_scaling="llama3", rope_original_length=16, num_kv_heads=2),
}
NAMES = [
    name if name in ("grouped", "one-key", "llama3") else pytest.param(name, marks=pytest.mark.slow) for name in CONFIGS
]
TOKENS = np.random.default_rng(0).integers(0, VOCAB_SIZE, (2, 40))


@functools.cache
def draw(config):
    """Parameters in which every gain is another number, so that none can be mixed up."""
    params = model.init_params(config, VOCAB_SIZE, jax.random.key(1))
    leaves, tree = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(2), len(leaves))
    return tree.unflatten(
        [leaf + 0.1 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    )


def computed(config):
    """A config as computed: sizes spelled out, and how it is run left aside."""
    spelled = {"num_kv_heads": config.kv_heads, "head_dim": config.head_width, "hidden_dim": config.hidden_width}
    return dataclasses.replace(config, **spelled, dtype="float32", attention="chunked")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("file_bytes", [50_000, 1 << 30])
def test_what_is_written_is_read_back(tmp_path, name, file_bytes):
    config, params = CONFIGS[name], draw(CONFIGS[name])
    write_model(tmp_path, params, config, max_length=64, file_bytes=file_bytes)
    assert (tmp_path / "model.safetensors.index.json").exists() == (file_bytes == 50_000)
    again, read_config = read_model(tmp_path)
    assert computed(read_config) == computed(config)
    jax.tree.map(np.testing.assert_array_equal, params, again)


@pytest.mark.peers
@pytest.mark.parametrize("name", NAMES)
def test_transformers_computes_the_same_logits_from_an_export(tmp_path, name):
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    config, params = CONFIGS[name], draw(CONFIGS[name])
    write_model(tmp_path, params, config, max_length=64)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    with torch.no_grad():
        logits = theirs(torch.tensor(TOKENS)).logits.numpy()
    np.testing.assert_allclose(model.logits(params, config, jnp.asarray(TOKENS)), logits, atol=1e-4)
    drawn = theirs.generate(torch.tensor(TOKENS[:1, :8]), max_new_tokens=24, do_sample=False, eos_token_id=None)
    ours = model.generate(params, config, TOKENS[0, :8].tolist(), max_new_tokens=24, temperature=0)
    assert drawn[0, 8:].tolist() == ours


@pytest.mark.peers
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_logits_of_a_folder_that_transformers_wrote_are_its_own(tmp_path, name, dtype):
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    write_model(tmp_path / "config", draw(CONFIGS[name]), CONFIGS[name], max_length=64)
    settings = transformers.AutoConfig.from_pretrained(tmp_path / "config")
    torch.manual_seed(3)
    theirs = transformers.AutoModelForCausalLM.from_config(settings).to(getattr(torch, dtype))
    theirs.save_pretrained(tmp_path / "theirs", max_shard_size="60KB")
    params, config = read_model(tmp_path / "theirs")
    config = dataclasses.replace(config, dtype="float32", attention="chunked")
    with torch.no_grad():
        logits = theirs.float()(torch.tensor(TOKENS)).logits.numpy()
    np.testing.assert_allclose(model.logits(params, config, jnp.asarray(TOKENS)), logits, atol=1e-4)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_weights_are_rounded_to_the_type_that_is_asked_for(tmp_path, dtype):
    params = draw(BASE)
    write_model(tmp_path, params, BASE, max_length=64, dtype=dtype)
    again, _ = read_model(tmp_path)
    expected = jax.tree.map(lambda leaf: leaf.astype(dtype).astype(np.float32), params)
    jax.tree.map(np.testing.assert_array_equal, expected, again)


def test_weights_that_a_type_cannot_hold_are_refused(tmp_path):
    params = draw(BASE)
    params["head"] = params["head"].at[3, 4].set(1e30)
    with pytest.raises(ModelError, match=r"weights must be finite in float16, got others in lm_head\.weight"):
        write_model(tmp_path, params, BASE, max_length=64, dtype="float16")
    assert not (tmp_path / "config.json").exists()


@pytest.mark.parametrize("changes", [{"norm": "layer"}, {"qk_norm": True}, {"logits_soft_cap": 30.0}])
def test_what_transformers_does_not_compute_is_not_exported(tmp_path, changes):
    config = dataclasses.replace(BASE, **changes)
    with pytest.raises(ModelError, match=f"{next(iter(changes))} must be .* to be exported"):
        write_model(tmp_path, draw(config), config, max_length=64)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"model_type": "qwen2"}, "model_type must be llama or mistral, got 'qwen2'"),
        ({"sliding_window": 8}, "sliding_window must be None, got 8; it is not computed in a llama here"),
        ({"hidden_act": "gelu"}, "hidden_act must be silu, got 'gelu'"),
        ({"attention_bias": True}, "attention_bias must be False, got True"),
        ({"quantization_config": {"bits": 4}}, "quantization_config must be None"),
        ({"residual_multiplier": 0.2}, "known keys only, got 'residual_multiplier'"),
        ({"hidden_size": None}, "must hold hidden_size, got none"),
        ({"hidden_size": 65}, "dim must be|must be of shape"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "default, linear or llama3, got 'yarn'"),
        ({"rope_scaling": {"rope_type": "linear"}}, "linear must hold factor, got nothing"),
        ({"num_hidden_layers": 3}, r"9 are missing, first model\.layers\.2\.input_layernorm\.weight"),
        ({"num_hidden_layers": 1}, r"9 are unknown, first model\.layers\.1\.input_layernorm\.weight"),
        ({"vocab_size": 96}, r"model\.embed_tokens\.weight must be of shape \[96, 64\], got \[97, 64\]"),
    ],
)
def test_a_config_that_means_another_model_is_refused(tmp_path, changes, line):
    write_model(tmp_path, draw(BASE), BASE, max_length=64)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ModelError, match=line):
        read_model(tmp_path)


@pytest.mark.parametrize(("told", "window"), [({}, 4096), ({"sliding_window": None}, 0), ({"sliding_window": 7}, 7)])
def test_a_mistral_that_is_silent_has_the_window_of_transformers(tmp_path, told, window):
    write_model(tmp_path, draw(BASE), BASE, max_length=64)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_type": "mistral"} | told))
    assert read_model(tmp_path)[1].sliding_window == window


@pytest.mark.parametrize("size", [0, 5, 100, 50_000])
def test_weights_that_were_cut_off_are_refused(tmp_path, size):
    write_model(tmp_path, draw(BASE), BASE, max_length=64)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ModelError, match="weights must be whole safetensors"):
        read_model(tmp_path)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"folder with config\.json"):
        read_model(tmp_path)
    write_model(tmp_path, draw(BASE), BASE, max_length=64)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"folder with model\.safetensors or .* got neither"):
        read_model(tmp_path)
