"""Rules on text: the packs under ``rules/`` compiled, scanned over bytes, verified, and reasoned into a cause."""
