"""Bytes to records: files are read and followed in chunks of whole lines, and step lines become metrics.

Data flows one way: `Chunk` (bytes of one source) to metric and line records, which `doctor.detect` and
`doctor.match` judge and `doctor.session` collects.
"""
