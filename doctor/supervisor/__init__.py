"""A watched run: the trainer as a child process, its log diagnosed live, and, with consent, cured.

`child` starts and stops the process, `remedies` knows which setting cures which finding, `care` goes back to the last
sound checkpoint, edits the config and resumes; `screen` is what a person sees meanwhile.
"""
