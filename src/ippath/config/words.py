"""The words of a host file, where they stand, and what to say when one is wrong."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from collections.abc import Iterable, Sequence

# a quoted text, or letters up to the next space; a lone backslash (`ip -o` prints them) is a space
_WORD = re.compile(r'"([^"]*)"|\'([^\']*)\'|((?!["\'])(?:[^\s\\]|\\(?=\S))+)|(["\'])')


@dataclass(frozen=True)
class Word:
    """One word; line and column count from 1."""

    text: str
    line: int
    column: int
    quoted: bool = False


@dataclass
class Line:
    """One line with its continuations."""

    words: list[Word]
    indented: bool = False

    @property
    def text(self) -> str:
        """The words with single spaces."""
        return " ".join(w.text for w in self.words)


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong (or, among the warnings, doubtful) in a host file.

    Line and column count from 1 and are 0 where a whole file is meant; `nearest` is the valid word
    that was probably meant, `text` the line as written.
    """

    file: str
    line: int
    column: int
    expected: str
    nearest: str | None = None
    length: int = 1
    text: str = ""

    def __str__(self) -> str:
        hint = f"; did you mean {self.nearest!r}?" if self.nearest else ""
        if not self.line:
            return f"{self.file}: {self.expected}{hint}"
        head = f"{self.file}:{self.line}:{self.column}: {self.expected}{hint}"
        shown = self.text.replace("\t", " ")
        marks = " " * (self.column - 1) + "^" + "~" * (self.length - 1)
        return f"{head}\n    {shown}\n    {marks}"


class HostErrors(ValueError):
    """All that is wrong in a host file: `problems` in the order of the lines."""

    def __init__(self, problems: Sequence[Problem]):
        self.problems = list(problems)
        super().__init__("\n".join(map(str, self.problems)))

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


class Wrong(Exception):
    """A word that cannot stand where it stands; None is the end of the line."""

    def __init__(self, word: Word | None, expected: str, nearest: str | None = None):
        super().__init__(expected)
        self.word, self.expected, self.nearest = word, expected, nearest


def nearest(word: str, valid: Iterable[str], least: float = 0.6) -> str | None:
    """The valid word most like `word`, or None if none is like it."""
    # long texts are no slips of the finger, and comparing them takes long
    close = difflib.get_close_matches(word[:40].lower(), list(valid), 1, least)
    return close[0] if close else None


def find_keyword(word: str, keywords: Iterable[str]) -> str | None:
    """The keyword, or the first that begins with `word`, as `ip` takes abbreviations."""
    keywords = list(keywords)
    if word in keywords:
        return word
    return next((k for k in keywords if word and k.startswith(word)), None)


@dataclass
class Reader:
    """Takes the words of a line one after the other."""

    words: list[Word]
    at: int = 0
    given: dict[str, Word] = field(default_factory=dict)  # keyword -> its value, for messages

    def __bool__(self) -> bool:
        return self.at < len(self.words)

    @property
    def word(self) -> Word | None:
        """The word to come, or None at the end."""
        return self.words[self.at] if self else None

    @property
    def text(self) -> str:
        """The text of the word to come, empty at the end."""
        return self.words[self.at].text if self else ""

    @property
    def left(self) -> int:
        """How many words are left."""
        return len(self.words) - self.at

    def take(self, expected: str) -> Word:
        """The next word; at the end of the line `expected` is what is missing."""
        if not self:
            raise Wrong(None, f"expected {expected}")
        self.at += 1
        return self.words[self.at - 1]

    def skip(self, *texts: str) -> bool:
        """Pass over the next word if it is one of `texts`."""
        if self and self.text in texts:
            self.at += 1
            return True
        return False

    def keyword(self, keywords: Iterable[str]) -> str | None:
        """Take the next word if it is one of the keywords or the beginning of one."""
        found = find_keyword(self.text, keywords) if self else None
        if found is not None:
            self.at += 1
        return found

    def choice(self, keywords: Iterable[str], expected: str) -> str:
        """Take one of the keywords; `expected` says what they are."""
        keywords = list(keywords)
        word = self.take(expected)
        found = find_keyword(word.text, keywords)
        if found is None:
            raise Wrong(
                word, f"expected {expected}, not {word.text!r}", nearest(word.text, keywords)
            )
        return found

    def end(self, keywords: Iterable[str] = ()) -> None:
        """Refuse any further word."""
        if self:
            raise Wrong(self.word, f"{self.text!r} is not known here", nearest(self.text, keywords))


def _without_comment(text: str) -> str:
    """Cut a `#` that begins the line or follows a space, outside of quotes."""
    quote = ""
    for k, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'" and (k == 0 or text[k - 1].isspace()):
            quote = letter
        elif letter == "#" and (k == 0 or text[k - 1].isspace()):
            return text[:k]
    return text


def lines_of(text: str) -> list[str]:
    """The lines of a text as written."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")


def read_lines(written: list[str], first: int = 1) -> tuple[list[Line], list[Wrong]]:
    """The lines that have words, and quotes that do not end; `first` is the first line's number."""
    lines: list[Line] = []
    wrongs: list[Wrong] = []
    goes_on = False
    for number, source in enumerate(written, first):
        if not source:
            goes_on = False
            continue
        plain = _without_comment(source).rstrip()
        words = []
        for match in _WORD.finditer(plain):
            quoted = match[1] if match[1] is not None else match[2]
            word = Word(
                quoted if quoted is not None else match[0], number, match.start() + 1,
                quoted is not None,
            )  # fmt: skip
            if match[4]:
                wrongs.append(Wrong(word, "expected a closing quote"))
            words.append(word)
        if goes_on and lines:
            lines[-1].words += words
        elif words:
            lines.append(Line(words, plain[:1].isspace()))
        goes_on = plain.endswith("\\") and (goes_on or bool(words))
    return [line for line in lines if line.words], wrongs
