"""What a privacy loss is: amounts, prices, how they add up and convert. No ledger, no data.

:mod:`skdp.budget` keeps ledgers of such prices; users import its names from there.
"""
