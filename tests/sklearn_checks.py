"""scikit-learn's own checks of an estimator, all of them as one item."""

from __future__ import annotations

from sklearn.utils.estimator_checks import check_estimator


def run_checks(estimator, expected_failures, monkeypatch):
    """Run scikit-learn's checks; those that are expected to fail must fail, and none is skipped."""
    # Without the variable the check of array-API dispatch skips itself.
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    results = check_estimator(
        estimator, expected_failed_checks=expected_failures, on_fail=None, on_skip=None
    )
    assert len(results) >= 30
    wrong = {
        result["check_name"]: result["exception"] or "passed, and is expected to fail"
        for result in results
        if result["status"] != ("xfail" if result["expected_to_fail"] else "passed")
    }
    for name, error in wrong.items():
        if isinstance(error, Exception):
            raise AssertionError(f"{name}; {len(wrong)} fail: {', '.join(wrong)}") from error
    assert wrong == {}
    assert set(expected_failures) <= {result["check_name"] for result in results}
