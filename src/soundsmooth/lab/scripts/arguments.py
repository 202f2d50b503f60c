"""The arguments of a script in experiments/ that takes paths only."""

import argparse
from pathlib import Path


def paths(doc: str | None, *names: str) -> list[Path]:
    """The paths given for these names, in order. `--help` prints the docstring; a wrong number prints the usage.

    A last name that ends in "..." takes several paths.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in names:
        several = name.endswith("...")
        parser.add_argument(name.removesuffix("..."), type=Path, nargs="+" if several else 1)
    return [path for found in vars(parser.parse_args()).values() for path in found]
