"""Displays: what they show is what was released, and they need nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from skdp import (
    DPPCA,
    DPKMeans,
    DPMinMaxScaler,
    DPStandardScaler,
    PrivacyBudget,
    inspection,
    metrics,
    statistics,
)
from skdp.budget import Cost
from skdp.budget.reports.html import grouped_releases
from skdp.impute import DPSimpleImputer
from skdp.inspection import (
    BudgetDisplay,
    CentersDisplay,
    ClusterDisplay,
    ComponentsDisplay,
    ErrorExplorer,
    IntervalDisplay,
    PrivacyCurveDisplay,
    PrivacyUtilityDisplay,
    PrivateCalibrationDisplay,
    PrivateConfusionMatrixDisplay,
    PrivateRocCurveDisplay,
    SpentDisplay,
)
from skdp.preprocessing import DPOneHotEncoder

CENTERS = np.array([[0.25, 0.25], [0.75, 0.5], [0.5, 0.75]])


def nearest(points: np.ndarray) -> np.ndarray:
    return np.argmin(((points[:, None] - CENTERS) ** 2).sum(axis=2), axis=1)


@pytest.fixture(scope="module")
def kmeans() -> DPKMeans:
    X = np.repeat(CENTERS, 500, axis=0)
    return DPKMeans(3, epsilon=5.0, bounds=(0, 1), random_state=0).fit(X)


@pytest.fixture
def budget() -> PrivacyBudget:
    budget = PrivacyBudget(epsilon=1.0, delta=1e-6)
    for name, epsilon, delta in [("A", 0.1, 0.0), ("B", 0.2, 1e-7), ("A", 0.1, 0.0)]:
        budget.charge(Cost(epsilon, delta), estimator=name)
    return budget


def test_budget_segments_are_what_was_charged(budget):
    display = BudgetDisplay.from_budget(budget)
    assert display.labels == ("2 × A", "B")
    assert display.epsilons.tolist() == [0.2, 0.2]
    assert display.remaining == 0.6
    left, width = zip(*((p.get_x(), p.get_width()) for p in display.ax_.patches), strict=True)
    assert left == pytest.approx((0.0, 0.2, 0.4))
    assert width == pytest.approx((0.2, 0.2, 0.6))
    assert display.ax_.get_xlim() == pytest.approx((0.0, 1.0))
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend == ["2 × A: 0.2", "B: 0.2", "remaining: 0.6"]
    assert display.caption == "ε = 0.4 of 1 and δ = 1e-07 of 1e-06 spent"
    assert display.ax_.get_title() == display.caption


def test_budget_display_charges_nothing(budget):
    before = budget.spent
    BudgetDisplay.from_budget(budget)
    assert budget.spent == before
    assert len(budget.charges) == 3


def test_budget_without_charges():
    display = BudgetDisplay.from_budget(PrivacyBudget(epsilon=2.0))
    assert display.labels == ()
    assert [p.get_width() for p in display.ax_.patches] == [2.0]


def test_what_split_leaves_over_is_not_drawn():
    display = BudgetDisplay(["A"], [1.0], 4e-17).plot()
    assert [p.get_width() for p in display.ax_.patches] == [1.0]


def test_a_budget_that_is_set_aside_altogether():
    budget = PrivacyBudget(epsilon=1.0)
    with budget.reserve(Cost(1.0)):
        display = BudgetDisplay.from_budget(budget)
    assert display.remaining == 0.0
    assert display.ax_.get_xlim() == (0.0, 1.0)


def test_segments_sum_to_what_is_spent_under_other_accountants():
    budget = PrivacyBudget(epsilon=1.0, delta=1e-6, accountant="zcdp")
    for name, epsilon in [("A", 0.05), ("B", 0.1)]:
        budget.charge(Cost(epsilon), estimator=name)
    display = BudgetDisplay.from_budget(budget)
    assert display.epsilons.sum() == pytest.approx(budget.spent.epsilon)
    assert display.epsilons[1] == pytest.approx(2 * display.epsilons[0])


def test_budget_display_refuses_other_things():
    with pytest.raises(TypeError, match="budget must be a PrivacyBudget, got float"):
        BudgetDisplay.from_budget(1.0)


def test_the_curve_is_what_was_spent_at_every_delta():
    budget = PrivacyBudget(5.0, 1e-6, accountant="gdp")
    budget.charge(20 * Cost(0.1), estimator="A")
    display = PrivacyCurveDisplay.from_budget(budget, n_points=13)
    assert display.epsilons.tolist() == budget.curve(display.deltas.tolist())
    (curve, point) = display.ax_.get_lines()
    assert curve.get_ydata().tolist() == display.epsilons.tolist()
    assert (point.get_xdata()[0], point.get_ydata()[0]) == (1e-6, 5.0)
    basic = PrivacyBudget(1.0, 1e-6)
    basic.charge(Cost(0.5, 1e-7), estimator="A")
    shown = PrivacyCurveDisplay.from_budget(basic).ax_.get_lines()[0].get_ydata()
    assert set(shown.tolist()) == {0.5}  # deltas that are too small have no epsilon


@pytest.mark.parametrize("accountant", ["basic", "gdp", "pld"])
def test_what_was_spent_over_time(accountant):
    budget = PrivacyBudget(5.0, 1e-6, accountant=accountant)
    with budget.reserve(4 * Cost(0.1)):
        for _ in range(4):
            budget.charge(Cost(0.1), estimator="A")
    display = SpentDisplay.from_budget(budget)
    assert display.epsilons[-1] == budget.spent.epsilon
    assert len(display.times) == 4
    assert len(budget.charges) == 4
    SpentDisplay.from_budget(PrivacyBudget(1.0))  # nothing was spent


@pytest.mark.parametrize("display", [PrivacyCurveDisplay, SpentDisplay])
def test_displays_of_a_budget_refuse_other_things(display):
    with pytest.raises(TypeError, match="budget must be a PrivacyBudget"):
        display.from_budget(3.0)


def test_cluster_regions_are_the_predictions():
    display = ClusterDisplay(CENTERS, nearest, (0, 1, 0, 1)).plot()
    image = display.ax_.images[0]
    assert image.get_extent() == [0.0, 1.0, 0.0, 1.0]
    regions = np.asarray(image.get_array())
    for number, (x, y) in enumerate(CENTERS):
        # origin="lower": row index grows with y
        assert regions[int(y * len(regions)), int(x * len(regions))] == number
    assert [text.get_text() for text in display.ax_.texts] == ["0", "1", "2"]
    assert [text.xy for text in display.ax_.texts] == [tuple(c) for c in CENTERS]


def test_cluster_display_of_an_estimator(kmeans):
    display = ClusterDisplay.from_estimator(kmeans, extent=(0, 1, 0, 1))
    assert np.array_equal(display.centers, kmeans.cluster_centers_)
    regions = np.asarray(display.ax_.images[0].get_array())
    assert set(np.unique(regions)) <= {0, 1, 2}


def test_cluster_display_shows_every_center_by_default():
    x0, x1, y0, y1 = ClusterDisplay(CENTERS, nearest).extent
    assert x0 < 0.25 < 0.75 < x1
    assert y0 < 0.25 < 0.75 < y1
    x0, x1, y0, y1 = ClusterDisplay(CENTERS[:1], nearest).extent  # one centre has no width
    assert x0 < 0.25 < x1
    assert y0 < 0.25 < y1


@pytest.mark.parametrize("extent", [(1, 0, 0, 1), (0, 1, 1, 1), (0, float("nan"), 0, 1)])
def test_cluster_display_refuses_an_empty_extent(extent):
    with pytest.raises(ValueError, match="extent must be"):
        ClusterDisplay(CENTERS, nearest, extent)


def test_cluster_display_needs_two_features():
    with pytest.raises(ValueError, match=r"centers must have shape \(n_clusters, 2\)"):
        ClusterDisplay(np.zeros((4, 3)), nearest)


def test_centers_in_the_units_of_the_input():
    X = np.repeat(CENTERS, 500, axis=0) * [100.0, 1000.0]
    pipe = make_pipeline(
        DPMinMaxScaler(bounds=([0, 0], [100, 1000])),
        DPKMeans(3, epsilon=5.0, bounds=(0, 1), random_state=0),
    ).fit(X)
    display = CentersDisplay.from_estimator(pipe, feature_names=["minutes", "miles"])
    assert display.centers == pytest.approx(pipe[-1].cluster_centers_ * [100.0, 1000.0])
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["minutes", "miles"]
    cells = [text.get_text().split("\n")[:2] for text in display.ax_.texts]
    assert [float(cell[0]) for cell in cells] == pytest.approx(display.centers.ravel(), rel=1e-3)
    std = pipe[-1].cluster_centers_std_ * [100.0, 1000.0]
    assert [float(cell[1][2:]) for cell in cells] == pytest.approx(std.ravel(), rel=0.06)
    noise = pipe[-1].cluster_centers_noise_std_ * [100.0, 1000.0]
    assert display.noise_std == pytest.approx(noise)


def test_centers_are_shaded_by_their_distance_in_standard_errors():
    centers, std = [[0.0, 0.0], [2.0, 2.0]], [[1.0, 0.1], [1.0, np.nan]]
    (image,) = CentersDisplay(centers, std=std).plot().ax_.images
    np.testing.assert_allclose(image.get_array(), [[1.0, 4.0], [1.0, 0.0]])
    (plain,) = CentersDisplay(centers).plot().ax_.images
    assert not np.any(plain.get_array())  # without errors nobody knows what is noise
    with pytest.raises(ValueError, match=r"std must have shape \(2, 2\)"):
        CentersDisplay(centers, std=[1.0, 2.0])


def test_noise_is_told_where_it_is_a_small_part_of_the_error():
    centers, std, noise = [[0.0, 0.0]], [[1.0, 1.0]], [[0.1, 0.9]]
    display = CentersDisplay(centers, std=std, noise_std=noise).plot()
    shown = [text.get_text() for text in display.ax_.texts]
    assert shown == ["0.0\n± 1.0\n(noise 0.1)", "0.0\n± 1.0"]
    wide = CentersDisplay([[31234.5, 4.9e-5]], std=[[241.0, 0.0161]], feature_names=["n" * 40] * 2)
    axes = wide.plot().ax_
    assert [one.get_text() for one in axes.texts] == ["31,230\n± 240", "0.000\n± 0.016"]
    assert axes.get_xticklabels()[0].get_rotation() == 25
    with pytest.raises(ValueError, match=r"noise_std must have shape \(1, 2\)"):
        CentersDisplay(centers, std=std, noise_std=[0.1, 0.9])


def test_errors_of_centers_are_not_known_behind_a_step_that_mixes_columns():
    X = np.random.default_rng(0).random((500, 3))
    mixed = make_pipeline(PCA(2), DPKMeans(2, bounds=(-1, 1), epsilon=5.0, random_state=0)).fit(X)
    assert np.isnan(CentersDisplay.from_estimator(mixed).std).all()


def test_centers_of_an_estimator_and_of_a_pipeline_of_one(kmeans):
    for estimator in (kmeans, make_pipeline(kmeans)):
        display = CentersDisplay.from_estimator(estimator)
        assert np.array_equal(display.centers, kmeans.cluster_centers_)
        assert display.feature_names == ("x0", "x1")


def test_centers_display_takes_names_seen_in_fit():
    import pandas as pd

    X = pd.DataFrame(np.repeat(CENTERS, 50, axis=0), columns=["a", "b"])
    kmeans = DPKMeans(2, epsilon=1.0, bounds=(0, 1), random_state=0).fit(X)
    assert CentersDisplay.from_estimator(kmeans).feature_names == ("a", "b")


def test_centers_display_refuses_wrong_shapes():
    with pytest.raises(ValueError, match="centers must have shape"):
        CentersDisplay([1.0, 2.0])
    with pytest.raises(ValueError, match="feature_names must hold 2 names, got 1"):
        CentersDisplay(CENTERS, ["a"])


@pytest.mark.parametrize("display", [ClusterDisplay, CentersDisplay])
def test_an_unfitted_estimator_is_refused(display):
    with pytest.raises(NotFittedError):
        display.from_estimator(DPKMeans(3))


@pytest.mark.parametrize(
    "display",
    [
        BudgetDisplay(["A"], [0.5], 0.5),
        ClusterDisplay(CENTERS, nearest),
        CentersDisplay(CENTERS),
    ],
)
def test_plot_draws_on_given_axes_and_returns_itself(display):
    figure, ax = plt.subplots()
    assert display.plot(ax=ax) is display
    assert display.ax_ is ax
    assert display.figure_ is figure
    assert len(plt.get_fignums()) == 1  # no other figure was opened
    assert display.plot().ax_ is not ax


def test_no_display_takes_rows():
    """But for those of metrics and groups, which ask private functions for releases."""
    asks = {
        "_metrics.py": {"from_estimator", "from_predictions", "_scores"},
        "_groups.py": {
            "evaluate_by",
            "_group_columns",
            "_length",
            "_equal",
            "_features",
            "_losses",
        },
    }
    files = list(Path(inspection.__file__).parent.glob("*.py"))
    arguments = {
        argument.arg
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        for argument in (*node.args.args, *node.args.kwonlyargs)
        if node.name not in asks.get(file.name, ())
    }
    assert "budget" in arguments  # the list is not empty
    assert not arguments & {"X", "y", "rows", "data"}


@pytest.mark.slow
def test_matplotlib_is_imported_when_something_is_plotted():
    code = (
        "import sys, skdp, skdp.inspection as i\n"
        "assert 'matplotlib' not in sys.modules\n"
        "sys.modules['matplotlib'] = None\n"
        "try:\n"
        "    i.CentersDisplay([[1.0]]).plot()\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "python -m pip install matplotlib" in answer.stdout


class Scorer:
    """A public classifier: the score of a row is its first cell."""

    classes_ = np.array(["no", "yes"])

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])

    def predict(self, X):
        return self.classes_[(X[:, 0] >= 0.5).astype(int)]


@pytest.fixture(scope="module")
def scored():
    X = np.random.default_rng(0).random((2000, 1))
    return X, np.where(np.random.default_rng(1).random(2000) < X[:, 0], "yes", "no")


def test_displays_of_metrics_charge_once_and_draw_what_was_released(scored):
    budget = PrivacyBudget(3.0)
    kinds = PrivateConfusionMatrixDisplay, PrivateRocCurveDisplay, PrivateCalibrationDisplay
    for kind in kinds:
        display = kind.from_estimator(Scorer(), *scored, epsilon=1.0, budget=budget)
        assert display.ax_.get_title()
        again = kind.from_released(display.released)
        assert again.released is display.released
        plt.close("all")
        with pytest.raises(TypeError, match=r"what skdp\.metrics"):
            kind(display)
    assert [charge.epsilon for charge in budget.charges] == [1.0] * 3

    matrix = metrics.confusion_matrix(
        scored[1], Scorer().predict(scored[0]), labels=["no", "yes"], epsilon=1e4
    )
    display = PrivateConfusionMatrixDisplay.from_released(matrix)
    texts = [text.get_text() for text in display.ax_.texts]
    assert texts[0].startswith(f"{matrix.counts.value[0, 0]:,.0f}")
    assert [t.get_text() for t in display.ax_.get_xticklabels()] == ["no", "yes"]
    found = metrics.score_histogram(scored[1], scored[0][:, 0], labels=["no", "yes"])
    display = PrivateRocCurveDisplay.from_released(found, name="ours", population=True)
    line = display.ax_.get_lines()[0]
    np.testing.assert_array_equal(line.get_ydata(), found.roc_curve()[1].value)
    low, high = found.roc_auc().population_interval()
    assert line.get_label() == f"ours: AUC {found.roc_auc():.3f} ({low:.3f} to {high:.3f})"
    display = PrivateCalibrationDisplay.from_released(found, n_bins=5)
    low, high = found.calibration_curve(5)[0].interval()
    bars = display.ax_.patches
    assert [bar.get_y() for bar in bars] == pytest.approx(low.tolist())
    assert [bar.get_height() for bar in bars] == pytest.approx((high - low).tolist())
    plt.close("all")


def test_the_error_falls_with_epsilon_and_with_rows():
    display = PrivacyUtilityDisplay.from_estimator(
        "mean", n_samples=[100, 10_000], epsilons=[0.1, 1, 10], bounds=(0, 1), n_rows="public"
    )
    wanted = statistics.expected_error("mean", 100, epsilon=1.0, bounds=(0, 1), n_rows="public")
    assert display.errors[0, 1] == wanted
    assert np.all(np.diff(display.errors, axis=0) < 0)
    assert np.all(np.diff(display.errors, axis=1) < 0)
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == [
        "100 rows", "10,000 rows",
    ]  # fmt: skip
    for curve, line in zip(display.errors, display.ax_.get_lines(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), curve)
    with pytest.raises(ValueError, match="like="):
        PrivacyUtilityDisplay.from_estimator("mean", n_samples=100, bounds=(0, 1))
    with pytest.raises(ValueError, match="n_features"):
        PrivacyUtilityDisplay.from_estimator(DPMinMaxScaler(), n_samples=100)
    with pytest.raises(TypeError, match="expected_error"):
        PrivacyUtilityDisplay.from_estimator(make_pipeline(DPMinMaxScaler()), n_samples=100)
    with pytest.raises(ValueError, match="a row for each"):
        PrivacyUtilityDisplay([1.0], [10], [[1.0, 2.0]])
    plt.close("all")


def test_intervals_that_are_too_short_are_below_the_line():
    class Short:
        def interval(self, level):
            return np.array(0.5), np.array(0.5 + 1e-3 * level)

    x = np.linspace(0, 1, 100)
    good = [statistics.mean(x, bounds=(0, 1)) for _ in range(60)]
    assert np.all(IntervalDisplay.from_releases(good, 0.5).shares > 0.2)
    bad = IntervalDisplay.from_releases([Short()] * 60, 0.7, levels=[0.5, 0.9])
    assert bad.shares.tolist() == [0.0, 0.0]
    assert bad.ax_.get_lines()[1].get_ydata().tolist() == [0.0, 0.0]
    plt.close("all")


def test_components_that_noise_hides_are_hollow():
    X = np.random.default_rng(0).normal(size=(400, 5)) * [8, 4, 0.1, 0.1, 0.1]
    pca = DPPCA(center=0.0, norm_bound=30.0, epsilon=20.0, delta=1e-6).fit(X)
    display = ComponentsDisplay.from_estimator(pca)
    assert 0 < pca.n_resolved_ < 5
    bars = sorted(display.ax_.patches, key=lambda bar: bar.get_x())
    assert [bar.get_height() for bar in bars] == pca.explained_variance_.tolist()
    filled = [bar.get_facecolor()[3] == 1 for bar in bars]
    assert filled == [i < pca.n_resolved_ for i in range(5)]
    assert f"{pca.noise_level_:.3g}" in display.ax_.get_title()
    with pytest.raises(NotFittedError):
        ComponentsDisplay.from_estimator(DPPCA())
    plt.close("all")


def test_the_html_of_an_estimator_says_what_it_costs_and_what_it_released(kmeans):
    budget = PrivacyBudget(2.0)
    made = DPKMeans(2, bounds=(0, 1), algorithm="lloyd", epsilon=0.5, budget=budget)
    text = made._repr_html_()
    assert "A fit costs epsilon=0.5, delta=0.0." in text
    assert "Its budget of epsilon=2.0, delta=0.0 has epsilon=2.0, delta=0.0 left." in text
    assert "at most 62.3%" in text
    made.fit([[0.1], [0.9]] * 200)
    text = made._repr_mimebundle_()["text/html"]
    assert "has epsilon=1.5, delta=0.0 left." in text
    assert "charged: yes" in text
    assert "5 × iteration 1: counts … iteration 5: counts" in text
    assert text.count("at most 62.3%") == 1
    assert len(grouped_releases(made.privacy_.releases)) == 2
    assert "No budget counts it" in kmeans._repr_html_()
    assert "A fit costs" not in DPKMeans(2, epsilon=-1)._repr_html_()
    with config_context(display="text"):
        assert not hasattr(made, "_repr_html_")
        assert set(made._repr_mimebundle_()) == {"text/plain"}


@pytest.mark.parametrize(
    "free",
    [
        DPMinMaxScaler(bounds=(0, 1)),
        DPSimpleImputer(strategy="constant", fill_value=0),
        DPOneHotEncoder(categories=[["a", "b"]]),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_the_html_of_a_free_fit_says_so(free):
    assert "A fit releases nothing, and costs nothing." in free._repr_html_()


def test_the_html_of_a_cost_says_what_it_means():
    text = Cost(1.0)._repr_html_()
    assert "epsilon=1.0, delta=0.0" in text
    assert "at most 73.2%" in text


# --- the widget -------------------------------------------------------------------------------


@pytest.fixture
def explorer():
    pytest.importorskip("ipywidgets", reason="the widget needs ipywidgets")
    return ErrorExplorer(DPStandardScaler(bounds=(0, 100)), n_samples=5_000, n_features=3)


def expected(epsilon, n, delta=0.0):
    scaler = DPStandardScaler(bounds=(0, 100), epsilon=epsilon, delta=delta)
    return float(np.max(scaler.expected_error(n, 3)))


def test_the_error_follows_what_is_moved(explorer):
    assert explorer.error.value == pytest.approx(expected(1.0, 5_000))
    explorer.epsilon.value = 2.0
    assert explorer.error.value == pytest.approx(expected(2.0, 5_000))
    explorer.n_samples.value = 50_000
    assert explorer.error.value == pytest.approx(expected(2.0, 50_000))
    explorer.delta.value = 1e-6
    assert explorer.error.value == pytest.approx(expected(2.0, 50_000, 1e-6))
    assert explorer.epsilon.value == 2.0
    assert "88.1%" in explorer.text.value


def test_epsilon_follows_the_error(explorer):
    explorer.error.value = 0.01
    assert expected(explorer.epsilon.value, 5_000) <= 0.01
    assert expected(0.98 * explorer.epsilon.value, 5_000) > 0.01
    assert explorer.error.value == 0.01  # it stays where it was put
    before = explorer.epsilon.value
    explorer.error.value = 1e-6
    assert explorer.epsilon.value == before
    assert "No ε up to 10" in explorer.text.value


def test_the_widget_of_a_function_and_of_too_much_noise():
    pytest.importorskip("ipywidgets", reason="the widget needs ipywidgets")
    explorer = ErrorExplorer("count", n_samples=10**12, n_rows="private")
    assert explorer.n_samples.value == pytest.approx(1e12)
    assert "vnd.jupyter.widget-view+json" in str(explorer._repr_mimebundle_())


class Drowned(DPStandardScaler):
    """Has no answer below an epsilon of 0.1."""

    def expected_error(self, n_samples, n_features):
        if self.epsilon < 0.1:
            raise ValueError("too much noise")
        return super().expected_error(n_samples, n_features)


def test_the_widget_says_where_noise_leaves_no_answer():
    pytest.importorskip("ipywidgets", reason="the widget needs ipywidgets")
    explorer = ErrorExplorer(Drowned(bounds=(0, 100)), n_samples=5_000, n_features=3)
    before = explorer.error.value
    explorer.epsilon.value = 0.05
    assert "Too much noise" in explorer.text.value
    assert explorer.error.value == before


def test_the_widget_refuses_what_cannot_tell_an_error():
    pytest.importorskip("ipywidgets", reason="the widget needs ipywidgets")
    with pytest.raises(TypeError, match="expected_error"):
        ErrorExplorer(PCA(), n_samples=100)
    with pytest.raises(ValueError, match="n_samples must be"):
        ErrorExplorer("count", n_samples=0)


def test_centres_behind_a_column_transformer_are_in_the_units_of_the_last_step():
    table = pd.DataFrame({"age": [20.0, 60.0] * 200, "job": ["a", "b"] * 200})
    columns = ColumnTransformer(
        [
            ("age", DPMinMaxScaler(bounds=(0, 100)), ["age"]),
            ("job", DPOneHotEncoder(categories=[["a", "b"]]), ["job"]),
        ]
    )
    pipe = make_pipeline(columns, DPKMeans(2, bounds=(0, 1), epsilon=5.0, random_state=0))
    display = CentersDisplay.from_estimator(pipe.fit(table))
    assert display.feature_names == ("age__age", "job__job_a", "job__job_b")
    np.testing.assert_array_equal(display.centers, pipe[-1].cluster_centers_)
