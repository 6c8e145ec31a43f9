"""What a Llama is: sizes, variants and how it is computed. The vocabulary size comes from the tokenizer."""

import math
from dataclasses import dataclass, fields
from typing import Literal, get_args

from model.errors import ModelError


@dataclass(frozen=True, kw_only=True)
class LlamaConfig:
    """Sizes and variants of one decoder. Llama 2/3 and OpenLM differ only in these fields."""

    num_layers: int = 12
    """Decoder layers."""
    dim: int = 768
    """Width of the residual stream."""
    num_heads: int = 12
    """Query heads."""
    num_kv_heads: int = 0
    """Key/value heads, a divisor of num_heads (grouped-query attention). 0: as many as query heads."""
    head_dim: int = 0
    """Width of a head, even. 0: dim / num_heads."""
    hidden_dim: int = 0
    """Width of the SwiGLU feed-forward. 0: 8/3 of dim, rounded up to a multiple of 64."""
    norm: Literal["rms", "layer"] = "rms"
    """rms: RMSNorm (Llama). layer: LayerNorm with a gain and no bias (OpenLM)."""
    norm_epsilon: float = 1e-5
    """Added to the mean square (or variance) inside every norm."""
    qk_norm: bool = False
    """Normalise queries and keys over their full width before the head split (OpenLM)."""
    tied_embeddings: bool = False
    """Use the input embedding as the output head."""
    rope_base: float = 100_000.0
    """Base of the rotary embedding; longer contexts need a larger one."""
    rope_scaling: Literal["none", "linear", "llama3"] = "none"
    """How rotary frequencies are stretched beyond the original context: linear divides all by rope_factor,
    llama3 divides the low ones and blends the middle ones."""
    rope_factor: float = 8.0
    """Stretch of the context; used by rope_scaling linear and llama3."""
    rope_low_frequency_factor: float = 1.0
    """llama3: wavelengths over rope_original_length / this are divided by rope_factor."""
    rope_high_frequency_factor: float = 4.0
    """llama3: wavelengths under rope_original_length / this are kept."""
    rope_original_length: int = 8192
    """llama3: context length before stretching, in tokens."""
    sliding_window: int = 0
    """Tokens that a query sees in every layer: itself and those before it. 0: all before it."""
    logits_soft_cap: float = 0.0
    """Logits are bent to stay within this: cap * tanh(logits / cap). 0: not."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Type of the computation; parameters are always float32. auto: float32 on CPU, bfloat16 elsewhere."""
    remat: Literal["none", "dots", "layer"] = "dots"
    """What the backward pass computes again. none: nothing. dots: all but matrix products and attention, which is
    cheap and on CPU faster than keeping the rest. layer: whole layers (least memory)."""
    attention: Literal["auto", "chunked", "cudnn", "splash"] = "auto"
    """Attention kernel. auto: chunked on CPU, cuDNN on GPU in bfloat16, splash on TPU. Packed rows are always exact:
    where the kernel has no segment mask they take the chunked path."""

    def __post_init__(self) -> None:
        for name in ("num_layers", "dim", "num_heads", "rope_original_length"):
            _require(getattr(self, name) >= 1, name, "at least 1", getattr(self, name), f"set model.{name}")
        for name in ("num_kv_heads", "head_dim", "hidden_dim"):
            _require(getattr(self, name) >= 0, name, "0 (derived) or more", getattr(self, name), f"set model.{name}")
        window, cap = self.sliding_window, self.logits_soft_cap
        _require(window >= 0, "sliding_window", "0 (all) or more tokens", window, "set model.sliding_window")
        _require(0 <= cap < math.inf, "logits_soft_cap", "0 (none) or more", cap, "set model.logits_soft_cap")
        for name in ("norm_epsilon", "rope_base", "rope_factor", "rope_low_frequency_factor"):
            value = getattr(self, name)
            _require(0 < value < math.inf, name, "above 0 and finite", value, f"set model.{name}")
        for field in fields(self):
            if choices := get_args(field.type):
                value = getattr(self, field.name)
                expected = f"{', '.join(choices[:-1])} or {choices[-1]}"
                _require(value in choices, field.name, expected, value, f"set model.{field.name}")
        self._check_heads()
        low, high = self.rope_low_frequency_factor, self.rope_high_frequency_factor
        mend = "set model.rope_high_frequency_factor"
        _require(high > low, "rope_high_frequency_factor", f"above rope_low_frequency_factor {low}", high, mend)

    def _check_heads(self) -> None:
        if not self.head_dim:
            expected = f"a multiple of num_heads {self.num_heads}"
            _require(self.dim % self.num_heads == 0, "dim", expected, self.dim, "change either or set model.head_dim")
        _require(self.head_width % 2 == 0, "head width", "even", self.head_width, "rotary embedding turns pairs")
        expected = f"a divisor of num_heads {self.num_heads}"
        valid = self.num_heads % self.kv_heads == 0
        _require(valid, "num_kv_heads", expected, self.num_kv_heads, "set model.num_kv_heads")

    @property
    def head_width(self) -> int:
        """H: width of one head."""
        return self.head_dim or self.dim // self.num_heads

    @property
    def kv_heads(self) -> int:
        """K: key/value heads."""
        return self.num_kv_heads or self.num_heads

    @property
    def hidden_width(self) -> int:
        """F: width of the feed-forward; `LlamaConfig(dim=768).hidden_width == 2048`."""
        return self.hidden_dim or -(-8 * self.dim // (3 * 64)) * 64


def _require(valid: bool, name: str, expected: str, value: object, mend: str) -> None:
    if not valid:
        raise ModelError(f"{name} must be {expected}, got {value}; {mend}")
