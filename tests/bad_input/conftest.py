"""Puts the registry of estimators within reach of the tests of bad input."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
