"""Measures the doctor on planted faults: `trial` says what a trial is, a module each makes the trials of a part."""
