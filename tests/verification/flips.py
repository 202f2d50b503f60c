"""Random byte flips: what an audit makes of them."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from soundsmooth.verification import AuditInputs, Verification, audit_file
from verification.issuer import reported


def flipped(whole: bytes, chance: random.Random) -> bytes:
    """One byte changed to another value: half of the time in one bit, half of the time to anything."""
    at = chance.randrange(len(whole))
    change = 1 << chance.randrange(8) if chance.random() < 0.5 else chance.randrange(1, 256)
    return whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :]


def outcome(path: Path, before: Verification, given: AuditInputs) -> str:
    """What becomes of a changed file; an AssertionError if the change is neither detected nor harmless.

    unreadable and refuted are detections. Otherwise the audit reports the same as before: unchanged if the content hash
    is the same too, and immaterial if it is not, so that whoever noted the hash detects that as well.
    """
    try:
        after = audit_file(path, given)
    except (ValueError, OSError):
        return "unreadable"
    if after.refuted:
        return "refuted"
    assert reported(after) == reported(before)
    return "unchanged" if after.content == before.content else "immaterial"


def flip(
    path: Path, times: int, given: AuditInputs, chance: random.Random, tick: Callable[[], None] = lambda: None
) -> Counter[str]:
    """Flip a byte of the file, look at it, put it back; and so on."""
    before, whole = audit_file(path, given), path.read_bytes()
    assert not before.refuted
    found: Counter[str] = Counter()
    victim = path.with_name("flipped" + path.suffix)
    for _ in range(times):
        for log in ("-wal", "-shm", "-journal"):
            victim.with_name(victim.name + log).unlink(missing_ok=True)
        victim.write_bytes(flipped(whole, chance))
        found[outcome(victim, before, given)] += 1
        tick()
    return found
