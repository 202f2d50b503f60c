"""The tamper test at full length: 10 000 random byte flips of each of three runs' files and of a certificate.

python experiments/verify/flips.py [FLIPS]
"""

import random
import secrets
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from soundsmooth.runs.store import Store
from soundsmooth.verification import AuditInputs
from verification.flips import flip
from verification.issuer import issue, measured_run, motley, packed, small_run


def main(times: int) -> None:
    seed = secrets.randbits(64)
    print(f"seed {seed}")
    with tempfile.TemporaryDirectory() as folder:
        small = packed(issue(Path(folder) / "small.db", small_run([1, 3], n=100)))
        large = packed(motley(Path(folder) / "motley.db"))
        measured = packed(issue(Path(folder) / "measured.db", measured_run([0, 3])))
        with Store.read(large) as store:
            certificate = next(store.certificates())
        record = Path(folder) / "certificate.json"
        record.write_text(certificate.to_json(), encoding="utf-8")
        for path in (small, large, measured, record):
            found = flip(path, times, AuditInputs(), random.Random(seed))
            print(f"{path.name}, {path.stat().st_size} bytes: {dict(found)}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
