"""What a script of experiments/ is called with, where that is a row of paths."""

import argparse
from pathlib import Path


def paths(doc: str | None, *names: str) -> list[Path]:
    """The paths of these names, in order; `--help`, or too few of them, shows what the script does and wants.

    Of a last name that ends in "..." there may be several.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in names:
        several = name.endswith("...")
        parser.add_argument(name.removesuffix("..."), type=Path, nargs="+" if several else 1)
    return [path for found in vars(parser.parse_args()).values() for path in found]
