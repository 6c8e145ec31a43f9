"""How parameters move: settings, schedules, which parameters go where, directions by optax, the average of weights."""
