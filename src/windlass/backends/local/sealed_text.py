"""JSON objects with a checksum of their text: SQLite has none, so a flipped bit in a row would be read as it is.

The checksum is a member of the object, which readers of earlier versions ignore. Objects without one are accepted:
earlier versions wrote them.
"""

from __future__ import annotations

import zlib

_PREFIX = '{"crc32":"'
_END = len(_PREFIX) + 8
"""End of the checksum's eight hexadecimal digits."""


def seal(text: str, owner: str) -> str:
    """Returns the text of a JSON object with a checksum of it and of the row that it belongs to."""
    separator = "" if text == "{}" else ","
    checksum = checksum_of(f"{owner} {text}")
    return f'{_PREFIX}{checksum}"{separator}{text[1:]}'


def unseal(text: str, owner: str) -> str:
    """Returns the text as it was given to `seal`. Raises ValueError if it, or its owner, has changed since."""
    if not text.startswith(_PREFIX):
        return text
    original = "{" + text[_END + 1 :].removeprefix(",")
    if text[len(_PREFIX) : _END] != checksum_of(f"{owner} {original}"):
        raise ValueError(f"the record of {owner} does not have the checksum that it was written with")
    return original


def checksum_of(text: str) -> str:
    """Returns the CRC-32 of a text as eight hexadecimal digits."""
    return f"{zlib.crc32(text.encode()):08x}"
