"""A run: settings, optimizer, compiled steps, checkpoints, metrics and held-out loss."""
