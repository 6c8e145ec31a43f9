"""A decoder of OpenLM's shape in torch, compiled, with scaled_dot_product_attention: what the GPU benchmark rivals.

bfloat16 by autocast over float32 weights, fused AdamW, clipping: as in the usual small training loops.
"""

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

from benchmarks.recipes import random_batch
from model import LlamaConfig

if TYPE_CHECKING:
    from benchmarks.gpu_parts import Row, Work


class Rotary(nn.Module):
    """Half-rotation position embedding."""

    cosines: torch.Tensor
    sines: torch.Tensor

    def __init__(self, config: LlamaConfig, length: int):
        super().__init__()
        exponents = torch.arange(0, config.head_width, 2) / config.head_width
        angles = torch.outer(torch.arange(length), config.rope_base**-exponents)
        self.register_buffer("cosines", angles.cos())
        self.register_buffer("sines", angles.sin())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        cosines, sines = self.cosines, self.sines
        return torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1).to(x.dtype)


class Layer(nn.Module):
    """Attention and SwiGLU, each normalised first."""

    def __init__(self, config: LlamaConfig, rotary: Rotary):
        super().__init__()
        dim, width, hidden = config.dim, config.num_heads * config.head_width, config.hidden_width
        self.num_heads, self.rotary = config.num_heads, rotary
        self.attention_norm, self.feed_forward_norm = (nn.LayerNorm(dim, bias=False) for _ in range(2))
        self.query_norm, self.key_norm = (nn.LayerNorm(width, bias=False) for _ in range(2))
        self.query, self.key, self.value = (nn.Linear(dim, width, bias=False) for _ in range(3))
        self.attention_output = nn.Linear(width, dim, bias=False)
        self.gate, self.up = (nn.Linear(dim, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        x = self.attention_norm(h)
        parts = (self.query_norm(self.query(x)), self.key_norm(self.key(x)), self.value(x))
        q, k, v = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in parts)
        q, k = self.rotary(q).to(v.dtype), self.rotary(k).to(v.dtype)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.attention_output(attended.transpose(1, 2).flatten(-2))
        x = self.feed_forward_norm(h)
        return h + self.down(functional.silu(self.gate(x)) * self.up(x))


class Decoder(nn.Module):
    """The mean loss of a batch."""

    def __init__(self, config: LlamaConfig, vocab_size: int, length: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, config.dim)
        rotary = Rotary(config, length)
        self.layers = nn.ModuleList(Layer(config, rotary) for _ in range(config.num_layers))
        self.norm = nn.LayerNorm(config.dim, bias=False)
        self.head = nn.Linear(config.dim, vocab_size, bias=False)

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        h = self.embedding(inputs)
        for layer in self.layers:
            h = layer(h)
        return functional.cross_entropy(self.head(self.norm(h)).flatten(0, 1).float(), targets.flatten())


def time_torch(work: "Work") -> "Iterator[Row]":
    """A row for every model and length: compiled where there is a GPU, as it is on CPU."""
    on_gpu = torch.cuda.is_available()
    if not on_gpu and work.sizes.tokens_per_step > 4096:
        yield {"note": "torch finds no GPU, so it is not compared"}
        return
    for name, config in work.sizes.models.items():
        for length in work.sizes.torch_lengths:
            if work.is_over:
                yield {"note": f"no time left for torch from {name} at length {length}"}
                return
            try:
                yield _time_length(work, name, config, length, on_gpu)
            except torch.cuda.OutOfMemoryError:
                yield {"note": f"torch ran out of memory: {name} at length {length}"}


def _time_length(work: "Work", name: str, config: LlamaConfig, length: int, on_gpu: bool) -> "Row":
    from benchmarks.gpu_parts import time_repetitions

    sizes, device = work.sizes, torch.device("cuda" if on_gpu else "cpu")
    rows = sizes.tokens_per_step // length
    decoder: Any = Decoder(dataclasses.replace(config), sizes.vocab_size, length).to(device)
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.033, fused=True)
    compiled = torch.compile(decoder) if on_gpu else decoder
    batch = random_batch(sizes.vocab_size, rows, length, seed=0)
    inputs, targets = (torch.from_numpy(batch[key].astype("int64")).to(device) for key in ("inputs", "targets"))

    def take_step() -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
            loss = compiled(inputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def wait(_: None) -> None:
        if on_gpu:
            torch.cuda.synchronize()

    return {"model": name, "rows": rows, "length": length, "seconds": time_repetitions(work, take_step, wait)}
