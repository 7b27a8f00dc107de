"""
A report for who signs
======================

Check a pipeline before anything is spent, ask two more questions of the same table, and hand one
page to the person who answers for the data.
"""

# %%
# Look before you spend
# ---------------------
#
# :func:`~skdp.check_pipeline` tries the fit on made-up rows, and tells what all steps would refuse.
import json
from pathlib import Path
from tempfile import mkdtemp

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.pipeline import make_pipeline

from skdp import DPKMeans, DPStandardScaler, PrivacyBudget, check_pipeline
from skdp.sql import PrivateDatabase

patients = load_diabetes(as_frame=True, scaled=False).data[["age", "bmi", "bp"]]
bounds = {"age": (18, 90), "bmi": (15, 50), "bp": (50, 150)}
budget = PrivacyBudget(4, 1e-5, dataset="diabetes study")
wrong = make_pipeline(
    DPStandardScaler(bounds={"age": (18, 90)}, budget=budget), DPKMeans(3, epsilon=9, budget=budget)
)
print(check_pipeline(wrong, patients.iloc[:0]))

# %%
# Spend
# -----
model = make_pipeline(
    DPStandardScaler(bounds=bounds, budget=budget), DPKMeans(2, bounds=(-4, 4), budget=budget)
)
assert not check_pipeline(model, patients.iloc[:0], n_rows=len(patients))
model.fit(patients)
declared = {"patients": {"unit": None, "columns": bounds}}
db = PrivateDatabase({"patients": patients}, tables=declared, budget=budget)
answer = db.sql("SELECT AVG(bmi) AS bmi FROM patients WHERE age > 61", delta=0)

# %%
# Sign
# ----
# The query stands there without what it compares with, which may name somebody.
page = Path(mkdtemp(), "study.html")
budget.report(page, certificates={"model": model, "older patients": answer})
facts = json.loads(page.with_suffix(".json").read_text())
print(*facts["promise"], budget.to_frame()["note"].iloc[-1], sep="\n")

pd.DataFrame(facts["charges"]).plot.barh(
    x="step", y="epsilon", legend=False, xlabel="epsilon", ylabel=""
)
plt.tight_layout()
plt.show()
