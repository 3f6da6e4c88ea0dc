"""Parameter names and shapes of the official models, written down from their modelling code and from MindFormers'
converters, family by family and layout by layout: what the recogniser is measured against.

Small letters: v vocabulary, h hidden, f feed-forward, a heads, g KV heads, d head size, n layers.
"""

from __future__ import annotations

from collections.abc import Callable

Shapes = dict[str, tuple[int, ...]]


def llama_hf(v: int, h: int, f: int, a: int, g: int, d: int, n: int, bias: bool = False, norm: bool = False) -> Shapes:
    found: Shapes = {"model.embed_tokens.weight": (v, h), "model.norm.weight": (h,), "lm_head.weight": (v, h)}
    for i in range(n):
        p = f"model.layers.{i}."
        found[p + "self_attn.q_proj.weight"] = (a * d, h)
        found[p + "self_attn.k_proj.weight"] = (g * d, h)
        found[p + "self_attn.v_proj.weight"] = (g * d, h)
        found[p + "self_attn.o_proj.weight"] = (h, a * d)
        found[p + "mlp.gate_proj.weight"] = (f, h)
        found[p + "mlp.up_proj.weight"] = (f, h)
        found[p + "mlp.down_proj.weight"] = (h, f)
        found[p + "input_layernorm.weight"] = (h,)
        found[p + "post_attention_layernorm.weight"] = (h,)
        if bias:
            for name, rows in (("q", a * d), ("k", g * d), ("v", g * d)):
                found[f"{p}self_attn.{name}_proj.bias"] = (rows,)
        if norm:
            found[p + "self_attn.q_norm.weight"] = found[p + "self_attn.k_norm.weight"] = (d,)
    return found


def llama_mindformers(v: int, h: int, f: int, a: int, g: int, d: int, n: int, bias: bool = False) -> Shapes:
    found: Shapes = {
        "model.tok_embeddings.embedding_weight": (v, h),
        "model.norm_out.weight": (h,),
        "lm_head.weight": (v, h),
    }
    for i in range(n):
        p = f"model.layers.{i}."
        for name, rows in (("wq", a * d), ("wk", g * d), ("wv", g * d)):
            found[f"{p}attention.{name}.weight"] = (rows, h)
            if bias:
                found[f"{p}attention.{name}.bias"] = (rows,)
        found[p + "attention.wo.weight"] = (h, a * d)
        found[p + "feed_forward.w1.weight"] = found[p + "feed_forward.w3.weight"] = (f, h)
        found[p + "feed_forward.w2.weight"] = (h, f)
        found[p + "attention_norm.weight"] = found[p + "ffn_norm.weight"] = (h,)
    return found


def llama_mindformers_fused(v: int, h: int, f: int, a: int, g: int, d: int, n: int) -> Shapes:
    found: Shapes = {}
    for name, shape in llama_mindformers(v, h, f, a, g, d, n).items():
        if ".wq." in name:
            found[name.replace("wq", "w_qkv")] = ((a + 2 * g) * d, h)
        elif ".w1." in name:
            found[name.replace("w1", "w_gate_hidden")] = (2 * f, h)
        elif not any(part in name for part in (".wk.", ".wv.", ".w3.")):
            found[name] = shape
    return found


def llama_meta(v: int, h: int, f: int, a: int, g: int, d: int, n: int) -> Shapes:
    found: Shapes = {
        "tok_embeddings.weight": (v, h),
        "norm.weight": (h,),
        "output.weight": (v, h),
        "rope.freqs": (d // 2,),
    }
    for i in range(n):
        p = f"layers.{i}."
        found[p + "attention.wq.weight"] = (a * d, h)
        found[p + "attention.wk.weight"] = found[p + "attention.wv.weight"] = (g * d, h)
        found[p + "attention.wo.weight"] = (h, a * d)
        found[p + "feed_forward.w1.weight"] = found[p + "feed_forward.w3.weight"] = (f, h)
        found[p + "feed_forward.w2.weight"] = (h, f)
        found[p + "attention_norm.weight"] = found[p + "ffn_norm.weight"] = (h,)
    return found


def mcore(v: int, h: int, f: int, a: int, g: int, d: int, n: int, bias: bool = False, norm: bool = False) -> Shapes:
    found: Shapes = {
        "embedding.word_embeddings.weight": (v, h),
        "decoder.final_layernorm.weight": (h,),
        "output_layer.weight": (v, h),
    }
    for i in range(n):
        p = f"decoder.layers.{i}."
        found[p + "self_attention.linear_qkv.weight"] = ((a + 2 * g) * d, h)
        found[p + "self_attention.linear_proj.weight"] = (h, a * d)
        found[p + "mlp.linear_fc1.weight"] = (2 * f, h)
        found[p + "mlp.linear_fc2.weight"] = (h, f)
        found[p + "input_layernorm.weight"] = found[p + "pre_mlp_layernorm.weight"] = (h,)
        if bias:
            found[p + "self_attention.linear_qkv.bias"] = ((a + 2 * g) * d,)
        if norm:
            found[p + "self_attention.q_layernorm.weight"] = found[p + "self_attention.k_layernorm.weight"] = (d,)
    return found


def mcore_moe(v: int, h: int, m: int, a: int, g: int, d: int, n: int, e: int) -> Shapes:
    found = {name: shape for name, shape in mcore(v, h, m, a, g, d, n, norm=True).items() if ".mlp." not in name}
    for i in range(n):
        p = f"decoder.layers.{i}.mlp."
        found[p + "router.weight"] = (e, h)
        found[p + "experts.weight1"] = (e * h, 2 * m)
        found[p + "experts.weight2"] = (e * m, h)
    return found


def qwen_hf(v: int, h: int, f: int, n: int) -> Shapes:
    found: Shapes = {"transformer.wte.weight": (v, h), "transformer.ln_f.weight": (h,), "lm_head.weight": (v, h)}
    for i in range(n):
        p = f"transformer.h.{i}."
        found[p + "attn.c_attn.weight"] = (3 * h, h)
        found[p + "attn.c_attn.bias"] = (3 * h,)
        found[p + "attn.c_proj.weight"] = (h, h)
        found[p + "ln_1.weight"] = found[p + "ln_2.weight"] = (h,)
        found[p + "mlp.w1.weight"] = found[p + "mlp.w2.weight"] = (f, h)
        found[p + "mlp.c_proj.weight"] = (h, f)
    return found


def qwen_mindformers(v: int, h: int, f: int, n: int) -> Shapes:
    found: Shapes = {
        "transformer.wte.embedding_weight": (v, h),
        "transformer.ln_f.weight": (h,),
        "lm_head.weight": (v, h),
    }
    for i in range(n):
        p = f"transformer.layers.{i}."
        for name in ("wq", "wk", "wv"):
            found[f"{p}attention.{name}.weight"] = (h, h)
            found[f"{p}attention.{name}.bias"] = (h,)
        found[p + "attention.wo.weight"] = (h, h)
        found[p + "attention_norm.weight"] = found[p + "ffn_norm.weight"] = (h,)
        found[p + "feed_forward.w1.weight"] = found[p + "feed_forward.w3.weight"] = (f, h)
        found[p + "feed_forward.w2.weight"] = (h, f)
    return found


def chatglm2(v: int, h: int, f: int, a: int, g: int, d: int, n: int, mindformers: bool = False) -> Shapes:
    embedding = "embedding_weight" if mindformers else "word_embeddings.weight"
    found: Shapes = {
        f"transformer.embedding.{embedding}": (v, h),
        "transformer.encoder.final_layernorm.weight": (h,),
        "transformer.output_layer.weight": (v, h),
    }
    if not mindformers:
        found["transformer.rotary_pos_emb.inv_freq"] = (d // 4,)
    for i in range(n):
        p = f"transformer.encoder.layers.{i}."
        found[p + "self_attention.query_key_value.weight"] = ((a + 2 * g) * d, h)
        found[p + "self_attention.query_key_value.bias"] = ((a + 2 * g) * d,)
        found[p + "self_attention.dense.weight"] = (h, a * d)
        found[p + "mlp.dense_h_to_4h.weight"] = (2 * f, h)
        found[p + "mlp.dense_4h_to_h.weight"] = (h, f)
        found[p + "input_layernorm.weight"] = found[p + "post_attention_layernorm.weight"] = (h,)
    return found


def chatglm(v: int, h: int, f: int, n: int, mindformers: bool = False) -> Shapes:
    scale, shift = ("gamma", "beta") if mindformers else ("weight", "bias")
    table = "embedding_table" if mindformers else "weight"
    found: Shapes = {
        f"transformer.word_embeddings.{table}": (v, h),
        f"transformer.final_layernorm.{scale}": (h,),
        f"transformer.final_layernorm.{shift}": (h,),
        "lm_head.weight": (v, h),
    }
    for i in range(n):
        p = f"transformer.layers.{i}."
        found[p + "attention.query_key_value.weight"] = (3 * h, h)
        found[p + "attention.query_key_value.bias"] = (3 * h,)
        found[p + "attention.dense.weight"] = (h, h)
        found[p + "attention.dense.bias"] = (h,)
        found[p + "mlp.dense_h_to_4h.weight"] = (f, h)
        found[p + "mlp.dense_h_to_4h.bias"] = (f,)
        found[p + "mlp.dense_4h_to_h.weight"] = (h, f)
        found[p + "mlp.dense_4h_to_h.bias"] = (h,)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            found[f"{p}{norm}.{scale}"] = found[f"{p}{norm}.{shift}"] = (h,)
        if not mindformers:
            found[p + "attention.rotary_emb.inv_freq"] = (16,)
    return found


def bloom_hf(v: int, h: int, n: int, prefix: str = "transformer.") -> Shapes:
    found: Shapes = {prefix + "word_embeddings.weight": (v, h)}
    for norm in ("word_embeddings_layernorm", "ln_f"):
        found[f"{prefix}{norm}.weight"] = found[f"{prefix}{norm}.bias"] = (h,)
    for i in range(n):
        p = f"{prefix}h.{i}."
        found[p + "self_attention.query_key_value.weight"] = (3 * h, h)
        found[p + "self_attention.query_key_value.bias"] = (3 * h,)
        found[p + "self_attention.dense.weight"] = (h, h)
        found[p + "self_attention.dense.bias"] = (h,)
        found[p + "mlp.dense_h_to_4h.weight"] = (4 * h, h)
        found[p + "mlp.dense_h_to_4h.bias"] = (4 * h,)
        found[p + "mlp.dense_4h_to_h.weight"] = (h, 4 * h)
        found[p + "mlp.dense_4h_to_h.bias"] = (h,)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            found[f"{p}{norm}.weight"] = found[f"{p}{norm}.bias"] = (h,)
    return found


def bloom_mindformers(v: int, h: int, n: int) -> Shapes:
    found: Shapes = {"transformer.embedding.word_embedding.embedding_table": (v, h), "head.weight": (v, h)}
    for norm in ("embedding.norm", "ln_f"):
        found[f"transformer.{norm}.gamma"] = found[f"transformer.{norm}.beta"] = (h,)
    for i in range(n):
        p = f"transformer.blocks.{i}."
        for k in (1, 2, 3):
            found[f"{p}attention.dense{k}.weight"] = (h, h)
            found[f"{p}attention.dense{k}.bias"] = (h,)
            if k < 3:
                found[f"{p}layernorm{k}.gamma"] = found[f"{p}layernorm{k}.beta"] = (h,)
        found[p + "attention.projection.weight"] = (h, h)
        found[p + "attention.projection.bias"] = (h,)
        found[p + "output.mapping.weight"] = (h, 4 * h)
        found[p + "output.mapping.bias"] = (4 * h,)
        found[p + "output.projection.weight"] = (4 * h, h)
        found[p + "output.projection.bias"] = (h,)
    return found


def gpt2_hf(v: int, p: int, h: int, n: int) -> Shapes:
    found: Shapes = {"wte.weight": (v, h), "wpe.weight": (p, h), "ln_f.weight": (h,), "ln_f.bias": (h,)}
    for i in range(n):
        b = f"h.{i}."
        found[b + "attn.bias"] = (1, 1, p, p)
        found[b + "attn.c_attn.weight"] = (h, 3 * h)
        found[b + "attn.c_attn.bias"] = (3 * h,)
        found[b + "attn.c_proj.weight"] = (h, h)
        found[b + "attn.c_proj.bias"] = (h,)
        found[b + "mlp.c_fc.weight"] = (h, 4 * h)
        found[b + "mlp.c_fc.bias"] = (4 * h,)
        found[b + "mlp.c_proj.weight"] = (4 * h, h)
        found[b + "mlp.c_proj.bias"] = (h,)
        for norm in ("ln_1", "ln_2"):
            found[f"{b}{norm}.weight"] = found[f"{b}{norm}.bias"] = (h,)
    return found


def gpt2_mindformers(v: int, p: int, h: int, n: int) -> Shapes:
    found: Shapes = {
        "backbone.embedding.word_embedding.embedding_table": (v, h),
        "backbone.embedding.position_embedding.embedding_table": (p, h),
        "backbone.layernorm.gamma": (h,),
        "backbone.layernorm.beta": (h,),
    }
    for i in range(n):
        b = f"backbone.blocks.{i}."
        for k in (1, 2, 3):
            found[f"{b}attention.dense{k}.weight"] = (h, h)
            found[f"{b}attention.dense{k}.bias"] = (h,)
            if k < 3:
                found[f"{b}layernorm{k}.gamma"] = found[f"{b}layernorm{k}.beta"] = (h,)
        found[b + "attention.projection.weight"] = (h, h)
        found[b + "attention.projection.bias"] = (h,)
        found[b + "output.mapping.weight"] = (h, 4 * h)
        found[b + "output.mapping.bias"] = (4 * h,)
        found[b + "output.projection.weight"] = (4 * h, h)
        found[b + "output.projection.bias"] = (h,)
    return found


_DEEPSEEK = {"v": 129280, "h": 7168, "f": 18432, "m": 2048, "e": 256, "a": 128, "n": 61, "dense": 3}


def deepseek_hf(n: int = 61, mtp: int = 1, experts: int = 256, sizes: dict[str, int] = _DEEPSEEK) -> Shapes:
    """DeepSeek-V3: q rank 1536, kv rank 512, rotary 64, nope 128, value 128."""
    v, h, f, m, a = (sizes[key] for key in "vhfma")
    ranks = {"q": 1536, "kv": 512, "rope": 64, "nope": 128, "value": 128, **sizes}
    q, kv, rope, nope, value = (ranks[key] for key in ("q", "kv", "rope", "nope", "value"))
    found: Shapes = {"model.embed_tokens.weight": (v, h), "model.norm.weight": (h,), "lm_head.weight": (v, h)}
    for i in range(n + mtp):
        p = f"model.layers.{i}."
        found[p + "self_attn.q_a_proj.weight"] = (q, h)
        found[p + "self_attn.q_a_layernorm.weight"] = (q,)
        found[p + "self_attn.q_b_proj.weight"] = (a * (nope + rope), q)
        found[p + "self_attn.kv_a_proj_with_mqa.weight"] = (kv + rope, h)
        found[p + "self_attn.kv_a_layernorm.weight"] = (kv,)
        found[p + "self_attn.kv_b_proj.weight"] = (a * (nope + value), kv)
        found[p + "self_attn.o_proj.weight"] = (h, a * value)
        found[p + "input_layernorm.weight"] = found[p + "post_attention_layernorm.weight"] = (h,)
        if i < sizes["dense"]:
            found[p + "mlp.gate_proj.weight"] = found[p + "mlp.up_proj.weight"] = (f, h)
            found[p + "mlp.down_proj.weight"] = (h, f)
            continue
        found[p + "mlp.gate.weight"] = (experts, h)
        found[p + "mlp.gate.e_score_correction_bias"] = (experts,)
        for part in ["shared_experts", *(f"experts.{e}" for e in range(experts))]:
            found[f"{p}mlp.{part}.gate_proj.weight"] = found[f"{p}mlp.{part}.up_proj.weight"] = (m, h)
            found[f"{p}mlp.{part}.down_proj.weight"] = (h, m)
    for i in range(n, n + mtp):
        p = f"model.layers.{i}."
        found[p + "enorm.weight"] = found[p + "hnorm.weight"] = found[p + "shared_head.norm.weight"] = (h,)
        found[p + "eh_proj.weight"] = (h, 2 * h)
        found[p + "embed_tokens.weight"] = found[p + "shared_head.head.weight"] = (v, h)
    return found


LLAMA_7B = (32000, 4096, 11008, 32, 32, 128, 32)
LLAMA_13B = (32000, 5120, 13824, 40, 40, 128, 40)
LLAMA_70B = (32000, 8192, 28672, 64, 8, 128, 80)
LLAMA3_8B = (128256, 4096, 14336, 32, 8, 128, 32)
QWEN2_7B = (152064, 3584, 18944, 28, 4, 128, 28)
QWEN3_8B = (151936, 4096, 12288, 32, 8, 128, 36)

#: what it is called here: family, layout, published name (None when it is not to be named), names and shapes
OFFICIAL: dict[str, tuple[str, str, object, Callable[[], Shapes]]] = {
    "LLaMA-2-7B": ("llama", "huggingface", "LLaMA-7B/LLaMA-2-7B", lambda: llama_hf(*LLAMA_7B)),
    "LLaMA-2-13B": ("llama", "huggingface", "LLaMA-13B/LLaMA-2-13B", lambda: llama_hf(*LLAMA_13B)),
    "LLaMA-2-70B": ("llama", "huggingface", "LLaMA-2-70B", lambda: llama_hf(*LLAMA_70B)),
    "LLaMA-3-8B": ("llama", "huggingface", "LLaMA-3-8B", lambda: llama_hf(*LLAMA3_8B)),
    "LLaMA-2-7B MindFormers": ("llama", "mindformers", "LLaMA-7B/LLaMA-2-7B", lambda: llama_mindformers(*LLAMA_7B)),
    "LLaMA-2-70B fused": ("llama", "mindformers", "LLaMA-2-70B", lambda: llama_mindformers_fused(*LLAMA_70B)),
    "LLaMA-2-7B Meta": ("llama", "meta", "LLaMA-7B/LLaMA-2-7B", lambda: llama_meta(*LLAMA_7B)),
    "LLaMA-3-8B mcore": ("llama", "mcore", "LLaMA-3-8B", lambda: mcore(*LLAMA3_8B)),
    "Qwen2-7B": ("qwen2", "huggingface", "Qwen2-7B/Qwen2.5-7B", lambda: llama_hf(*QWEN2_7B, bias=True)),
    "Qwen2-7B MindFormers": ("qwen2", "mindformers", "Qwen2-7B/Qwen2.5-7B", lambda: llama_mindformers(*QWEN2_7B, bias=True)),
    "Qwen2-7B mcore": ("qwen2", "mcore", "Qwen2-7B/Qwen2.5-7B", lambda: mcore(*QWEN2_7B, bias=True)),
    "Qwen3-8B": ("qwen3", "huggingface", "Qwen3-8B", lambda: llama_hf(*QWEN3_8B, norm=True)),
    "Qwen3-8B mcore": ("qwen3", "mcore", "Qwen3-8B", lambda: mcore(*QWEN3_8B, norm=True)),
    "Qwen3-30B-A3B mcore": (
        "qwen3_moe", "mcore", "Qwen3-30B-A3B", lambda: mcore_moe(151936, 2048, 768, 32, 4, 128, 48, 128)
    ),
    "Qwen-7B": ("qwen", "huggingface", "Qwen-7B", lambda: qwen_hf(151936, 4096, 11008, 32)),
    "Qwen-7B MindFormers": ("qwen", "mindformers", "Qwen-7B", lambda: qwen_mindformers(151936, 4096, 11008, 32)),
    "ChatGLM3-6B": (
        "chatglm2", "huggingface", "ChatGLM2-6B/ChatGLM3-6B", lambda: chatglm2(65024, 4096, 13696, 32, 2, 128, 28)
    ),
    "ChatGLM3-6B MindFormers": (
        "chatglm2", "mindformers", "ChatGLM2-6B/ChatGLM3-6B", lambda: chatglm2(65024, 4096, 13696, 32, 2, 128, 28, True)
    ),
    "GLM-4-9B": ("chatglm2", "huggingface", "GLM-4-9B", lambda: chatglm2(151552, 4096, 13696, 32, 2, 128, 40)),
    "ChatGLM-6B": ("chatglm", "huggingface", "ChatGLM-6B", lambda: chatglm(130528, 4096, 16384, 28)),
    "ChatGLM-6B MindFormers": ("chatglm", "mindformers", "ChatGLM-6B", lambda: chatglm(130528, 4096, 16384, 28, True)),
    "Bloom-560M": ("bloom", "huggingface", "Bloom-560M", lambda: bloom_hf(250880, 1024, 24)),
    "Bloom-560M bare": ("bloom", "huggingface", "Bloom-560M", lambda: bloom_hf(250880, 1024, 24, "")),
    "Bloom-7B1 MindFormers": ("bloom", "mindformers", "Bloom-7B1", lambda: bloom_mindformers(250880, 4096, 30)),
    "GPT-2": ("gpt2", "huggingface", "GPT-2-124M", lambda: gpt2_hf(50257, 1024, 768, 12)),
    "GPT-2 MindFormers": ("gpt2", "mindformers", "GPT-2-124M", lambda: gpt2_mindformers(50257, 1024, 768, 12)),
    "DeepSeek-V3": ("deepseek_v3", "huggingface", "DeepSeek-V3-671B", deepseek_hf),
}  # fmt: skip

#: Exact numbers of parameters, from the models' own counts (tied heads counted once).
COUNTS = {
    "LLaMA-2-7B": 6_738_415_616,
    "LLaMA-2-13B": 13_015_864_320,
    "LLaMA-2-70B": 68_976_648_192,
    "LLaMA-3-8B": 8_030_261_248,
    "LLaMA-2-7B MindFormers": 6_738_415_616,
    "LLaMA-2-70B fused": 68_976_648_192,
    "LLaMA-2-7B Meta": 6_738_415_616,
    "LLaMA-3-8B mcore": 8_030_261_248,
    "Qwen2-7B": 7_615_616_512,
    "Qwen2-7B MindFormers": 7_615_616_512,
    "Qwen2-7B mcore": 7_615_616_512,
    "ChatGLM3-6B": 6_243_584_000,
    "ChatGLM3-6B MindFormers": 6_243_584_000,
    "Bloom-560M": 559_214_592,
    "Bloom-560M bare": 559_214_592,
    "GPT-2": 124_439_808,
    "GPT-2 MindFormers": 124_439_808,
}
