"""Trains a tiny LLaMA on the source text of Python's libraries and keeps the sizes of its query and key rows.

Run it in an environment that has torch 2.13 and transformers 5.24 (the tests need neither); about ten minutes:

    python -P make_rotary.py

``rotary.json`` has, by number of KV heads and by layer, the logarithm of the mean square of each row of q and k in
Hugging Face's order (4 heads of 32 rows). The tests give random directions these sizes. The numbers depend on the
installed library's text; any that was trained will do.
"""

from __future__ import annotations

import json
import sys
import sysconfig
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

HERE = Path(__file__).parent
LENGTH, STEPS = 128, 1200


def train(groups: int, text: torch.Tensor) -> LlamaForCausalLM:
    torch.manual_seed({4: 1, 2: 2}[groups])
    config = LlamaConfig(hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_attention_heads=4,
                         num_key_value_heads=groups, vocab_size=256, max_position_embeddings=256)  # fmt: skip
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    for step in range(STEPS):
        starts = torch.randint(0, len(text) - LENGTH - 1, (8,))
        batch = torch.stack([text[start : start + LENGTH] for start in starts])
        loss = model(batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0:
            print(groups, step, round(loss.item(), 3), file=sys.stderr)
    return model


def main() -> None:
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = torch.tensor(list(b"".join(path.read_bytes() for path in files)))
    kept = {}
    for groups in (4, 2):
        model = train(groups, text)
        kept[str(groups)] = [
            {
                name: [round(x, 3) for x in getattr(layer.self_attn, name).weight.pow(2).mean(1).log().tolist()]
                for name in ("q_proj", "k_proj")
            }
            for layer in model.model.layers
        ]
    (HERE / "rotary.json").write_text(json.dumps(kept) + "\n")


if __name__ == "__main__":
    main()
