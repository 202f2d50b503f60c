"""Commitment, nonce and key: who had a say in the noise (docs/audit.md, "The protocol")."""

import hashlib
from collections.abc import Iterator

from ..certification.promise import SPEC, Promise, is_digest
from ..models.registry import KINDS
from .inputs import AuditInputs
from .result import Check


def key_checks(promise: Promise, commitment: str, seed: str, nonce: str, noted: AuditInputs) -> Iterator[Check]:
    """What can be said about the key of a run, from its promise, its seed and its nonce.

    Guarantee: if all pass, the text has the commitment; the seed is the promised one; and commitment, nonce and
    promise are those that were noted, where they were. The check of the nonce passes only if the commitment was noted
    too: then the key, HKDF(seed ‖ nonce, C), was fixed by the nonce. (One who knows the nonce could try promises.)
    """
    yield _spec(promise)
    yield _commitment(promise, commitment, noted.commitment)
    if noted.promise is not None:
        yield _promise(promise, noted.promise)
    yield _seed(promise, seed)
    yield _nonce(nonce, noted)


def _spec(promise: Promise) -> Check:
    spec, kind = promise.values["spec"], promise.values["model kind"]
    if spec != SPEC or kind not in KINDS:
        return Check("version", False, f"the promise is of version {spec} for {kind} models; this program knows {SPEC}")
    return Check("version", True, f"noise specification {SPEC}")


def _commitment(promise: Promise, stated: str, noted: str | None) -> Check:
    made = promise.commitment
    if stated != made:
        return Check("commitment", False, f"the promise has the commitment {made}, not the stated {stated}")
    if noted is None:
        return Check("commitment", None, f"{made}; compare it with the one you noted (--commitment)")
    if noted != made:
        return Check("commitment", False, f"this run was promised as {made}, not as the noted {noted}")
    return Check("commitment", True, f"{made}, as noted")


def _promise(promise: Promise, noted: Promise) -> Check:
    differ = [
        f"{name}: {noted.values.get(name, 'nothing')} noted, {promise.values.get(name, 'nothing')} here"
        for name in {**noted.values, **promise.values}
        if noted.values.get(name) != promise.values.get(name)
    ]
    return Check("promise", not differ, "; ".join(differ) or "word for word the one you noted")


def _seed(promise: Promise, seed: str) -> Check:
    if not is_digest(seed) or hashlib.sha256(bytes.fromhex(seed)).hexdigest() != promise.values["seed"]:
        return Check("seed", False, "the seed is not the promised one: its SHA-256 differs")
    return Check("seed", True, "its SHA-256 is the promised one")


def _nonce(nonce: str, noted: AuditInputs) -> Check:
    if nonce and not is_digest(nonce):
        return Check("nonce", False, "the nonce is not 32 bytes in hexadecimal")
    if noted.nonce is not None:
        if nonce != noted.nonce:
            return Check("nonce", False, f"the run used {nonce or 'no nonce'}, not the noted {noted.nonce}")
        if noted.fixed is None:
            text = "the one you drew, but for which commitment? Whoever knows it can try promises (--commitment)"
            return Check("nonce", None, text)
        return Check("nonce", True, "the one you drew: the issuer could not choose the key")
    if not nonce:
        return Check("nonce", None, "none; key: self-chosen. Nothing is claimed against an issuer who tries many seeds")
    return Check("nonce", None, f"{nonce}; it binds the issuer only if you drew it after the commitment (--nonce)")
