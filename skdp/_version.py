"""The version of skdp, which ledgers and certificates carry, and those of what it runs with."""

from __future__ import annotations

import sys

__version__ = "0.2.0.dev0"

# The required ones, then those of skdp.engines, skdp.sql, displays and ledgers of many hosts.
_PACKAGES = (
    "numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl",
    "pandas", "polars", "pyarrow", "duckdb", "sqlglot", "dask", "pyspark", "matplotlib", "psycopg",
)  # fmt: skip


def show_versions() -> None:
    """Print the versions that a bug report needs: skdp, Python, system, libraries.

    ``python -m skdp`` does the same. No path, user or host is printed: you may publish all of it.

    See Also
    --------
    sklearn.show_versions : the same for scikit-learn, with its threads.
    """
    import platform
    from importlib import metadata

    versions = {
        "skdp": __version__,
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
    }
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    width = max(map(len, versions))
    sys.stdout.writelines(f"{name:<{width}}  {version}\n" for name, version in versions.items())
