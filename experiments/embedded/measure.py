"""Certify all shipped images with the shipped models and print what they reach, from real certificates."""

import argparse
from pathlib import Path

from soundsmooth import Smoother, embedded
from soundsmooth.certification.promise import secret
from soundsmooth.certification.report import (
    decimal_below,
    radii_that_occur,
)
from soundsmooth.certification.settings import settings
from soundsmooth.core.grid import IMAGES
from soundsmooth.data.load import load
from soundsmooth.runs.output import CERTIFY_HEADER, Output
from soundsmooth.runs.run import certify_inputs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="a folder for the certificates, as .tsv")
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--limit", type=int, default=None)
    options = parser.parse_args()
    inputs, chosen = load(embedded.IMAGES, grid=IMAGES, limit=options.limit), settings(n=options.n)
    for sigma, path in embedded.MODELS.items():
        smooth = Smoother(path, sigma)
        with Output(options.out / f"sigma{float(sigma):.2f}.tsv", CERTIFY_HEADER) as output:
            run = certify_inputs(smooth.smoothing, inputs, chosen, secret())
            for record in run:
                output.certificate(record)
        print(f"sigma {sigma}, n = {options.n}, {len(run)} images, commitment {run.commitment}")
        radii = radii_that_occur(smooth.smoothing.law, chosen)
        for radius, share in zip(radii, run.accuracy(radii), strict=True):
            print(f"  radius > {decimal_below(radius, 2)}: {decimal_below(share)}")
        print(f"  average certified radius {decimal_below(run.average_radius)}", flush=True)


if __name__ == "__main__":
    main()
