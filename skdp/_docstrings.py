"""Docstrings of public functions and classes, filled from one table.

- An entry without a description, as ``budget : PrivacyBudget or None, default=None``, gets the
  shared text of its name. A description that begins with ``...`` continues the shared text.
- A line ``{fit}`` stands for a block of lines: of `_BLOCKS`, or of one package.
- What the signature says need not be written: shared parameters (`_TYPES`), ``Returns`` where the
  first line says what is returned, and the attributes and errors of every estimator.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

__all__ = ["SHARED_TEXTS", "documenter", "filled", "parameters_of", "shared_texts"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

# By what stands before the colon of an entry.
SHARED_TEXTS = {
    "bounds": (
        "Range of each column, from public knowledge: two numbers, two arrays, or a mapping from "
        "column name to (low, high); values beyond them count as the nearest bound. "
        '``"private"`` learns them, for a fifth of the allowance at most; where rows are few, for '
        "up to a half."
    ),
    "budget": (
        "Budget to charge; it also sets the neighbouring relation. None: the budget of an "
        "enclosing ``with budget:`` block, if there is one."
    ),
    "classes": (
        "All class labels, from public knowledge, because which labels occur in y is private. Rows "
        'with another label are left out. ``"private"`` selects the labels that enough rows have, '
        "for a tenth of the allowance and half of delta. It needs delta above 0, labels that are "
        "text, numbers or booleans, and a table that is not in parts. With fewer than two labels "
        "selected, `fit` warns, and every row gets the one class. An array of booleans needs no "
        "selection."
    ),
    "delta": (
        "In [0, 1). The most that a fit takes. Noise is Gaussian if that is less noise, as for "
        'many columns, or if the accountant is not "basic". Else it is pure, and delta is charged '
        "only if classes, categories or keys are learned. None: a hundredth of the budget's delta; "
        "0 without a budget."
    ),
    "epsilon": "Privacy loss of a fit; finite, above 0.",
    "epsilon, delta": (
        "Privacy loss of the call, at most. Delta is charged only if noise is Gaussian: if that is "
        'less than pure noise, or if the accountant is not "basic". None: a hundredth of the '
        "budget's delta; 0 without a budget."
    ),
    "groups": (
        "Id of the unit (a user, say) that each row belongs to. All rows of one id are protected "
        "together. A budget with a `unit` needs groups; any other budget refuses them. Rows "
        "without an id are left out if a unit is added or removed, and refused otherwise."
    ),
    "max_rows_per_unit": (
        'With `groups`: how many rows of each unit are used at most. ``"private"`` chooses this '
        "number for 10% of the allowance, so that about 99 in 100 units keep all their rows."
    ),
    "n_rows": (
        '``"private"``: the number of rows is protected, so X may be a selection of rows by '
        'private values. ``"public"``: anyone may know the number of rows; less noise. Not '
        'possible under "add_or_remove_one".'
    ),
    "input_features": "Names of the columns of X; those of `fit`, or x0, x1, ... if None.",
    "n_samples, n_features": "Not used: the cost of a fit does not depend on them.",
    "n_features": "Number of columns; ``n_features_in_`` after `fit`.",
    "sample_weight": "Private weights of rows, finite numbers, clipped to [0, `weight_bound`].",
    "random_state": (
        'Seeds post-processing, and noise only inside ``skdp.config_context(noise="seeded")``.'
    ),
    "weight_bound": (
        'The largest weight, from public knowledge; above 0. ``"private"`` learns it, for at most '
        "a fifth of the allowance of a fit with `sample_weight`."
    ),
    # attributes
    "weight_bound_": "`weight_bound`, stated or learned; None for a fit without weights.",
    "bounds_": "The bounds, stated or learned.",
    "classes_": (
        "`classes`, sorted; if private, the selected labels. With fewer than two selected, the fit "
        "learns nothing else: of the attributes below it sets only `privacy_`, "
        "`max_rows_per_unit_` and those that describe X."
    ),
    "max_rows_per_unit_": "With `groups`: how many rows of each unit were used at most.",
    "n_features_in_, feature_names_in_": (
        "Number of columns; their names, if X has names that are strings."
    ),
    "center_, scale_": "Columns are centred and scaled by these values before rows are clipped.",
    "class_count_": "Noisy number of rows of each class, at least 1.",
    "domain_": "The domain of all columns.",
    "privacy": "What was released, by which mechanism, at which cost.",
    "privacy_": "What was released, by which mechanism, at which cost.",
    "radius_": (
        "The norm to which a centred and scaled row is clipped, in `fit` and in predictions."
    ),
    # errors
    "TypeError, ValueError": (
        "In `fit`, before anything is charged: if a parameter is out of range, or if X is not a "
        "table of finite numbers."
    ),
    "BudgetExceededError, SealedBudgetError, LedgerError": (
        "In `fit`, if the budget cannot pay the cost."
    ),
}
_SECTIONS = ("Parameters", "Attributes", "Raises")
_WIDTH = 100

_BLOCKS = {
    # Sections of methods.
    "sizes": """
        Parameters
        ----------
        n_samples, n_features : int, default=None
        """,
    # Parameters: the end of the list of functions.
    "call": """
        epsilon, delta : float or None, default=1.0, None
        budget : PrivacyBudget or None, default=None
        random_state : int, RandomState or None, default=None
        """,
    "privacy": """
        groups : array-like of shape (n_samples,), default=None
        max_rows_per_unit : int or "private", default="private"
        {call}
        """,
    # Attributes of every estimator.
    "fitted": """
        n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        max_rows_per_unit_ : int
        privacy_ : skdp.core.PrivacyCertificate
        """,
    # Errors of every estimator.
    "fit_raises": "TypeError, ValueError",
    "labelled_raises": """
        TypeError, ValueError
            ... Also if `classes` is private and delta is 0, or if a label is missing.
        """,
    "target_raises": """
        TypeError, ValueError
            ... Also if y has not a finite number for each row (and target).
        """,
    "budget": "BudgetExceededError, SealedBudgetError, LedgerError",
    "charge_raises": """
        BudgetExceededError, SealedBudgetError, LedgerError
            If the budget cannot pay the cost.
        """,
}


def _with_blocks(doc: str, blocks: Mapping[str, str]) -> str:
    """Replace each line ``{name}`` by the block of that name; unknown names are left alone."""

    def block(line: re.Match[str]) -> str:
        if line[2] not in blocks:
            return line[0]
        text = textwrap.dedent(blocks[line[2]]).strip()
        return textwrap.indent(_with_blocks(text, blocks), line[1])

    return re.sub(r"^( *)\{(\w+)\}$", block, doc, flags=re.MULTILINE)


def filled(doc: str, blocks: Mapping[str, str] = _BLOCKS) -> str:
    """Return a docstring with its blocks, and with the shared texts of its entries."""
    lines, section, result = _with_blocks(doc, blocks).splitlines(), "", list[str]()
    while lines:
        line = lines.pop(0)
        if lines and lines[0].strip() and not lines[0].strip().strip("-"):
            section = line.strip()
        result.append(line)
        text = SHARED_TEXTS.get(line.partition(" : ")[0].strip())
        if text is None or section not in _SECTIONS:
            continue
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        if lines and lines[0].startswith(indent):
            if not lines[0].startswith(f"{indent}..."):
                continue
            while lines and lines[0].startswith(indent):
                text += " " + lines.pop(0).strip().removeprefix("...").strip()
        result += textwrap.wrap(
            text,
            _WIDTH,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(result)


# Types of parameters that need not be written; a default is added from the signature.
_TYPES = {
    "X": "array-like or table of shape (n_samples, n_features)",
    "y": "array-like of shape (n_samples,)",
    "sample_weight": "array-like of shape (n_samples,)",
    "groups": "array-like of shape (n_samples,)",
    "input_features": "array-like of str",
    "classes": '"private" or array-like of shape (n_classes,)',
    "bounds": '"private" or tuple (low, high) or mapping',
    "weight_bound": '"private" or float',
    "epsilon": "float",
    "delta": "float or None",
    "max_rows_per_unit": 'int or "private"',
    "budget": "PrivacyBudget or None",
    "random_state": "int, RandomState or None",
}
# What methods say of these parameters, and return, unless they say something else.
_SAID = {
    ("fit", "X"): "\n    Private rows, finite numbers. May be in parts (`skdp.engines`).",
    ("transform", "X"): "\n    If they are private, so is the result.",
    ("score", "sample_weight"): "\n    Weights of the caller's rows.",
}
_RETURNS = {
    "decision_function": "scores : ndarray of shape (n_samples,) or (n_samples, n_classes)\n"
    "    For two classes those of the second one.",
    "get_feature_names_out": "names : ndarray of str",
    "inverse_transform": "X_original : ndarray of shape (n_samples, n_features)",
    "predict": "y : ndarray of shape (n_samples,)",
    "predict_log_proba": "logarithms : ndarray of shape (n_samples, n_classes)",
    "predict_proba": "probabilities : ndarray of shape (n_samples, n_classes)\n"
    "    In the order of `classes_`.",
    "score": "score : float\n    Exact, so as private as the rows are.",
    "to_frame": "frame : pandas.DataFrame",
    "transform": "X_new : ndarray of shape (n_samples, n_features)",
}


def _entry(name: str, parameter: inspect.Parameter, function: str) -> str:
    """Return what is said of a parameter that a docstring leaves out."""
    if name == "y" and parameter.default is None:
        return "y : None, ignored\n"
    default, text = parameter.default, f"{name} : {_TYPES.get(name, parameter.annotation)}"
    if default is not parameter.empty:
        text += f', default="{default}"' if isinstance(default, str) else f", default={default}"
    return text + _SAID.get((function, name), "") + "\n"


def _completed(doc: str, item: Any) -> str:
    """Return a docstring with what follows from the signature of a class, method or function."""
    start, *parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", inspect.cleandoc(doc) + "\n", flags=re.M)
    later = re.search(r"^ *\{\w+\}$", doc, re.M)  # blocks of a package, which it fills in itself
    if later or (inspect.isclass(item) and not parts):
        return doc
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    known, entries = inspect.signature(item).parameters, dict[str, str]()
    estimator = inspect.isclass(item) and "max_rows_per_unit" in known and hasattr(item, "fit")
    for entry in re.split(r"^(?=\S)", sections.pop("Parameters", "").strip("\n"), flags=re.M)[1:]:
        names = [name.strip(" *") for name in re.split(r" :|\n", entry)[0].split(",")]
        entries.update({name: entry.strip("\n") + "\n" for name in names})
    for name in known.keys() - {"self", *entries} if estimator or not inspect.isclass(item) else ():
        if name in _TYPES or not (estimator or known[name].annotation is inspect.Signature.empty):
            entries[name] = _entry(name, known[name], item.__name__)
    order = {name: place for place, name in enumerate(known)}
    texts = sorted(entries, key=lambda name: order.get(name, len(order)))
    made = {"Parameters": "".join(dict.fromkeys(entries[name] for name in texts))}
    before, heading, notes = sections.get("Notes", "").partition("**Privacy.**")
    privacy, gap, notes = notes.partition("\n\n")
    if heading and "epsilon" in known and "charged*" not in privacy.lower():
        to = "before any noise, to `budget`" if estimator else f'as "{item.__name__}"'
        charged = f"*Charged*: at most (epsilon, delta), once, {to}."
        sections["Notes"] = f"{before}{heading}{privacy.rstrip()}\n{charged}{gap}{notes}"
    if estimator:
        kinds = {"classes": "labelled_raises", "target_bounds": "target_raises"}
        kind = next((kinds[name] for name in kinds if name in known), "fit_raises")
        sections.setdefault("Raises", textwrap.dedent(_BLOCKS[kind]).strip("\n"))
        for section, block in (("Attributes", "fitted"), ("Raises", "budget")):
            made[section] = sections.pop(section, "").strip("\n") + "\n"
            for line in textwrap.dedent(_BLOCKS[block]).strip().splitlines():
                if not re.search(f"^{re.split('[ ,]', line)[0]}", made[section], re.M):
                    made[section] += f"{line}\n"
    elif not inspect.isclass(item) and not {"Returns", "Yields"} & sections.keys():
        answer = str(inspect.signature(item).return_annotation)
        answer = re.sub(r"\bnp\.bool_", "bool", answer)  # reStructuredText reads a link in `bool_`
        text = "self : estimator" if answer == "Self" else _RETURNS.get(item.__name__, answer)
        made["Returns"] = f"{text}\n"
        if answer in ("None", str(inspect.Signature.empty)):
            del made["Returns"]
    order_of_sections = ["Parameters", "Attributes", "Returns", "Yields", "Raises", *sections]
    text = start.rstrip("\n") + "\n"
    for section in dict.fromkeys(order_of_sections):
        body = made.get(section) or sections.get(section, "")
        if body:
            text += f"\n{section}\n{'-' * len(section)}\n" + body.rstrip("\n") + "\n"
    return text


def documenter(blocks: Mapping[str, str] | None = None) -> Callable[[T], T]:
    """Return a decorator that fills the docstring of a function, or of a class and its methods.

    `blocks` are those of one package, beside the shared ones.
    """
    table = {**_BLOCKS, **(blocks or {})}

    def documented(item: T) -> T:
        members = vars(item).values() if inspect.isclass(item) else ()
        methods = [getattr(member, "__func__", member) for member in members]
        # Those that are there for some models only are functions wrapped into descriptors.
        methods = [m if inspect.isfunction(m) else getattr(m, "__wrapped__", m) for m in methods]
        for part in (item, *methods):
            public = inspect.isfunction(part) and not part.__name__.startswith("_")
            if (part is item or public) and part.__doc__:
                text = _with_blocks(part.__doc__, table)
                part.__doc__ = filled(_completed(text, part), table)
        return item

    return documented


# Estimators need not be decorated: `PrivateMixin` fills the classes that inherit it.
shared_texts = documenter()


def parameters_of(
    like: Callable[P, Any], release: Callable[[str, dict[str, Any]], R], **defaults: Any
) -> Callable[[Callable[[R], T]], Callable[P, T]]:
    """Return a decorator that gives a function of released numbers the parameters of another.

    ``release(name, arguments)`` charges under the function's name, and the function computes its
    answer from what that returns. `defaults` differ from those of `like`.
    """

    def decorated(compute: Callable[[R], T]) -> Callable[P, T]:
        name = compute.__name__
        parameters = [
            parameter.replace(default=defaults.get(parameter.name, parameter.default))
            for parameter in inspect.signature(like).parameters.values()
        ]
        answer = inspect.signature(compute).return_annotation
        signature = inspect.Signature(parameters, return_annotation=answer)

        def function(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{name}(): {error}") from None
            bound.apply_defaults()
            return compute(release(name, dict(bound.arguments)))

        function.__name__ = function.__qualname__ = name
        function.__module__, function.__doc__ = compute.__module__, compute.__doc__
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function

    return decorated
