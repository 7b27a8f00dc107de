"""Hashes of files, by which a committed result says what it is about.

A proof or a checker takes seconds to minutes and needs a prover; comparing hashes needs neither.
So a result is committed together with the hashes of the files that it is about, and a test fails
where these hashes differ from the files of the tree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

__all__ = ["ROOT", "changed", "digests"]

ROOT = Path(__file__).resolve().parent.parent


def digests(paths: Iterable[str | Path], root: Path = ROOT) -> dict[str, str]:
    """Return the SHA-256 of text files, by their path inside the repository.

    Parameters
    ----------
    paths : iterable of str or Path
        Relative to `root`, or absolute and inside of it.
    root : Path
        The repository's folder.

    Returns
    -------
    dict of str to str
        Sorted by path. Paths have forward slashes. Line ends count as line feeds, so that a
        checkout on Windows has the same hashes.
    """
    files = sorted(
        {(root / path).resolve().relative_to(root.resolve()).as_posix() for path in paths}
    )
    return {file: _digest(root / file) for file in files}


def changed(recorded: dict[str, str], root: Path = ROOT) -> list[str]:
    """Return the recorded files whose text is another now, or which are gone."""
    return [
        file
        for file, digest in sorted(recorded.items())
        if not (root / file).is_file() or _digest(root / file) != digest
    ]


def _digest(file: Path) -> str:
    """Return the SHA-256 of one text file with line feeds as line ends."""
    text = file.read_bytes().replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return hashlib.sha256(text).hexdigest()
