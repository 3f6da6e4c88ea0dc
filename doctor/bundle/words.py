"""Words that identify nobody: what stands in the paths and names of every machine that trains with MindSpore."""

from __future__ import annotations

import re

#: parts of paths and file names, in lower case; a word that is not among them may be a customer, a project, a person
PUBLIC = frozenset(
    """
    usr local lib lib64 bin sbin etc opt var tmp dev shm proc sys run mnt srv home users root media boot share include src
    log logs data dataset datasets output outputs input inputs checkpoint checkpoints ckpt ckpts weights weight model models
    config configs conf cfg cache work workspace code project projects repo repos git github gitlab scripts script tools tool
    train training trainer pretrain finetune sft eval evaluate predict infer inference test tests demo example examples
    rank ranks worker workers device devices node nodes npu npus card cards gpu cpu proc process scheduler msrun mindrecord
    strategy network step steps epoch epochs iter iteration part latest best final last merged transformed metrics metric
    summary profiler profile graphs graph kernel meta dumps dump end findings interventions info error warning debug plog
    security host hosts hostfile server servers table ranktable hccl hccn msrunlog stdout stderr out err nohup console main
    bundle report fix general task tasks readme license requirements setup version versions current old new bak
    ascend ascendcl toolkit nnae nnal nnrt atb driver firmware cann opp te tbe aicpu aicore aoe atc op ops impl compiler
    runtime fwkacllib acllib hdk npusmi atlas hiai hwhiaiuser huawei mindspore mindformers mindspeed modelarts modellink
    mindxdl mindx dls torch torchnpu pytorch transformers tokenizers tokenizer safetensors numpy scipy pandas deepspeed
    megatron vllm verl openmind modelscope huggingface hub datasetsserver python python3 pip conda miniconda miniconda3
    anaconda anaconda3 envs env venv site dist packages pkgs core ccsrc backend plugin plugins common utils util dataset
    hal pynative frontend parallel distributed communication comm nn layer layers loss optim optimizer callback callbacks
    llama llama2 llama3 qwen qwen2 qwen3 glm glm2 glm3 glm4 chatglm baichuan baichuan2 internlm internlm2 deepseek mixtral
    mistral gpt gpt2 bloom pangu telechat yi bert t5 clip blip sd opt base chat instruct wiki wikitext alpaca belle squad
    libascend hcl libhccl so py pyc yaml yml json jsonl txt tar gz zip bz2 xz cc cpp h hpp c sh om bin npy npz md rst cfg ini
    toml csv parquet arrow idx dat xml html pid lock tgz whl egg info
    nan inf infinity true false none null error errors failed fail timeout loss lr norm scale overflow memory time host
    the and of for with from to in on at by is a an or not no id ids key
    """.split()  # noqa: SIM905 - a list that is read and extended
)
#: packages whose files are the same everywhere: what follows them in a path is kept
PACKAGES = frozenset(
    """
    mindspore mindformers numpy torch torch_npu transformers tokenizers safetensors datasets accelerate peft deepspeed
    megatron scipy pandas pyarrow yaml psutil te tbe hccl auto_tune opc_tool op_gen op_test_frame asc_op_compile_base
    dataflow rich textual doctor mindspore_doctor setuptools pip pkg_resources concurrent multiprocessing asyncio json
    importlib logging threading subprocess socket ssl urllib http unittest encodings ctypes pickle decimal
    """.split()  # noqa: SIM905
)
#: first parts of paths of the system, whose content is the same on all machines
SYSTEM = frozenset(("proc", "sys", "dev"))
#: names that identify nobody, so that the same word elsewhere may stay
COMMON_NAMES = frozenset(
    """
    root localhost user users home hwhiaiuser python work data admin nobody ubuntu none null test server node master worker
    host client train model default unknown true false vm local main host-name hostname mindspore ascend docker container
    """.split()  # noqa: SIM905
)
#: hosts that everybody knows
PUBLIC_HOSTS = re.compile(
    rb"(?:[\w-]+\.)*(?:github\.com|githubusercontent\.com|gitee\.com|gitcode\.com|huggingface\.co|hf-mirror\.com|modelscope\.cn|"
    rb"mindspore\.cn|hiascend\.com|huawei\.com|python\.org|pypi\.org|pythonhosted\.org|pytorch\.org|w3\.org|example\.(?:com|org|net)|"
    rb"openmind\.cn|openi\.org\.cn|tensorflow\.org|nvidia\.com|aliyun\.com|tsinghua\.edu\.cn)\Z",
    re.IGNORECASE,
)


def is_public(word: str) -> bool:
    """Whether a word of a path may stay: a known one, with or without a number behind it, a number, a version, a size."""
    lowered = word.lower()
    if lowered in PUBLIC or re.fullmatch(
        r"\d{1,8}|[vr]?\d+(?:rc\d+|[abt]\d+)?|\d{1,4}[bmk]|(?:lib)?python3?\d*|cp3\d+|rc\d+", lowered
    ):
        return True
    bare = lowered.rstrip("0123456789")
    return bool(bare) and len(lowered) - len(bare) <= 6 and bare in PUBLIC
