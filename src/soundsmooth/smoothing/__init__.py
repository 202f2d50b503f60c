"""The smoothed classifier: noisy copies of an input vote, and the votes are counted."""
