"""Fills placeholders of a finding with sentences that have two languages themselves."""

from __future__ import annotations

from doctor.finding import Finding, Text, fill


def phrased(finding: Finding, **texts: Text) -> Finding:
    """Title and message with ``{name}`` replaced by the text in the language of each."""
    english = {name: text.en for name, text in texts.items()}
    chinese = {name: text.zh for name, text in texts.items()}

    def both(text: Text) -> Text:
        return Text(fill(text.en, english), fill(text.zh, chinese))

    return finding.with_(title=both(finding.title), message=both(finding.message))
