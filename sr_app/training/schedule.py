"""The learning rate as a function of the update's number: nothing to save, nothing to drift."""

import math

from sr_app.training.config import OptimizerConfig


def learning_rate(update: int, steps: int, config: OptimizerConfig) -> float:
    """The rate of update number `update` (from 0) in a run of `steps`.

    `halving`: the peak rate halved every `halve_every` updates (EDSR, section 4.2).
    `cosine`: from the peak to `final_rate` along half a cosine (SGDR, equation 5, no restart).
    Both rise in a straight line over the first `warm_up` updates.
    """
    if update < config.warm_up:
        return config.learning_rate * (update + 1) / config.warm_up
    if config.schedule == "halving":
        return config.learning_rate * 0.5 ** (update // config.halve_every)
    progress = min(1.0, (update - config.warm_up) / max(1, steps - config.warm_up))
    fall = 0.5 * (1 + math.cos(math.pi * progress))
    return config.final_rate + (config.learning_rate - config.final_rate) * fall
