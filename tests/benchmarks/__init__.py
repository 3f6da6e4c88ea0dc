"""Benchmarks: run by hand, print tables, assert nothing about time."""
