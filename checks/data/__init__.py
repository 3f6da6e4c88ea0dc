"""Data sets: whether the samples can be read and teach what they should."""
