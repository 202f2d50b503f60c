"""Helpers of the scripts in experiments/: their arguments, rows of measurements, tables in pages."""
