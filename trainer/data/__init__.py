"""From text to batches: tokenizers, packing, the one shift of the labels, and the order of an epoch."""
