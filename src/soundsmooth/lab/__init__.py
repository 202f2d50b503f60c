"""The second house: no certificate needs it, and nothing but the command line imports it, when a command asks for it.

- `unsound`: Algorithm 1 and the paper's Algorithm 2 to the letter, for comparison only.
- `gallery`: one file per counter-example, and the certifiers they are tried on.
- `bench`: measurements, side by side.
- `scripts`: helpers of the scripts in experiments/.
"""
