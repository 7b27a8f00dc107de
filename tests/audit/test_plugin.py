"""The plugin of pytest, run on tests of its own."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

import pytest_skdp
from pytest_skdp import DPAuditor

pytest_plugins = ["pytester"]

TESTS = """
import numpy as np
import pytest

@pytest.mark.dp_audit
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_sum(dp_auditor, scale):
    def mechanism(table, rng):
        return round(sum(table) + rng.laplace(0, scale), 2)
    dp_auditor.holds(mechanism, [0], [1], epsilon=1.0, random_state=0)

@pytest.mark.dp_audit
@pytest.mark.parametrize("p", [0.25, 0.2])
def test_flip(dp_auditor, p):
    def flip(bit, rng):
        return bit ^ rng.bernoulli(p)
    dp_auditor.exact(flip, 0, 1, epsilon=1.1)

def test_unmarked():
    pass
"""


def run(pytester, *options):
    # In a process of its own: the plugin of this one is not that one's.
    pytester.makepyfile(TESTS)
    return pytester.runpytest_subprocess(
        "-p", "pytest_skdp", "-p", "no:cacheprovider", "-p", "no:xdist", *options
    )


@pytest.mark.slow
def test_marked_tests_run_with_the_option_and_wrong_mechanisms_fail(pytester):
    result = run(pytester, "--dp-audit", "--dp-audit-runs=1000")
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.fnmatch_lines(["*the claim is refuted*", "*differential privacy audits*"])
    result.stdout.fnmatch_lines(["*loses epsilon = 1.38629, claimed 1.1*"])


@pytest.mark.slow
def test_marked_tests_are_skipped_without_the_option(pytester):
    run(pytester).assert_outcomes(passed=1, skipped=4)


def test_errors_of_all_audits_add_up_to_alpha():
    auditor = DPAuditor(1e-3, 100)
    total = sum(1 - auditor.next_confidence() for _ in range(1000))
    assert 0.998e-3 < total < 1e-3


def test_sessions_that_audit_nothing_do_not_import_skdp():
    code = "import sys, pytest_skdp; sys.exit('skdp' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("n_workers", "alpha"), [(None, 1e-3), (4, 2.5e-4)])
def test_workers_share_alpha(n_workers, alpha):
    config = SimpleNamespace(
        getoption={"--dp-audit-alpha": 1e-3, "--dp-audit-runs": 100}.__getitem__,
        addinivalue_line=lambda *line: None,
        stash={},
    )
    if n_workers:
        config.workerinput = {"workercount": n_workers}
    pytest_skdp.pytest_configure(config)
    (auditor,) = config.stash.values()
    assert auditor.alpha == alpha


@pytest.mark.parametrize(
    ("alpha", "n_runs"), [(0.0, 100), (1.0, 100), (float("nan"), 100), (0.1, 99)]
)
def test_options_out_of_their_range_are_refused(alpha, n_runs):
    config = SimpleNamespace(
        getoption={"--dp-audit-alpha": alpha, "--dp-audit-runs": n_runs}.__getitem__,
        addinivalue_line=lambda *line: None,
        stash={},
    )
    with pytest.raises(pytest.UsageError, match="--dp-audit"):
        pytest_skdp.pytest_configure(config)


def test_a_search_takes_no_confidence_of_its_own():
    """It would have more than its share of the error that a session's audits share."""
    auditor = DPAuditor(0.01, 100)
    with pytest.raises(TypeError, match="confidence is decided by --dp-audit-alpha"):
        auditor.search(lambda table, rng: 0, [([0], [1])], epsilon=1.0, confidence=0.5)
    assert auditor.n_audits == 0


def test_an_audit_that_sees_nothing_fails():
    with pytest.raises(pytest.fail.Exception, match=r"nothing was tested.*catch epsilon = "):
        DPAuditor(0.01, 200).holds(lambda table, rng: 0, [0], [1], epsilon=1.0)
