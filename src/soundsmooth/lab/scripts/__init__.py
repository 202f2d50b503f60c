"""What the scripts of experiments/ share: their arguments, rows of measurements, tables in pages."""
