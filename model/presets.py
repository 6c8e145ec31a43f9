"""Named models of the literature."""

from model.config import LlamaConfig


def _openlm(num_layers: int, dim: int, num_heads: int, hidden_dim: int) -> LlamaConfig:
    """OpenLM (https://github.com/mlfoundations/open_lm): LayerNorm with gains, normalised queries and keys, untied."""
    return LlamaConfig(
        num_layers=num_layers, dim=dim, num_heads=num_heads, hidden_dim=hidden_dim, norm="layer", qk_norm=True
    )


def _llama3(num_layers: int, dim: int, num_heads: int, hidden_dim: int, rope_factor: float, tied: bool) -> LlamaConfig:
    """Llama 3.1 and 3.2 (https://arxiv.org/abs/2407.21783): 8 key/value heads and stretched rotary frequencies."""
    return LlamaConfig(
        num_layers=num_layers,
        dim=dim,
        num_heads=num_heads,
        num_kv_heads=8,
        hidden_dim=hidden_dim,
        tied_embeddings=tied,
        rope_base=500_000.0,
        rope_scaling="llama3",
        rope_factor=rope_factor,
    )


PRESETS: dict[str, LlamaConfig] = {
    "llama-100m": LlamaConfig(num_layers=10, dim=768, num_heads=12, hidden_dim=2048, tied_embeddings=True),
    "llama-3.1-8b": _llama3(32, 4096, 32, 14336, rope_factor=8.0, tied=False),
    "llama-3.2-1b": _llama3(16, 2048, 32, 8192, rope_factor=32.0, tied=True),
    "openlm-160m": _openlm(12, 768, 12, 2048),
    "openlm-410m": _openlm(24, 1024, 16, 2816),
    "openlm-1b": _openlm(24, 2048, 16, 5632),
    "openlm-3b": _openlm(32, 2560, 32, 6912),
    "openlm-7b": _openlm(32, 4096, 32, 11008),
}
"""Configurations by name; "llama-100m" is the tied model for tokenizer studies (96.0M with a vocabulary of 32,768)."""
