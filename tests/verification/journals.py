"""Rollback journals as an attacker writes them (https://sqlite.org/fileformat.html#the_rollback_journal)."""

import os
import struct
from pathlib import Path

MAGIC = bytes.fromhex("d9d505f920a163d7")
SECTOR = 512
NONCE = 7
PENDING_BYTE = 0x40000000


def beside(path: Path, suffix: str = "-journal") -> Path:
    return path.with_name(path.name + suffix)


def hot_journal(run: Path, pages: dict[int, bytes] | None = None, super_journal: Path | None = None) -> bytes:
    """A journal that SQLite plays back into the run: pages by number, and the name of a super-journal at its end."""
    head = run.read_bytes()[:100]
    page = int.from_bytes(head[16:18])
    pages = pages or {}
    count = run.stat().st_size // page
    journal = (MAGIC + struct.pack(">5I", len(pages), NONCE, count, SECTOR, page)).ljust(SECTOR, b"\0")
    for number, content in pages.items():
        assert len(content) == page
        checked = NONCE + sum(content[i] for i in range(page - 200, 0, -200))
        journal += struct.pack(">I", number) + content + struct.pack(">I", checked & 0xFFFFFFFF)
    if super_journal is not None:
        name = os.fsencode(super_journal)
        journal += struct.pack(">I", PENDING_BYTE // page + 1) + name + struct.pack(">2I", len(name), sum(name)) + MAGIC
    return journal
