"""PrivacyBudget: one (epsilon, delta) for everything that is released about one table.

Nothing is released here, and a budget never sees data. It grants a charge if and only if all
charges together keep the promise under the accountant in force, and writes it to a ledger that
every clone, thread, process and pickled copy shares.
"""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from joblib.hashing import Hasher

from skdp.budget import ambient
from skdp.budget.account import Account, Reservation
from skdp.budget.amounts import check_delta, check_positive, exact, exact_shares
from skdp.budget.arguments import (
    check_parts,
    check_plan,
    check_text,
    checked_facts,
    checked_terms,
    ledger_path,
    ledgers_of_parts,
    path_of,
)
from skdp.budget.charge import Charge, Cost
from skdp.budget.handle import Handle
from skdp.budget.ledger import Ledger
from skdp.budget.opening import open_or_create
from skdp.budget.parallel import parts_cost
from skdp.budget.reading import BudgetReader
from skdp.budget.row_counts import RowCounts, warn_unexpected
from skdp.exceptions import (
    BudgetExceededError,
    LedgerError,
    SealedBudgetError,
)

__all__ = ["PrivacyBudget"]

# The module of the one other class: a stand-in for audits, which says that it charges nothing.
_MAY_DERIVE = ("skdp.budget.stand_in",)

# The budgets of this process, so that unpickling here gives the live object back.
_LIVE: weakref.WeakValueDictionary[tuple[str, str], PrivacyBudget] = weakref.WeakValueDictionary()


def _short(value: float) -> str:
    text = repr(value)
    return text if len(text) <= 10 else f"{value:.4g}"


def _unpickle(*values: Any) -> PrivacyBudget:
    """Return the live budget of this ledger, or connect to its file, or return a sealed one."""
    *found, tokens = values if len(values) > 8 else (*values, ())  # pickles of 0.1 have no tokens
    budget = PrivacyBudget._attach(Handle.from_values(found))
    for token in tokens:
        budget._account.tokens.setdefault(token)
    return budget


class PrivacyBudget(BudgetReader):
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
        File that records the charges, on a local disk, or ``"postgresql://user@host/database"``
        for many hosts. It is created if it is not there, and reopened with what was spent if it is;
        the other parameters must then be those it was made with. None: the ledger ends with this
        process. It is in memory until the budget is shared (pickled, or the process forks), then
        in a file of ``/dev/shm``, or of the temporary folder where there is none.
    accountant : {"basic", "gdp", "gdp_residue", "zcdp", "pld"}, default="basic"
        How charges add up. "basic" adds epsilon and delta. "gdp" adds mu squared (tight for
        Gaussian noise), "gdp_residue" too, but for pure releases only what they need inside what
        is left; "zcdp" adds rho. "pld" adds whole privacy loss distributions, which is
        the tightest, and grants only what was planned with :meth:`reserve` before anything of the
        plan was drawn. All but "basic" need ``delta > 0``.
    adjacency : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which tables count as neighbours: one row replaced (the number of rows is public), or one
        row added or removed (it is private).
    unit : str or None, default=None
        What is protected as a whole: None for one row, or the name of ids ("user_id") for all rows
        of one of them. A fit needs ``groups=`` then, and a budget without a unit refuses them. The
        number of rows is private then under both relations.
    separate_delta : float, default=0.0
        Under "gdp", "gdp_residue" and "zcdp", the separate delta: the part of `delta` for charges
        that are (epsilon, delta)-private without being Gaussian. It is fixed in advance because
        granting from whatever is left of delta is no valid filter (see
        :mod:`skdp.budget.accountants`).
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
    plans : list of (float, float) or None, default=None
        Under "pld", the (epsilon, delta) of each plan; they are fixed now, and their sums are at
        most those of the budget. None: one plan, which has all.

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

    **Amounts are decimals.** ``0.1`` means one tenth, and sums are exact.

    **One object.** Clones, copies and what is unpickled in the same process are the budget itself;
    another process connects to the same file. Where that is gone, or is another ledger, the
    budget is *sealed*: it can be shown and pickled, and charging raises
    :class:`~skdp.exceptions.SealedBudgetError`.

    **Files.** Beside the ledger lies an empty file, ``<ledger>.lock``, whose lock every
    transaction holds. Network file systems are refused. Copy a ledger with :meth:`backup`. It is
    a cooperative record: it protects against mistakes, races and crashes, not against somebody
    who replaces the file by an older copy.

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
        "_account",
        "_dataset",
        "_entered",
        "_n_rows",
    )

    _entered: list[ambient.Block]

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
        unit: str | None = None,
        separate_delta: float = 0.0,
        must_exist: bool = False,
        dataset: str | None = None,
        n_rows: int | Sequence[int] | None = None,
        plans: Sequence[tuple[float, float]] | None = None,
    ) -> None:
        if hasattr(self, "_account"):
            raise RuntimeError(
                "A budget is made once, and stays with its ledger; make another PrivacyBudget."
            )
        terms = checked_terms(epsilon, delta, adjacency, accountant, separate_delta, plans, unit)
        facts = checked_facts(dataset, n_rows, terms)
        if must_exist and ledger is None:
            raise ValueError("must_exist=True needs the path of a ledger; got ledger=None.")
        account = Account(terms)
        if ledger is None:
            account.ledger, stored = Ledger.create_in_memory(terms, facts), dict[str, Any](facts)
        else:
            path = ledger_path(ledger, must_exist)
            account.ledger, stored = open_or_create(path, terms, facts, must_exist=must_exist)
        self._set_up(account, stored, origin=True)
        _LIVE.setdefault((self._ledger.path, self._ledger.id), self)
        if type(self) is PrivacyBudget:
            ambient._LIVE.add(self)

    def _set_up(self, account: Account, facts: Mapping[str, Any], *, origin: bool) -> None:
        """Take over an account, and what its ledger says beside the terms."""
        self._account, self._entered = account, []
        self._dataset = facts.get("dataset")
        self._n_rows = RowCounts(tuple(json.loads(facts.get("n_rows") or "[]")), binds=origin)

    @classmethod
    def _attach(cls, handle: Handle) -> PrivacyBudget:
        """Return the live budget on a ledger, or one on its file, sealed if that is not there."""
        budget = _LIVE.get((handle.path, handle.ledger_id))
        if budget is None:
            self = cls.__new__(cls)
            self._set_up(*handle.account(), origin=False)
            budget = _LIVE.setdefault((handle.path, handle.ledger_id), self)
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
        return _unpickle, (*Handle.of(self._account).values(), tuple(self._account.tokens))

    def __getstate__(self) -> dict[str, Any]:
        # For formats without functions (skops), which set a state where pickle calls _unpickle. No
        # token travels: such a file is no worker.
        self._ledger.share()
        return Handle.of(self._account).state()

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        if hasattr(self, "_account"):
            raise RuntimeError("A budget stays with its ledger; it takes no other state.")
        live = PrivacyBudget._attach(Handle.from_state(state))
        for name in PrivacyBudget.__slots__:  # another object of the same ledger
            if name != "__weakref__":
                setattr(self, name, getattr(live, name))

    def __repr__(self) -> str:
        where = "" if self._ledger.temporary else f", ledger={self._ledger.path!r}"
        seal = ", sealed" if self._account.sealed else ""
        unit = "" if self.unit is None else f", unit={self.unit!r}"
        return (
            f"PrivacyBudget(epsilon={_short(self.epsilon)}, delta={_short(self.delta)}"
            f"{unit}{where}{seal})"
        )

    def _repr_html_(self) -> str:
        from skdp.budget.html import budget_html  # imported where it is shown

        try:
            found = self._statement()
        except (SealedBudgetError, LedgerError) as error:
            return budget_html(self._terms, str(error), self.dataset, self.ledger)
        return budget_html(self._terms, found, self.dataset, self.ledger)

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

        Called by the session, under "replace_one" only. Nothing of it is written into the ledger.

        Parameters
        ----------
        n_rows : int
            The number of rows that the fit shows.
        name : str
            Of the estimator or function.
        """
        if not self._n_rows.expects(n_rows):
            warn_unexpected(name)

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

        Called by the session; a user has no reason to. What it writes is never refunded.

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
        return self._account.grant(
            cost, estimator=estimator, seeded=seeded, releases=releases, note=note
        )

    def describe(self, charge: Charge, releases: Sequence[Mapping[str, Any]]) -> None:
        """Write down what a charge released, once that is known; the price does not change.

        Called by the session when a fit is done, once: a description that stands is kept. Where the
        ledger cannot be written, that is an error, and the charge stands.

        Parameters
        ----------
        charge : Charge
            As `charge` returned it.
        releases : sequence of mapping
            Public facts about each release, as JSON can hold them; no data.
        """
        self._account.describe(charge, releases)

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

    def reserve(self, cost: Cost | Sequence[Cost], *, note: str | None = None) -> Reservation:
        """Set a price aside for a block of code, for example a whole grid search.

        scikit-learn turns an exception in ``fit`` into a score of NaN, so a search must know
        that it can pay for all its fits before it starts::

            with budget.reserve(price_of_the_search):
                search.fit(X)

        Entering the block sets aside the whole price in one transaction. Until it is left, the
        charges of this budget draw first from what is set aside (newest first), then from what is
        free: charges of this process, of those it forks inside the block, and of workers that get
        a pickle made inside the block, in which a secret token travels. Everyone else draws from
        what is free only. Leaving the block frees what is unused. If the process that holds one
        is killed, the price stays set aside until :meth:`release_reservations`.

        Under "pld" the price is a plan: a list of prices, each for one fit, that is fixed now. Its
        first draw pays for all of it. Nothing is freed from then on, and once the block is left
        the rest is there for whoever charges this ledger.

        Parameters
        ----------
        cost : Cost or list of Cost
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
        plan = check_plan(cost)
        self._account.check_reserve(plan)
        text = getattr(cost, "note", "") if note is None else note
        return Reservation(self._account, plan, check_text(text, "note"))

    def parallel(
        self,
        parts: Sequence[str] | Mapping[str, str | os.PathLike[str]],
        *,
        epsilon: float,
        delta: float = 0.0,
    ) -> dict[str, PrivacyBudget]:
        """Pay once for fits on disjoint parts of the table, and return a budget for each part.

        Split the table by a public rule that looks at one row alone (the value of a column), fit on
        each part with its own budget, and the parts do not add up::

            parts = budget.parallel(["north", "south"], epsilon=0.5)
            for name, of_part in parts.items():
                DPStandardScaler(epsilon=0.5, budget=of_part).fit(X[X["region"] == name])

        Nobody but whoever splits the table can know that no row (no user, if that is the unit) is
        in two parts: it is the caller's word. :func:`skdp.model_selection.fit_parts` splits by a
        column, and needs nobody's.

        Parameters
        ----------
        parts : list of str, or dict of str to path
            Public names of the parts; with a path, the ledger of that part, else it ends with this
            process. Whether any row is in a part is private: list all that there may be.
        epsilon, delta : float
            The allowance of each part, for all that is fitted on it.

        Returns
        -------
        budgets : dict of str to PrivacyBudget
            Their relation is ``"add_or_remove_one"``, as the number of rows of a part is private.

        Raises
        ------
        BudgetExceededError
            If the price does not fit; nothing was charged.
        ValueError
            Under "pld": no plan holds parts. Under "replace_one", if delta is not below
            1 / (1 + exp(epsilon)).

        Notes
        -----
        **Privacy.** Charged, once and now: (epsilon, delta) under "add_or_remove_one", whatever the
        number of parts. Under "replace_one", where a row may move from one part to another or be
        replaced within its part, (2 epsilon, (1 + exp(epsilon)) delta). Proof and source:
        :mod:`skdp.budget.parallel`.

        Examples
        --------
        >>> from skdp.budget import PrivacyBudget
        >>> budget = PrivacyBudget(3.0, adjacency="add_or_remove_one")
        >>> parts = budget.parallel(["north", "south"], epsilon=0.5)
        >>> budget.spent.epsilon, parts["north"].remaining.epsilon
        (0.5, 0.5)
        """
        names = check_parts(parts)
        if self._account.accountant.planned:
            raise ValueError(
                f'parts cannot be in parallel under accountant="{self._terms.accountant}"; take '
                "another accountant."
            )
        paths = ledgers_of_parts(parts)
        cost = parts_cost(check_positive(epsilon, "epsilon"), check_delta(delta), self.adjacency)
        terms: dict[str, Any] = {"adjacency": "add_or_remove_one", "unit": self.unit}
        for path in filter(os.path.exists, paths.values()):  # that of another promise is refused
            PrivacyBudget(epsilon, delta, ledger=path, **terms)
        self._account.grant(
            cost,
            estimator="PrivacyBudget.parallel",
            seeded=False,
            releases=(),
            note=f"disjoint parts: {', '.join(names)}",
        )
        return {n: PrivacyBudget(epsilon, delta, ledger=paths.get(n), **terms) for n in names}

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the ledger to another file, whole and as of one moment, while others charge it.

        The copy is no second ledger: it is refused while this one is there. Where this one is
        lost, open the copy; what was charged after the last backup is lost, too: charge it again.

        Parameters
        ----------
        path : str or os.PathLike
            A path where nothing is yet, or an earlier backup of this ledger, which is replaced.

        Raises
        ------
        SealedBudgetError, LedgerError
            If the ledger is gone or cannot be read, or the copy cannot be written.
        """
        with self._account.noting_seal():
            self._ledger.backup(path_of(path))

    def release_reservations(self) -> int:
        """Free everything that is set aside, for example by a process that was killed.

        Searches that still run lose their guarantee that all their fits can be paid; nothing can
        be overspent.

        Returns
        -------
        count : int
            How many reservations were open.
        """
        with self._account.noting_seal():
            return self._ledger.release(None)


def _save_hash(hasher: Any, budget: PrivacyBudget) -> None:
    """Hash what never changes: no token, and without making a file of a ledger in memory."""
    hasher.save_reduce(_unpickle, Handle.of(budget._account).values(), obj=budget)


# joblib's cache tells estimators apart by their hashes, which its pickler makes of their state.
Hasher.dispatch[PrivacyBudget] = _save_hash
