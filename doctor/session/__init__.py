"""The diagnosis of one run: the only place that holds state, fed with bytes, giving events.

`feed` takes chunks and notices in any cut, `tick` the time, `end` says that nothing more will come. What comes out
are events: a finding opened, updated or resolved. Watching a log and replaying it go through here alike, so
that both end in the same findings; only what needs a clock (a stall) is seen live alone.
"""

from __future__ import annotations

from doctor.session.diagnosis import DiagnosisSession
from doctor.session.incidents import Event

__all__ = ["DiagnosisSession", "Event"]
