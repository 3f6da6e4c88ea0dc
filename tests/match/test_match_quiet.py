"""What looks like a fault and is none: nothing may be raised on it, with every rule of the pack."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.diagnosis import diagnose_text
from doctor.finding import Severity
from doctor.match.line import level_of
from doctor.match.pack import Pack, load_pack

QUIET = {
    "warned-and-corrected": "2025-03-02 10:11:12,345 - mindformers[x/callback.py:123] - WARNING - For StressTestMonitor, stress_master_port must be an "
    "integer greater than or equal to 1, but got 0. Setting to default value 8338",
    "warned-and-ignored": "[WARNING] ME(8:1,MainProcess):2025-03-02-10:11:12.345.678 [mindspore/parallel/shard.py:9] Out_strategy is not in use "
    "currently, will be ignored in the following procedures.",
    "warned-single-process": "/opt/x/torch/distributed/checkpoint/state_dict_saver.py:152: UserWarning: torch.distributed is disabled, unavailable or "
    "uninitialized, assuming the intent is to save in a single process.",
    "warned-no-metadata": "WARNING:huggingface_hub.repocard:Repo card metadata block was not found. Setting CardData to empty.",
    "warned-quantisation": "[WARNING|auto.py:229] 2025-01-16 08:16:17,015 >> Unknown quantization type, got foo - supported types are: ['awq']. "
    "Hence, we will skip the quantization.",
    "warned-registered": "2025-03-02 10:11:12,345 - mindformers[x/registry.py:9] - WARNING - text_generation is already registered. Overwriting pipeline "
    "for task text_generation.",
    "warned-old-mindspore": "2025-03-02 10:11:12,345 - mindformers[x/version_control.py:9] - WARNING - Current MindSpore version does not support tre, "
    "please upgrade to 2.6.0 or later version.",
    "other-process-killed": "[86233.1] Out of memory: Killed process 991 (java) total-vm:31457280kB, anon-rss:24576000kB, file-rss:0kB",
    "other-process-killed-cgroup": "Memory cgroup out of memory: Killed process 1234 (chrome) total-vm:999kB, anon-rss:9kB",
    "oom-killer-off": "kernel: oom_kill_disable is 0, oom_score_adj: -998",
    "nan-in-path": "INFO: saving to /data/nan_check/inf-runs/oom_killer/error_handling/ckpt_0",
    "nan-in-option": "raise_on_nan: True\nskip_nan_grads: False\ncheck_for_nan_in_loss_and_grad: true",
    "nan-count": " iteration 100/ 500 | lm loss: 2.1E+00 | number of skipped iterations: 0 | number of nan iterations: 0 |",
    "inference-word": "Starting inference, info: infinite loop guard enabled",
    "option-names": "--ignore-errors --timeout 1200 --max-retries 3 --fail-fast --no-abort",
    "retry-that-went-on": "[WARNING] DISTRIBUTED(69582,33,python):2025-12-27-02:46:36.823.427 [mindspore/ccsrc/distributed/cluster/"
    "cluster_context.cc:194] BuildCluster] Topology build timed out., retry(2/60).\n"
    "[INFO] DISTRIBUTED(69582,33,python):2025-12-27-02:46:39.823.427 [mindspore/ccsrc/distributed/cluster/"
    "cluster_context.cc:200] BuildCluster] Cluster is successfully initialized.",
    "download-retried": "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by 'ReadTimeoutError'\n"
    "Successfully installed mindspore-2.6.0",
    "timeouts-listed": "[INFO] HCCL(15,python):2026-01-10-02:40:29.881.877 [externalinput.cc:598] HCCL_EXEC_TIMEOUT set by default to [1836]s\n"
    "export HCCL_CONNECT_TIMEOUT=1200",
    "overflow-once": "2025-05-15 20:28:20,197 [WARNING] overflow, still update, loss scale adjust to 1024.0\n"
    "2025-05-15 20:28:20,202 [INFO] Epoch 38/300, Step 4/4, loss: 0.2795, cur_lr: 0.0087",
    "scaler-searching": "{ Epoch:[  1/  1], step:[    1/  100], loss: 9.9, overflow cond: True, loss_scale: 65536.0, global_norm: [inf]}\n"
    "{ Epoch:[  1/  1], step:[    2/  100], loss: 9.8, overflow cond: False, loss_scale: 32768.0, global_norm: [2.1]}",
    "scaler-without-number": "Loss scaler reducing loss scale to 64.0",
    "quoted-in-data": '{"instruction": "What does this mean?", "input": "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB", "output": "…"}',
    "quoted-in-mail": "On Monday somebody wrote:\n> Traceback (most recent call last):\n> RuntimeError: Device(id:5) memory isn't enough and alloc failed",
    "quoted-wholly": "> Traceback (most recent call last):\n> RuntimeError: Device(id:5) memory isn't enough and alloc failed",
    "quoted-in-comment": "# RuntimeError: Call aclrtSetDevice failed, ret[507033]\n# EJ0001: Failed to initialize the HCCP process.",
    "quoted-by-info": "2025-01-01 10:00:00,000 - mindformers - INFO - known issue: 'EI0006: Getting socket times out' see FAQ 12",
    "a-passed-test": "tests/test_oom.py::test_npu_out_of_memory PASSED [ 50%]\ntests/test_hccl.py::test_ei0006_timeout PASSED",
    "source-line": "    raise RuntimeError('NPU out of memory')  # not reached",
    "cuda-oom": "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total capacity)",
    "nccl-timeout": "[rank3]:[E ProcessGroupNCCL.cpp:563] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, "
    "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600410 milliseconds before timing out.",
    "deprecations": "FutureWarning: `clean_up_tokenization_spaces` was not set. It will be set to `True` by default.\n"
    "[WARNING] ME(1:2,MainProcess):2024-01-01-10:00:00.000.000 [mindspore/common/api.py:1] 'mindspore.ms_function' will be "
    "deprecated and removed in a future version.",
    "cast-on-load": "[WARNING] ME(84:45,MainProcess):2024-01-26-20:18:52.538.406 [mindspore/train/serialization.py:170] The type of "
    "a.embedding_table:Float32 in 'parameter_dict' is different from the type of it in 'net':Float16, then the type "
    "convert from Float32 to Float16 in the network.",
    "alive-nodes": "[WARNING] DISTRIBUTED(51,b3,python):2024-07-29-11:08:01.000.001 [mindspore/ccsrc/distributed/cluster/topology/"
    "meta_server_node.cc:98] Finalize] The meta server node can not be finalized because there are still 8 alive nodes.",
    "queue-closed-at-end": "[ERROR] ASCENDCL(83434,python):2023-03-07-03:59:08.729.325 [tensor_data_transfer.cpp:899]89062 "
    "acltdtSendTensor: [Push][Data]failed to send, tdt result = -1, device is 1, name is 62576f78\n"
    "[WARNING] DEVICE(91,7a,python):2023-03-07-03:59:08.986.720 Push] Device queue thread had been interrupted by "
    "TdtHandle::DestroyHandle, you can ignore the above error: 'failed to send...'.",
    "optional-symbols": "[WARNING] GE_ADPT(108265,2c8,python):2025-08-26-10:10:00.995.530 [mindspore/ccsrc/utils/dlopen_macro.h:165] "
    "DlsymAscend] Dynamically load symbol aclmdlBundleGetModelId failed, result = /usr/local/x/libascendcl.so: undefined symbol: aclmdlBundleGetModelId",
    "fallback-note": "[W compiler_depend.ts:51] Warning: CAUTION: The operator 'aten::isin' is not currently supported on the NPU "
    "backend and will fall back to run on the CPU. This may have performance implications.",
    "first-compile": "2025-11-05 19:26:27,422 [WARNING] The first epoch will be compiled for the graph, which may take a long time",
    "npu-smi-table": "| 0     910B3               | OK            | 93.3        47                0    / 0             |\n"
    "| 0                         | 0000:C1:00.0  | 0           0    / 0          3341 / 65536         |",
    "exit-zero": "Worker process 4711 exit normally. exit code: 0\nAll workers successfully exit!",
    "mount-options": "[   12.3] EXT4-fs (sda1): mounted filesystem with ordered data mode. Opts: errors=remount-ro",
    "zero-errors": "0 errors, 0 failed, 0 timeouts; failed_nodes=0; last_error=None; fatal_count: 0",
    "http-codes": 'INFO:     127.0.0.1:49006 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "loading": "Loading checkpoint shards: 100%|##########| 8/8 [00:10<00:00,  1.3s/it]",
    "pipeline-note": "WARNING - pipeline stages: 4 > 1, the loss on the last card is valid.",
    "optional-module-absent": "[2026-03-01 09:10:11 TP0] Fused sampling kernels unavailable: No module named 'fused_ops'",
    "platform-probed": "DEBUG 03-01 09:10:11 [__init__.py:45] XPU platform is not available because: No module named 'libxpu'",
    "import-that-was-caught": "_custom_ops.py:19] Failed to import from engine._C with ModuleNotFoundError(\"No module named 'engine._C'\")",
    "new-head": "Some weights of LlamaForSequenceClassification were not initialized from the model checkpoint at /w/llama and are newly "
    "initialized: ['score.weight']",
    "buffers-not-used": "Some weights of the model checkpoint at /w/llama were not used when initializing LlamaForCausalLM: "
    "['model.layers.0.self_attn.rotary_emb.inv_freq', 'model.layers.1.self_attn.rotary_emb.inv_freq']",
    "key-error-handled": "INFO - optional field: KeyError: 'attention_mask' caught, using default\n"
    "collator: handled KeyError: 'labels' in 0 of 5200 samples",
    "overwritten-on-purpose": "registry.py:351] Model architecture Qwen3MoeForCausalLM is already registered, and will be overwritten by the new "
    "model class my_plugin:Qwen3Moe.",
    "feature-disabled": "config.py:2212] Disabled the fused all-gather kernel because it is not supported on current platform.",
    "ipv6-then-ipv4": "[rank3]: [W socket.cpp:663] [c10d] The client socket has failed to connect to [localhost]:29511 (errno: 99 - Cannot "
    "assign requested address).",
    "fresh-start": "The checkpoint directory /out/ckpt is empty, training begins from scratch.",
    "not-ready-yet": 'Warning  Unhealthy  3s  kubelet  Readiness probe failed: Get "http://10.0.0.5:8000/health": context deadline exceeded',
    "may-lead-to": "Reserved memory size for other components(3187671040) is less than recommend size(4073504256), It may lead to Out Of "
    "Memory in HCCL or other components",
    "waits-for-message": "Waiting for init message from front-end.",
    "progress-with-names": " 52%|█████▏    | 52/100 [01:00<00:55,  1.16s/it, loss=2.13, nan=0, oom_retries=0, errors=0]",
    "config-with-names": '{"timeout": 7200, "on_error": "raise", "oom_retry": true, "check_nan": false, "hccl_connect_timeout": 7200}',
    "set-to-what-works": "Current MindSpore version do not overlap gathers. `overlap_gather` is set to False.",
    "ignored-further-on": "In_strategy is not in use currently, will be ignored in the following procedures.",
    "argument-deprecated": "For 'load_checkpoint', the parameter 'dec_prefix' will be deprecated in a future release.",
    "resume-without-meta": "No meta.json available and will use the checkpoints of the last timestamp",
    "row-of-a-table-of-codes": "| EI0002 | notify wait timeout | check the peer |",
    "point-of-a-change": "- the model's number of key heads (6) must be divisible by tensor parallel size. (4 -> 2)",
    "purpose-of-a-change": "This PR explains what to do when the package flash_attn seems to be not installed.",
    "falls-back-to-cpu": "The operator 'aten::frob' is not currently supported on the NPU backend and will fall back to run on CPU",
    "told-as-solved": "找到原因了：保存前多做了一次同步，该版本不支持，后面修复了，发布 1.2 版本使用",
    "setting-with-a-comment": "learning_rate: 1.0e-5   # if the loss is nan, lower it",
    "export-with-a-comment": "export HCCL_CONNECT_TIMEOUT=1200  # default 120, EI0006 otherwise",
    "line-of-a-change-log": "Fixed: AttributeError: 'Tensor' object has no attribute 'foo' in 2.3.0",
    "release-note": "release note: no longer raises TypeError: unsupported operand type(s) when dropout is None",
    "assert-in-source": '    assert world_size % tp == 0, "world size must be divisible by tp"',
    "skipped-and-said-so": "2026-01-23 10:00:02,100 - root - WARNING - skipped 3 samples: ValueError: image file is truncated",
    "packets-came-back": "3 packets transmitted, 3 received, 0% packet loss, time 2003ms",
    "no-better-score": "val_loss did not improve from 0.2312",
    "event-over": "node_type=0x7d, sensor_type=0x27, event_state=0, assertion=0 recover",
    "numbers": "507011 samples, 107001 tokens, 9999 steps, id E10010, port 16666, room EI0006A",
    "empty": "",
    "words": "We trained for two days and everything went well.",
    "english-about-errors": "The run has no error; the failed experiments of last week are in /old/failed.",
}


@pytest.fixture(scope="module")
def rules() -> Pack:
    return load_pack()


@pytest.mark.parametrize("name", QUIET)
def test_nothing_is_raised(name: str, rules: Pack) -> None:
    found = diagnose_text(QUIET[name], pack=rules).findings
    assert not [item.rule for item in found if item.severity.at_least(Severity.WARNING)]


def test_all_together_still_say_nothing(rules: Pack) -> None:
    text = "\n".join(QUIET[name] for name in QUIET if name not in ("overflow-once", "scaler-searching"))
    found = diagnose_text(text, pack=rules).findings
    assert not [item.rule for item in found if item.severity.at_least(Severity.WARNING)]


def test_public_healthy_lines_are_quiet(shared: Path, rules: Pack) -> None:
    import yaml

    rows = yaml.safe_load((shared / "corpus" / "healthy-lines.yaml").read_text(encoding="utf-8"))
    loud = {row["id"]: [f.rule for f in diagnose_text(row["line"], pack=rules).findings] for row in rows}
    assert not {name: found for name, found in loud.items() if found}


def test_a_sample_in_the_message_of_an_exception_is_no_quotation() -> None:
    message = (
        "ValueError: The number of images does not match the number of <image> tokens in [{'content': '<image>hi'}]."
    )
    for line in (message, f"[rank1]: {message}", f"  {message}"):
        assert [item.category for item in diagnose_text(line).findings[:1]] == ["dataset"], line


@pytest.mark.parametrize(
    "before",
    ["", "Train:   0%|      | 0/465 [00:00<?, ?it/s]", "Capturing:  3%|▎  | 1/9 [00:01<00:08,  1.1s/it][rank3]:"],
)
def test_a_warning_behind_a_progress_bar_is_a_warning(before: str) -> None:
    """torch writes its warnings to stderr where a bar has just been drawn, without a new line between them."""
    line = f"{before}[W926 15:10:31.546723319 AclInterface.cpp:181] Warning: Failed to find function aclrtMemP2P"
    assert level_of(line.encode()) == "WARNING"
    assert not diagnose_text(line).findings
