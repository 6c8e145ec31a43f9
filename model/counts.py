"""Parameters and floating-point operations in closed form (XLA's own cost analysis counts a scanned body once)."""

from model.config import LlamaConfig


def count_params(config: LlamaConfig, vocab_size: int) -> int:
    """Number of parameters; OpenLM-160M with a vocabulary of 50,432 has 162,435,840."""
    tables = vocab_size * config.dim * (1 if config.tied_embeddings else 2)
    norms = 2 * config.dim + (_attention_width(config) + _kv_width(config) if config.qk_norm else 0)
    return tables + config.num_layers * (_layer_matrices(config) + norms) + config.dim


def flops_per_token(config: LlamaConfig, vocab_size: int, length: int) -> float:
    """Operations a token of a forward and backward pass at `length` (an addition and a multiplication are two).

    Matrix products only, 6 for every weight, the embedding look-up none. Each key that a query sees costs 2 H
    multiply-adds a head. What remat computes again is not counted (model FLOPs, as MFU wants them).
    """
    weights = config.num_layers * _layer_matrices(config) + vocab_size * config.dim
    return 6.0 * (weights + config.num_layers * 2 * mean_context(config, length) * _attention_width(config))


def mean_context(config: LlamaConfig, length: int) -> float:
    """Keys that a query of a row of `length` tokens sees on average.

    Without a window (length + 1) / 2; with a window of 2, rows of 3 tokens see 1, 2 and 2 keys: 5 / 3.
    """
    window = min(config.sliding_window or length, length)
    return window * (2 * length - window + 1) / (2 * length)


def _layer_matrices(config: LlamaConfig) -> int:
    attention = 2 * config.dim * (_attention_width(config) + _kv_width(config))
    return attention + 3 * config.dim * config.hidden_width


def _attention_width(config: LlamaConfig) -> int:
    return config.num_heads * config.head_width


def _kv_width(config: LlamaConfig) -> int:
    return config.kv_heads * config.head_width
