"""The kill test with looks: wherever a run is killed, its images stop where they would have, and nothing differs.

All clocks stand still, so the content hashes are those of the same bytes.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from soundsmooth.runs.store import Store
from soundsmooth.verification.content import content_hash

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")

if sys.platform != "win32":
    from runs.killed_looks import N0, N

TESTS = Path(__file__).parents[1]


def disturb(quiet: Path, disturbed: Path, kind: str, first: int, more: int) -> list[int]:
    """How many images were partly voted after each kill."""
    code = f"import sys; sys.path.insert(0, {str(TESTS)!r}); from runs.killed_looks import main; main(*sys.argv[1:])"
    command = [sys.executable, "-c", code, *map(str, (quiet, disturbed, kind, first, more))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


def contents(path: Path) -> tuple[str, list[str]]:
    """The content hash and the certificates, as text."""
    with Store.read(path) as store:
        assert store.db.one("PRAGMA integrity_check") == "ok"
        assert not list(store.findings())
        return content_hash(store.db), list(store.lines())


@pytest.mark.parametrize(
    ("kind", "first", "more", "together"),
    [
        ("proved", 13, 2, 2),  # images share batches
        ("assumed", 3, 5, 1),  # each image alone
        ("batchwise", 3, 5, 2),
        ("measured", 3, 40, 1),
    ],
)
@pytest.mark.slow("starts a process after each kill")
def test_kills_change_no_byte(kind: str, first: int, more: int, together: int, tmp_path: Path) -> None:
    """Killed in the middle of one image, or of several that vote together."""
    partly = disturb(tmp_path / "quiet.db", tmp_path / "killed.db", kind, first, more)
    assert any(count >= together for count in partly)
    assert contents(tmp_path / "killed.db") == contents(tmp_path / "quiet.db")
    assert_stopped_early(tmp_path / "killed.db")


def assert_stopped_early(path: Path) -> None:
    """Some image after a look that is not the last, and the one with a wrong label before the first.

    With another key a black image goes on to the end in less than a tenth of all cases, and there are three or five.
    """
    with Store.read(path) as store:
        taken = [len(each.looks or ()) for each in store.certificates()]
        assert store.copies_voted() < len(taken) * (N0 + N)
    assert taken[1] == 0
    assert any(0 < count < 4 for count in taken)
