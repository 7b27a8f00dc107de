"""Makes drawn examples the same in every run: what passes here passes everywhere.

`pytest --hypothesis-profile=default` draws other examples each time, to look for more.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")
