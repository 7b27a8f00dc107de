"""What a bug report needs: ``python -m skdp`` prints all versions, ``--version`` that of skdp."""

from __future__ import annotations

import argparse

from skdp._version import __version__, show_versions

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m skdp",
        description="Print the versions that a bug report needs.",
        epilog="Ledgers have a command of their own: python -m skdp.ledger --help",
    )
    parser.add_argument("--version", action="version", version=f"skdp {__version__}")
    parser.parse_args()
    show_versions()
