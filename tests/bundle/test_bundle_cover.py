"""What is covered is gone, and nothing has moved."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.bundle.cover import Coverer, _Known


def covered(text: str, *more: str) -> str:
    coverer = Coverer()
    for part in (text, *more):
        coverer.learn(part.encode())
    raw = text.encode()
    out = coverer.cover(raw)
    assert len(out) == len(raw)
    assert [at for at, byte in enumerate(out) if byte == 10] == [at for at, byte in enumerate(raw) if byte == 10]
    return out.decode("utf-8", "replace")


_SECRET = st.text(string.ascii_letters + string.digits + "_-+/.", min_size=10, max_size=40).filter(
    lambda word: word.strip(string.digits + ".-xX") != "" and word[0].isalnum() and word.lower() not in ("none",)
)


@settings(max_examples=80, deadline=None)
@given(
    secret=_SECRET,
    form=st.sampled_from(
        [
            "password: {}", "export WANDB_API_KEY={}", "HF_TOKEN='{}'", '{{"secret_access_key": "{}"}}', "--password {}",
            "https://bob:{}@git.corp.cn/x.git", "Authorization: Bearer {}", "passwd = {}", "密码：{}", "db_password={}",
            "access_key={} secret_key={}", "cookie: {}", "client_secret: '{}'", "MODELARTS_SK={}", "auth_token={}",
        ]
    ),
    before=st.sampled_from(["", "2026-03-01 10:00:00,000 - INFO - ", "env: A=1 ", "{'x': 1, "]),
)  # fmt: skip
def test_no_secret_survives(secret: str, form: str, before: str) -> None:
    out = covered(before + form.format(secret, secret) + "\nloss: 2.5")
    for part in secret.split("/") if "https" in form else [secret]:
        assert len(part) < 4 or part not in out.split("git.")[0]
    assert out.endswith("\nloss: 2.5")


@settings(max_examples=50, deadline=None)
@given(
    user=st.from_regex(r"\A[a-z]{3,8}[0-9]{0,2}\Z").filter(lambda name: name not in ("user", "users")),
    project=st.from_regex(r"\A[a-z]{4,10}_[a-z]{4,8}\Z"),
    octets=st.tuples(*[st.integers(2, 99)] * 4),
)
def test_a_name_is_gone_wherever_it_stands(user: str, project: str, octets: tuple[int, ...]) -> None:
    from doctor.bundle.words import COMMON_NAMES, is_public

    address = ".".join(map(str, octets))
    text = (
        f"[{user}@trainbox-q7 ~]$ python /home/{user}/{project}/train.py\n"
        f"host_name: trainbox-q7, host_ip: {address}\n"
        f'  File "/home/{user}/{project}/train.py", line 12, in main\n'
        f"saved by {user} to output/{project}/step-5 on trainbox-q7\n"
    )
    out = covered(text)
    assert "trainbox-q7" not in out and address not in out.replace("version", "")
    if user not in COMMON_NAMES and not is_public(user):
        assert f"/{user}/" not in out and f"by {user} " not in out
    for word in project.split("_"):
        if not is_public(word):
            assert f"/{word}_" not in out and f"_{word}/" not in out


@pytest.mark.parametrize(
    "line",
    [
        "{ Epoch:[  1/  1], step:[   12/   64], loss:[nan/nan], per_step_time: 96ms, lr: 1e-05, loss_scale: 65536.0",
        "tokens_per_s: 6247.9, max_tokens: 512, pad_token_id: 0, eos_token: '</s>', 97.6 samples/s/p  0:00:12",
        'File "/opt/venv/lib/python3.11/site-packages/mindspore/common/api.py", line 121, in wrapper',
        "/usr/local/Ascend/ascend-toolkit/latest/opp/built-in/op_impl, /usr/local/Ascend/driver/version.info",
        "/dev/davinci0 /dev/shm /proc/meminfo /root/ascend/log/plog/plog-1.log",
        "driver version: 24.1.0.3, CANN version 8.0.0.1, 127.0.0.1:8118, 0.0.0.0",
        "[ERROR] ME(20120:139926247086976,MainProcess):2026-11-29-14:28:11.800.000 [mindspore/context.py:1334] EI0006 507011",
        "git clone https://github.com/mindspore-lab/mindformers, see https://www.mindspore.cn/docs",
        "password: None, token: , api_key=null, use_cookie: false",
        "10:20:30 2026-03-01 3:4:5",
        "opencv-python==4.8.1.78",
        '"packages": {"opencv-python": "4.8.1.78"}',
    ],
)
def test_what_a_diagnosis_goes_by_stays(line: str) -> None:
    assert covered(line) == line


def test_an_address_under_its_name_is_no_version() -> None:
    assert "10.8.1.78" not in covered('{"server_ip": "10.8.1.78", "MASTER_ADDR": "10.8.1.79"}')


def test_a_name_has_one_stand_in_in_all_texts() -> None:
    coverer = Coverer()
    texts = [b"/home/alice/x.log on 10.1.2.30", b"user alice at 10.1.2.30, not 10.1.2.31", b"ALICE and alice_test"]
    for text in texts:
        coverer.learn(text)
    first, second, third = (coverer.cover(text).decode() for text in texts)
    alice, address = first.split("/")[2], first.split()[-1]
    assert f"user {alice} at {address}," in second and not second.endswith(address)
    assert f"{alice}_" in third and "ALICE" not in third


def test_keys_of_services_and_certificates_are_gone() -> None:
    lines = [
        "hf_abcdefghijklmnopqrstuv", "ghp_abcdefghijklmnopqrstuvwx", "AKIAABCDEFGHIJKLMNOP", "sk-proj-abcdefghijklmnop12",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc", "a" * 64, "deadbeef" * 5, "fe:dc:ba:98:76:54", "fe80::1234:5678:9abc:def0",
        "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "bob.smith@corp.example-firm.cn", "Serial Number : 2102312ABC",
    ]  # fmt: skip
    out = covered("\n".join(lines)).split("\n")
    assert out[4].startswith("xxxx") and out[5] == "x" * 64
    for before, after in zip(lines, out):
        assert before != after and len(before) == len(after)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "step {n} loss {n}.{n} lr 1e-{n}", "/data/run{n}/exp/out.log", "host_name: node-x{n}", "ip 10.0.{n}.{n}",
                "user=carol{n}", "carol{n} on node-x{n}", "token: abcdefgh{n}ijkl", "mf/data/exp/log[a.py:{n}] x",
                "mac 0a:{n}:0b:0c:0d:0e", "id {n}a{n}b{n}c{n}d{n}e{n}f{n}a{n}b", "hf_abcdefghijklmno{n}",
            ]
        ),
        min_size=1,
        max_size=25,
    ),
    st.lists(st.integers(0, 99999), min_size=25, max_size=25),
)  # fmt: skip
def test_lines_that_are_alike_are_covered_as_if_each_were_alone(forms: list[str], numbers: list[int]) -> None:
    text = "\n".join(form.replace("{n}", str(number)) for form, number in zip(forms, numbers)).encode()
    quick, slow = Coverer(), Coverer()
    slow._as_known = lambda *given: _Known(None, given[-1])  # type: ignore[method-assign]
    slow._learnt = type("Never", (set,), {"__contains__": lambda self, key: False})()
    quick.learn(text)
    slow.learn(text)
    assert quick.cover(text) == slow.cover(text)
    assert quick.counts == slow.counts


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_keep_their_length_and_lines(raw: bytes) -> None:
    coverer = Coverer()
    coverer.learn(raw)
    out = coverer.cover(raw)
    assert len(out) == len(raw) and out.count(b"\n") == raw.count(b"\n")


@pytest.mark.parametrize(
    ("line", "private"),
    [
        ("SUDO_USER=bobby PWD=/home/bobby HOSTNAME=n1.corpx", ["bobby", "corpx"]),
        ("AccessKeyId=ABCDEFGHIJKLMNOPQRST SecretAccessKey=abcdefABCDEF0123456789", ["ABCDEFGH", "abcdefAB"]),
        ('{\\"password\\":\\"abc 123 def\\"} password: "my pass word"', ["abc 123", "pass word"]),
        ("drwxr-xr-x 2 bobby bobby 4096 run /home/bobby/run", ["bobby"]),
        ("wandb: Currently logged in as: bobby", ["bobby"]),
        ("jdbc:mysql://us:pw123@dbhost7.corpx:3306/db", ["pw123", "dbhost7", "corpx"]),
        (r"C:\Users\bobby\Desktop\secretproj\x.py by bobby", ["bobby", "secretproj"]),
        ("SSH_CONNECTION=10.1.2.3 5022 10.2.3.4 22", ["10.1.2.3", "10.2.3.4"]),
    ],
)
def test_what_environments_and_shells_print(line: str, private: list[str]) -> None:
    out = covered(line)
    assert [word for word in private if word in out] == []
