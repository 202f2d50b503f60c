"""Data as it comes: what people have becomes levels of a grid, with numbers and labels."""
