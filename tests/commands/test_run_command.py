"""``doctor run``: real commands, their output byte for byte, signals, exit codes, the logs they write."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TRAIN = """
import sys, time
for step in range(1, 41):
    loss = "nan" if step > 30 else f"{6 - step / 20:.4f}"
    print(f"epoch: 1 step: {step}, loss is {loss}", flush=True)
"""


def doctor(*words: str) -> list[str]:
    return [sys.executable, "-m", "doctor", "run", "--lang", "en", *words]


def python(code: str, *words: str) -> list[str]:
    return ["--", sys.executable, "-c", code, *words]


def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, capture_output=True, timeout=60, cwd=cwd)


def test_output_passes_untouched_and_the_diagnosis_comes_on_stderr(tmp_path: Path) -> None:
    done = run(doctor(*python(TRAIN)), tmp_path)
    plain = subprocess.run([sys.executable, "-c", TRAIN], capture_output=True, timeout=60)
    assert done.stdout == plain.stdout
    assert b"RUN-NAN-001 The loss is nan from step 31 on" in done.stderr
    assert done.returncode == 0


def test_any_bytes_pass(tmp_path: Path) -> None:
    code = "import os; [os.write(1, bytes(range(256)) * 999 + b'\\r') for _ in range(20)]"
    done = run(doctor(*python(code)), tmp_path)
    assert done.stdout == (bytes(range(256)) * 999 + b"\r") * 20


def test_one_channel_keeps_the_order(tmp_path: Path) -> None:
    code = "import os\nfor i in range(500): os.write(1 + i % 2, b'%d\\n' % i)"
    command = doctor(*python(code))
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, cwd=tmp_path)
    assert done.stdout.startswith(b"".join(b"%d\n" % i for i in range(500)))


@pytest.mark.parametrize("code", [0, 1, 3, 77])
def test_the_exit_code_is_the_commands(code: int, tmp_path: Path) -> None:
    assert run(doctor(*python(f"raise SystemExit({code})")), tmp_path).returncode == code


def test_a_killed_command_gives_128_and_the_signal(tmp_path: Path) -> None:
    done = run(doctor(*python("import os; print('step 1 loss 2.0', flush=True); os.kill(os.getpid(), 9)")), tmp_path)
    assert done.returncode == 137
    assert b"RUN-END-004 The command was ended by signal 9 (SIGKILL)" in done.stderr


def test_a_command_that_is_not_there_gives_127(tmp_path: Path) -> None:
    done = run(doctor("--", str(tmp_path / "absent")), tmp_path)
    assert done.returncode == 127
    assert done.stderr.count(b"\n") == 1


def test_no_command_is_a_usage_error(tmp_path: Path) -> None:
    assert run(doctor(), tmp_path).returncode == 2


def test_a_failure_that_no_rule_knows_is_said_to_be_unknown(tmp_path: Path) -> None:
    done = run(doctor(*python("import sys; sys.stderr.write('zorkmid overrun\\n'); sys.exit(4)")), tmp_path)
    assert done.returncode == 4
    assert b"RUN-END-005" in done.stderr
    assert b"zorkmid overrun" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_reach_the_command(number: signal.Signals, tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *a: (print('got it', flush=True), sys.exit(21)))\n"
        "print('ready', flush=True)\ntime.sleep(50)"
    )
    process = subprocess.Popen(doctor(*python(code)), stdout=subprocess.PIPE, cwd=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    assert process.stdout.read() == b"got it\n"
    assert process.wait(60) == 21
    process.stdout.close()


def test_signal_handling_of_the_command_is_its_own(tmp_path: Path) -> None:
    """No signal is blocked or ignored in the command that was not before."""
    code = "print([line for line in open('/proc/self/status') if line[:4] in ('SigB', 'SigI')])"
    done = run(doctor(*python(code)), tmp_path)
    plain = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert done.stdout == plain.stdout


def test_logs_that_the_command_writes_are_read_and_older_ones_are_not(tmp_path: Path) -> None:
    logs = tmp_path / "output" / "msrun_log"
    logs.mkdir(parents=True)
    line = "epoch: 1 step: {}, loss is {}\n"
    (logs / "worker_0.log").write_text(line.format(1, "nan") * 3)
    code = (
        "import sys, time\n"
        "out = open('output/msrun_log/worker_1.log', 'a')\n"
        "for step in range(1, 30):\n"
        "    out.write(f'epoch: 1 step: {step}, loss is {0.0 if step > 12 else 5 - step / 9:.4f}\\n'); out.flush()\n"
    )
    done = run(doctor(*python(code)), tmp_path)
    assert b"RUN-NAN-001" not in done.stderr
    assert b"worker_1.log:13" in done.stderr
    assert b"RUN-LOSS-005" in done.stderr


def test_a_log_folder_named_on_the_command_line_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    code = (
        "import sys\nwith open(sys.argv[1] + '/worker_0.log', 'w') as out:\n"
        "    out.write(f'arguments {sys.argv}\\n')\n"
        "    [out.write(f'epoch: 1 step: {i}, loss is {\"nan\" if i > 9 else 3.0 + i / 50}\\n') for i in range(20)]"
    )
    assert b"RUN-NAN-001" not in run(doctor(*python(code, "elsewhere")), tmp_path).stderr
    assert b"RUN-NAN-001" in run(doctor(*python(code, "elsewhere", "--log_dir=elsewhere")), tmp_path).stderr


def test_a_terminal_stays_a_terminal_for_the_command(tmp_path: Path) -> None:
    code = "import sys; print(sys.stdout.isatty(), sys.stderr.isatty()); print('a\\rb')"
    ours, theirs = pty.openpty()
    process = subprocess.Popen(doctor(*python(code)), stdout=theirs, stderr=theirs, cwd=tmp_path)
    os.close(theirs)
    seen = b""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if not select.select([ours], [], [], 0.5)[0]:
            if process.poll() is not None:
                break
            continue
        try:
            block = os.read(ours, 4096)
        except OSError:
            break
        if not block:
            break
        seen += block
    os.close(ours)
    assert process.wait(60) == 0
    assert seen.startswith(b"True True\r\na\rb\r\n")


def test_a_reader_that_goes_away_does_not_stop_the_run(tmp_path: Path) -> None:
    mark = tmp_path / "done.txt"
    code = f"import time\nfor i in range(60): print('line', i, flush=True); time.sleep(0.01)\nopen({str(mark)!r}, 'w').write('yes')"
    process = subprocess.Popen(doctor(*python(code)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 0
    assert mark.read_text() == "yes"


def test_a_background_child_that_keeps_the_pipe_does_not_hold_us(tmp_path: Path) -> None:
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)']); print('x')"
    began = time.monotonic()
    done = run(doctor(*python(code)), tmp_path)
    assert done.stdout == b"x\n"
    assert time.monotonic() - began < 25
