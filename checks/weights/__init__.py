"""Checkpoints: headers, names and shapes, and on request values, against themselves and against a config."""
