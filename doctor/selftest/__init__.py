"""Measures the doctor on planted faults.

`trial` says what a trial and its result are; `watch`, `explain`, `config`, `weights`, `data` and `live` each make and perform
the trials of one part; `measure` chooses and performs them, `rows` counts, and `verdict` says what is wrong with what.
"""
