"""One training run: settings, step, loop, checkpoints, journal."""
