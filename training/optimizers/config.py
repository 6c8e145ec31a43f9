"""Settings of the optimizer and of its learning rate."""

import dataclasses
from collections.abc import Iterable
from typing import Literal

__all__ = ["OptimizerConfig"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """AdamW, Muon or Lion, with a warm-up and a decay."""

    name: Literal["adamw", "muon", "lion"] = "adamw"
    """adamw; muon: momentum made orthogonal for the matrices of the layers, AdamW for embeddings, head and gains;
    lion: the sign of a momentum, with half of AdamW's state (its learning rate is 3 to 10 times smaller, its
    weight_decay as much larger)."""
    learning_rate: float = 3e-3
    """Peak learning rate."""
    schedule: Literal["cosine", "constant", "linear", "wsd"] = "cosine"
    """What follows the warm-up: a cosine or a line down to final_fraction of the peak at train.num_steps; constant: the
    peak until the end; wsd: the peak, then in the last decay_fraction of the steps a line down. A run that is started
    again with another train.num_steps takes the rates of the new schedule from there on: only with constant, and with
    wsd before the decay begins, it is the run that it would have been."""
    warmup_steps: int = 100
    """Steps of linear warm-up from zero."""
    decay_fraction: float = 0.2
    """Share of the steps that the decay of wsd takes."""
    final_fraction: float = 0.1
    """Last learning rate as a fraction of the peak."""
    beta1: float = 0.9
    """Decay of the first moment (adamw), share of the momentum in the step (lion)."""
    beta2: float = 0.95
    """Decay of the second moment (adamw)."""
    epsilon: float = 1e-8
    """Added to the root of the second moment."""
    muon_momentum: float = 0.95
    """Decay of the momentum of muon (Nesterov's)."""
    muon_rms: float = 0.2
    """Root mean square of muon's steps of rate 1; 0.2 is that of AdamW, so that its learning rates and weight_decay
    serve. 0: a matrix [inputs, outputs] moves by an orthogonal one times sqrt(max(1, outputs / inputs)); learning
    rates are then about 0.02."""
    muon_adam_factor: float = 1.0
    """Learning rate of the parameters that AdamW takes under muon, as a multiple of learning_rate."""
    lion_momentum: float = 0.99
    """Decay of the momentum of lion (the second beta of its paper)."""
    weight_decay: float = 0.033
    """Decoupled weight decay, times the learning rate; applied to what weight_decay_on says."""
    weight_decay_on: Literal["matrices", "matrices-and-embeddings", "all"] = "matrices"
    """matrices: those of the layers and the head (not one that is tied to the embeddings), never norm gains or other
    vectors; matrices-and-embeddings: as nanoGPT does; all: gains too."""
    clip_norm: float = 1.0
    """Largest global norm of the gradient; 0 switches clipping off."""
    z_loss: float = 1e-4
    """Weight of the squared log-normaliser of the output distribution in the loss."""
    length_learning_rates: dict[int, float] | None = None
    """Factors of the learning rate in steps of a length, as {length: factor}; 1 where none is named. Tails packed into
    rows of min_length count as rows of that length."""
    length_loss_weights: dict[int, float] | None = None
    """Factors of the loss, and so of the gradient before clipping, in steps of a length, as {length: factor}. AdamW
    and muon divide by the size of gradients, so what counts is how a length compares with the others."""
    ema_decay: float = 0.0
    """Decay of an exponential moving average of the weights, which evaluation, export and generation then use, and
    train.initial_weights of a later run too: 0.999 averages about the last 1,000 steps. 0: none."""

    def __post_init__(self) -> None:
        for name in ("learning_rate", "epsilon", "muon_adam_factor"):
            self._check(name, getattr(self, name) > 0, "above 0")
        for name in ("warmup_steps", "weight_decay", "clip_norm", "z_loss", "muon_rms"):
            self._check(name, getattr(self, name) >= 0, "at least 0")
        for name in ("beta1", "beta2", "muon_momentum", "lion_momentum", "ema_decay"):
            self._check(name, 0 <= getattr(self, name) < 1, "at least 0 and below 1")
        self._check("final_fraction", 0 <= self.final_fraction <= 1, "between 0 and 1")
        self._check("decay_fraction", 0 < self.decay_fraction <= 1, "above 0 and at most 1")
        for name in ("length_learning_rates", "length_loss_weights"):
            factors = getattr(self, name)
            self._check(name, all(factor >= 0 for factor in (factors or {}).values()), "a map to factors of at least 0")

    def check_lengths(self, lengths: Iterable[int]) -> None:
        """Raise ValueError where a factor is for a length that the data do not have."""
        known = set(lengths)
        for name in ("length_learning_rates", "length_loss_weights"):
            for length in getattr(self, name) or {}:
                if length not in known:
                    raise ValueError(
                        f"optimizer.{name} must name lengths of the data ({', '.join(map(str, sorted(known)))}), "
                        f"got {length}; leave it out, or change data.min_length and data.max_length"
                    )

    def rate_factor(self, length: int) -> float:
        """What the learning rate is multiplied by in steps of this length."""
        return (self.length_learning_rates or {}).get(length, 1.0)

    def loss_factor(self, length: int) -> float:
        """What the loss is multiplied by in steps of this length."""
        return (self.length_loss_weights or {}).get(length, 1.0)

    def _check(self, name: str, is_right: bool, expected: str) -> None:
        if not is_right:
            raise ValueError(f"{name} must be {expected}, got {getattr(self, name)}")
