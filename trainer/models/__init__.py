"""Decoder models built from one set of blocks: LLaMA, Qwen, GLM, Bloom and GPT-2."""
