"""Packaged examples, found by name: `doctor train tiny-llama`."""
