"""A scrape before anything was read gets numbers, not an empty page."""

from __future__ import annotations

from urllib.request import urlopen

from doctor.commands.prometheus import Exporter


def test_the_first_scrape_has_the_counts() -> None:
    exporter = Exporter("0")
    try:
        with urlopen(f"http://127.0.0.1:{exporter.port}/metrics", timeout=10) as page:
            body = page.read().decode()
    finally:
        exporter.close()
    assert 'doctor_findings{severity="error"} 0' in body
