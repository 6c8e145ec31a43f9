import jax.numpy as jnp
import numpy as np
import pytest

from model import LlamaConfig
from model.rope import frequencies, rotate, rotation, segment_positions

SCALINGS = {
    "none": {},
    "linear": {"rope_scaling": "linear", "rope_factor": 4.0},
    "llama3": {"rope_scaling": "llama3", "rope_base": 500_000.0},
}


@pytest.mark.parametrize("scaling", SCALINGS)
def test_rotation_equals_complex_multiplication_by_the_published_frequencies(scaling, reference):
    config = LlamaConfig(dim=256, num_heads=2, **SCALINGS[scaling])
    x = np.random.default_rng(0).standard_normal((2, 9, 2, 128)).astype(np.float32)
    positions = np.array([np.arange(9), np.arange(100, 109)])
    found = rotate(jnp.asarray(x), rotation(config, jnp.asarray(positions)))
    np.testing.assert_allclose(found, reference.rotate(x, positions, config), atol=2e-4)


def test_llama3_keeps_short_wavelengths_and_divides_long_ones():
    plain = frequencies(LlamaConfig(dim=256, num_heads=2, rope_base=500_000.0))
    stretched = frequencies(LlamaConfig(dim=256, num_heads=2, **SCALINGS["llama3"]))
    wavelengths = 2 * np.pi / plain
    np.testing.assert_array_equal(stretched[wavelengths < 2048], plain[wavelengths < 2048])
    np.testing.assert_array_equal(stretched[wavelengths > 8192], plain[wavelengths > 8192] / 8)
    assert np.all(np.diff(stretched) < 0)


def test_scores_depend_on_distance_alone():
    config = LlamaConfig(dim=64, num_heads=1)
    generator = np.random.default_rng(0)
    q, k = (np.tile(generator.standard_normal(64), (1, 8, 1, 1)).astype(np.float32) for _ in range(2))
    turn = rotation(config, jnp.arange(8)[None])
    scores = np.einsum("BLNH,BSNH->LS", rotate(jnp.asarray(q), turn), rotate(jnp.asarray(k), turn))
    for distance in range(-7, 8):
        diagonal = np.diagonal(scores, distance)
        np.testing.assert_allclose(diagonal, diagonal[0], atol=1e-4)


def test_positions_restart_at_every_segment():
    segments = jnp.array([[1, 1, 1, 2, 2, 0], [3, 3, 3, 3, 3, 3], [1, 2, 1, 1, 0, 0]])
    expected = [[0, 1, 2, 0, 1, 0], [0, 1, 2, 3, 4, 5], [0, 0, 0, 1, 0, 1]]
    np.testing.assert_array_equal(segment_positions(segments), expected)
