"""Containers whose parts contradict each other, handed to everything that reads them.

Run in a child process by test_containers.py: ``python broken.py KIND ...``. Each line names the
case before it is tried, so that the last line says where the process died. Whether a case is broken
is decided by slow loops here; a case that is not must give what its dense table gives.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import sys
import tempfile
import threading
import time
import warnings
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from scipy import sparse

from skdp import PrivacyBudget, config_context, statistics
from skdp.aggregation import DPGroupBy
from skdp.cluster import DPKMeans
from skdp.decomposition import DPPCA
from skdp.density_ratio import stack_samples
from skdp.engines import from_arrays, from_stream
from skdp.exceptions import SourceError
from skdp.linear_model import DPLinearRegression, DPRidge
from skdp.model_selection import PerRecordKFold, private_scorer
from skdp.naive_bayes import DPGaussianNB
from skdp.preprocessing import DPKBinsDiscretizer, DPOneHotEncoder, DPStandardScaler
from skdp.sql import PrivateDatabase
from skdp.synthetic import DPMarginalSynthesizer
from skdp.tabular.sound import sound

RNG = np.random.default_rng(0)
ROWS, COLUMNS = 12, 4
FAR = 10**7  # a length that no array here has
DENSE = np.round(RNG.random((ROWS, COLUMNS)) * (RNG.random((ROWS, COLUMNS)) < 0.6), 3)
TARGET = RNG.random(ROWS)
LINEAR = {"bounds": (0, 1), "target_bounds": (0, 1), "random_state": 0}
BALL = {"center": 0.0, "norm_bound": 1.0, "random_state": 0}


def budget_of(door):
    """Return a budget for a call, of units where the door reads them."""
    unit = {"groups": "a", "keys": "u", "keys of a table": "b", "keys in parts": "b", "sql": "b"}
    unit = unit.get(door.rpartition(": ")[2])
    relation = "add_or_remove_one" if unit else "replace_one"
    return PrivacyBudget(10.0, 1e-3, unit=unit, adjacency=relation)


class Tried:
    """The cases of this process, and what is wrong with them."""

    def __init__(self):
        self.n = 0
        self.problems = []

    def refused(self, name, call):
        """Check that a call raises a plain error, and that nothing is charged."""
        print(name, flush=True)
        self.n += 1
        budget = budget_of(name)
        try:
            call(budget)
        except (TypeError, ValueError, MemoryError, SourceError) as error:
            if "contradict" in str(error) and error.__context__ is not None:
                self.problems.append(f"{name}: another error behind the text")
        except BaseException as error:
            self.problems.append(f"{name}: {type(error).__name__}: {error}"[:300])
        else:
            self.problems.append(f"{name}: accepted")
        if budget.spent.epsilon:
            self.problems.append(f"{name}: charged {budget.spent.epsilon}")

    def same(self, name, call, other, *, exact=True):
        """Check that a call gives the numbers of another."""
        print(name, flush=True)
        self.n += 1
        try:
            found, expected = call(), other()
        except Exception as error:
            self.problems.append(f"{name}: {type(error).__name__}: {error}"[:300])
            return
        if not (np.array_equal(found, expected) if exact else np.allclose(found, expected)):
            self.problems.append(f"{name}: {found} in place of {expected}")

    def all_work(self, doors, *, but=()):
        """Each of these doors must take one of the good containers, each in its own list."""
        taken, known = set(but), set()
        for door, call in itertools.chain.from_iterable(doors):
            known.add(door)
            with contextlib.suppress(TypeError, ValueError):
                call(budget_of(door))
                taken.add(door)
        self.problems += [f"no good container passes {door}" for door in sorted(known - taken)]

    def works(self, name, call):
        """Check that a call returns."""
        self.same(name, lambda: call() is not None, lambda: True)


# --- sparse -------------------------------------------------------------------------------------


def parts_of(kind):
    """Return the arrays of DENSE in a sparse format, by their names."""
    made = getattr(sparse, f"{kind}_array")(DENSE)
    if kind == "bsr":
        made = sparse.bsr_array(DENSE, blocksize=(3, 2))
    names = {
        "coo": ("row", "col", "data"), "dia": ("offsets", "data"), "lil": ("rows", "data"),
        "dok": ("_dict",),
    }.get(kind, ("indptr", "indices", "data"))  # fmt: skip
    return {name: getattr(made, name).copy() for name in names} | {"shape": made.shape}


def assembled(kind, parts, flavour="array"):
    """Return a sparse matrix of these parts; none of scipy's checks runs."""
    made = getattr(sparse, f"{kind}_{flavour}")((1, 1))
    parts = dict(parts)
    made._shape = parts.pop("shape")
    if kind == "coo":
        made.coords = (parts.pop("row"), parts.pop("col"))
    for name, part in parts.items():
        setattr(made, name, part)
    return made


def is_list(array, *, ndim=1, kinds="iu"):
    whole = isinstance(array, np.ndarray) and len(array.shape) == ndim and len(array) < FAR
    return whole and array.dtype.kind in kinds


def cells_of(kind, parts):
    """Yield (row, column, value) of each stored cell by slow loops; an assertion says: broken."""
    rows, columns = parts["shape"]
    assert type(rows) is type(columns) is int
    if kind == "dok":
        yield from ((i, j, value) for (i, j), value in parts["_dict"].items())
        return
    if kind == "lil":
        assert np.shape(parts["rows"]) == np.shape(parts["data"]) == (rows,)
        for i, (places, values) in enumerate(zip(parts["rows"], parts["data"], strict=True)):
            assert len(places) == len(values)
            yield from ((i, j, value) for j, value in zip(places, values, strict=True))
        return
    data = parts["data"]
    assert is_list(data, ndim={"bsr": 3, "dia": 2}.get(kind, 1), kinds="biuf")
    if kind == "dia":
        assert is_list(parts["offsets"], kinds="i")
        offsets = parts["offsets"].tolist()
        assert len(offsets) == len(data) == len(set(offsets))
        for diagonal, offset in zip(data.tolist(), offsets, strict=True):
            for j, value in enumerate(diagonal[:columns]):
                if 0 <= j - offset < rows:
                    yield j - offset, j, value
        return
    if kind == "coo":
        assert is_list(parts["row"])
        assert is_list(parts["col"])
        assert len(parts["row"]) == len(parts["col"]) == len(data)
        yield from zip(*(parts[name].tolist() for name in ("row", "col", "data")), strict=True)
        return
    height, width = data.shape[1:] if kind == "bsr" else (1, 1)
    assert height and width and rows % height == columns % width == 0
    lines = columns if kind == "csc" else rows // height
    across = rows if kind == "csc" else columns // width
    assert is_list(parts["indptr"])
    assert is_list(parts["indices"])
    ends, indices = parts["indptr"].tolist(), parts["indices"].tolist()
    assert len(ends) == lines + 1
    assert ends[0] == 0
    assert ends == sorted(ends)
    assert ends[-1] <= min(len(indices), len(data))
    for line, (start, stop) in enumerate(itertools.pairwise(ends)):
        for at in range(start, stop):
            assert 0 <= indices[at] < across
            if kind == "bsr":
                for a, b in np.ndindex(height, width):
                    value = data[at, a, b].item()
                    yield line * height + a, indices[at] * width + b, value
            else:
                pair = (line, indices[at])
                yield *(pair[::-1] if kind == "csc" else pair), data[at].item()


def dense_of(kind, parts):
    """Return the dense table of the parts; None if they contradict each other."""
    try:
        rows, columns = parts["shape"]
        cells = list(cells_of(kind, parts))
        assert all(int(i) == i and int(j) == j for i, j, _ in cells)
        assert all(0 <= i < rows and 0 <= j < columns for i, j, _ in cells)
        table = np.zeros((rows, columns))
    except Exception:
        return None
    for i, j, value in cells:
        table[i, j] += value
    return table


def beyond(array):
    """Return a view that goes on behind the end of an array."""
    return np.lib.stride_tricks.as_strided(array, (FAR, *array.shape[1:]), array.strides)


def changed(array):
    """Yield (name, array): changes of one part, most of them bad."""
    integers = array.dtype.kind == "i"
    values = [-1, 10**6, 2**31 - 1, -(2**31), 0, 1, COLUMNS, ROWS, COLUMNS - 1]
    for value in values if integers else ():
        for place in sorted({0, len(array) // 2, len(array) - 1}):
            other = array.copy()
            other[place] = value
            yield f"[{place}] = {value}", other
    for value in (2**31, 2**32, 2**63 - 1, -(2**63)) if integers else ():
        other = array.astype(np.int64)
        other[len(other) // 2] = value
        yield f"wide {value}", other
    yield "wider", array.astype(np.int64 if integers else np.float64)
    yield "unsigned", array.astype(np.uint64)
    yield "floats", array.astype(np.float32)
    yield "booleans", array.astype(bool)
    yield "objects", array.astype(object)
    yield "text", array.astype(str)
    yield "complex", array.astype(complex)
    yield "short", array[:-1].copy()
    yield "cut", array[:1].copy()
    yield "none", array[:0].copy()
    yield "long", np.concatenate([array, array])
    yield "a scalar", array[(0,) * array.ndim]
    yield "another dimension", array[None].copy()
    yield "a list", array.tolist()
    yield "backwards", array[::-1]
    yield "a view", np.repeat(array, 2, axis=0)[::2]
    yield "bytes swapped", array.astype(array.dtype.newbyteorder(">"))
    yield "masked", np.ma.masked_array(array, mask=np.zeros(array.shape, dtype=bool))
    yield "nothing", None


def shapes():
    yield from ((ROWS + 1, COLUMNS), (ROWS - 1, COLUMNS), (ROWS, COLUMNS - 1), (ROWS, COLUMNS + 1))
    yield from ((-ROWS, COLUMNS), (ROWS, -1), (0, COLUMNS), (ROWS, 0), (ROWS,), (ROWS, COLUMNS, 1))
    yield from ((float(ROWS), COLUMNS), (str(ROWS), COLUMNS), (2**62, 2**62), (10**18, COLUMNS))
    yield from ((ROWS, 10**12), (None, None), ())


def sparse_cases(kind):
    """Yield (name, parts) of a format."""
    whole = parts_of(kind)
    yield "whole", whole
    for shape in shapes():
        yield f"shape {shape}", whole | {"shape": shape}
    if kind == "dok":
        for key in ((-1, 0), (0, -1), (ROWS, 0), (0, COLUMNS), (10**9, 0), (0.5, 0), 3, (1, 2, 3)):
            yield f"key {key}", whole | {"_dict": whole["_dict"] | {key: 0.5}}
        return
    if kind == "lil":
        for name, place, row in itertools.product(
            ("rows", "data"), (0, ROWS - 1), ([-1], [10**9], [0.5], [], [0, 1, 2], None, ["a"])
        ):
            other = whole[name].copy()
            other[place] = row
            if name == "rows":  # of as many values, so that the column alone may be wrong
                yield f"{name}[{place}] = {row}", whole | {name: other}
                values = whole["data"].copy()
                values[place] = [0.25] * len(row or ())
                yield f"{name}[{place}] = {row}, with values", whole | {name: other, "data": values}
            elif row != ["a"]:
                yield f"{name}[{place}] = {row}", whole | {name: other}
        return
    for name in whole:
        if name == "shape":
            continue
        for how, array in changed(whole[name]):
            yield f"{name} {how}", whole | {name: array}
        yield f"{name} behind its end", whole | {name: beyond(whole[name])}
    # A cell that is stored twice, and three times, adds up; columns in any order are fine.
    if kind in ("csr", "csc", "coo"):
        across = "col" if kind == "coo" else "indices"
        yield "duplicates", whole | {across: np.zeros_like(whole[across])}


@cache
def fitted():
    """Return fitted models that read the tables of callers."""
    rows = np.tile(DENSE, (9, 1))
    return (
        DPPCA(1, **BALL).fit(rows),
        DPRidge(**LINEAR).fit(rows, np.tile(TARGET, 9)),
        DPOneHotEncoder(categories=[[0, 1]] * 2).fit(np.zeros((9, 2), dtype=int)),
        DPKBinsDiscretizer(2, bounds=(0, 1), encode="onehot").fit(rows[:, :2]),
        DPKMeans(2, bounds=(0, 1)).fit(np.full((200, 2), 0.5)),
    )


def sparse_doors(X):
    """Yield (name, call with a budget) of what reads sparse rows."""
    n, widest = next(iter(X.shape), ROWS), X.shape[-1] if X.shape else 0
    y = np.resize(TARGET, n if isinstance(n, int) and 0 < n < 10**6 else ROWS)
    pca, ridge, encoder, cells, _ = fitted()
    yield "DPPCA.fit", lambda b: DPPCA(1, **BALL, budget=b).fit(X)
    yield "DPRidge.fit", lambda b: DPRidge(**LINEAR, budget=b).fit(X, y)
    yield "DPLinearRegression.fit", lambda b: DPLinearRegression(**LINEAR, budget=b).fit(X, y)
    yield "DPPCA.transform", lambda b: pca.transform(X)
    yield "DPPCA.score_samples", lambda b: pca.score_samples(X)
    yield "DPRidge.predict", lambda b: ridge.predict(X)
    if not isinstance(widest, int) or widest < 10**9:  # it takes as many columns as memory holds
        yield "PerRecordKFold", lambda b: list(PerRecordKFold(2, random_state=0).split(X))
    yield "DPKMeans.fit", lambda b: DPKMeans(2, bounds=(0, 1), budget=b).fit(X)
    yield "y", lambda b: DPRidge(**LINEAR, budget=b).fit(DENSE, X)
    yield (
        "sample_weight",
        lambda b: DPRidge(**LINEAR, weight_bound=1.0, budget=b).fit(DENSE, TARGET, sample_weight=X),
    )
    yield "groups", lambda b: DPPCA(1, **BALL, budget=b).fit(DENSE, groups=X)
    yield "from_arrays", lambda b: DPPCA(1, **BALL, budget=b).fit(from_arrays([X]))
    yield "stack_samples", lambda b: stack_samples(private=X, public=DENSE)
    yield "inverse_transform", lambda b: encoder.inverse_transform(X)
    yield "bins", lambda b: cells.inverse_transform(X)


def seeded(estimator, *arguments):
    """Return what a seeded fit releases."""
    with config_context(noise="seeded"):
        estimator.fit(*arguments)
    return estimator.coef_ if hasattr(estimator, "coef_") else estimator.components_


def sparse_formats(kind):
    def run(tried):
        doors = 0
        cases = [("array", case) for case in sparse_cases(kind)]
        cases += [("matrix", case) for _, case in cases[::5]]  # the code of both is nearly the same
        for flavour, (name, parts) in cases:
            try:
                X = assembled(kind, parts, flavour)
            except Exception:
                continue
            name, dense = f"{kind}_{flavour}, {name}", dense_of(kind, parts)
            if dense is not None and not dense.size:
                continue
            if dense is not None:
                y = np.resize(TARGET, len(dense))
                for estimator, more in ((DPPCA(1, **BALL), ()), (DPRidge(**LINEAR), (y,))):
                    calls = [partial(seeded, estimator, table, *more) for table in (X, dense)]
                    tried.same(f"{name}: valid", *calls)
                continue
            if not name.endswith("whole"):
                listed = list(sparse_doors(X))
                # All doors for some cases, three in turn for the others.
                for at in range(3):
                    door, call = listed[(doors + at) % len(listed)]
                    tried.refused(f"{name}: {door}", call)
                doors += 3

    return run


def lying_subclasses(tried):
    """Classes of a user's own: what they say of themselves is read once, and not believed."""

    class Wide(sparse.csr_matrix):
        asked = 0

        @property
        def shape(self):
            Wide.asked += 1
            return (ROWS, COLUMNS) if Wide.asked % 2 else (ROWS, 10**6)

    class Liar(sparse.csr_array):
        def toarray(self, *arguments, **options):
            return np.full((3, 3), np.nan)

        def tocsr(self, *arguments, **options):
            return self

        def __getitem__(self, key):
            raise RuntimeError

    class Indices(np.ndarray):
        def max(self, *arguments, **options):
            return 0

        def min(self, *arguments, **options):
            return 0

        def __array_finalize__(self, other):
            if other is not None and self.size and self.flags.writeable:
                self.view(np.ndarray)[0] = 10**6

    honest = sparse.csr_array(DENSE)
    for name, call in [
        ("fit", lambda X: seeded(DPPCA(1, **BALL), X)),
        ("linear fit", lambda X: seeded(DPRidge(**LINEAR), X, TARGET)),
    ]:
        tried.same(f"toarray lies: {name}", lambda call=call: call(Liar(DENSE)),
                   lambda call=call: call(honest))  # fmt: skip
    for lie, make in [
        ("indices", lambda: _with(honest.copy(), indices=_far(honest.indices).view(Indices))),
        ("indptr", lambda: _with(honest.copy(), indptr=_far(honest.indptr).view(Indices))),
        ("tocsr", lambda: _with(Liar(DENSE), indices=_far(honest.indices))),
        ("format", lambda: _with(sparse.csr_matrix(DENSE), _shape=(10**6, COLUMNS))),
    ]:
        for door, call in sparse_doors(make()):
            tried.refused(f"{lie} lie: {door}", call)
    shape = Wide.__new__(Wide)
    shape._shape = (ROWS, COLUMNS)
    shape.data, shape.indices, shape.indptr = honest.data, honest.indices, honest.indptr
    for door, call in sparse_doors(shape):  # whatever it is taken for, nothing dies
        with contextlib.suppress(TypeError, ValueError):
            print(f"shape lies: {door}", flush=True)
            call(PrivacyBudget(10.0, 1e-3))


def _far(array):
    array = array.copy()
    array[-1] = 10**6
    return array


def _with(X, **attributes):
    for name, value in attributes.items():
        setattr(X, name, value)
    return X


def changed_meanwhile(tried):
    """Another thread writes into the arrays while they are checked and read."""
    X = sparse.random_array((20_000, 8), density=0.3, format="csr", random_state=0)
    honest, stop = X.indices.copy(), threading.Event()

    def write():
        while not stop.is_set():
            X.indices[::7] = 10**7
            X.indices[:] = honest

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        for i in range(25):
            print(f"written meanwhile, {i}", flush=True)
            tried.n += 1
            with contextlib.suppress(ValueError):
                DPPCA(1, **BALL).fit(X)
    finally:
        stop.set()
        thread.join()


# --- numpy --------------------------------------------------------------------------------------


def readers(X, labels=None):
    """Yield (name, call with a budget) of what reads tables of numbers."""
    n = 200
    frame = np.full((n, 2), 0.5)
    flat = X if labels is None else labels
    yield "mean", lambda b: statistics.mean(X, bounds=(0, 1), budget=b)
    yield "DPPCA.fit", lambda b: DPPCA(1, **BALL, budget=b).fit(X)
    yield (
        "DPStandardScaler.fit",
        lambda b: DPStandardScaler(bounds=(0, 1), nan_policy="omit", budget=b).fit(X),
    )
    yield "DPMarginalSynthesizer", lambda b: DPMarginalSynthesizer(delta=1e-6, budget=b).fit(X)
    yield "parts", lambda b: DPPCA(1, **BALL, budget=b).fit(from_arrays([X]))
    yield "predict", lambda b: DPStandardScaler(bounds=(0, 1)).fit(frame).transform(X)
    yield "y", lambda b: DPRidge(**LINEAR, budget=b).fit(frame, flat)
    yield "labels", lambda b: DPGaussianNB(classes=[0, 1], bounds=(0, 1), budget=b).fit(frame, flat)
    yield (
        "groups",
        lambda b: statistics.mean(frame, bounds=(0, 1), groups=flat, max_rows_per_unit=1, budget=b),
    )
    yield "PerRecordKFold", lambda b: list(PerRecordKFold(2, random_state=0).split(X))
    keyed, pair = {"unit": "u", "aggregates": {"n": "count"}}, {"k": flat, "u": np.arange(n)}
    yield "keys", lambda b: DPGroupBy(["k"], **keyed, delta=1e-6, budget=b).fit(pair)
    scorer = private_scorer("neg_inertia", bounds=(0, 1), epsilon=0.1, budget=PrivacyBudget(1.0))
    yield "scorer", lambda b: scorer(fitted()[-1], X)
    yield "stack_samples", lambda b: stack_samples(private=X, public=X)


def numpy_arrays(tried):
    base = np.full((200, 2), 0.5)
    strided = np.lib.stride_tricks.as_strided
    shrunk = np.full((4000, 2), 0.5)
    view = shrunk[1000:]
    shrunk.resize((10, 2), refcheck=False)
    ordinary = {
        "broadcast": np.broadcast_to(0.5, (200, 2)),
        "zero strides": strided(base, (200, 2), (0, 8)),
        "negative strides": base[::-1, ::-1],
        "windows": np.lib.stride_tricks.sliding_window_view(base[:, 0], 2),
        "of bytes": np.frombuffer(base.tobytes()).reshape(200, 2),
        "of bytearray": np.frombuffer(bytearray(base.tobytes())).reshape(200, 2)[:, :1],
        "of a record": np.zeros(200, [("a", "f8"), ("b", "i4")])["a"].reshape(-1, 1),
        "transposed": np.full((2, 200), 0.5).T,
        "of memoryview": np.asarray(memoryview(base)),
        "of a C array": np.ctypeslib.as_array((np.ctypeslib.ctypes.c_double * 4)()).reshape(2, 2),
        "of arrow": pa.array(base[:, 0]).to_numpy().reshape(-1, 1),
        "anonymous map": np.frombuffer(mmap.mmap(-1, 4096)).reshape(-1, 2),
    }
    tried.all_work([readers(np.repeat(base, 2, axis=0)[::2], base[:, 0])])
    for name, X in ordinary.items():
        tried.works(f"{name}: valid", lambda X=X: statistics.mean(X, bounds=(0, 1)))
    broken = {
        "strides past the end": strided(base, (10**7, 2), (16, 8)),
        "huge strides": strided(base, (200, 2), (2**30, 8)),
        "strides before the begin": strided(base, (10**6, 2), (-(2**20), 8)),
        "past a view's owner": strided(base[190:], (10**6, 2), (16, 8)),
        "past bytes": strided(np.frombuffer(base.tobytes()), (10**7, 2), (16, 8)),
        "owner cut meanwhile": view,
    }
    with tempfile.TemporaryDirectory() as folder:
        for mode, keep in itertools.product(("r", "r+", "c"), (0, 4096)):
            path = Path(folder) / f"{mode}{keep}"
            np.full((10**5, 2), 0.5).tofile(path)
            whole = np.memmap(path, dtype=float, mode=mode, shape=(10**5, 2))
            tried.works(f"map {mode}: valid", lambda X=whole: statistics.mean(X, bounds=(0, 1)))
            later = np.memmap(path, dtype=float, mode=mode, shape=(5 * 10**4, 2), offset=8 * 10**5)
            frame = pd.DataFrame(whole, copy=False)
            with path.open("r+b") as file:
                file.truncate(keep)
            broken[f"map {mode} cut to {keep}"] = whole
            broken[f"part of a map {mode} cut to {keep}"] = np.asarray(whole)[1000:]
            broken[f"later map {mode} cut to {keep}"] = later
            broken[f"frame on a map {mode} cut to {keep}"] = frame
        for name, X in broken.items():
            flat = X[0] if hasattr(X, "columns") else X[:, 0]
            for door, call in readers(X, flat):
                tried.refused(f"{name}: {door}", call)
    masked = np.ma.masked_array(np.full(200, 0.5))
    masked._mask = np.zeros(3, dtype=bool)
    for door, call in itertools.islice(readers(masked, masked), 6, 9):
        tried.refused(f"mask of another length: {door}", call)

    class Shifty:
        """Another shape each time."""

        def __init__(self):
            self.asked = 0

        def __array__(self, dtype=None, copy=None):
            self.asked += 1
            return np.full((200 * self.asked, 1 + self.asked % 3), 0.5)

    class Strided:
        def __array__(self, dtype=None, copy=None):
            return broken["strides past the end"]

    for door, call in readers(Shifty(), Shifty()):
        print(f"another shape each time: {door}", flush=True)
        with contextlib.suppress(TypeError, ValueError):
            call(PrivacyBudget(10.0, 1e-3))
    for door, call in itertools.islice(readers(Strided(), Strided()), 3):
        tried.refused(f"__array__ past the end: {door}", call)
    listed = [broken["strides past the end"][:, 0]] * 2
    tried.refused("a list of such rows", lambda b: statistics.mean(listed, bounds=(0, 1), budget=b))
    live, stop = np.full((200_000, 2), 0.5), threading.Event()

    def write():
        while not stop.is_set():
            live[::3] = np.nan
            live[:] = 0.5

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    for i in range(10):
        print(f"written meanwhile, {i}", flush=True)
        with contextlib.suppress(ValueError):
            assert abs(statistics.mean(live, bounds=(0, 1)).value[0]) < 2
    stop.set()
    thread.join()


# --- arrow --------------------------------------------------------------------------------------


def buffer(array):
    return pa.py_buffer(np.ascontiguousarray(array).tobytes())


def broken_arrow():
    """Yield (name, array of 200 cells) whose offsets, indices or views lead elsewhere."""
    n = 200
    text = buffer(np.full(n, ord("a"), np.uint8))
    for name, kind, width in (
        ("text", pa.string(), np.int32), ("bytes", pa.binary(), np.int32),
        ("large text", pa.large_string(), np.int64), ("large bytes", pa.large_binary(), np.int64),
    ):  # fmt: skip
        for place, value in ((100, 10**9), (100, -5), (0, -1), (1, 2**30), (150, 0)):
            offsets = np.arange(n + 1, dtype=width)
            offsets[place] = value
            with contextlib.suppress(pa.ArrowInvalid):  # pyarrow sees some itself
                made = pa.Array.from_buffers(kind, n, [None, buffer(offsets), text])
                yield f"{name}, offset {place} = {value}", made
    for value, width in itertools.product((99, -1, 2**31 - 1), (pa.int8(), pa.int32(), pa.int64())):
        if value < 2 ** (width.bit_width - 1):
            codes = pa.array([0, 1] * 99 + [0, value], width)
            for words in (pa.array(["a", "b"]), pa.array([0.25, 0.5])):
                made = pa.DictionaryArray.from_arrays(codes, words, safe=False)
                yield f"dictionary of {words.type}, {width} code {value}", made
    bad = next(made for _, made in broken_arrow_of_text())
    codes = pa.array([0, 1] * 100)
    yield "dictionary of broken text", pa.DictionaryArray.from_arrays(codes, bad, safe=False)
    views = pa.array(["x" * 40, "y" * 40] * 100, pa.string_view()).buffers()
    for at, value in ((8, 99), (12, 10**9), (0, 2**31 - 1), (0, -7)):
        raw = bytearray(views[1].to_pybytes())
        raw[at : at + 4] = value.to_bytes(4, "little", signed=True)
        buffers = [None, pa.py_buffer(bytes(raw)), *views[2:]]
        with contextlib.suppress(pa.ArrowInvalid):
            made = pa.Array.from_buffers(pa.string_view(), n, buffers)
            yield f"view, byte {at} = {value}", made
    offsets = np.arange(n + 1, dtype=np.int32)
    offsets[50] = 10**8
    child = [pa.array(np.full(n, 0.5))]
    made = pa.Array.from_buffers(pa.list_(pa.float64()), n, [None, buffer(offsets)], children=child)
    yield "list, offset 50", made


def broken_arrow_of_text():
    offsets = np.array([0, 10**9, 2], dtype=np.int32)
    yield "two", pa.Array.from_buffers(pa.string(), 2, [None, buffer(offsets), pa.py_buffer(b"ab")])


def shortened(array):
    """Return an array of a stream whose body is shorter than it says."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("a", array.type)])) as writer:
        writer.write_batch(pa.record_batch([array], names=["a"]))
    raw = bytearray(sink.getvalue().to_pybytes())
    n = len(array).to_bytes(8, "little")
    for at in range(len(raw) - 8):
        if raw[at : at + 8] == n:  # lengths of the batch and its columns
            raw[at : at + 8] = (10**8).to_bytes(8, "little")
    return pa.ipc.open_stream(pa.py_buffer(bytes(raw))).read_all()


def tables_of(array):
    """Yield (name, table, column) of an Arrow array among other columns."""
    other = pa.array(np.full(len(array), 0.5))
    table = pa.table({"a": array, "b": other})
    yield "table", table, table.column("a")
    yield "batch", pa.record_batch([array, other], names=["a", "b"]), array
    yield "slice", pa.concat_tables([table.slice(0, 7), table.slice(7)]), table.column("a")
    if array.type not in (pa.binary(), pa.large_binary(), pa.string_view()):
        yield (
            "pandas",
            pd.DataFrame({"a": pd.arrays.ArrowExtensionArray(pa.chunked_array([array])), "b": 0.5}),
            pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([array]))),
        )


def cell_readers(table, column):
    """Yield (name, call with a budget) of what reads tables of any cells."""
    yield from readers(table, column)
    yield "DPOneHotEncoder", lambda b: DPOneHotEncoder(delta=1e-6, budget=b).fit(table)
    grouped = {"unit": "b", "aggregates": {"n": "count"}, "delta": 1e-6}
    yield "keys of a table", lambda b: DPGroupBy(["a"], **grouped, budget=b).fit(table)
    yield "keys in parts", lambda b: DPGroupBy(["a"], **grouped, budget=b).fit(from_arrays([table]))
    options = {"tables": {"t": {"unit": "b"}}}
    yield (
        "sql",
        lambda b: PrivateDatabase({"t": table}, **options, budget=b).sql(
            "SELECT a, count(*) AS n FROM t GROUP BY a", epsilon=1.0, delta=1e-6
        ),
    )
    if isinstance(table, pa.Table):
        yield (
            "stream",
            lambda b: DPGaussianNB(classes=["a", "x"], bounds=(0, 1), budget=b).fit(
                from_stream(table.to_reader), "a"
            ),
        )


def arrow(tried):
    good = pa.table({"a": ["x", None, "y"] * 70, "b": np.full(210, 0.5)}).slice(3, 200)
    for name, array in {
        "text": good["a"], "codes": good["a"].dictionary_encode(),
        "views": good["a"].cast(pa.string_view()),
    }.items():  # fmt: skip
        table = pa.table({"a": array, "b": good["b"]})
        tried.works(f"{name}: valid", lambda table=table: DPOneHotEncoder(delta=1e-6).fit(table))
    each = np.arange(200) / 200
    good = [pa.table({"a": a, "b": each}) for a in (["x", "y"] * 100, [0, 1] * 100)]
    good.append(pa.table({"a": good[1]["a"].dictionary_encode(), "b": each}))
    tried.all_work([cell_readers(table, table["a"]) for table in good])
    numbers = pa.table({"a": pa.array([0.25, 0.5] * 100).dictionary_encode()}).slice(1, 150)
    tried.same("numbers of a dictionary: valid", lambda: seeded(DPPCA(1, **BALL), numbers),
               lambda: seeded(DPPCA(1, **BALL), np.tile([0.5, 0.25], 75)[:, None]))  # fmt: skip
    turn = 0
    for name, array in broken_arrow():
        for kind, table, column in tables_of(array):
            doors = list(cell_readers(table, column))
            for at in range(4):
                door, call = doors[(turn + at) % len(doors)]
                tried.refused(f"{name}, {kind}: {door}", call)
            turn += 4
    for array in (pa.array(np.full(200, 0.5)), pa.array([True] * 200), pa.array([7, None] * 100)):
        try:
            table = shortened(array)
        except Exception:
            continue
        for door, call in list(readers(table, table.column(0)))[:9]:
            tried.refused(f"a stream of {array.type} that was cut: {door}", call)


class Named(pa.ExtensionType):
    """Texts with a type of a user's own."""

    def __init__(self):
        super().__init__(pa.large_string(), "skdp.named")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls()


def written_meanwhile(tried):
    """Offsets are copied before they are checked: another thread cannot move them later."""
    n = 3000
    offsets = np.arange(n + 1, dtype=np.int64)
    wide, narrow = offsets, offsets.astype(np.int32)
    views = np.tile(np.array([40, 0, 0, 0], np.int32), n)
    text = buffer(np.full(n, ord("a"), np.uint8))
    large = pa.Array.from_buffers(pa.large_string(), n, [None, pa.py_buffer(wide), text])
    small = pa.Array.from_buffers(pa.string(), n, [None, pa.py_buffer(narrow), text])
    viewed = pa.Array.from_buffers(pa.binary(), n, [None, pa.py_buffer(narrow), text])
    with contextlib.suppress(pa.ArrowException, TypeError):  # which oldest pyarrow does not make
        viewed = pa.Array.from_buffers(pa.string_view(), n, [None, pa.py_buffer(views), text])
    lists = pa.Array.from_buffers(
        pa.list_(pa.float64()), n, [None, pa.py_buffer(narrow)], children=[pa.array(np.ones(n))]
    )
    codes = np.zeros(n, dtype=np.int8)
    columns = {
        "text": small,
        "views": viewed,
        "codes": pa.DictionaryArray.from_arrays(pa.array(codes), large, safe=False),
        "lists": lists,
        "structs": pa.StructArray.from_arrays([large, lists], ["a", "b"]),
        "a user's type": pa.ExtensionArray.from_storage(Named(), large),
        "text of pandas": pd.arrays.ArrowStringArray(pa.chunked_array([large])),
        "Arrow in pandas": pd.arrays.ArrowExtensionArray(pa.chunked_array([small])),
        "structs in pandas": pd.arrays.ArrowExtensionArray(
            pa.chunked_array([pa.StructArray.from_arrays([large], ["a"])])
        ),
    }
    labels = pd.CategoricalDtype._from_fastpath(pd.Index(columns["text of pandas"]), False)
    columns["codes of pandas"] = pd.Categorical.from_codes(codes, dtype=labels)
    pairs = {
        name: (cells, pa.table({"a": cells}))
        if isinstance(cells, pa.Array)
        else (pd.Series(cells, copy=False), pd.DataFrame({"a": cells}))
        for name, cells in columns.items()
    }
    stop, dwell = threading.Event(), np.random.default_rng(0)
    good = [array.copy() for array in (wide, narrow, views)]
    bad = [wide + 2**40, narrow - 2**30, np.where(views == 0, 2**30, views)]

    def write():
        while not stop.is_set():
            for state in (bad, good):
                for array, other in zip((wide, narrow, views), state, strict=True):
                    array[:] = other
                for _ in range(dwell.integers(10_000)):
                    pass

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    frame = np.full((n, 1), 0.5)
    for name, (series, table) in pairs.items():
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            for door, call in (
                ("y", partial(DPGaussianNB(classes=["a"], bounds=(0, 1)).fit, frame, series)),
                ("table", partial(DPOneHotEncoder(delta=1e-6).fit, table)),
            ):
                print(f"{name}, written meanwhile: {door}", flush=True)
                tried.n += 1
                with contextlib.suppress(TypeError, ValueError):
                    call()
    stop.set()
    thread.join()
    sys.setswitchinterval(before)


def kept_types(tried):
    """Columns of pandas that are made anew keep their type, to the last of its options."""
    words = pa.chunked_array([["x", None, "y"], ["x"]], type=pa.large_string())
    nested = pa.chunked_array([[{"a": ["x", None], "b": 1}, None, {"a": None, "b": 2}]])
    text = pd.array(["x", None, "y"], dtype=pd.StringDtype("pyarrow"))
    columns = [
        text, text[1:], pd.arrays.ArrowStringArray(words),
        pd.Categorical(text, ordered=True), pd.Categorical(text[:1]),
        *map(pd.arrays.ArrowExtensionArray, (
            words, words.slice(1), words.cast(pa.string()).dictionary_encode(), nested,
            nested.slice(1), pa.chunked_array([], pa.string()),
        )),
    ]  # fmt: skip
    with contextlib.suppress(TypeError):  # of pandas 2.3 and later
        columns.append(pd.array(["x", None], dtype=pd.StringDtype("pyarrow", na_value=np.nan)))
    for column in columns:
        for made in (pd.Series(column, index=range(5, 5 + len(column)), name="s"), column):
            tried.n += 1
            print(f"kept: {column.dtype!r}", flush=True)
            own = sound(made)
            if (
                (own is made and len(made))
                or type(own) is not type(made)
                or own.dtype != made.dtype
            ):
                tried.problems.append(f"{own.dtype!r} in place of {made.dtype!r}")
            (pd.testing.assert_series_equal if own is not made and isinstance(own, pd.Series)
             else pd.testing.assert_extension_array_equal)(own, made)  # fmt: skip
        index = pd.Index(column, name="i")
        pd.testing.assert_index_equal(sound(index), index, exact=True)
    plain = pa.array([[1, 2], None, []])
    for array in (
        plain, plain[1:], plain.cast(pa.large_list(pa.int64())), pa.array([{"a": "x"}, None]),
        pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        pa.ExtensionArray.from_storage(Named(), pa.array(["x", None], pa.large_string())),
        pa.array([["x"], ["y"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        pa.RunEndEncodedArray.from_arrays([2, 3], ["x", "y"]),
        pa.array(["x" * 40, None, "y"], pa.string_view())[1:],
    ):  # fmt: skip
        tried.same(f"kept: {array.type}", lambda array=array: sound(array).equals(array),
                   lambda: True)  # fmt: skip


# --- pandas and polars --------------------------------------------------------------------------


def broken_pandas():
    """Yield (name, column of 200 cells) of pandas' own types."""
    for value in (99, 127, -2, -128):
        column = pd.Categorical(["a", "b"] * 100)
        column._ndarray[150] = value
        yield f"code {value}", column
        numbers = pd.Categorical([0.25, 0.5] * 100)
        numbers._ndarray[150] = value
        yield f"code {value} of numbers", numbers
    for kind, value in itertools.product(("integer", "block"), (10**8, -1, 199, 0)):
        column = pd.arrays.SparseArray([0.0, 0.0, 0.5, 0.5] * 50, kind=kind, fill_value=0.0)
        index = column.sp_index
        (index.indices if kind == "integer" else index.blocs)[5] = value
        yield f"sparse {kind}, {value}", column
    column = pd.arrays.SparseArray([0.0, 0.0, 0.5, 0.5] * 50, kind="block", fill_value=0.0)
    column.sp_index.blengths[3] = 10**6
    yield "sparse, long block", column
    column = pd.arrays.SparseArray([0.0, 0.5] * 100, fill_value=0.0)
    column._sparse_values = column._sparse_values[:3]
    yield "sparse, few values", column
    for make, value in ((pd.array, 1), (pd.array, 0.5), (pd.array, True)):
        for part, n in (("_mask", 3), ("_mask", 500), ("_data", 500)):
            column = make([value] * 200, dtype=type(pd.array([value]).dtype)())
            setattr(column, part, np.zeros(n, dtype=getattr(column, part).dtype))
            yield f"{column.dtype}, {part} of {n}", column
    column = pd.array([1] * 200, dtype="Int64")
    column._data = beyond(np.ones(200, dtype=np.int64))[: 10**7]
    column._mask = np.zeros(10**7, dtype=bool)
    yield "data behind its end", column


def pandas(tried):
    turn = 0
    good = pd.DataFrame({"a": pd.arrays.SparseArray([0, 0.5] * 100, fill_value=0.0), "b": 0.25})
    tried.same("sparse columns: valid", lambda: seeded(DPPCA(1, **BALL), good),
               lambda: seeded(DPPCA(1, **BALL), good.astype(float).to_numpy()))  # fmt: skip
    words = pd.DataFrame({"a": pd.Categorical([0.25, 0.5] * 100), "b": pd.array([1] * 200)})
    tried.same("codes: valid", lambda: seeded(DPPCA(1, **BALL), words),
               lambda: seeded(DPPCA(1, **BALL), words.astype(float).to_numpy()))  # fmt: skip
    each = {"b": np.arange(200) / 200}
    tried.all_work([
        cell_readers(table, table["a"])
        for table in (
            pd.DataFrame({"a": pd.arrays.SparseArray([0, 1] * 100, fill_value=0), **each}),
            pd.DataFrame({"a": pd.Categorical(["x", "y"] * 100), **each}),
            pd.DataFrame({"a": pd.array(["x", "y"] * 100, dtype="string"), **each}),
        )
    ])  # fmt: skip
    for code in (99, -5):
        codes = np.zeros(200, dtype=np.int8)
        codes[150] = code
        levels = pd.MultiIndex([["x"], ["y"]], [codes, codes], verify_integrity=False)
        for door, call in list(readers(levels, levels))[6:9]:
            tried.refused(f"code {code} of levels: {door}", call)
    for name, column in broken_pandas():
        frame = pd.DataFrame({"b": np.full(200, 0.5)})
        series = pd.Series(np.zeros(200))
        with contextlib.suppress(Exception):
            series = pd.Series(column, copy=False)
            frame = pd.DataFrame({"a": column, "b": 0.5}, copy=False)
        if "a" not in frame:
            series = column  # as it is: pandas makes no frame of it
            frame = column
        doors = list(cell_readers(frame, series))
        for at in range(6):
            door, call = doors[(turn + at) % len(doors)]
            tried.refused(f"{name}: {door}", call)
        turn += 6


def polars(tried):
    good = pl.DataFrame({"a": ["x", None, "y" * 40] * 70, "b": [0.5] * 210}).slice(3, 200)
    tried.works("text: valid", lambda: DPOneHotEncoder(delta=1e-6).fit(good))
    numbers = pl.DataFrame({"a": [0, 1] * 100, "b": np.arange(200) / 200})
    words = numbers.with_columns(pl.col("a").cast(pl.String))
    tried.all_work([cell_readers(table, table["a"]) for table in (numbers, words)])
    turn = 0
    for name, array in broken_arrow():
        if "view" not in name:
            continue  # polars dies of others as it is made
        table = pl.from_arrow(pa.table({"a": array, "b": np.full(200, 0.5)}))
        doors = list(cell_readers(table, table["a"]))
        for at in range(8):
            door, call = doors[(turn + at) % len(doors)]
            if door != "stream":
                tried.refused(f"{name}: {door}", call)
        turn += 8


KINDS = {
    **{kind: sparse_formats(kind) for kind in ("csr", "csc", "coo", "bsr", "lil", "dok", "dia")},
    "subclasses": lying_subclasses,
    "threads": changed_meanwhile,
    "numpy": numpy_arrays,
    "arrow": arrow,
    "offsets": written_meanwhile,
    "types": kept_types,
    "pandas": pandas,
    "polars": polars,
}


def main(kinds):
    warnings.simplefilter("ignore")
    tried = Tried()
    for kind in kinds:
        KINDS[kind](tried)
    print(f"{tried.n} cases")
    for problem in tried.problems:
        print("PROBLEM", problem)
    sys.exit(bool(tried.problems))


if __name__ == "__main__":
    main(sys.argv[1:])
