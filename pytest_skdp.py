"""A plugin of pytest that audits mechanisms of any library: ``pytest --dp-audit``.

Nothing is released. Tests that bear the marker ``dp_audit`` run only with the option, since they
take their time. The fixture `dp_auditor` keeps the account of all of a session's audits: its error
is shared among them, so that a whole suite of correct mechanisms fails with probability at most
``--dp-audit-alpha``, however many there are.
"""

from __future__ import annotations

from typing import Any

import pytest

__all__ = ["DPAuditor", "dp_auditor"]


class DPAuditor:
    """Audits whose false alarms are counted together.

    The k-th statistical audit of a session gets alpha / (k (k + 1)), which adds up to alpha. The
    workers of pytest-xdist cannot count together, and get an equal part of alpha each.
    """

    def __init__(self, alpha: float, n_runs: int) -> None:
        self.alpha = alpha
        self.n_runs = n_runs
        self.n_audits = 0
        self.lines: list[str] = []

    def next_confidence(self) -> float:
        """Return the confidence of the next audit, and count it.

        Returns
        -------
        confidence : float
        """
        self.n_audits += 1
        return 1.0 - self.alpha / (self.n_audits * (self.n_audits + 1))

    def holds(
        self,
        mechanism: Any,
        table: Any,
        neighbour: Any,
        *,
        epsilon: float,
        delta: float = 0.0,
        mu: float | None = None,
        n_runs: int | None = None,
        random_state: int | None = None,
    ) -> Any:
        """Fail the test if runs on two neighbouring tables refute a claim.

        Parameters
        ----------
        mechanism : callable
            ``mechanism(table, rng) -> output``.
        table, neighbour : object
        epsilon, delta, mu : float
            The claim.
        n_runs : int, default=None
            On each table; None takes ``--dp-audit-runs``.
        random_state : int or None, default=None

        Returns
        -------
        bound : LowerBound
        """
        from skdp.audit import black_box_bound

        bound = black_box_bound(
            mechanism,
            table,
            neighbour,
            epsilon=epsilon,
            delta=delta,
            n_runs=n_runs or self.n_runs,
            confidence=self.next_confidence(),
            random_state=random_state,
        )
        self._judge(bound.refutes(epsilon=epsilon, mu=mu), bound, epsilon, delta)
        return bound

    def search(self, mechanism: Any, pairs: Any, *, epsilon: float, **options: Any) -> Any:
        """Fail the test if a search over pairs of neighbouring tables refutes a claim.

        Parameters
        ----------
        mechanism : callable
            ``mechanism(table, rng) -> output``.
        pairs : iterable of tuple
        epsilon : float
        **options
            Of `skdp.audit.find_violation`, but for `confidence`, which the session's share of
            ``--dp-audit-alpha`` decides.

        Returns
        -------
        found : Search
        """
        from skdp.audit import find_violation

        if "confidence" in options:
            raise TypeError(
                "confidence is decided by --dp-audit-alpha, which a session's audits share"
            )
        options = {"n_runs": self.n_runs, "confidence": self.next_confidence(), **options}
        found = find_violation(mechanism, pairs, epsilon=epsilon, **options)
        self._judge(found.refuted, found.bound, epsilon, options.get("delta", 0.0))
        return found

    def exact(
        self, mechanism: Any, table: Any, neighbour: Any, *, epsilon: float, delta: float = 0.0
    ) -> float:
        """Fail the test if a mechanism of finitely many outcomes loses more than epsilon.

        Parameters
        ----------
        mechanism : callable
            As `skdp.audit.exact_distribution` takes it.
        table, neighbour : object
        epsilon, delta : float
            The claim.

        Returns
        -------
        epsilon : float
            The exact one, to rounding.
        """
        from skdp.audit import exact_epsilon

        found = exact_epsilon(mechanism, table, neighbour, delta=delta)
        if found > epsilon * (1 + 1e-12):
            pytest.fail(f"the mechanism loses epsilon = {found:.6g}, claimed {epsilon:g}")
        return found

    def replays(self, mechanism: Any, table: Any, neighbour: Any, primitives: Any) -> Any:
        """Fail the test if anything but the noise primitives depends on rows.

        Parameters
        ----------
        mechanism : callable
            ``mechanism(table, rng) -> output``.
        table, neighbour : object
        primitives : sequence of Primitive

        Returns
        -------
        found : Replay
        """
        from skdp.audit import replay_mechanism

        found = replay_mechanism(mechanism, table, neighbour, primitives)
        if not found.passed:
            pytest.fail("; ".join(found.problems))
        return found

    def _judge(self, refuted: bool, bound: Any, epsilon: float, delta: float) -> None:
        line = (
            f"epsilon >= {bound.epsilon:.4g}, mu >= {bound.mu:.4g} at confidence "
            f"{bound.confidence:.6g}; claimed epsilon = {epsilon:g}, delta = {delta:g}"
        )
        self.lines.append(line)
        if refuted:
            pytest.fail(f"the claim is refuted: {line}")
        if not bound.tested:
            pytest.fail(
                f"nothing was tested, the outputs show no difference: {line}. These runs catch "
                f"epsilon = {bound.smallest_violation:.3g} or more: take more runs, a larger "
                "epsilon, or tables that are further apart"
            )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("differential privacy")
    group.addoption("--dp-audit", action="store_true", help="run tests marked dp_audit")
    group.addoption(
        "--dp-audit-alpha",
        type=float,
        default=1e-3,
        help="probability that any audit of correct mechanisms fails (default 1e-3)",
    )
    group.addoption(
        "--dp-audit-runs", type=int, default=10_000, help="runs on each table (default 10000)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and make the session's auditor."""
    config.addinivalue_line("markers", "dp_audit: audits privacy; runs with --dp-audit only")
    alpha, n_runs = config.getoption("--dp-audit-alpha"), config.getoption("--dp-audit-runs")
    if not 0 < alpha < 1:
        raise pytest.UsageError(f"--dp-audit-alpha must be in (0, 1); got {alpha:g}")
    if n_runs < 100:
        raise pytest.UsageError(f"--dp-audit-runs must be at least 100; got {n_runs}")
    n_workers = getattr(config, "workerinput", {}).get("workercount", 1)
    config.stash[_AUDITOR] = DPAuditor(alpha / n_workers, n_runs)


_AUDITOR: pytest.StashKey[DPAuditor] = pytest.StashKey()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip marked tests without the option."""
    if config.getoption("--dp-audit"):
        return
    skip = pytest.mark.skip(reason="audits run with --dp-audit")
    for item in items:
        if item.get_closest_marker("dp_audit"):
            item.add_marker(skip)


@pytest.fixture
def dp_auditor(request: pytest.FixtureRequest) -> DPAuditor:
    """Return the session's auditor.

    Returns
    -------
    auditor : DPAuditor
    """
    return request.config.stash[_AUDITOR]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say what was audited."""
    auditor = config.stash[_AUDITOR]
    if auditor.lines:
        terminalreporter.section("differential privacy audits")
        for line in auditor.lines:
            terminalreporter.line(line)
