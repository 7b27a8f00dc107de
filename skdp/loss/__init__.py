"""Privacy losses: amounts, prices, accountants, conversions. No ledger, no data.

:mod:`skdp.budget` keeps ledgers of such prices; users import its names from there.
"""
