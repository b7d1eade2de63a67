"""A trained network at work: scores and upscaling."""
