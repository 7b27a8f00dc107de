"""Multiplicative weights on a public domain, fitted to noisy measurements. Post-processing only.

The weights are a distribution p over all cells of a domain: the uniform one times
exp(sum of theta_i q_i) for the measured queries q_i. The textbook's update multiplies p once by
exp(eta (t - q.p) q) for a new measurement t. Here all measurements are gone through again and again
(Hardt, Ligett & McSherry 2012, section 3.1), and each step sets its exponents to where

    sum over measurements of (q_i.p - t_i)^2 / (2 v_i)  +  KL(p || uniform)

is least, in which a table of cells is one measurement of many queries. This is block coordinate
ascent of the dual, a concave function of theta: every step increases it. For v = 0 it would be
iterative proportional fitting; v > 0 keeps noise from being fitted and the exponents finite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TINY = 1e-290
RUN = 256
NEWTON_STEPS = 30


class _View:
    """A table over the domain as one marginal table's cells see it, fast in numpy.

    Neighbouring columns that are both inside or both outside of the attributes are one axis; the
    last columns, until they have `RUN` cells, are one contiguous axis whatever they are.
    """

    def __init__(self, sizes: tuple[int, ...], attributes: Sequence[int]) -> None:
        inside = [j in set(attributes) for j in range(len(sizes))]
        head, tail = len(sizes), 1
        while head > 0 and tail < RUN:
            head -= 1
            tail *= sizes[head]
        merged: list[int] = []
        kinds: list[bool] = []
        for j in range(head):
            if kinds and kinds[-1] == inside[j]:
                merged[-1] *= sizes[j]
            else:
                merged.append(sizes[j])
                kinds.append(inside[j])
        self._shape = (*merged, tail)
        self._gaps = tuple(i for i, kind in enumerate(kinds) if not kind)
        self._lifted = tuple(k if kind else 1 for k, kind in zip(merged, kinds, strict=True))
        first = math.prod(k for k, kind in zip(merged, kinds, strict=True) if kind)
        self._tail = (first, *sizes[head:])
        self._tail_gaps = tuple(1 + j - head for j in range(head, len(sizes)) if not inside[j])
        kept = (k if inside[head + i] else 1 for i, k in enumerate(sizes[head:]))
        self._tail_lifted = (first, *kept)

    def marginal(self, p: Floats) -> Floats:
        """Return the flat marginal table."""
        part = p.reshape(self._shape).sum(axis=self._gaps).reshape(self._tail)
        return part.sum(axis=self._tail_gaps).reshape(-1)

    def multiply(self, p: Floats, factor: Floats) -> None:
        """Multiply every cell by the factor of its place in the marginal table."""
        spread = np.broadcast_to(factor.reshape(self._tail_lifted), self._tail)
        whole = p.reshape(self._shape)
        whole *= np.ascontiguousarray(spread).reshape(*self._lifted, self._shape[-1])


@dataclass
class _Measured:
    """One measurement: coefficients on a marginal table (None: its cells), targets, variance."""

    coefficients: Floats | None
    target: Floats
    v: float
    theta: Floats
    view: _View

    def table(self, theta: Floats) -> Floats:
        """Return the exponents of the marginal table's cells."""
        return theta if self.coefficients is None else theta @ self.coefficients

    def answers(self, marginal: Floats) -> Floats:
        return marginal if self.coefficients is None else self.coefficients @ marginal


class Weights:
    """A distribution over the cells of a domain, and the measurements that it has been fitted to.

    Parameters
    ----------
    sizes : tuple of int
        Of the domain's columns; their product is what is kept in memory.

    Attributes
    ----------
    p : ndarray of shape sizes
        Sums to 1.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self.p = np.full(self.sizes, 1 / math.prod(self.sizes))
        self._measured: list[_Measured] = []

    def measure(
        self,
        attributes: Sequence[int],
        target: Floats,
        v: float,
        coefficients: NDArray | None = None,
    ) -> None:
        """Add a measurement, as fractions of the rows.

        Parameters
        ----------
        attributes : sequence of int
            Ascending.
        target : ndarray of shape (k,)
        v : float
            Above 0; how much of the target is noise.
        coefficients : ndarray of shape (k, cells), default=None
            On the marginal table of the attributes; None: the table itself was measured.
        """
        target = np.asarray(target, dtype=np.float64).reshape(-1)
        w = None if coefficients is None else np.asarray(coefficients, dtype=np.float64)
        zeros = np.zeros(target.size)
        self._measured.append(_Measured(w, target, float(v), zeros, _View(self.sizes, attributes)))

    def fit(self, max_sweeps: int = 100, tol: float = 1e-4) -> int:
        """Go through all measurements, latest first, until none is off by more than tol.

        Returns
        -------
        sweeps : int
        """
        for sweep in range(max_sweeps):
            largest = 0.0
            for one in reversed(self._measured):
                largest = max(largest, self._step(one))
            if largest <= tol:
                return sweep + 1
        return max_sweeps

    def _step(self, one: _Measured) -> float:
        """Set one measurement's exponents to their best; return how far off it was."""
        view = one.view
        marginal = view.marginal(self.p)
        off = float(np.abs(one.answers(marginal) + one.v * one.theta - one.target).max())
        theta = _best_exponents(one, np.maximum(marginal, TINY))
        factor = one.table(theta - one.theta)
        # The new table's largest cell sets the scale: measurements that contradict each other (of
        # no rows, say, with next to no noise) leave only cells that were next to nothing before.
        factor = np.exp(factor - (factor + np.log(np.maximum(marginal, TINY))).max())
        total = float(factor @ marginal)
        if total < 1e-10:
            return off  # none of the cells that it wants has any weight left
        one.theta = theta
        view.multiply(self.p, factor / total)
        return off


def _best_exponents(one: _Measured, marginal: Floats) -> Floats:
    """Minimise log sum a exp(W'theta) - theta.t + v |theta|^2 / 2 by Newton's method.

    a are the marginal's weights without this measurement's exponents.
    """
    theta, target, v = one.theta, one.target, one.v
    base = np.log(marginal) - one.table(theta)

    def value(theta: Floats) -> tuple[float, Floats]:
        lifted = base + one.table(theta)
        top = float(lifted.max())
        weights = np.exp(lifted - top)
        total = float(weights.sum())
        loss = top + math.log(total) - float(theta @ target) + v / 2 * float(theta @ theta)
        return loss, weights / total

    loss, p = value(theta)
    step: Floats
    for _ in range(NEWTON_STEPS):
        q = one.answers(p)
        gradient = q - target + v * theta
        if float(np.abs(gradient).max()) < 1e-9:
            break
        if one.coefficients is None:
            # (diag(p + v) - p p') by Sherman and Morrison: 1 - sum p^2 / (p + v) > 0.
            inverse = 1 / (p + v)
            scaled = inverse * p
            step = inverse * gradient + scaled * float(scaled @ gradient) / (1 - float(p @ scaled))
        else:
            w = one.coefficients
            hessian = (w * p) @ w.T - np.outer(q, q) + v * np.eye(q.size)
            step = np.asarray(np.linalg.solve(hessian, gradient), dtype=np.float64)
        length, slope = 1.0, float(gradient @ step)
        if slope < 1e-15:  # what is left to gain is below the rounding of the loss
            break
        while length > 1e-6:
            moved, moved_p = value(theta - length * step)
            if moved <= loss - 0.25 * length * slope:
                break
            length /= 2
        else:
            break
        theta = theta - length * step
        loss, p = moved, moved_p
    return theta
