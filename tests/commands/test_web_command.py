"""``--web``: what is asked for, who may reach it, and what is said when it cannot be served."""

from __future__ import annotations

import asyncio
import builtins
import socket
from typing import Any

import pytest

from doctor.commands.web import _own_pages_only, address, serve
from doctor.errors import UsageError


def test_a_port_is_on_loopback_unless_a_host_is_given() -> None:
    assert address("8000") == ("127.0.0.1", 8000)
    assert address("0.0.0.0:80") == ("0.0.0.0", 80)
    assert address("[::1]:9") == ("::1", 9)


@pytest.mark.parametrize("word", ["", "http", "0", "70000", "host:", "-1", "8000x"])
def test_what_is_no_port_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="no port"):
        address(word)


def test_a_missing_extra_is_one_line_that_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("textual_serve"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError) as said:
        serve("8000", "en")
    assert "mindspore-doctor[web]" in said.value.line("en") and "mindspore-doctor[web]" in said.value.line("zh")


def test_a_port_that_is_taken_is_said() -> None:
    pytest.importorskip("textual_serve", reason="needs the web extra")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match=str(taken.getsockname()[1])):
            serve(str(taken.getsockname()[1]), "en")


@pytest.mark.parametrize(
    ("host", "headers", "allowed"),
    [
        ("127.0.0.1", {"Host": "127.0.0.1:8000"}, True),
        ("127.0.0.1", {"Host": "localhost:8000", "Origin": "http://localhost:8000"}, True),
        ("127.0.0.1", {"Host": "127.0.0.1:8000", "Origin": "http://evil.example"}, False),
        ("127.0.0.1", {"Host": "evil.example:8000"}, False),
        ("127.0.0.1", {"Host": "127.0.0.1:8000", "Origin": "null"}, False),
        ("0.0.0.0", {"Host": "node7:8000", "Origin": "http://node7:8000"}, True),
        ("0.0.0.0", {"Host": "node7:8000", "Origin": "http://evil.example"}, False),
    ],
)
def test_pages_of_other_sites_do_not_reach_it(host: str, headers: dict[str, str], allowed: bool) -> None:
    web = pytest.importorskip("aiohttp.web", reason="needs the web extra")
    from aiohttp.test_utils import make_mocked_request

    async def answer(request: Any) -> Any:
        return web.Response(text="page")

    guard = _own_pages_only(host)
    request = make_mocked_request("GET", "/ws", headers=headers)
    if allowed:
        response = asyncio.run(guard(request, answer))
        assert "default-src 'self'" in response.headers["Content-Security-Policy"]
    else:
        with pytest.raises(web.HTTPForbidden):
            asyncio.run(guard(request, answer))


def test_the_page_takes_what_is_typed_without_a_click() -> None:
    """In Chromium no element of the page as textual-serve sends it has the focus, and every key was lost."""
    web = pytest.importorskip("aiohttp.web", reason="needs the web extra")
    from importlib.resources import files

    from aiohttp.test_utils import make_mocked_request

    page = (files("textual_serve") / "templates" / "app_index.html").read_text("utf-8")

    async def answer(request: Any) -> Any:
        return web.Response(text=page, content_type="text/html")

    response = asyncio.run(
        _own_pages_only("127.0.0.1")(make_mocked_request("GET", "/", headers={"Host": "localhost"}), answer)
    )
    assert response.text.count("keys.focus()") == 1 and response.text.rstrip().endswith("</html>")
