"""What is told of the ends of learned bins: from released counts alone, by name, and when."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from skdp import config_context
from skdp.queries.learned_bounds import learning
from skdp.queries.learned_bounds.decoding import Side, ends_of_sides
from skdp.queries.learned_domain import DOUBT_FAR, DOUBT_ONE_VALUE
from skdp.synthetic import DPMarginalSynthesizer, MWEMReleaser, conjunctions

EDGES = 2.0 ** (np.arange(-20, 40) / 2)  # factors of the square root of 2
STD = 10.0


def end(counts):
    options = {"gaussian": False, "balance": 50.0, "rows": 5000.0}
    return ends_of_sides([Side(counts, EDGES, 0.0)], STD, **options)[0]


def counts_to(last):
    """Return counts that fall outwards, by a half each, up to the bin `last`."""
    counts = np.zeros(EDGES.size)
    counts[last - 5 : last + 1] = 100.0 * 2.0 ** np.arange(7, 1, -1)
    return counts


def test_an_end_that_is_clear_of_noise():
    found = end(counts_to(30))
    assert found.seen == found.clear == EDGES[30]
    assert (found.outer, found.noise) == (400.0, STD)


def test_an_end_that_rests_on_noise():
    counts = counts_to(30)
    counts[48] = 12.0 * STD  # noise does this in one of some ten million bins
    found = end(counts)
    assert found.seen == EDGES[48]
    assert found.clear == EDGES[30]
    assert found.outer == pytest.approx(120.0)
    assert found.noise == pytest.approx(STD * np.sqrt(18))


def test_no_rows_that_are_clear():
    counts = np.zeros(EDGES.size)
    counts[20] = 8.5 * STD
    found = end(counts)
    assert found.seen == EDGES[20]
    assert found.clear == 0.0
    assert found.outer == pytest.approx(85.0)


def people(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": np.clip(rng.normal(40, 12, n), 18, 90),
            "income": rng.lognormal(10, 0.8, n),
            "day": np.datetime64("2020-01-01") + rng.integers(0, 700, n),
        }
    )


def fit(table, **options):
    with config_context(noise="seeded"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = DPMarginalSynthesizer(conjunctions(1), **{"random_state": 0, **options}).fit(table)
    return made, [str(one.message) for one in caught if "learned" in str(one.message)]


def test_ordinary_columns():
    """Ranges are told in the type of the column, and nothing is doubted."""
    made, told = fit(people(), epsilon=4.0, delta=1e-6)
    assert told == []
    ranges = made.learned_ranges_
    assert list(ranges) == ["age", "income", "day"]
    assert not any(found.doubts for found in ranges.values())
    age, day = ranges["age"], ranges["day"]
    assert age.low <= age.clear_low < 30
    assert 60 < age.clear_high <= age.high
    assert made.domain_.columns["age"].edges[[0, -1]].tolist() == [age.low, age.high]
    assert age.outer_high[0] > 0
    assert age.outer_high[1] > 0
    assert np.datetime64("2021-06-01") < day.clear_high < np.datetime64("2023-06-01")
    stated, told = fit(people(), domain={"age": (0, 100, 10), "income": (0, 1e6, 9)}, epsilon=4.0)
    assert list(stated.learned_ranges_) == ["day"]
    whole, _ = fit(people()[["age"]], domain={"age": (0, 100, 10)})
    assert whole.learned_ranges_ == {}


def test_bins_far_beyond_all_values_are_told_of(monkeypatch):
    """Noise is planted in one bin of one column, 2**10 times as far as its rows."""
    counted, calls = learning._counted, []

    def planted(table, meter, name, exact, columns, share):
        counts, std = counted(table, meter, name, exact, columns, share)
        calls.append(name)
        if len(calls) == 2:  # the second column: income
            counts[0][-120] = 5.5 * std
        return counts, std

    monkeypatch.setattr(learning, "_counted", planted)
    made, told = fit(people(), epsilon=4.0, delta=1e-6, random_state=1)
    income = made.learned_ranges_["income"]
    assert income.doubts == (DOUBT_FAR,)
    assert income.high > 8 * income.clear_high
    assert len(told) == 1
    assert "columns 'income' may end far beyond all values" in told[0]
    assert "State their (low, high, n_cells)" in told[0]


def test_few_rows_beside_one_value_are_told_of():
    """Most are 0, and the counts of the others are no tail."""
    rng = np.random.default_rng(1)
    gains = np.where(rng.random(20_000) < 0.91, 0.0, rng.lognormal(7.9, 1.3, 20_000))
    made, told = fit(people().assign(gains=gains), epsilon=1.0)
    assert DOUBT_ONE_VALUE in made.learned_ranges_["gains"].doubts
    assert any("most rows of columns 'gains' seem to have one value" in text for text in told)
    assert not any("'age'" in text for text in told)
    # Where noise is little, they are seen, and nothing is told.
    made, told = fit(people().assign(gains=gains), epsilon=40.0)
    assert DOUBT_ONE_VALUE not in made.learned_ranges_["gains"].doubts


def test_tables_are_told_by_name():
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"a": rng.integers(0, 2, 500), "b": rng.integers(0, 2, 500)})
    named = MWEMReleaser(conjunctions(2), domain=2, random_state=0).fit(table)
    assert set(named.measured_) == {("a", "b")}
    named = DPMarginalSynthesizer(domain=2, random_state=0).fit(table)
    assert ("a", "b") in named.measured_
    plain = DPMarginalSynthesizer(domain=2, random_state=0).fit(table.to_numpy())
    assert (0, 1) in plain.measured_
