"""``--web [HOST:]PORT``: the TUI in a browser, through textual-serve; on loopback unless a host is given."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from doctor.errors import EXIT_OK, UsageError
from doctor.finding import Text

if TYPE_CHECKING:
    from aiohttp.web import Application

LOOPBACK = "127.0.0.1"
POLICY = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; connect-src 'self' ws: wss:"
#: what is typed goes to the screens as soon as they stand, not only after a click on them
FOCUS = """<script>
new MutationObserver((_, observer) => {
  const keys = document.querySelector(".xterm-helper-textarea");
  if (keys) { observer.disconnect(); keys.focus(); }
}).observe(document, {childList: true, subtree: true});
</script>
</body>"""


def address(word: str) -> tuple[str, int]:
    """Host and port of ``PORT`` or ``HOST:PORT``. Raises UsageError."""
    host, _, port = word.rpartition(":")
    if not port.isdigit() or not 0 < int(port) <= 65535:
        raise UsageError(
            Text(f"--web {word}: this is no port.", f"--web {word}：不是端口号。"),
            Text("Give a number, or HOST:PORT.", "请给出端口号，或 HOST:PORT。"),
        )
    return host.strip("[]") or LOOPBACK, int(port)


def serve(word: str, lang: str, words: Sequence[str] = ()) -> int:
    """Serves ``doctor`` with these words until interrupted; each visitor has a process of their own."""
    host, port = address(word)
    try:
        from textual_serve.server import Server
    except ImportError:
        raise UsageError(
            Text("--web needs the extra `web`, which is not installed.", "--web 需要可选依赖 `web`，当前未安装。"),
            Text("Install it: pip install 'mindspore-doctor[web]'", "安装：pip install 'mindspore-doctor[web]'"),
        ) from None
    _must_be_free(host, port, word)
    os.environ["DOCTOR_LANG"] = lang
    # textual-serve takes one string and gives it to a shell: every word is quoted
    command = shlex.join([sys.executable, "-m", "doctor", *words])
    own = _own_pages_only(host)

    class Guarded(Server):  # type: ignore[misc,unused-ignore]
        async def _make_app(self) -> Application:
            app = await super()._make_app()
            app.middlewares.append(own)
            return app

    server = Guarded(command, host=host, port=port, title="doctor")
    sys.stderr.write(
        Text(
            f"doctor: http://{host}:{port}  (Ctrl-C ends it)\n", f"doctor：http://{host}:{port}（Ctrl-C 结束）\n"
        ).pick(lang)
    )
    server.serve()
    return EXIT_OK


def _own_pages_only(host: str) -> Any:
    """What is served can start programs and edit files, so that pages of other sites must not reach it: their requests
    carry another Origin, or another Host where a name was made to lead here. Nor may our page load anything from elsewhere."""
    from aiohttp import web

    local = {"localhost", "127.0.0.1", "::1"}

    @web.middleware
    async def guard(request: web.Request, handler: Any) -> web.StreamResponse:
        asked = urlsplit(f"//{request.host}").hostname or ""
        origin = request.headers.get("Origin")
        if (origin is not None and urlsplit(origin).netloc != request.host) or (host in local and asked not in local):
            raise web.HTTPForbidden(text="doctor: not from this page\n")
        response: web.StreamResponse = await handler(request)
        if not response.prepared:
            if isinstance(response, web.Response) and response.content_type == "text/html" and response.text:
                response.text = response.text.replace("</body>", FOCUS)
            response.headers["Content-Security-Policy"] = POLICY
        return response

    return guard


def _must_be_free(host: str, port: int, word: str) -> None:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(
            Text(f"--web {word}: {why}.", f"--web {word}：{why}。"), Text("Give a free port.", "请换一个空闲端口。")
        ) from error
