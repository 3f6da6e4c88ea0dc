"""Incremental detectors over metrics: ``feed(record)`` and ``tick(now)``, fixed windows, no clock and no I/O of their own."""
