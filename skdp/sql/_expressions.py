"""Row-local expressions: the closed list of what is answered."""

from __future__ import annotations

from skdp.sql._arithmetic import ARITHMETIC
from skdp.sql._logic import LOGIC
from skdp.sql._typed import HANDLERS, Expr, Scope, compiled, condition

__all__ = ["Expr", "Scope", "compiled", "condition"]

HANDLERS.update(ARITHMETIC | LOGIC)
