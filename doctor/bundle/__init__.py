"""A run as one small file that can be shown to others: names and secrets covered, what is not needed left out, and checked
to give the same diagnosis before it is said to be done.

`names` learns what has to be covered and `cover` does it, byte for byte of equal length; `gather` finds the files of a run,
`cut` chooses lines, `archive` packs them, `replay` compares diagnoses, `make` does all in turn.
"""
