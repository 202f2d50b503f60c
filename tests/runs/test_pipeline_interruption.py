"""The kill test: whatever happens to a run, it ends with exactly the certificates of an undisturbed one."""

import dataclasses
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from issuing import issue
from soundsmooth.certification.certificate import Certificate

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")

if sys.platform != "win32":
    from runs.interrupted import Counting, contents, small_run, without_time

TESTS = Path(__file__).parents[1]


def disturb(what: str, path: Path, noise: str, number: int) -> list[int]:
    code = f"import sys; sys.path.insert(0, {str(TESTS)!r}); from runs.interrupted import main; main(*sys.argv[1:])"
    command = [sys.executable, "-c", code, what, str(path), noise, str(number)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


@cache
def undisturbed(noise: str) -> list:
    run = small_run(noise)
    return [elsewhere(c) for c in issue(run.pool.smoothing, run.inputs, run.settings, run.secret)]


def elsewhere(certificate: Certificate) -> Certificate:
    """Without the packages that happen to be loaded where the tests run."""
    return dataclasses.replace(without_time(certificate), environment={})


@pytest.fixture(params=["fresh", "shared", "batchwise"])
def noise(request: pytest.FixtureRequest) -> str:
    return request.param


@cache
def quiet(noise: str) -> tuple[list[Certificate], list[tuple]]:
    """What a run in another process ends with if nothing happens to it."""
    with TemporaryDirectory() as folder:
        disturb("kill", Path(folder) / "quiet.db", noise, 0)
        return contents(Path(folder) / "quiet.db")


def assert_undisturbed(path: Path, noise: str) -> None:
    """0 lost, 0 doubled, 0 different: certificates and every single block."""
    assert contents(path) == quiet(noise)
    assert [elsewhere(certificate) for certificate in contents(path)[0]] == undisturbed(noise)


@pytest.mark.parametrize("kills", [10, pytest.param(60, marks=pytest.mark.long("sixty kills, where ten are the rule"))])
@pytest.mark.slow("starts a process after each kill")
def test_kills_change_nothing(noise: str, kills: int, tmp_path: Path) -> None:
    """On a slow machine only the kills at a statement leave new blocks: three of five at least, and 22 of 30.

    Two or three of them, in turn, lie between two looks, and nothing is new only where all of them leave none. So with
    sixty kills it is at most four of eleven times.
    """
    stored = disturb("kill", tmp_path / "run.db", noise, kills)
    assert len(stored) == kills // 5
    assert stored == sorted(stored)  # nothing that was stored is ever lost
    assert stored[-1] >= 3
    assert len(set(stored)) > 6 or kills < 60  # and the kills are spread over the run
    assert_undisturbed(tmp_path / "run.db", noise)


@pytest.mark.parametrize("noise", ["fresh", "batchwise"])
@pytest.mark.slow("starts three processes ten times")
def test_three_processes_killed_at_once_change_nothing(noise: str, tmp_path: Path) -> None:
    disturb("crowd", tmp_path / "run.db", noise, 10)
    assert_undisturbed(tmp_path / "run.db", noise)


@pytest.mark.parametrize("noise", ["fresh", "batchwise"])
@pytest.mark.slow("starts a process after each failure")
def test_full_disks_and_io_errors_change_nothing(noise: str, tmp_path: Path) -> None:
    full, failed = disturb("starve", tmp_path / "run.db", noise, 0)
    assert full >= 3
    assert failed >= 3
    assert_undisturbed(tmp_path / "run.db", noise)


@pytest.mark.slow("starts several processes")
def test_processes_share_a_run_and_repeat_no_work(noise: str, tmp_path: Path) -> None:
    calls = disturb("together", tmp_path / "run.db", noise, 3)
    assert calls == [40 * (20 + 400) // 10]
    run = small_run(noise, scores=Counting(tmp_path / "calls"))
    alone = [elsewhere(c) for c in issue(run.pool.smoothing, run.inputs, run.settings, run.secret)]
    assert [elsewhere(certificate) for certificate in contents(tmp_path / "run.db")[0]] == alone
