"""CIFAR-10 as the other scripts read it: train.npz and test.npz, from the archive of its authors.

    python experiments/cifar10/data.py cifar-10-binary.tar.gz DATA

The archive (the "binary version", https://www.cs.toronto.edu/~kriz/cifar.html) holds six files of 10 000 records: a
byte for the label, then 3072 for the image, channel by channel.
"""

import tarfile
from pathlib import Path

import numpy as np

from soundsmooth.lab.scripts.arguments import paths

FOLDER = "cifar-10-batches-bin"
FILES = {"train": [f"data_batch_{number}.bin" for number in range(1, 6)], "test": ["test_batch.bin"]}
SHAPE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32


def main(archive: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as tar:
        for name, files in FILES.items():
            records = np.concatenate([_records(tar, f"{FOLDER}/{file}") for file in files])
            images = records[:, 1:].reshape(-1, *SHAPE).transpose(0, 2, 3, 1)
            np.savez(out / f"{name}.npz", x=np.ascontiguousarray(images), y=records[:, 0].astype(np.int64))
            print(f"{out / name}.npz: {len(records)} images")


def _records(tar: tarfile.TarFile, name: str) -> np.ndarray:
    held = tar.extractfile(name)
    assert held is not None
    return np.frombuffer(held.read(), np.uint8).reshape(-1, RECORD)


if __name__ == "__main__":
    main(*paths(__doc__, "archive", "out"))
