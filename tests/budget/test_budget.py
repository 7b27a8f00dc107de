"""PrivacyBudget in one process: amounts, checks, split, identity, what it shows."""

from __future__ import annotations

import copy
import datetime
import html
import math
import os
import pickle
import subprocess
import sys
import time
from fractions import Fraction
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdp import DPKMeans, DPStandardScaler, statistics
from skdp.base import CallContext
from skdp.budget import Cost, PrivacyBudget, PrivacyLoss, exact, gdp_mu, locks
from skdp.exceptions import BudgetExceededError
from tests.folding import each


def spend(budget, epsilon, delta=0.0, **kwargs):
    return budget.charge(Cost(epsilon, delta), estimator="Fake", **kwargs)


def test_ten_tenths_fill_one_and_then_nothing_fits():
    budget = PrivacyBudget(1.0)
    for _ in range(10):
        spend(budget, 0.1)
    assert budget.spent == PrivacyLoss(1.0, 0.0)
    assert budget.remaining == PrivacyLoss(0.0, 0.0)
    with pytest.raises(BudgetExceededError, match="Nothing was charged"):
        spend(budget, 1e-9)
    with pytest.raises(BudgetExceededError):
        spend(budget, 5e-324)
    assert len(budget.charges) == 10


@settings(max_examples=25, deadline=None)
@given(
    total=st.decimals("0.001", 100, places=3),
    prices=st.lists(st.decimals("0.001", 40, places=3), min_size=1, max_size=12),
)
def test_a_charge_is_granted_exactly_when_the_decimal_sum_fits(total, prices):
    budget, spent = PrivacyBudget(float(total)), 0
    for price in prices:
        if spent + price <= total:
            spend(budget, float(price))
            spent += price
        else:
            with pytest.raises(BudgetExceededError):
                spend(budget, float(price))
    assert budget.spent.epsilon == float(spent)
    assert sum((exact(c.epsilon) for c in budget.charges), Fraction(0)) == Fraction(spent)


@settings(max_examples=25, deadline=None)
@given(st.floats(1e-6, 1e6), st.lists(st.floats(1e-7, 1e6), min_size=1, max_size=8))
def test_the_sum_of_arbitrary_floats_never_exceeds_the_budget(total, prices):
    budget = PrivacyBudget(total)
    for price in prices:
        try:
            spend(budget, price)
        except BudgetExceededError:
            assert exact(price) > exact(total) - sum(exact(c.epsilon) for c in budget.charges)
    assert sum((exact(c.epsilon) for c in budget.charges), Fraction(0)) <= exact(total)


@each("delta", [1e-5, 1e-7, 7e-6])
def test_a_hundred_unstated_deltas_fill_that_of_the_budget(delta):
    budget = PrivacyBudget(1.0, delta)
    part = CallContext("Fake", 1.0, budget=budget).allowed_delta
    assert 100 * exact(part) == exact(delta)


def test_delta_is_capped_too():
    budget = PrivacyBudget(10.0, 1e-6)
    spend(budget, 1.0, 9e-7)
    with pytest.raises(BudgetExceededError, match=r"delta=2e-07 \(approximate\).*delta=1e-07 left"):
        spend(budget, 1.0, 2e-7)
    with pytest.raises(BudgetExceededError):
        spend(PrivacyBudget(10.0), 1.0, 1e-300)
    spend(budget, 1.0, 1e-7)
    assert budget.spent == PrivacyLoss(2.0, 1e-6)


def test_the_message_names_price_budget_and_what_is_left():
    budget = PrivacyBudget(3.0, 1e-6)
    spend(budget, 2.5)
    with pytest.raises(BudgetExceededError) as caught:
        spend(budget, 0.6)
    assert str(caught.value) == (
        "Fake: the price is epsilon=0.6, delta=0.0 (pure); the budget of epsilon=3.0, "
        'delta=1e-06 has epsilon=0.5, delta=1e-06 left under accountant="basic". Nothing was '
        "charged for this fit; earlier ones, such as those of earlier steps of a pipeline, stay "
        "charged. The epsilon does not fit: state a smaller epsilon. budget.remaining says what is "
        "left, budget.charges what was spent; the total of a ledger cannot be raised."
    )


def test_check_raises_what_charge_would_and_records_nothing():
    budget = PrivacyBudget(1.0)
    budget.check(Cost(1.0))
    with pytest.raises(BudgetExceededError):
        budget.check(Cost(0.5) + Cost(0.6))
    with pytest.raises(TypeError, match=r"cost must be a skdp\.budget\.Cost; got float"):
        budget.check(1.0)
    assert budget.charges == []


def test_a_charge_tells_who_when_and_how():
    budget = PrivacyBudget(3.0, 1e-6, adjacency="add_or_remove_one")
    releases = [{"name": "mean", "share": 0.5, "std": np.float64(1.5), "d": np.int64(2), "t": [1]}]
    before = datetime.datetime.now(datetime.UTC)
    charge = budget.charge(
        Cost(0.5, 1e-7, mu=0.1), estimator="DPPCA", seeded=True, releases=releases, note="n"
    )
    assert budget.charges == [charge]
    assert before <= charge.when <= datetime.datetime.now(datetime.UTC)
    assert charge.when.utcoffset() == datetime.timedelta(0)
    assert (charge.estimator, charge.epsilon, charge.delta, charge.mu) == ("DPPCA", 0.5, 1e-7, 0.1)
    assert (charge.mechanism, charge.adjacency) == ("gaussian", "add_or_remove_one")
    assert charge.releases == ({"name": "mean", "share": 0.5, "std": 1.5, "d": 2, "t": [1]},)
    assert (charge.seeded, charge.note, charge.pid) == (True, "n", os.getpid())
    assert charge.cost == Cost(0.5, 1e-7, mu=0.1)


def test_a_sum_can_be_charged_and_keeps_its_components():
    budget = PrivacyBudget(1.0, 1e-6, accountant="gdp")
    total = 3 * Cost(0.01) + Cost(0.1, 1e-7, mu=0.02)
    charge = budget.charge(total, estimator="Search")
    assert charge.cost == total
    assert charge.mechanism == "mixed"
    assert 0 < budget.spent.epsilon < 0.25


@pytest.mark.parametrize(
    "wrong",
    [
        {"releases": [{"rows": np.arange(3)}]},
        {"releases": [{"std": math.nan}]},
        {"releases": ["name"]},
        {"estimator": None},
        {"note": 3},
    ],
)
def test_facts_that_are_no_facts_are_refused_before_the_charge(wrong):
    budget = PrivacyBudget(1.0)
    with pytest.raises(TypeError) as caught:
        budget.charge(Cost(0.5), **{"estimator": "Fake", **wrong})
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None  # json's message would quote a value
    assert budget.charges == []


# -- parameters -------------------------------------------------------------------------------


@each(
    ("arguments", "error", "message"),
    [
        ({"epsilon": 0}, ValueError, "epsilon must be a finite number > 0; got 0.0"),
        ({"epsilon": math.nan}, ValueError, "epsilon must"),
        ({"epsilon": math.inf}, ValueError, "epsilon must"),
        ({"epsilon": True}, TypeError, "epsilon must"),
        ({"epsilon": "1"}, TypeError, "epsilon must"),
        ({"delta": 1}, ValueError, r"delta must be a number in \[0, 1\)"),
        ({"delta": -1e-9}, ValueError, "delta must"),
        ({"delta": math.nan}, ValueError, "delta must"),
        ({"delta": False}, TypeError, "delta must"),
        (
            {"accountant": "rdp"},
            ValueError,
            "accountant must be 'basic', 'gdp', 'gdp_residue', 'zcdp'",
        ),
        ({"accountant": None}, ValueError, "accountant must"),
        ({"accountant": "gdp"}, ValueError, "delta must be above 0 under accountant="),
        ({"adjacency": "replace"}, ValueError, "adjacency must be 'replace_one' or 'add_or"),
        ({"separate_delta": 1e-7}, ValueError, "separate_delta must be 0"),
        ({"ledger": 3}, TypeError, "ledger must"),
        ({"ledger": b"x"}, TypeError, "ledger must"),
        ({"ledger": ""}, ValueError, "ledger must"),
        ({"ledger": "a\0b"}, ValueError, "ledger must"),
    ],
)
def test_bad_parameters(arguments, error, message):
    with pytest.raises(error, match=message):
        PrivacyBudget(**{"epsilon": 1.0, **arguments})


def test_the_terms_cannot_be_changed():
    budget = PrivacyBudget(1.0, 1e-6, accountant="gdp", separate_delta=1e-7)
    assert (budget.epsilon, budget.delta, budget.adjacency) == (1.0, 1e-6, "replace_one")
    assert (budget.accountant, budget.separate_delta, budget.sealed) == ("gdp", 1e-7, False)
    for name in ("epsilon", "delta", "adjacency", "accountant", "spent", "sealed", "other"):
        with pytest.raises(AttributeError):
            setattr(budget, name, 10.0)


def test_a_budget_is_made_once_and_never_moved(tmp_path):
    budget = PrivacyBudget(1.0, ledger=tmp_path / "a.budget")
    with pytest.raises(RuntimeError, match="made once"):
        budget.__init__(5.0, ledger=tmp_path / "b.budget")
    assert (budget.epsilon, budget.ledger) == (1.0, str(tmp_path.resolve() / "a.budget"))
    assert not (tmp_path / "b.budget").exists()


def test_nothing_of_a_budget_can_be_replaced_by_something_that_charges_less():
    budget = PrivacyBudget(1.0)
    for name in ("charge", "describe", "check", "__class__", "reserve"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(budget, name, lambda *args, **kwargs: None)
    with pytest.raises(TypeError, match="cannot be subclassed"):

        class Generous(PrivacyBudget):
            def charge(self, cost, **facts):
                return None

    class Impostor:
        adjacency = "replace_one"

        def charge(self, cost, **facts):
            return None

        __class__ = PrivacyBudget  # what isinstance believes

    impostor = Impostor()
    assert isinstance(impostor, PrivacyBudget)
    X = np.zeros((20, 1))
    for call in (
        lambda: DPStandardScaler(bounds=(0, 1), budget=impostor).fit(X),
        lambda: statistics.mean(X, bounds=(0, 1), budget=impostor),
    ):
        with pytest.raises(TypeError, match="budget must be a PrivacyBudget or None"):
            call()
    share = PrivacyBudget(1.0).split(a=1, b=1)["a"]
    with pytest.raises(TypeError, match=r"got float; .*budget\.split, goes into epsilon="):
        DPStandardScaler(bounds=(0, 1), budget=share).fit(X)
    with pytest.raises(TypeError, match="goes into epsilon="):
        statistics.mean(X, bounds=(0, 1), budget=share)


# -- split ------------------------------------------------------------------------------------


def test_split_by_weight():
    assert PrivacyBudget(3.0, 1e-6).split(pca=1, kmeans=3) == {"pca": 0.75, "kmeans": 2.25}
    budget = PrivacyBudget(1.0)
    spend(budget, 0.4)
    assert budget.split(a=1, b=2) == {"a": 0.2, "b": 0.4}


@settings(max_examples=40, deadline=None)
@given(
    st.floats(1e-3, 1e3),
    st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6),
)
def test_shares_never_sum_above_what_remains_and_can_all_be_spent(epsilon, weights):
    budget = PrivacyBudget(epsilon)
    shares = budget.split(**{f"w{i}": w for i, w in enumerate(weights)})
    total = sum((exact(s) for s in shares.values()), Fraction(0))
    assert total == exact(epsilon)
    for share, weight in zip(shares.values(), weights, strict=True):
        assert share == pytest.approx(epsilon * weight / sum(weights), rel=1e-6)
        spend(budget, share)
    assert budget.remaining.epsilon == 0


def test_shares_of_thirds_and_of_a_rest_fill_the_budget():
    budget = PrivacyBudget(1.0)
    assert sum(exact(s) for s in budget.split(a=1, b=1, c=1).values()) == 1
    spend(budget, 0.7)
    shares = budget.split(scale=1, pca=2, kmeans=4)
    for share in shares.values():
        spend(budget, share)
    assert budget.remaining == PrivacyLoss(0.0, 0.0)


def test_weights_that_differ_by_more_than_floats_hold_leave_something():
    shares = PrivacyBudget(1.0).split(a=1, b=1e-20)
    assert shares["b"] == pytest.approx(1e-20)
    assert shares["a"] < 1


def test_shares_of_gaussian_fits_can_all_be_spent():
    for accountant in ("gdp", "zcdp"):
        budget = PrivacyBudget(1.0, 1e-6, accountant=accountant)
        delta = budget.remaining.delta
        for share in budget.split(a=1, b=2, c=3).values():
            budget.charge(Cost(share, delta, mu=gdp_mu(share, delta)), estimator="Fake")


def test_split_refuses_what_is_no_weight():
    budget = PrivacyBudget(1.0)
    for wrong in (0, -1, math.nan, math.inf):
        with pytest.raises(ValueError, match="pca must be a finite number > 0"):
            budget.split(pca=wrong, kmeans=1)
    with pytest.raises(TypeError, match="pca must be"):
        budget.split(pca="1")
    with pytest.raises(ValueError, match="at least one weight"):
        budget.split()
    with pytest.raises(ValueError, match="differ too much"):
        budget.split(a=5e-324, b=1e300)
    spend(budget, 1.0)
    with pytest.raises(BudgetExceededError, match="Nothing of the budget remains"):
        budget.split(a=1)


# -- identity ---------------------------------------------------------------------------------


def test_every_copy_is_the_object_itself():
    budget = PrivacyBudget(1.0)
    assert clone(budget) is budget
    assert clone([budget, budget])[1] is budget
    assert copy.copy(budget) is budget
    assert copy.deepcopy({"a": [budget]})["a"][0] is budget


def test_it_is_no_estimator_no_container_and_equal_only_to_itself():
    budget, other = PrivacyBudget(1.0), PrivacyBudget(1.0)
    assert not hasattr(budget, "get_params")
    assert not hasattr(budget, "__len__")
    assert budget  # always true
    assert budget != other
    assert len({budget, other, budget}) == 2


# -- what it shows ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(3.0, 1e-6), (0.1 + 0.2, 1.2345678901234567e-123), (1.2345678901234567e-123, 1 / 3)],
)
def test_repr_is_short_and_reads_no_file(epsilon, delta, monkeypatch):
    budget = PrivacyBudget(epsilon, delta)

    def no_io(*args, **kwargs):
        raise AssertionError("repr opened a file")

    monkeypatch.setattr("sqlite3.connect", no_io)
    monkeypatch.setattr("os.path.exists", no_io)
    assert len(repr(budget)) <= 90
    budget._ledger.sealed = True
    assert len(repr(budget)) <= 60
    assert repr(budget).endswith(", sealed)")


def test_repr_shows_the_budget():
    budget = PrivacyBudget(3.0, 1e-6)
    spend(budget, 0.5)
    assert repr(budget) == "PrivacyBudget(epsilon=3.0, delta=1e-06, remaining=(2.5, 1e-06))"


def test_repr_of_a_ledger_file_shows_what_others_left_and_waits_for_nobody(tmp_path):
    path = str(tmp_path / "a.budget")
    budget = PrivacyBudget(1.0, ledger=path)
    spend(pickle.loads(pickle.dumps(budget)), 0.25)
    assert "remaining=(0.75, 0.0)" in repr(budget)
    with locks.FileLock(path, 1.0):  # as of another process
        start = time.monotonic()
        assert repr(budget) == f"PrivacyBudget(epsilon=1.0, delta=0.0, ledger={path!r})"
        assert time.monotonic() - start < 5.0
    assert "remaining=(0.75, 0.0)" in repr(budget)
    os.unlink(path)
    assert repr(budget).endswith(", sealed)")


class Page(HTMLParser):
    """Collects tags and text, and fails on a tag that is not closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + "\n"


EVIL = '<script>alert("x")</script>&\'<img src=x onerror=y>'


def test_html_escapes_everything_that_somebody_chose():
    budget = PrivacyBudget(3.0, 1e-6)
    budget.charge(Cost(1.0), estimator=EVIL, note=EVIL, releases=[{"name": EVIL}])
    with budget.reserve(Cost(0.5), note=EVIL):
        text = budget._repr_html_()
    page = Page(text)
    assert set(page.tags) == {
        "div",
        "strong",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    }
    assert page.text.count(EVIL) == 3  # estimator, note, reservation: as text
    assert EVIL not in text
    assert "<script" not in text
    assert html.escape(EVIL) in text


def test_html_shows_bar_and_table_to_eyes_and_screen_readers():
    budget = PrivacyBudget(4.0, 1e-6)
    spend(budget, 1.0)
    budget.charge(Cost(1.0, 5e-7, mu=0.2), estimator="DPPCA", seeded=True)
    with budget.reserve(Cost(0.5)):
        page = Page(budget._repr_html_())
    bars = [a["aria-label"] for _, a in page.attributes if a.get("role") == "img"]
    assert bars == [
        "epsilon: 50% spent, 12.5% set aside, 37.5% left",
        "delta: 50% spent, 50% left",
    ]
    styles = [a.get("style", "") for _, a in page.attributes]
    widths = [style.partition(";")[0] for style in styles if style.startswith("width:")]
    assert widths == ["width:50.00%", "width:12.50%", "width:50.00%"]
    assert all(a["scope"] == "col" for t, a in page.attributes if t == "th")
    assert "2 charges" in page.text
    assert "gaussian, seeded" in page.text
    assert "spent: epsilon=2.0, delta=5e-07; remaining: epsilon=1.5, delta=5e-07" in page.text
    # no fixed text or background colour that one of the two themes would hide
    assert "color:inherit" in styles[0]
    assert not any("black" in style or "white" in style for style in styles)


def test_html_of_an_empty_and_of_a_long_ledger():
    budget = PrivacyBudget(100.0)
    assert "Nothing was charged yet." in budget._repr_html_()
    for _ in range(53):
        spend(budget, 1.0)
    page = Page(budget._repr_html_())
    assert "53 charges, the last 50 of them" in page.text
    assert page.tags.count("tr") == 51


def test_html_under_the_gaussian_accountants():
    for accountant, label in (("gdp", "mu squared"), ("zcdp", "rho")):
        budget = PrivacyBudget(1.0, 1e-6, accountant=accountant, separate_delta=1e-7)
        spend(budget, 0.01, 1e-8)
        page = Page(budget._repr_html_())
        assert label in page.text
        assert "separate delta: 10% spent, 90% left" in page.text


def test_html_of_a_budget_whose_ledger_is_gone():
    budget = PrivacyBudget(1.0)
    os.unlink(budget.__reduce__()[1][0])
    page = Page(budget._repr_html_())
    assert "not there" in page.text
    assert budget.sealed
    assert "sealed" in repr(budget)


def test_a_description_is_written_once_and_to_its_own_charge_only():
    first, second = PrivacyBudget(2.0), PrivacyBudget(2.0)
    charge = first.charge(Cost(0.5), estimator="T")
    other = second.charge(Cost(0.5), estimator="T")
    first.describe(other, [{"name": "of another ledger"}])
    assert first.charges[0].releases == ()
    first.describe(charge, [{"name": "sum"}])
    first.describe(charge, [])
    assert [r["name"] for r in first.charges[0].releases] == ["sum"]


def test_a_price_cannot_be_made_of_smaller_components():
    with pytest.raises(TypeError):
        Cost(5.0, _terms=((Cost(1e-3), 1),))
    total = 3 * Cost(0.5, 0.4)
    assert (total.epsilon, total.delta) == (1.5, 1.2)
    assert total.components == ((Cost(0.5, 0.4), 3),)


@pytest.mark.slow
def test_a_pickle_with_other_terms_than_its_ledger_is_refused(tmp_path):
    path = tmp_path / "x.budget"
    budget = PrivacyBudget(1.0, ledger=path)
    make, arguments = budget.__reduce__()
    code = (
        "import sys, pickle\n"
        "make, arguments = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "from skdp import LedgerError\n"
        "try:\n    make(*arguments)\nexcept LedgerError as e:\n    print('refused', e)\n"
    )
    forged = (arguments[0], arguments[1], 100.0, *arguments[3:])
    text = pickle.dumps((make, forged)).hex()
    done = subprocess.run([sys.executable, "-c", code, text], capture_output=True, text=True)
    assert done.stdout.startswith("refused"), done.stderr


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        (Cost(0.5, 1e-6), "The delta does not fit: state delta=0.*budget with a larger delta"),
        (Cost(2.0), "The epsilon does not fit: state a smaller epsilon"),
        (Cost(2.0, 1e-6), "The epsilon and delta do not fit"),
    ],
)
def test_a_refusal_names_who_what_is_short_and_the_way_out(cost, words):
    with pytest.raises(BudgetExceededError, match=words) as caught:
        PrivacyBudget(1.0).charge(cost, estimator="DPPCA")
    assert str(caught.value).startswith("DPPCA: the price is")
    with pytest.raises(BudgetExceededError, match="The delta does not fit: state a smaller delta"):
        PrivacyBudget(1.0, 1e-6).charge(Cost(0.5, 1e-5), estimator="DPPCA")
    spent = PrivacyBudget(1.0)
    spent.charge(Cost(1.0), estimator="DPPCA")
    with pytest.raises(BudgetExceededError, match="as often as you like"):
        spent.charge(Cost(0.1), estimator="DPPCA")


def test_what_is_no_cost_is_told_what_one_is():
    with pytest.raises(TypeError, match=r"Cost\(epsilon=0.5\)"):
        PrivacyBudget(1.0).reserve(0.5)


def test_a_refusal_speaks_of_the_fit_that_is_refused_only():
    budget = PrivacyBudget(1.0)
    spend(budget, 0.6)
    text = "Nothing was charged for this fit; earlier ones, .* steps of a pipeline, stay charged"
    with pytest.raises(BudgetExceededError, match=text):
        spend(budget, 0.6)
    assert [charge.cost.epsilon for charge in budget.charges] == [0.6]


def test_a_later_step_does_not_say_that_nothing_was_charged():
    budget, X = PrivacyBudget(1.5), np.linspace(0, 1, 200).reshape(-1, 2)
    scaler = DPStandardScaler(epsilon=0.4, bounds=(0, 1), budget=budget)
    for weights, text in (
        ({}, "earlier ones, .* stay charged"),
        ({"dpkmeans__sample_weight": np.ones(100)}, "Nothing was charged for this fit"),
        ({"dpkmeans__groups": np.arange(100)}, "Nothing was charged for this fit"),
    ):
        pipe = make_pipeline(scaler, DPKMeans(2, epsilon=2.0, bounds=(-3, 3), budget=budget))
        before = len(budget.charges)
        with pytest.raises(ValueError, match=text):
            pipe.fit(X, **weights)
        assert len(budget.charges) == before + 1


def test_a_reserved_pipeline_is_refused_as_a_whole():
    budget, X = PrivacyBudget(1.0), np.linspace(0, 1, 200).reshape(-1, 2)
    pipe = make_pipeline(
        DPStandardScaler(epsilon=0.4, bounds=(0, 1), budget=budget),
        DPKMeans(2, epsilon=0.7, bounds=(-3, 3), budget=budget),
    )
    with pytest.raises(BudgetExceededError, match=r"Nothing was charged\."):
        budget.reserve(sum(step.privacy_cost() for _, step in pipe.steps))
    pipe.set_params(dpkmeans__epsilon=0.6)
    with budget.reserve(sum(step.privacy_cost() for _, step in pipe.steps)):
        pipe.fit(X)
    assert len(budget.charges) == 2
