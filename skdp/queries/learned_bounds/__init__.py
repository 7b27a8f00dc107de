"""Bounds of columns that nobody stated, learned from released histograms of distances."""
