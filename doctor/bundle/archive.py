"""Files to one `.tar.gz`, the same bytes for the same files: no times, no owners, names in order."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping


def packed(top: str, files: Mapping[str, bytes]) -> bytes:
    """The archive of files below the folder `top`."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(files):
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size = len(files[name])
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(files[name]))
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=9, mtime=0) as file:
        file.write(raw.getvalue())
    return out.getvalue()
