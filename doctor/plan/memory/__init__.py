"""Device memory of a training step: what is kept, byte by byte, per pipeline stage.

`shape` says what a model is made of (and counts its parameters exactly), `layout` how a run spreads it,
`activations` which tensors the backward pass needs, `estimate` adds it up and compares it with a card,
`advise` finds what would fit. Everything is arithmetic on integers; nothing here reads a file.
"""
