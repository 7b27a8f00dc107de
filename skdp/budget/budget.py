"""PrivacyBudget: one (epsilon, delta) for everything released about one table.

A budget grants a charge if and only if all charges together keep the promise under its accountant,
and writes it to a ledger that every clone, thread, process and pickled copy shares.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import json
import os
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

from joblib.hashing import Hasher

from skdp.budget import ambient
from skdp.budget.account import Account, Reservation, described
from skdp.budget.ledger import Ledger
from skdp.budget.opening import (
    NAMES,
    Handle,
    checked_facts,
    checked_parts,
    checked_terms,
    ledger_path,
    open_or_create,
    opened,
    path_of,
)
from skdp.budget.operations import LedgerOperations, releases_json
from skdp.budget.reading import RowCounts, Statement, time_of_day, warn_of_delta, warn_unexpected
from skdp.budget.schema import Terms, charge_of, reservation_of
from skdp.budget.urls import check_public
from skdp.exceptions import BudgetExceededError, LedgerError, PrivacyLeakError, SealedBudgetError
from skdp.loss.charge import Charge, Cost, PrivacyLoss, ReservationRecord, check_plan, total
from skdp.loss.composition import parts_cost
from skdp.loss.conversions import (
    Amount,
    check_delta,
    check_positive,
    exact,
    exact_shares,
    loss_text,
    rounded_amount,
)
from skdp.parameters import FLAG, check_parameter

_GLANCE = 0.05  # seconds that repr waits for another process's transaction

# The budgets of this process: unpickling gives the live object back, because a second object on the
# same ledger would not know the reservations that are open here.
_LIVE: weakref.WeakValueDictionary[tuple[str, str], PrivacyBudget] = weakref.WeakValueDictionary()


def _unpickle(*values: Any) -> PrivacyBudget:
    """Return the live budget of this ledger, or connect to its file, or return a sealed one."""
    state = dict(zip((*NAMES, "note", "tokens"), values, strict=False))  # 0.1 wrote seven of them
    note, tokens = state.pop("note", ""), state.pop("tokens", ())
    budget = PrivacyBudget._attach(Handle.from_state(state), note)
    budget._account.tokens |= dict.fromkeys(tokens)
    return budget


def not_a_budget(value: Any) -> TypeError:
    """Return the error for a `budget` that is none."""
    hint = "; a number, such as a share of budget.split, goes into epsilon=, beside budget="
    kind = f"{type(value).__name__}{hint if isinstance(value, Real) else ''}"
    return TypeError(f"budget must be a PrivacyBudget or None, got {kind}")


class PrivacyBudget:
    """An (epsilon, delta) budget for one table, to which every fit on the table is charged.

    Pass the same object as ``budget=`` to every estimator that reads the table. Each fit (in any
    clone, thread or process) is charged before it draws any noise, or raises
    :class:`~skdp.exceptions.BudgetExceededError` and releases nothing.

    Parameters
    ----------
    epsilon : float
        Total epsilon; finite, above 0.
    delta : float, default=0.0
        Total delta, in [0, 1). With 0, only pure epsilon-DP fits are granted.
    ledger : str or os.PathLike or None, default=None
        File on a local disk that records the charges, or ``"postgresql://user@host/database"`` for
        many hosts. A str that looks like another form of connection is refused; a `pathlib.Path` is
        always a file. A missing ledger is created. An existing one is reopened with its charges;
        the other parameters must then be the same. None: the ledger ends with this process. It is
        in memory until the budget is pickled or the process forks, then in a file in ``/dev/shm``
        (or in the temporary folder).
    accountant : {"basic", "gdp", "gdp_residue", "zcdp", "pld"}, default="basic"
        How charges add up. "basic" adds epsilon and delta. "gdp" adds mu squared (tight for
        Gaussian noise). "gdp_residue" does, too, but charges a pure release less when little budget
        remains. "zcdp" adds rho. "pld" composes whole privacy loss distributions; it is the
        tightest, but grants only what was planned with :meth:`reserve` before the first charge of
        the plan. All but "basic" need ``delta > 0``.
    adjacency : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which tables are neighbours: one row is replaced (the number of rows is public), or one row
        is added or removed (the number of rows is private).
    unit : str or None, default=None
        The privacy unit. None: one row. A name of ids, such as "user_id": all rows of one id. Fits
        then need ``groups=`` (a budget without a unit refuses groups), and the number of rows is
        private under both relations.
    separate_delta : float, default=0.0
        Under "gdp", "gdp_residue" and "zcdp": the part of `delta` for charges that are
        (epsilon, delta)-DP but not Gaussian (see :mod:`skdp.loss.accountants`).
    must_exist : bool, default=False
        Whether the ledger must exist already. If False, a wrong path silently begins a new ledger
        with nothing spent.
    dataset : str or None, default=None
        A public name of the table. One table has one ledger: a second ledger with the same name in
        the same folder is refused. None: the name in the ledger, if there is one.
    n_rows : int or list of int or None, default=None
        Under ``"replace_one"``: the public number of rows of the table, or several, written into
        the ledger. None: the number of rows of the first fit, which is not written down. A fit on
        another number warns once (:class:`~skdp.exceptions.PublicRowCountWarning`), unless it may
        be a part of such a table in a cross-validation.
    plans : list of (float, float) or None, default=None
        Under "pld": the (epsilon, delta) of each plan, which sum to at most those of the budget.
        None: one plan with the whole budget.
    note : str, default=""
        Public remark, written with each charge of this object and its copies in worker processes:
        who spends, and what for.

    Attributes
    ----------
    spent, remaining : PrivacyLoss
    charges : list of Charge
    reservations : list of ReservationRecord
    sealed : bool

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or differs from that of the existing ledger.
    LedgerError
        If the ledger cannot be used (another kind of file, damaged, read-only, on a network file
        system) or is missing, or the folder has another ledger of the same `dataset`.

    Notes
    -----
    **With block.** Inside ``with budget:``, every fit, statistic and score that names no budget is
    charged to this one, in any thread and in joblib's workers. Estimators that are cloned or
    pickled inside the block keep it. Other workers refuse a fit without a budget.

    **Amounts are decimals.** ``0.1`` means one tenth, and sums are exact.

    **One object.** Clones, copies and unpickled copies in the same process are the budget itself;
    another process connects to the same ledger. If that is gone, the budget is *sealed*: it can be
    shown and pickled, but charging raises :class:`~skdp.exceptions.SealedBudgetError`.

    **Files.** Every transaction locks an empty file beside the ledger, ``<ledger>.lock``. Network
    file systems are refused. Copy a ledger with :meth:`backup`. The ledger protects against
    mistakes, races and crashes, but not against somebody who replaces the file with an older copy.

    **Privacy.** A budget holds no data. Its ledger contains public facts only (names, prices, noise
    scales, times) and may be published with the results.

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
    PrivacyBudget(epsilon=3.0, delta=1e-06, remaining=(2.25, 1e-06))
    """

    __slots__ = ("__weakref__", "_account", "_dataset", "_entered", "_n_rows")

    _account: Account
    _dataset: str | None
    _entered: list[ambient.Block]
    _n_rows: RowCounts

    def __init_subclass__(cls) -> None:
        if cls.__module__ != __name__:  # StandInBudget, below, is the only one
            raise TypeError(
                "PrivacyBudget cannot be subclassed: a subclass that charges differently would "
                "give no guarantee."
            )

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        ledger: str | os.PathLike[str] | None = None,
        accountant: str = "basic",
        adjacency: str = "replace_one",
        unit: str | None = None,
        separate_delta: float = 0.0,
        must_exist: bool = False,
        dataset: str | None = None,
        n_rows: int | Sequence[int] | None = None,
        plans: Sequence[tuple[float, float]] | None = None,
        note: str = "",
    ) -> None:
        if hasattr(self, "_account"):
            raise RuntimeError(
                "A budget is made once, and stays with its ledger; make another PrivacyBudget."
            )
        terms = checked_terms(epsilon, delta, adjacency, accountant, separate_delta, plans, unit)
        facts = checked_facts(dataset, n_rows, terms)
        if stated := json.loads(facts.get("n_rows") or "[]"):
            warn_of_delta(type(self).__name__, terms.delta, max(stated))
        if check_parameter(must_exist, "must_exist", FLAG) and ledger is None:
            raise ValueError("must_exist=True needs the path of a ledger; got ledger=None.")
        account = Account(terms, check_public(note, "note"))
        if ledger is None:
            account.ledger, stored = Ledger.create_in_memory(terms, facts), dict[str, Any](facts)
        else:
            path = ledger_path(ledger, must_exist)
            account.ledger, stored = open_or_create(path, terms, facts, must_exist=must_exist)
        if account.accountant.stateful:
            account.plain()  # opening reads every charge anyway; showing the budget should not
        self._set_up(account, stored, origin=True)
        _LIVE.setdefault((self._ledger.path, self._ledger.id), self)
        if type(self) is PrivacyBudget:
            ambient._LIVE.add(self)

    def _set_up(self, account: Account, facts: Mapping[str, Any], *, origin: bool) -> None:
        """Take over an account, and the facts in its ledger."""
        self._account, self._entered = account, []
        self._dataset = facts.get("dataset")
        self._n_rows = RowCounts(tuple(json.loads(facts.get("n_rows") or "[]")), binds=origin)

    @classmethod
    def open(cls, ledger: str | os.PathLike[str], *, note: str = "") -> PrivacyBudget:
        """Return the budget of an existing ledger, with the terms that it was made with.

        Parameters
        ----------
        ledger : str or os.PathLike
            Path or URL.
        note : str, default=""
            As in the class.

        Raises
        ------
        LedgerError
            If there is no ledger, or it cannot be read.

        Examples
        --------
        >>> import os, tempfile
        >>> from skdp.budget import PrivacyBudget
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "customers.budget")
        ...     _ = PrivacyBudget(2.0, 1e-6, ledger=path)
        ...     PrivacyBudget.open(path).epsilon
        2.0
        """
        existing = opened(ledger_path(ledger, must_exist=True))
        try:
            stated = Terms.of(existing.stated()).arguments()
        except SealedBudgetError:  # a database answers, without that ledger
            raise LedgerError(f"ledger must exist; {existing.path} does not.") from None
        return cls(**stated, ledger=ledger, must_exist=True, note=note)

    @classmethod
    def _attach(cls, handle: Handle, note: str = "") -> PrivacyBudget:
        """Return the live budget of a ledger, or a new one, sealed if the ledger is not there."""
        budget = _LIVE.get((handle.path, handle.ledger_id))
        if budget is None:
            self = cls.__new__(cls)
            self._set_up(*handle.account(note), origin=False)
            # Of threads that unpickle at the same time, all get the object of the first.
            budget = _LIVE.setdefault((handle.path, handle.ledger_id), self)
            ambient._LIVE.add(budget)
        return budget

    # -- the terms ----------------------------------------------------------------------------

    @property
    def _ledger(self) -> LedgerOperations:
        return self._account.ledger

    @property
    def _terms(self) -> Terms:
        return self._account.terms

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
        """The neighbouring relation: "replace_one" or "add_or_remove_one"."""
        return self._terms.adjacency

    @property
    def unit(self) -> str | None:
        """The privacy unit: the name of the column of ids; None: one row."""
        return self._terms.unit

    @property
    def accountant(self) -> str:
        """How charges add up: "basic", "gdp", "gdp_residue", "zcdp" or "pld"."""
        return self._terms.accountant

    @property
    def separate_delta(self) -> float:
        """The part of delta for charges that are not Gaussian ("gdp", "gdp_residue" and "zcdp")."""
        return self._terms.separate_delta

    @property
    def ledger(self) -> str | None:
        """The absolute path of the ledger; None if it ends with the process that made it."""
        return None if self._ledger.temporary else self._ledger.path

    @property
    def note(self) -> str:
        """What is written with each charge that is made through this object."""
        return self._account.note

    @property
    def dataset(self) -> str | None:
        """The name of the table, if the ledger has one."""
        return self._dataset

    @property
    def n_rows(self) -> tuple[int, ...]:
        """The numbers of rows that were stated as public; empty if none were."""
        return self._n_rows.stated

    @property
    def sealed(self) -> bool:
        """Whether the ledger cannot be reached, so nothing can be charged."""
        self._ledger.sealed = not self._ledger.present()
        return self._ledger.sealed

    @property
    def spent(self) -> PrivacyLoss:
        """The (epsilon, delta) of all charges so far under the accountant, rounded up."""
        return self._account.spent

    @property
    def remaining(self) -> PrivacyLoss:
        """The (epsilon, delta) available for one more fit (not spent, not set aside), rounded down.

        Under "gdp" and "zcdp", the fit must have Gaussian noise. Under "pld", it must be a plan.
        """
        return self._account.remaining

    @property
    def charges(self) -> list[Charge]:
        """Every charge, oldest first."""
        return [charge_of(row, self.adjacency) for row in self._ledger.rows("charges")]

    @property
    def reservations(self) -> list[ReservationRecord]:
        """Every reservation, oldest first, open or not, with its note."""
        return [reservation_of(row) for row in self._ledger.rows("reservations")]

    # -- what it amounts to, and what still fits -----------------------------------------------

    def _remaining_at_a_glance(self) -> str:
        """Return `remaining` for `repr`, which waits for nobody; "" where it would have to."""
        ledger = self._ledger
        if isinstance(ledger, Ledger):
            if ledger.sealed:
                return ""
            ledger = copy.copy(ledger)
            ledger.timeout = _GLANCE
        try:
            loss, when = self._remaining_shown(ledger)
        except (SealedBudgetError, LedgerError):
            self._ledger.sealed = ledger.sealed
            return ""
        epsilon, delta = (rounded_amount(x, up=False) for x in (loss.epsilon, loss.delta))
        return f"({epsilon!r}, {delta!r}){when}"

    def _remaining_shown(self, ledger: LedgerOperations | None = None) -> tuple[PrivacyLoss, str]:
        """Return what remains and, of a ledger on a server, when this process saw that."""
        known = (self._ledger if ledger is None else ledger).known()
        when = f" as of {time_of_day(known.when)}" if self._ledger.remote else ""
        return self._account.remaining_at(known), when

    def _statement(self, last: int | None = None) -> Statement:
        stateful = self._account.accountant.stateful
        known = Amount() if stateful else None
        statement: Statement = self._ledger.read(
            lambda ledger: Statement.read(ledger, last, plain=known)
        )
        # Read after the rows, so that what was charged meanwhile counts.
        return replace(statement, charged=self._account.plain()) if stateful else statement

    def curve(self, deltas: Iterable[float]) -> list[float]:
        """Return the epsilon of all charges so far at each delta, rounded up.

        Parameters
        ----------
        deltas : iterable of float
            Each in [0, 1).

        Returns
        -------
        epsilons : list of float
            Infinity if a delta is too small. Under "pld", a plan that was charged counts whole.

        Notes
        -----
        The curve assumes that the charges did not depend on earlier releases; the (epsilon, delta)
        of the budget holds in any case.

        Examples
        --------
        >>> from skdp.budget import Cost, PrivacyBudget
        >>> budget = PrivacyBudget(1.0, 1e-6)
        >>> _ = budget.charge(Cost(0.5, 1e-7), estimator="DPPCA")
        >>> budget.curve([1e-8, 1e-6])
        [inf, 0.5]
        """
        statement = self._statement(last=0)
        return [statement.epsilon(check_delta(delta)) for delta in deltas]

    def history(self) -> list[tuple[datetime.datetime, PrivacyLoss]]:
        """Return when charges were made, and what was spent after each.

        Returns
        -------
        history : list of (datetime.datetime, PrivacyLoss)
            In order, for the last charge and at most about 200 others.
        """
        return self._statement().history()

    def fits(self, cost: Cost) -> int:
        """Return how many more charges of this price are granted now.

        Parameters
        ----------
        cost : Cost
            The price of one fit.

        Returns
        -------
        count : int
            Reservations of this process included. Under "pld": how many the plans still contain.
            Under "gdp_residue", a number above 1,000 is a lower bound.

        Examples
        --------
        >>> from skdp.budget import Cost, PrivacyBudget
        >>> PrivacyBudget(1.0).fits(Cost(0.3))
        3
        """
        return self._account.fits(cost)

    def split(self, **weights: float) -> dict[str, float]:
        """Share the remaining epsilon by weight.

        Parameters
        ----------
        **weights : float
            Positive weights, one for each name.

        Returns
        -------
        shares : dict of str to float
            An epsilon for each name, to be passed as ``epsilon=`` beside ``budget=``. Their decimal
            sum is exactly what remains, unless weights differ by more than nine digits. Under "gdp"
            and "zcdp", the shares are for Gaussian fits at ``remaining.delta``, which add up to
            less than the sum of their epsilons.

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
        exacts = [exact(check_positive(w, name)) for name, w in weights.items()]
        remaining = exact(self.remaining.epsilon)
        if remaining == 0:
            raise BudgetExceededError("Nothing of the budget remains to be split.")
        shares = dict(zip(weights, exact_shares(remaining, exacts), strict=True))
        if min(shares.values()) <= 0:
            raise ValueError("The weights differ too much: a share would round to zero.")
        return shares

    # -- one object, everywhere ---------------------------------------------------------------

    def __sklearn_clone__(self) -> PrivacyBudget:
        return self

    def __copy__(self) -> PrivacyBudget:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivacyBudget:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        self._ledger.share()
        handle, account = Handle.of(self._account), self._account
        return _unpickle, (*handle.state().values(), account.note, tuple(account.tokens))

    def __getstate__(self) -> dict[str, Any]:
        # For formats without functions (skops), which set a state where pickle calls _unpickle.
        # Tokens of reservations stay out: such a file is kept, and is no worker's.
        self._ledger.share()
        return Handle.of(self._account).state()

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        if hasattr(self, "_account"):
            raise RuntimeError("A budget stays with its ledger; it takes no other state.")
        live = PrivacyBudget._attach(Handle.from_state(state))
        for name in PrivacyBudget.__slots__[1:]:  # all but __weakref__
            setattr(self, name, getattr(live, name))

    def __repr__(self) -> str:
        text = loss_text(self)
        if remaining := self._remaining_at_a_glance():
            text += f", remaining={remaining}"
        text += "" if self.unit is None else f", unit={self.unit!r}"
        text += "" if self.ledger is None else f", ledger={self.ledger!r}"
        return f"PrivacyBudget({text}{', sealed' if self._ledger.sealed else ''})"

    def _repr_html_(self) -> str:
        from skdp.budget.reports.html import SHOWN, budget_html  # imported where it is shown

        try:
            remote = self._ledger.remote
            content: Any = self._ledger.known() if remote else self._statement(last=SHOWN)
        except (SealedBudgetError, LedgerError) as error:
            content = str(error)
        return budget_html(self._terms, content, self.dataset, self.ledger)

    # -- ambient ------------------------------------------------------------------------------

    def __enter__(self) -> PrivacyBudget:
        """Count the fits of this process and of joblib's workers that name no budget."""
        self._entered.append(ambient.enter(self))
        return self

    def __exit__(self, *error: object) -> None:
        # Several threads may be inside the same budget: leave the block of this one.
        block = next((b for b in self._entered if b is ambient.here()), self._entered[-1])
        self._entered.remove(block)
        ambient.leave(block)

    def expect_rows(self, n_rows: int, name: str) -> None:
        """Warn once if a fit shows a number of rows that may be private (called by the session).

        Parameters
        ----------
        n_rows : int
            The number of rows that the fit shows.
        name : str
            Name of the estimator or function.
        """
        if not self._n_rows.expects(n_rows):
            warn_unexpected(name)

    # -- spending -----------------------------------------------------------------------------

    def check(self, cost: Cost) -> None:
        """Raise the error that :meth:`charge` would raise for this price; record nothing.

        Parameters
        ----------
        cost : Cost
            The price of one fit, or of several.

        Raises
        ------
        BudgetExceededError, SealedBudgetError, LedgerError
            If it does not fit; if the ledger is gone; if it cannot be read.
        """
        self._account.check(cost)

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

        Called by the session. A charge is never refunded.

        Parameters
        ----------
        cost : Cost
            The price of the fit.
        estimator : str
            The name of its class.
        seeded : bool, default=False
            Whether its noise comes from a `random_state`.
        releases : sequence of mapping, default=()
            Public facts about each release, as JSON can hold them.
        note : str, default=""
            Any public remark.

        Returns
        -------
        charge : Charge
            The charge as written in the ledger.

        Raises
        ------
        BudgetExceededError, SealedBudgetError
            If it does not fit, or the ledger is gone; nothing was charged for this fit.
        LedgerError
            If the ledger cannot be written: read-only, locked for 10 seconds, disk full.
        """
        return self._account.grant(
            cost, estimator=estimator, seeded=seeded, releases=releases, note=note
        )

    def describe(self, charge: Charge, releases: Sequence[Mapping[str, Any]]) -> None:
        """Record what a charge released; the price does not change.

        Called once by the session, after a fit. An existing description is kept. If the ledger
        cannot be written, this raises, and the charge stands.

        Parameters
        ----------
        charge : Charge
            As `charge` returned it.
        releases : sequence of mapping
            Public facts about each release, as JSON can hold them.
        """
        self._ledger.describe(charge, releases_json(described(releases)))

    # -- planning -----------------------------------------------------------------------------

    def reserve(self, cost: Cost | Sequence[Cost], *, note: str | None = None) -> Reservation:
        """Set a price aside for a block of code, for example a whole grid search.

        scikit-learn turns an exception in ``fit`` into a score of NaN, so a search must know
        that it can pay for all its fits before it starts::

            with budget.reserve(price_of_the_search):
                search.fit(X)

        Entering the block sets aside the whole price in one transaction. Inside it, charges are
        paid first from what is set aside (newest first), then from what is free: in this process,
        its forks, and workers that get a budget pickled inside the block (with a secret token).
        Leaving the block frees what is unused. If the process is killed, the price stays set aside
        until :meth:`release_reservations`.

        Under "pld" the price is a plan: a fixed list of prices, each for one fit. Its first charge
        pays for all of it, and nothing is freed from then on; after the block, anyone who charges
        this ledger may use the rest.

        Parameters
        ----------
        cost : Cost or list of Cost
            The whole price, such as ``16 * estimator.privacy_cost()``.
        note : str or None, default=None
            Recorded in the ledger. None: the `note` of `cost`, if it has one (as from
            :func:`skdp.model_selection.search_cost`).

        Returns
        -------
        reservation : Reservation
            A context manager that can be entered once.

        Raises
        ------
        BudgetExceededError
            If the price does not fit, at the call or on entering. Nothing is then set aside.
        """
        plan = check_plan(cost)
        self._account.check_reserve(plan)
        text = getattr(cost, "note", "") if note is None else note
        return Reservation(self._account, plan, check_public(text, "note"))

    def parallel(
        self,
        parts: Sequence[str] | Mapping[str, str | os.PathLike[str]],
        *,
        epsilon: float,
        delta: float = 0.0,
        by_position: bool = False,
    ) -> dict[str, PrivacyBudget]:
        """Pay once for fits on disjoint parts of the table; return a budget for each part.

        Split the table by a public rule that reads each row alone, such as the value of a column::

            parts = budget.parallel(["north", "south"], epsilon=0.5)
            for name, of_part in parts.items():
                DPStandardScaler(epsilon=0.5, budget=of_part).fit(X[X["region"] == name])

        You promise that no row (or user, if that is the unit) is in two parts; this cannot be
        checked here. :func:`skdp.model_selection.fit_parts` splits by a column itself.

        Parameters
        ----------
        parts : list of str, or dict of str to path
            Public names of all possible parts (whether a part has rows is private). A dict gives
            the path of each part's ledger; otherwise their ledgers end with this process.
        epsilon, delta : float
            The allowance of each part, for all fits on it.
        by_position : bool, default=False
            The part of a row follows from its position and the number of rows alone, whatever it
            says. Under "replace_one" with rows as units only: no row then moves to another part.

        Returns
        -------
        budgets : dict of str to PrivacyBudget
            Their relation is ``"add_or_remove_one"``: the number of rows of a part is private. By
            position it is that of this budget.

        Raises
        ------
        BudgetExceededError
            If the price does not fit; nothing was charged.
        ValueError
            Under "pld". Under "replace_one", if delta is not below 1 / (1 + exp(epsilon)). If
            `by_position` does not fit the relation or the unit.

        Notes
        -----
        **Privacy.** Charged, once, at this call, for any number of parts: (epsilon, delta) under
        "add_or_remove_one" and by position; otherwise (2 epsilon, (1 + exp(epsilon)) delta) under
        "replace_one", because a row may move to another part (see :mod:`skdp.loss.composition`).

        Examples
        --------
        >>> from skdp.budget import PrivacyBudget
        >>> budget = PrivacyBudget(3.0, adjacency="add_or_remove_one")
        >>> parts = budget.parallel(["north", "south"], epsilon=0.5)
        >>> budget.spent.epsilon, parts["north"].remaining.epsilon
        (0.5, 0.5)
        """
        if self._account.accountant.planned:
            raise ValueError(
                f'parts cannot be in parallel under accountant="{self.accountant}"; take another '
                "accountant."
            )
        if by_position and (self.adjacency != "replace_one" or self.unit is not None):
            raise ValueError(
                "by_position needs a budget of the relation 'replace_one' whose unit is a row: "
                "elsewhere one unit more moves others to other positions."
            )
        paths = checked_parts(parts)
        # By position a replaced row stays in its part: one part changes.
        moved = "add_or_remove_one" if by_position else self.adjacency
        cost = parts_cost(check_positive(epsilon, "epsilon"), check_delta(delta), moved)
        adjacency = "replace_one" if by_position else "add_or_remove_one"
        terms: dict[str, Any] = {"adjacency": adjacency, "unit": self.unit}
        for path in paths.values():  # a ledger with other terms is refused before the charge
            if path is not None and os.path.exists(path):
                PrivacyBudget(epsilon, delta, ledger=path, **terms)
        note = f"disjoint parts: {', '.join(paths)}"
        self._account.grant(cost, estimator="PrivacyBudget.parallel", note=note)
        return {n: PrivacyBudget(epsilon, delta, ledger=p, **terms) for n, p in paths.items()}

    def report(self, path: str | os.PathLike[str], *, certificates: Any = ()) -> None:
        """Write a report for who signs: one HTML page that prints well, and a JSON file beside it.

        Parameters
        ----------
        path : str or os.PathLike
            Of the page; it ends with ".html". The JSON file has its name, with ".json".
        certificates : certificate, answer or fitted estimator, or sequence or mapping of them
            What to describe in detail, besides the charges: fitted pipelines give the names of
            their steps, columns, bounds and what was learned. The keys of a mapping are names.

        Raises
        ------
        TypeError, ValueError
            If `path` does not end with ".html", or a certificate is none.
        SealedBudgetError, LedgerError
            If the ledger is gone, or cannot be read.

        Notes
        -----
        **Privacy.** Nothing is charged: the page shows what was released, and values of keys,
        categories and classes only as numbers of them.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from skdp import PrivacyBudget, statistics
        >>> budget = PrivacyBudget(1.0, dataset="ages")
        >>> mean = statistics.mean([30.0, 40.0], bounds=(0, 100), epsilon=0.5, budget=budget)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     budget.report(f"{folder}/ages.html", certificates=mean)
        ...     sorted(file.name for file in pathlib.Path(folder).iterdir())
        ['ages.html', 'ages.json']
        """
        from skdp.budget.reports.signing import write_report

        write_report(self, path, certificates)

    def to_frame(self) -> Any:
        """Return all charges as a pandas DataFrame, indexed by their numbers.

        Returns
        -------
        frame : pandas.DataFrame

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        from skdp.budget.reports.signing import charges_frame

        return charges_frame(self.charges)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the whole ledger, as of one moment, to another file; others may charge it meanwhile.

        The copy is refused as a ledger while this one exists. If this one is lost, open the copy,
        and charge again what was charged after the last backup.

        Parameters
        ----------
        path : str or os.PathLike
            A new path, or that of an earlier backup of this ledger, which is replaced.

        Raises
        ------
        SealedBudgetError, LedgerError
            If the ledger is gone, or cannot be read; if the copy cannot be written.
        """
        target = path_of(path)
        with contextlib.closing(self._ledger.snapshot()) as memory:
            Ledger.write_copy(memory, self._ledger.path, target)

    def release_reservations(self) -> int:
        """Free all reservations, for example those of a process that was killed.

        Running searches may then be unable to pay for all their fits. ``python -m skdp.ledger
        release`` frees single ones.

        Returns
        -------
        count : int
            How many reservations were open.
        """
        return self._ledger.release(None)


def _save_hash(hasher: Any, budget: PrivacyBudget) -> None:
    """Hash what never changes: no token, and without making a file of a ledger in memory."""
    values = tuple(Handle.of(budget._account).state().values())
    hasher.save_reduce(_unpickle, values, obj=budget)


# joblib's cache identifies an estimator by a hash that its pickler makes of the state.
Hasher.dispatch[PrivacyBudget] = _save_hash


# --- a dry run ------------------------------------------------------------------------------------

_HERE_ONLY = "what a run of a search fits, it fits in its own process: elsewhere nobody counts it"


class StandInBudget(PrivacyBudget):
    """A budget for audits: grants every charge, writes none, and lists them in `asked`.

    The certificate of a fit says so. `asked` holds (cost, estimator, note) for each charge, and for
    each fit what the ledger would publish of its releases. Fits choose their noise as they do for
    `accountant`. With `here_only`, it refuses to charge
    or to be pickled in another process, whose charges `asked` would miss.
    """

    __slots__ = ("_pid", "asked", "tell")

    def __init__(
        self,
        adjacency: str = "replace_one",
        unit: str | None = None,
        *,
        here_only: bool = False,
        accountant: str = "basic",
    ) -> None:
        delta = 0.0 if accountant == "basic" else 1e-6
        super().__init__(1.0, delta, adjacency=adjacency, unit=unit, accountant=accountant)
        self.asked: list[Any] = []
        self._pid = os.getpid() if here_only else None
        self.tell: Callable[[Exception | None], None] | None = None

    @classmethod
    def of(cls, budget: PrivacyBudget, tell: Callable[[Exception | None], None]) -> StandInBudget:
        """Return one with all terms of a budget, for a dry run.

        `tell` is called with what the ledger would raise for all charges so far, or None.
        """
        made = cls(here_only=True)
        for name in PrivacyBudget.__slots__[1:]:  # all but __weakref__
            setattr(made, name, getattr(budget, name))
        made.tell = tell
        return made

    @property
    def remaining(self) -> PrivacyLoss:
        """What remains; in a dry run without the delta that was asked for."""
        left = super().remaining
        asked = sum(one[0].delta for one in self.asked if isinstance(one, tuple))
        return (
            left if self.tell is None else PrivacyLoss(left.epsilon, max(left.delta - asked, 0.0))
        )

    def _refusal(self, cost: Cost) -> Exception | None:
        """Return what the ledger would raise for this charge after those before, or None."""
        costs = [one[0] for one in self.asked if isinstance(one, tuple)]
        try:
            planned = self._account.accountant.planned
            self._account.check(cost if planned else total((one, 1) for one in costs))
        except (BudgetExceededError, SealedBudgetError, LedgerError) as error:
            return error
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        if self._pid is not None:
            raise PrivacyLeakError(_HERE_ONLY)
        return super().__reduce__()

    def __getstate__(self) -> dict[str, Any]:
        if self._pid is not None:
            raise PrivacyLeakError(_HERE_ONLY)
        return super().__getstate__()

    def charge(
        self,
        cost: Cost,
        *,
        estimator: str,
        seeded: bool = False,
        releases: Sequence[Mapping[str, Any]] = (),
        note: str = "",
    ) -> Charge:
        """Grant the charge and list it."""
        if self._pid not in (None, os.getpid()):
            raise PrivacyLeakError(_HERE_ONLY)
        self.asked.append((cost, estimator, note))
        if self.tell is not None:
            self.tell(self._refusal(cost))
        return Charge(
            number=len(self.asked),
            when=datetime.datetime.now(datetime.UTC),
            estimator=estimator,
            epsilon=cost.epsilon,
            delta=cost.delta,
            mechanism=cost.mechanism,
            mu=cost.mu,
            adjacency=self.adjacency,
            seeded=seeded,
            releases=tuple(releases),
            note=note,
            pid=os.getpid(),
            cost=cost,
        )

    def check(self, *costs: Any, **options: Any) -> None:
        """Grant everything."""

    def expect_rows(self, n_rows: int, name: str) -> None:
        """Accept any number of rows."""

    def describe(self, charge: Charge, releases: Sequence[Mapping[str, Any]]) -> None:
        """List what the ledger would publish of the fit's releases."""
        self.asked.append([dict(release) for release in releases])
