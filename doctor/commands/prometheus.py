"""``--prometheus PORT``: the last step record of each rank and the open findings, as Prometheus scrapes them."""

from __future__ import annotations

import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Optional

from doctor.errors import UsageError
from doctor.finding import Severity, Text
from doctor.session import DiagnosisSession, Event

LOOPBACK = "127.0.0.1"
_GAUGES = (
    ("loss", "loss", "Loss of the last step."),
    ("learning_rate", "lr", "Learning rate of the last step."),
    ("gradient_norm", "grad_norm", "Gradient norm of the last step."),
    ("loss_scale", "loss_scale", "Loss scale of the last step."),
    ("step_time_milliseconds", "step_time_ms", "Time of the last step."),
    ("throughput", "throughput", "Throughput of the last step, in the unit of the log."),
    ("memory_megabytes", "memory_mb", "Memory as the log says it."),
)


class Exporter:
    """Serves `text` over HTTP from a thread of its own; `look` renews it. Raises UsageError when the port is taken."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        if not port.isdigit() or not 0 <= int(port) <= 65535:
            raise UsageError(
                Text(f"--prometheus {address}: this is no port.", f"--prometheus {address}：不是端口号。"),
                Text("Give a number, or HOST:PORT.", "请给出端口号，或 HOST:PORT。"),
            )
        self.text = exposition(None)
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.split("?")[0] not in ("/", "/metrics"):
                    self.send_error(404)
                    return
                body = exporter.text.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """A scrape is no news."""

        try:
            self.server = ThreadingHTTPServer((host.strip("[]") or LOOPBACK, int(port)), Handler)
        except OSError as error:
            raise UsageError(
                Text(
                    f"--prometheus {address}: {error.strerror or error}.",
                    f"--prometheus {address}：{error.strerror or error}。",
                ),
                Text("Give a free port.", "请换一个空闲端口。"),
            ) from error
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    def event(self, event: Event) -> None:
        return

    def look(self, session: DiagnosisSession) -> None:
        self.text = exposition(session)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def exposition(session: Optional[DiagnosisSession]) -> str:
    """Everything that is known now, in the text format of Prometheus; None stands for a run of which nothing was read."""
    lines: list[str] = []
    known = session.streams.items() if session is not None else ()
    streams = sorted(known, key=lambda item: (item[0][0], -1 if item[0][1] is None else item[0][1]))
    lines.append("# HELP doctor_step Last step of the run.")
    lines.append("# TYPE doctor_step gauge")
    for (source, rank), stream in streams:
        if stream.last is not None and stream.last.at is not None:
            lines.append(f"doctor_step{_labels(source, rank)} {stream.last.at}")
    for name, key, help_text in _GAUGES:
        rows = []
        for (source, rank), stream in streams:
            value = getattr(stream.last, key, None)
            if value is not None:
                rows.append(f"doctor_{name}{_labels(source, rank)} {_number(float(value))}")
        if rows:
            lines += [f"# HELP doctor_{name} {help_text}", f"# TYPE doctor_{name} gauge", *rows]
    lines += ["# HELP doctor_findings Open findings by severity.", "# TYPE doctor_findings gauge"]
    open_now = session.open_findings() if session is not None else ()
    for severity in Severity:
        count = sum(1 for finding in open_now if finding.severity is severity)
        lines.append(f'doctor_findings{{severity="{severity.value}"}} {count}')
    lines += ["# HELP doctor_finding An open finding.", "# TYPE doctor_finding gauge"]
    for finding in open_now:
        lines.append(
            f'doctor_finding{{rule="{finding.rule}",name="{finding.name}",severity="{finding.severity.value}"}} 1'
        )
    return "\n".join(lines) + "\n"


def _labels(source: str, rank: object) -> str:
    escaped = source.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{{source="{escaped}",rank="{"" if rank is None else rank}"}}'


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
