"""Adaptive tests that others published, written anew: they stop when an image is decided. Floats are theirs."""
