"""Smooth sensitivity: noise scaled to what the table in hand could have changed by."""
