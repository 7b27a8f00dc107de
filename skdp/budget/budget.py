"""PrivacyBudget: one (epsilon, delta) for everything that is released about one table.

Nothing is released here, and a budget never sees data. It grants a charge if and only if all
charges together keep the promise under the accountant in force, and writes it to a ledger that
every clone, thread, process and pickled copy shares.
"""

from __future__ import annotations

import contextlib
import json
import numbers
import os
import uuid
import warnings
import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from joblib.hashing import Hasher

from skdp.budget import ambient, locks
from skdp.budget.accountants import ACCOUNTANTS, Accountant
from skdp.budget.amounts import (
    Amount,
    check_delta,
    check_positive,
    exact,
    exact_shares,
)
from skdp.budget.charge import Charge, Cost, PrivacyLoss, ReservationRecord
from skdp.budget.html import budget_html
from skdp.budget.ledger import Ledger, Terms, releases_json
from skdp.budget.row_counts import RowCounts
from skdp.exceptions import (
    BudgetExceededError,
    LedgerError,
    PublicRowCountWarning,
    SealedBudgetError,
)

__all__ = ["PrivacyBudget", "Reservation"]

# The module of the one other class: a stand-in for audits, which says that it charges nothing.
_MAY_DERIVE = ("skdp.budget.stand_in",)

_ADJACENCIES = ("replace_one", "add_or_remove_one")

# The budgets of this process, so that unpickling here gives the live object back.
_LIVE: weakref.WeakValueDictionary[tuple[str, str], PrivacyBudget] = weakref.WeakValueDictionary()


def _path_of(ledger: object) -> str:
    """Return the absolute path of a file that the user named, or raise."""
    if not isinstance(ledger, str | os.PathLike) or isinstance(os.fspath(ledger), bytes):
        raise TypeError("ledger must be None, a str or an os.PathLike of str: a file's path.")
    name = os.fspath(ledger)
    if not name or "\0" in name:
        raise ValueError("ledger must be None or the path of a file; got an empty or odd name.")
    return os.path.realpath(name)


def _ledger_path(ledger: object, must_exist: bool) -> str:
    """Return the absolute path of the ledger that the user named, or raise."""
    path = _path_of(ledger)
    if os.path.exists(path) and not os.path.isfile(path):
        raise LedgerError(f"ledger must be the path of a file; {path} is a directory or device.")
    if must_exist and not os.path.exists(path):
        raise LedgerError(f"ledger must be there, as must_exist=True says; {path} is not.")
    if not os.path.isdir(os.path.dirname(path)):
        raise LedgerError(f"ledger must lie in a directory that exists; {path} does not.")
    return path


def _check_choice(value: object, name: str, allowed: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(repr(one) for one in allowed)
        raise ValueError(f"{name} must be one of {words}; got {value!r}.")
    return value


def _check_n_rows(value: object) -> tuple[int, ...]:
    """Return the numbers of rows that a user states, in order, each once."""
    numbers_ = (value,) if isinstance(value, numbers.Integral) else value
    if numbers_ is None:
        return ()
    if not isinstance(numbers_, list | tuple | set | frozenset) or not numbers_:
        raise TypeError("n_rows must be None, an integer of at least 1, or a list of such.")
    for number in numbers_:
        if isinstance(number, bool) or not isinstance(number, numbers.Integral) or number < 1:
            raise ValueError("n_rows must be None, an integer of at least 1, or a list of such.")
    return tuple(sorted({int(number) for number in numbers_}))


def _check_cost(cost: object) -> Cost:
    if not isinstance(cost, Cost):
        raise TypeError(
            f"cost must be a skdp.budget.Cost; got {type(cost).__name__}. Write "
            "Cost(epsilon=0.5), estimator.privacy_cost() or search_cost(search)."
        )
    return cost


def _check_text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str; got {type(value).__name__}.")
    return value


def _short(value: float) -> str:
    text = repr(value)
    return text if len(text) <= 10 else f"{value:.4g}"


def _differences(stored: Mapping[str, str], terms: Terms) -> list[str]:
    """Return in what the terms of a ledger file differ from those of a budget."""
    return [
        f"{name}={stored[name]}, not {text}"
        for name, text in terms.texts().items()
        if stored[name] != text
    ]


def _unpickle(
    path: str,
    ledger_id: str,
    epsilon: float,
    delta: float,
    adjacency: str,
    accountant: str,
    delta_apart: float,
    temporary: bool = False,  # pickles of 0.1 have neither this nor tokens
    tokens: tuple[str, ...] = (),
) -> PrivacyBudget:
    """Return the live budget of this ledger, or connect to its file, or return a sealed one."""
    budget = _LIVE.get((path, ledger_id))
    if budget is None:
        terms = Terms(epsilon, delta, adjacency, accountant, delta_apart)
        budget = PrivacyBudget._attach(path, ledger_id, terms, temporary)
    for token in tokens:
        budget._tokens.setdefault(token)
    return budget


# What `PrivacyBudget._handle` returns, by the names that `_unpickle` has for it.
_HANDLE = (
    "path",
    "ledger_id",
    "epsilon",
    "delta",
    "adjacency",
    "accountant",
    "delta_apart",
    "temporary",
)


def _refuse_second(path: str, dataset: str) -> None:
    """Raise if another ledger of the same data set lies in the folder."""
    others = Ledger.others_of(path, dataset)
    if others:
        raise LedgerError(
            f"One table has one ledger, and that of dataset={dataset!r} is {others[0]}; {path} "
            "would be a second one."
        )


class PrivacyBudget:
    """An (epsilon, delta) budget that every fit on one table is charged to.

    Pass the same object as ``budget=`` to every estimator that looks at the table. Each fit, in
    whichever clone, thread or process, charges its price here before it draws any noise, or
    raises :class:`~skdp.exceptions.BudgetExceededError` and releases nothing.

    Parameters
    ----------
    epsilon : float
        Total epsilon; finite, above 0.
    delta : float, default=0.0
        Total delta, in [0, 1). With 0 only purely private fits are granted.
    ledger : str or os.PathLike or None, default=None
        File that records the charges, on a local disk. It is created if it is not there, and
        reopened with what was spent if it is; the other parameters must then be those it was made
        with. None: the ledger ends with this process. It is kept in memory until the budget is
        shared (pickled, or the process forks), then in a file of ``/dev/shm``, or of the
        temporary folder where there is none.
    accountant : {"basic", "gdp", "zcdp"}, default="basic"
        How charges add up. "basic" adds epsilon and delta. "gdp" adds mu squared (tight for
        Gaussian noise) and "zcdp" adds rho; both need ``delta > 0``.
    adjacency : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which tables count as neighbours: one row replaced (the number of rows is public), or one
        row added or removed (it is private).
    delta_apart : float, default=0.0
        Under "gdp" and "zcdp", the part of `delta` for charges that are (epsilon, delta)-private
        without being Gaussian. It is fixed in advance because granting from whatever is left of
        delta is no valid filter (see :mod:`skdp.budget.accountants`).
    must_exist : bool, default=False
        Whether the ledger must be there already: a wrong path is refused, where it would silently
        begin a new ledger with nothing spent.
    dataset : str or None, default=None
        A public name of the table. One table has one ledger: a second one of the same name in
        the same folder is refused. None: the name that the ledger has, if any.
    n_rows : int or list of int or None, default=None
        The numbers of rows of the table that are public under ``"replace_one"``; written into
        the ledger. None: the number of the first fit, which is written nowhere. A fit on another
        number, that is no part of a cross-validation of it, warns once
        (:class:`~skdp.exceptions.PublicRowCountWarning`).

    Attributes
    ----------
    spent, remaining : PrivacyLoss
    charges : list of Charge
    reservations : list of ReservationRecord
    sealed : bool

    Raises
    ------
    TypeError, ValueError
        For a parameter out of its range, or one that differs from what the ledger was made with.
    LedgerError
        If the file is no ledger of skdp, is a directory, is damaged, lies on a network file
        system, or cannot be read and written; if it must exist and does not; if another ledger
        of the same `dataset` lies in the folder.

    Notes
    -----
    **Ambient.** Inside ``with budget:`` every fit, statistic and score of this process that names
    no budget is charged to this one, in whichever thread; estimators that are cloned or pickled
    inside the block keep it.

    **Amounts are decimals.** ``0.1`` means one tenth, and sums are exact: ten charges of 0.1 fill
    a budget of 1.0, and nothing more is granted.

    **One object.** ``sklearn.base.clone``, ``copy.copy`` and ``copy.deepcopy`` return the budget
    itself, and unpickling in the same process returns the live object. In another process it
    connects to the same file. Where the file is gone, or is another ledger, the budget is
    *sealed*: it can be shown and pickled, and charging raises
    :class:`~skdp.exceptions.SealedBudgetError`.

    **Files.** Beside the ledger lies an empty file, ``<ledger>.lock``, whose lock every
    transaction holds. Network file systems are refused. Copy a ledger with :meth:`backup`.

    **The ledger is a cooperative record.** It protects against mistakes, races and crashes, not
    against somebody who replaces the file by an older copy.

    **Privacy.** A budget releases nothing and holds no data. Its ledger contains public facts
    only (names, prices, noise scales, times) and may be published with the results.

    References
    ----------
    .. [1] R. Rogers, A. Roth, J. Ullman, S. Vadhan, "Privacy odometers and filters", NeurIPS
       2016, Theorem 3.6.

    Examples
    --------
    >>> from skdp.budget import Cost, PrivacyBudget
    >>> budget = PrivacyBudget(epsilon=3.0, delta=1e-6)
    >>> budget.split(pca=1, kmeans=3)
    {'pca': 0.75, 'kmeans': 2.25}
    >>> _ = budget.charge(Cost(0.75), estimator="DPPCA")
    >>> budget.spent
    PrivacyLoss(epsilon=0.75, delta=0.0)
    >>> budget.remaining
    PrivacyLoss(epsilon=2.25, delta=1e-06)
    >>> budget
    PrivacyBudget(epsilon=3.0, delta=1e-06)
    """

    __slots__ = (
        "__weakref__",
        "_accountant",
        "_dataset",
        "_entered",
        "_ledger",
        "_n_rows",
        "_sealed",
        "_terms",
        "_tokens",
    )

    _accountant: Accountant
    _dataset: str | None
    _entered: list[ambient.Block]
    _ledger: Ledger
    _n_rows: RowCounts
    _sealed: bool
    _terms: Terms
    _tokens: dict[str, None]  # of reservations, oldest first

    def __init_subclass__(cls) -> None:
        if cls.__module__ not in _MAY_DERIVE:
            raise TypeError(
                "PrivacyBudget cannot be derived from: a budget whose class charges in another "
                "way would be no promise."
            )

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        ledger: str | os.PathLike[str] | None = None,
        accountant: str = "basic",
        adjacency: str = "replace_one",
        delta_apart: float = 0.0,
        must_exist: bool = False,
        dataset: str | None = None,
        n_rows: int | Sequence[int] | None = None,
    ) -> None:
        if hasattr(self, "_ledger"):
            raise RuntimeError(
                "A budget is made once, and stays with its ledger; make another PrivacyBudget."
            )
        terms = Terms(
            check_positive(epsilon, "epsilon"),
            check_delta(delta),
            _check_choice(adjacency, "adjacency", _ADJACENCIES),
            _check_choice(accountant, "accountant", tuple(ACCOUNTANTS)),
            check_delta(delta_apart, "delta_apart"),
        )
        facts: dict[str, str] = {}
        if dataset is not None:
            facts["dataset"] = _check_text(dataset, "dataset")
            if not dataset:
                raise ValueError("dataset must be None or a name; got an empty one.")
        counts = _check_n_rows(n_rows)
        if counts:
            if terms.adjacency != "replace_one":
                raise ValueError(
                    'n_rows must be None under adjacency="add_or_remove_one", where the number of '
                    "rows is private."
                )
            facts["n_rows"] = json.dumps(counts)
        if must_exist and ledger is None:
            raise ValueError("must_exist=True needs the path of a ledger; got ledger=None.")
        self._set_up(terms)
        if ledger is None:
            opened, stored = Ledger.create_in_memory(terms, facts), dict[str, Any](facts)
        else:
            opened, stored = self._open_or_create(_ledger_path(ledger, must_exist), terms, facts)
        self._take(stored, origin=True)
        self._ledger = opened
        _LIVE.setdefault((self._ledger.path, self._ledger.id), self)
        if type(self) is PrivacyBudget:
            ambient._LIVE.add(self)

    def _set_up(self, terms: Terms) -> None:
        self._terms, self._sealed, self._tokens, self._entered = terms, False, {}, []
        self._accountant = ACCOUNTANTS[terms.accountant](
            terms.epsilon, terms.delta, terms.delta_apart
        )

    def _take(self, facts: Mapping[str, Any], *, origin: bool) -> None:
        """Take over what the ledger says beside the terms."""
        self._dataset = facts.get("dataset")
        self._n_rows = RowCounts(tuple(json.loads(facts.get("n_rows") or "[]")), binds=origin)

    @staticmethod
    def _open_or_create(
        path: str, terms: Terms, facts: dict[str, str]
    ) -> tuple[Ledger, dict[str, Any]]:
        folder = os.path.dirname(path)
        named = "dataset" in facts
        with locks.folder_locked(folder, 10.0) if named else contextlib.nullcontext():
            if not os.path.exists(path):
                if named:
                    _refuse_second(path, facts["dataset"])
                with contextlib.suppress(FileExistsError):  # another process was faster: open it
                    return Ledger.create(path, terms, facts), facts
            ledger, stored = Ledger.open(path)
            wrong = _differences(stored, terms) + [
                f"{name}={stored[name]}, not {value}"
                for name, value in facts.items()
                if stored[name] not in (None, value)
            ]
            if wrong:
                raise ValueError(f"The ledger {path} was made with " + "; ".join(wrong) + ".")
            new: dict[str, Any] = {
                name: value for name, value in facts.items() if stored[name] is None
            }
            original = stored["backup_of"]
            if original is not None:
                if original != path and Ledger.is_at(original, ledger.id):
                    raise LedgerError(
                        f"The ledger {path} is a backup of {original}, which is there: open that."
                    )
                new["backup_of"] = None
            if named or stored["dataset"] is not None:
                _refuse_second(path, facts.get("dataset", stored["dataset"]))
            if new:
                ledger.state(new)
        return ledger, {**stored, **new}

    @classmethod
    def _attach(cls, path: str, ledger_id: str, terms: Terms, temporary: bool) -> PrivacyBudget:
        """Return a budget on an existing ledger file, sealed if it is not there any more."""
        self = cls.__new__(cls)
        self._set_up(terms)
        self._ledger = Ledger(path, ledger_id, temporary=temporary)
        stored: Mapping[str, Any] = {}
        try:
            stored = self._ledger.stated()
        except (LedgerError, SealedBudgetError):  # gone, another kind of file, or unreadable
            self._sealed = True
        else:
            # The file decides what the budget is, not the pickle.
            if _differences(stored, terms):
                raise LedgerError(f"The pickled budget and its ledger {path} disagree.")
        self._take(stored, origin=False)
        budget = _LIVE.setdefault((path, ledger_id), self)
        ambient._LIVE.add(budget)
        return budget

    # -- one object, everywhere ---------------------------------------------------------------

    def __sklearn_clone__(self) -> PrivacyBudget:
        return self

    def __copy__(self) -> PrivacyBudget:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivacyBudget:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        self._ledger.share()
        return _unpickle, (*self._handle(), tuple(self._tokens))

    def __getstate__(self) -> dict[str, Any]:
        # For formats without functions (skops), which set a state where pickle calls _unpickle. No
        # token travels: such a file is no worker.
        self._ledger.share()
        return dict(zip(_HANDLE, self._handle(), strict=True))

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        if hasattr(self, "_ledger"):
            raise RuntimeError("A budget stays with its ledger; it takes no other state.")
        if set(state) != set(_HANDLE):
            raise ValueError("This is not the state of a PrivacyBudget.")
        live = _unpickle(*(state[name] for name in _HANDLE))
        for name in PrivacyBudget.__slots__:  # another object of the same ledger
            if name != "__weakref__":
                setattr(self, name, getattr(live, name))

    def _handle(self) -> tuple[Any, ...]:
        """Return what never changes, so that a hash of an estimator (joblib's cache) does not."""
        t, ledger = self._terms, self._ledger
        terms = (t.epsilon, t.delta, t.adjacency, t.accountant, t.delta_apart)
        return (ledger.path, ledger.id, *terms, ledger.temporary)

    def __repr__(self) -> str:
        where = "" if self._ledger.temporary else f", ledger={self._ledger.path!r}"
        seal = ", sealed" if self._sealed else ""
        return (
            f"PrivacyBudget(epsilon={_short(self.epsilon)}, delta={_short(self.delta)}"
            f"{where}{seal})"
        )

    def _repr_html_(self) -> str:
        return budget_html(self)

    # -- ambient ------------------------------------------------------------------------------

    def __enter__(self) -> PrivacyBudget:
        """Count the fits of this process that name no budget, until the block is left."""
        self._entered.append(ambient.enter(self))
        return self

    def __exit__(self, *error: object) -> None:
        block = next((one for one in self._entered if one is ambient.here()), self._entered[-1])
        self._entered.remove(block)
        ambient.leave(block)

    def expect_rows(self, n_rows: int, name: str) -> None:
        """Warn, once, where a fit shows a number of rows that is not known to be public.

        Called by the kernel, under "replace_one" only. Nothing of it is written into the ledger.

        Parameters
        ----------
        n_rows : int
            The number of rows that the fit shows.
        name : str
            Of the estimator or function.
        """
        if not self._n_rows.expects(n_rows):
            warnings.warn(
                f"{name} shows a number of rows that is not that of the table of this budget, nor "
                'of a part of it in a cross-validation. Under adjacency="replace_one" the number '
                "of rows counts as public; that of a table filtered by private values is not. If "
                "it is public, state it: PrivacyBudget(..., n_rows=[...]); else use "
                'adjacency="add_or_remove_one".',
                PublicRowCountWarning,
                stacklevel=ambient.outside_level(),
            )

    # -- the terms ----------------------------------------------------------------------------

    @property
    def epsilon(self) -> float:
        """Total epsilon."""
        return self._terms.epsilon

    @property
    def delta(self) -> float:
        """Total delta."""
        return self._terms.delta

    @property
    def adjacency(self) -> str:
        """The neighbouring relation, "replace_one" or "add_or_remove_one"."""
        return self._terms.adjacency

    @property
    def accountant(self) -> str:
        """How charges add up: "basic", "gdp" or "zcdp"."""
        return self._terms.accountant

    @property
    def delta_apart(self) -> float:
        """The part of delta kept for charges that are not Gaussian ("gdp" and "zcdp")."""
        return self._terms.delta_apart

    @property
    def ledger(self) -> str | None:
        """The absolute path of the ledger; None if it ends with the process that made it."""
        return None if self._ledger.temporary else self._ledger.path

    @property
    def dataset(self) -> str | None:
        """The name of the table, if the ledger has one."""
        return self._dataset

    @property
    def n_rows(self) -> tuple[int, ...]:
        """The numbers of rows that were stated; none where none were."""
        return self._n_rows.stated

    @property
    def sealed(self) -> bool:
        """Whether the ledger cannot be reached from here, so that nothing can be charged."""
        self._sealed = not self._ledger.present()
        return self._sealed

    # -- what happened ------------------------------------------------------------------------

    @property
    def spent(self) -> PrivacyLoss:
        """The (epsilon, delta) of all charges so far under the accountant, rounded up."""
        return self._accountant.loss(self._sums()[0])

    @property
    def remaining(self) -> PrivacyLoss:
        """The (epsilon, delta) of one more fit that is neither spent nor set aside, rounded down.

        Under "gdp" and "zcdp" that fit is one of Gaussian noise.
        """
        charged, set_aside, cap = self._state()
        return self._accountant.room((cap - charged - set_aside).positive())

    @property
    def charges(self) -> list[Charge]:
        """Every charge, oldest first: what was released, when, by whom, with which noise."""
        with self._noting_seal():
            return self._ledger.charges(self.adjacency)

    @property
    def reservations(self) -> list[ReservationRecord]:
        """Every reservation, oldest first, open or not, with its note."""
        with self._noting_seal():
            return self._ledger.reservations()

    def _sums(self) -> tuple[Amount, Amount]:
        with self._noting_seal():
            return self._ledger.sums()

    def _state(self) -> tuple[Amount, Amount, Amount]:
        """Return what was charged, what is set aside, and the cap."""
        return (*self._sums(), self._accountant.cap)

    @contextlib.contextmanager
    def _noting_seal(self) -> Any:
        """Remember, for `repr`, whether the ledger was reachable."""
        try:
            yield
            self._sealed = False
        except SealedBudgetError:
            self._sealed = True
            raise

    # -- spending -----------------------------------------------------------------------------

    def check(self, cost: Cost) -> None:
        """Raise what :meth:`charge` would raise for this price; record nothing.

        Parameters
        ----------
        cost : Cost
            The price of one fit, or of several.

        Raises
        ------
        BudgetExceededError
            If it does not fit.
        SealedBudgetError
            If the ledger is gone.
        LedgerError
            If the ledger cannot be read.
        """
        price = self._accountant.price(_check_cost(cost))
        with self._noting_seal():
            room = self._ledger.room(self._accountant.cap, price, tuple(self._tokens))
        if not price.fits(room):
            raise self._exceeded(cost, room)

    def charge(
        self,
        cost: Cost,
        *,
        estimator: str,
        seeded: bool = False,
        releases: Sequence[Mapping[str, Any]] = (),
        note: str = "",
    ) -> Charge:
        """Charge a fit: check, write and commit in one transaction, before any noise is drawn.

        Called by the kernel; a user has no reason to. What it writes is never refunded.

        Parameters
        ----------
        cost : Cost
            The price of the fit.
        estimator : str
            The name of its class.
        seeded : bool, default=False
            Whether its noise comes from a `random_state`.
        releases : sequence of mapping, default=()
            Public facts about each release, as JSON can hold them; no data.
        note : str, default=""
            Anything public that a reader of the ledger should know.

        Returns
        -------
        charge : Charge
            As it stands in the ledger.

        Raises
        ------
        BudgetExceededError
            If it does not fit; nothing was charged for this fit.
        SealedBudgetError
            If the ledger is gone; nothing was charged.
        LedgerError
            If the ledger cannot be written: read-only, locked for 10 seconds, disk full.
        """
        price = self._accountant.price(_check_cost(cost))
        facts: dict[str, Any] = {
            "estimator": _check_text(estimator, "estimator"),
            "seeded": bool(seeded),
            "releases": releases_json(releases),
            "note": _check_text(note, "note"),
        }
        with self._noting_seal():
            charge, room = self._ledger.record(
                cost,
                price,
                self._accountant.cap,
                adjacency=self.adjacency,
                tokens=tuple(self._tokens),
                **facts,
            )
        if charge is None:
            raise self._exceeded(cost, room, estimator)
        return charge

    def describe(self, charge: Charge, releases: Sequence[Mapping[str, Any]]) -> None:
        """Write down what a charge released, once that is known; the price does not change.

        Called by the kernel when a fit is done, once: a description that stands is kept.

        Parameters
        ----------
        charge : Charge
            As `charge` returned it.
        releases : sequence of mapping
            Public facts about each release, as JSON can hold them; no data.

        Raises
        ------
        SealedBudgetError, LedgerError
            If the ledger cannot be written. The charge stands.
        """
        text = releases_json(releases)
        with self._noting_seal():
            self._ledger.describe(charge, text)

    def _exceeded(self, cost: Cost, room: Amount, who: str = "") -> BudgetExceededError:
        left = self._accountant.room(room.positive())
        named = f"{who}: the" if who else "The"
        return BudgetExceededError(
            f"{named} price is epsilon={cost.epsilon!r}, delta={cost.delta!r} ({cost.mechanism}); "
            f"of the budget epsilon={self.epsilon!r}, delta={self.delta!r} there is "
            f"epsilon={left.epsilon!r}, delta={left.delta!r} left under "
            f'accountant="{self.accountant}". Nothing was charged{" for this fit" if who else ""}. '
            f"{self._way_out(cost, left)}"
            f"{self._apart_hint(cost)}"
        )

    def _way_out(self, cost: Cost, left: PrivacyLoss) -> str:
        """Say which of epsilon and delta does not fit, and what to do about it."""
        if self.accountant != "basic":
            return "State a smaller epsilon, or a larger budget."
        by_delta = cost.delta > left.delta
        by_epsilon = cost.epsilon > left.epsilon
        if by_delta and not by_epsilon:
            short, way = (
                "delta does",
                "delta=0 (other noise)" if not left.delta else "a smaller delta",
            )
        elif by_delta:
            short, way = "epsilon and delta do", "smaller ones"
        else:
            short, way = "epsilon does", "a smaller epsilon"
        return f"The {short} not fit: state {way}, or a larger budget."

    def _apart_hint(self, cost: Cost) -> str:
        """Say what a price with a delta of its own needs, where the accountant keeps such apart."""
        apart = cost.delta if cost.mu is None else cost.delta_apart
        if not apart or self.accountant == "basic" or apart <= self.delta_apart:
            return ""
        return (
            f" A release that is not Gaussian needs delta={apart!r} apart from the noise's; the "
            f"budget has set delta_apart={self.delta_apart!r} aside for all of these: state more "
            "with PrivacyBudget(..., delta_apart=...)."
        )

    # -- planning -----------------------------------------------------------------------------

    def split(self, **weights: float) -> dict[str, float]:
        """Share the remaining epsilon by weight.

        Parameters
        ----------
        **weights : float
            Positive weights, one for each name.

        Returns
        -------
        shares : dict of str to float
            An epsilon for each name. Their sum as decimals is exactly what remains: the last
            takes what rounding leaves of the others. (Where weights differ by more than nine
            digits, each is rounded down by itself.) Under "gdp" and "zcdp" the shares are for
            Gaussian fits at ``remaining.delta`` and leave something over, because such fits add
            up to less than the sum of their epsilons.

        Raises
        ------
        ValueError, TypeError
            If there is no weight, or one is not a finite number above 0.
        BudgetExceededError
            If nothing remains.

        Examples
        --------
        >>> from skdp.budget import PrivacyBudget
        >>> PrivacyBudget(1.0).split(scale=1, pca=2, kmeans=2)
        {'scale': 0.2, 'pca': 0.4, 'kmeans': 0.4}
        """
        if not weights:
            raise ValueError("split needs at least one weight: split(name=1, other=3).")
        exacts = {name: exact(check_positive(w, name)) for name, w in weights.items()}
        left = exact(self.remaining.epsilon)
        if left == 0:
            raise BudgetExceededError("Nothing of the budget remains to be split.")
        shares = dict(zip(weights, exact_shares(left, list(exacts.values())), strict=True))
        if min(shares.values()) <= 0:
            raise ValueError("The weights differ too much: a share would round to zero.")
        return shares

    def reserve(self, cost: Cost, *, note: str | None = None) -> Reservation:
        """Set a price aside for a block of code, for example a whole grid search.

        scikit-learn turns an exception in ``fit`` into a score of NaN, so a search must know
        that it can pay for all its fits before it starts::

            with budget.reserve(price_of_the_search):
                search.fit(X)

        Entering the block checks and sets aside the whole price in one transaction. Until it is
        left, the charges of this budget draw first from what is set aside (from the newest
        reservation first) and then from what is free: charges of every thread of this process,
        of the processes that it forks inside the block, and of those that get a pickle made
        inside the block (workers of joblib, loky, multiprocessing and dask do). A secret token in
        the pickle says so, of which the ledger has a hash. Everyone else, such as another process
        that opens the same ledger, draws from what is free only. Leaving the block frees what is
        unused. Reservations do not share: an inner or concurrent one needs its whole price free
        beside the outer one. If the process that holds one is killed, the price stays set aside
        until :meth:`release_reservations`.

        Parameters
        ----------
        cost : Cost
            The whole price, such as ``16 * estimator.privacy_cost()``.
        note : str or None, default=None
            Recorded in the ledger, for example what the price does not cover. None: the `note`
            of a `cost` that has one (:func:`skdp.model_selection.search_cost` writes one).

        Returns
        -------
        reservation : Reservation
            A context manager, to be entered once.

        Raises
        ------
        BudgetExceededError
            If the price does not fit, at the call or on entering; nothing is set aside then.
        """
        price = self._accountant.price(_check_cost(cost))
        text = getattr(cost, "note", "") if note is None else note
        reservation = Reservation(self, cost, _check_text(text, "note"))
        charged, set_aside, cap = self._state()
        room = cap - charged - set_aside
        if not price.fits(room):
            raise self._exceeded(cost, room)
        return reservation

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the ledger to another file, whole and as of one moment, while others charge it.

        The copy is no second ledger: while this one is there, it is refused by
        :class:`PrivacyBudget`. Where this one is lost, rename the copy or open it where it lies.
        Whatever was charged after the last backup is then lost, too: charge it again, or count it
        as spent.

        Parameters
        ----------
        path : str or os.PathLike
            A path where nothing is yet, or an earlier backup of this ledger, which is replaced.

        Raises
        ------
        SealedBudgetError
            If the ledger is gone.
        LedgerError
            If it cannot be read, or the copy cannot be written.
        """
        with self._noting_seal():
            self._ledger.backup(_path_of(path))

    def release_reservations(self) -> int:
        """Free everything that is set aside, for example by a process that was killed.

        Searches that still run lose their guarantee that all their fits can be paid; nothing can
        be overspent.

        Returns
        -------
        count : int
            How many reservations were open.
        """
        with self._noting_seal():
            return self._ledger.release(None)


def _save_hash(hasher: Any, budget: PrivacyBudget) -> None:
    """Hash what never changes: no token, and without making a file of a ledger in memory."""
    hasher.save_reduce(_unpickle, budget._handle(), obj=budget)


# joblib's cache tells estimators apart by their hashes, which its pickler makes of their state.
Hasher.dispatch[PrivacyBudget] = _save_hash


class Reservation:
    """A price set aside for the time of a ``with`` block; made by :meth:`PrivacyBudget.reserve`.

    Parameters
    ----------
    budget : PrivacyBudget
        Where the price is set aside.
    cost : Cost
        The whole price.
    note : str
        Recorded in the ledger.
    """

    def __init__(self, budget: PrivacyBudget, cost: Cost, note: str) -> None:
        self.budget, self.cost, self.note = budget, cost, note
        self._number = self._pid = 0
        self._token = uuid.uuid4().hex  # secret: whoever has it draws from the reservation

    def __enter__(self) -> Reservation:
        if self._number:
            raise RuntimeError("A reservation can be entered once; call budget.reserve again.")
        accountant = self.budget._accountant
        with self.budget._noting_seal():
            number, room = self.budget._ledger.reserve(
                self.cost, accountant.price(self.cost), accountant.cap, self.note, self._token
            )
        if not number:
            raise self.budget._exceeded(self.cost, room)
        self._number, self._pid = number, os.getpid()
        self.budget._tokens[self._token] = None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if os.getpid() != self._pid:
            return  # a forked child that leaves the block does not end its parent's reservation
        self.budget._tokens.pop(self._token, None)
        try:
            self.budget._ledger.release(self._number)
        except (LedgerError, SealedBudgetError):
            if error is None:  # else that error matters more; the price stays set aside
                raise
