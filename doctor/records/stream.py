"""One source's step lines, one at a time: what earlier lines tell about the next."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Optional

from doctor.escape import decode
from doctor.records.comment import without_comment
from doctor.records.jsonl import EVENT_LINE, METRIC_LINE, metric_fields
from doctor.records.prefix import rank_span, seconds, time_span
from doctor.records.progress import bar_of
from doctor.records.reading import Fields, Reading, read_line
from doctor.records.template import Template, learn
from doctor.records.tokens import clean

if TYPE_CHECKING:
    from doctor.records.layout import Layout

#: a longer line is looked at only at its end: in front is a config or a bar without line ends
LONGEST = 4096
#: makes of lines that a source may alternate between without being read anew each time
MOST_TEMPLATES = 16
#: makes that are learnt without any of them being met again; then only one line in as many is learnt from, since that
#: takes longer than reading it
PATIENCE = 64
#: with fewer lines of one make in a chunk, reading in bulk does not pay
FEWEST = 64


_COUNTERS = ("zero_based", "continuous", "_bar", "last_step", "last_epoch", "last_gap", "names")


def counting(counters: tuple[object, ...]) -> tuple[object, ...]:
    """`Stream.counting` when `counters` was taken."""
    return counters[:2]


class Stream:
    """The state of one source."""

    def __init__(self, shared: list[Template]) -> None:
        #: makes that other sources have shown
        self._shared = shared
        #: known makes, the last used first
        self.templates: list[Template] = []
        #: the make of most lines, which are then read in bulk
        self.main: Optional[Template] = None
        #: the place in its label of a byte that is rare in this source
        self.pick = 0
        #: layouts of lines by their make and length, for `doctor.records.bulk`
        self.layouts: dict[tuple[Template, int], list[Layout]] = {}
        self._patience = PATIENCE
        #: lines that no known make has read
        self._strange = 0
        #: how many lines of each make were read one by one since this was cleared
        self.used: Counter[Template] = Counter()
        #: step and length of the last progress bar: a Hugging Face dict names no step of its own
        self._bar: Optional[tuple[int, int]] = None
        self.last_step: Optional[int] = None
        #: an epoch 0 was seen: epochs count from there
        self.zero_based = False
        self.last_epoch: Optional[int] = None
        #: between the last two steps
        self.last_gap = 0
        #: steps were seen to go on over the end of an epoch: they are global already
        self.continuous = False
        #: what the last record held, to tell whether a line without its newline is complete
        self.names: frozenset[str] = frozenset()

    def line(self, raw: bytes, whole: bool = True) -> list[Fields]:
        """The records of one line (without its end). Not `whole`: the file ends in it, without a newline."""
        if raw.startswith(EVENT_LINE):
            own = metric_fields(raw) if raw.startswith(METRIC_LINE) else None
            return [self.complete(own)] if own is not None else []
        fields = self._known(raw)
        found = [fields] if fields is not None else self._unknown(raw)
        if not whole:
            found = [fields for fields in found if not self._torn(fields, raw)]
        return [self.complete(fields) for fields in found]

    def counters(self) -> tuple[object, ...]:
        """Where the counting of steps and epochs stands, for `restore`."""
        return tuple(getattr(self, name) for name in _COUNTERS)

    @property
    def counting(self) -> tuple[object, ...]:
        """What was found out about how epochs and steps are counted."""
        return self.zero_based, self.continuous

    def restore(self, counters: tuple[object, ...]) -> None:
        """Goes back to where `counters` was taken: what was read since is read again."""
        for name, value in zip(_COUNTERS, counters):
            setattr(self, name, value)

    def _known(self, raw: bytes) -> Optional[Fields]:
        for number, template in enumerate(self.templates):
            fields = template.fields(raw)
            if fields is not None:
                if number:
                    self.templates.insert(0, self.templates.pop(number))
                self.used[template] += 1
                self._patience = min(self._patience + 1, PATIENCE)
                return fields
        for template in self._shared:
            fields = template.fields(raw)
            if fields is not None:
                self._know(template)
                return fields
        return None

    def _know(self, template: Template) -> None:
        for known in (self.templates, self._shared):
            if template not in known:
                known.insert(0, template)
                del known[MOST_TEMPLATES:]

    def choose_main(self, data: bytes) -> None:
        """Makes the make that was met most often in `data` the main one, if it counts its own steps."""
        self.main = None
        for template, uses in self.used.most_common(1):
            if uses >= FEWEST and template.columns is not None and "step" in dict(template.groups):
                label = template.columns.label
                self.main = template
                self.pick = min(range(len(label)), key=lambda place: data.count(label[place : place + 1]))

    def _unknown(self, raw: bytes) -> list[Fields]:
        text = without_comment(clean(decode(raw[-LONGEST:])))
        bar = bar_of(text)
        if bar is not None:
            self._bar = bar.position
            return [bar.reading.fields] if "loss" in bar.reading.fields else []
        readings = read_line(text)
        for reading in readings:
            _add_prefix(reading, text)
        self._strange += 1
        if len(readings) == 1 and len(raw) <= LONGEST and (self._patience or self._strange % PATIENCE == 0):
            self._patience = max(self._patience - 1, 0)
            template = learn(raw, readings[0])
            if template is not None:
                self._know(template)
        return [reading.fields for reading in readings]

    def _torn(self, fields: Fields, raw: bytes) -> bool:
        """Whether a last line was cut short: ``loss: 9.`` may have been 9.7, so it is not believed. A line of the same make
        as the one before it is complete, unless its last number may go on."""
        return raw.rstrip()[-1:] in b".-+" or (bool(self.names) and not self.names <= fields.keys())

    def complete(self, fields: Fields) -> Fields:
        """Adds what the line itself does not say but those before it do."""
        self.names = frozenset(fields)
        if "step" not in fields and self._bar is not None and not fields.get("summary"):
            fields["step"], fields["steps"] = self._bar
        skipped = fields.pop("skipped", None)
        epoch, step, steps = fields.get("epoch"), fields.get("step"), fields.get("steps")
        if not isinstance(step, int):
            return fields
        if isinstance(skipped, int):
            # Megatron counts the skipped ones since its last line; only all of them make an overflow of the line
            since = step - self.last_step if self.last_step is not None else step
            fields["overflow"] = 0 < since <= skipped
        if isinstance(epoch, int):
            gap = step - self.last_step if self.last_step is not None else 0
            if self.last_epoch is not None and epoch == self.last_epoch + 1:
                self.continuous |= 0 < gap <= max(self.last_gap, 1)
            self.last_epoch, self.last_gap = epoch, gap
            if isinstance(steps, int) and "global_step" not in fields and 0 <= step <= steps:
                self.zero_based |= epoch == 0
                before = 0 if self.continuous else (epoch if self.zero_based else epoch - 1) * steps
                fields["global_step"] = before + step
        self.last_step = step
        return fields


def _add_prefix(reading: Reading, text: str) -> None:
    """The rank and the time that stand before the line's own words."""
    rank, stamp = rank_span(text), time_span(text)
    if rank is not None and "rank" not in reading.fields:
        reading.fields["rank"] = int(text[slice(*rank)])
    time = seconds(text[slice(*stamp)]) if stamp is not None else None
    if time is not None:
        reading.fields["time"] = time
