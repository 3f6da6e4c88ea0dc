"""Tokenizers: bytes (built in), or a tokenizer.json / sentencepiece file that lies here."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Protocol

from doctor.errors import UsageError
from doctor.finding import Text


class Tokenizer(Protocol):
    """What packing needs. `vocab_size` is one more than the largest id, `source` the name or file it came from."""

    source: str
    vocab_size: int
    eos_id: int

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: list[int]) -> str: ...


class ByteTokenizer:
    """UTF-8 bytes as ids 0 to 255, then end-of-text 256. No file, no training, every language."""

    source = "byte"
    vocab_size = 257
    eos_id = 256

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "surrogatepass"))

    def decode(self, ids: list[int]) -> str:
        return bytes(i for i in ids if 0 <= i < 256).decode("utf-8", "replace")


class FileTokenizer:
    """A `tokenizer.json` of Hugging Face's tokenizers library. Raises UsageError when it cannot be read."""

    _ENDS = ("<|endoftext|>", "</s>", "<|end_of_text|>", "<|im_end|>", "<eos>", "[EOS]", "eos")

    def __init__(self, path: Path) -> None:
        try:
            import tokenizers
        except ImportError:
            raise _missing("tokenizers", path) from None
        try:
            self._inner: Any = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # noqa: BLE001 - the library raises bare Exception
            raise _unreadable(path, error) from None
        self.source = str(path)
        self.vocab_size = max(self._inner.get_vocab(with_added_tokens=True).values(), default=0) + 1
        ends = [self._inner.token_to_id(name) for name in self._ENDS]
        self.eos_id = next((end for end in ends if end is not None), self.vocab_size - 1)

    def encode(self, text: str) -> list[int]:
        return list(self._inner.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: list[int]) -> str:
        return str(self._inner.decode(ids))


class SentencePieceTokenizer:
    """A sentencepiece `.model` file. Raises UsageError when it cannot be read."""

    def __init__(self, path: Path) -> None:
        try:
            sentencepiece = importlib.import_module("sentencepiece")
        except ImportError:
            raise _missing("sentencepiece", path) from None
        self._inner: Any = sentencepiece.SentencePieceProcessor()
        try:
            self._inner.Load(str(path))
        except (OSError, RuntimeError) as error:
            raise _unreadable(path, error) from None
        self.source = str(path)
        self.vocab_size = int(self._inner.GetPieceSize())
        self.eos_id = max(0, int(self._inner.eos_id()))

    def encode(self, text: str) -> list[int]:
        return list(self._inner.EncodeAsIds(text))

    def decode(self, ids: list[int]) -> str:
        return str(self._inner.DecodeIds(ids))


def load_tokenizer(name: str) -> Tokenizer:
    """`byte`, a tokenizer.json, a .model file, or a folder that holds one. Raises UsageError; nothing is downloaded."""
    if name == "byte":
        return ByteTokenizer()
    path = Path(name)
    if path.is_dir():
        for file in ("tokenizer.json", "tokenizer.model", "spiece.model"):
            if (path / file).is_file():
                path = path / file
                break
    if not path.is_file():
        raise UsageError(
            Text(
                f"tokenizer {name}: no such file, nor a folder with one.",
                f"tokenizer {name}：文件不存在，目录中也没有。",
            ),
            Text(
                "Give a tokenizer.json, a sentencepiece .model, or: byte",
                "请给出 tokenizer.json 或 sentencepiece .model 文件，或写 byte。",
            ),
            "DAT-FILE-004",
        )
    return SentencePieceTokenizer(path) if path.suffix == ".model" else FileTokenizer(path)


def _missing(package: str, path: Path) -> UsageError:
    return UsageError(
        Text(f"tokenizer {path}: the package {package} is not installed.", f"tokenizer {path}：未安装 {package}。"),
        Text(f"pip install {package}", f"pip install {package}"),
    )


def _unreadable(path: Path, error: Exception) -> UsageError:
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    words = Text(f"tokenizer {path}: cannot be read: {first}.", f"tokenizer {path}：无法读取：{first}。")
    return UsageError(words, rule="DAT-FILE-003")
