"""Authenticates the two sides of a connection between agents by the secret of their gang. Pure.

Each side sends a challenge: a random nonce. Both derive one key for each direction, HMAC-SHA256 of the secret over the
direction and both nonces. Every message follows its HMAC under the sender's key, which also covers the number of the
message on this connection. A message therefore cannot be forged, altered, reordered, replayed on another connection or
sent back to its sender, also not by a process that relays the connection. Messages are not encrypted.
"""

from __future__ import annotations

import hashlib
import hmac
import os

_CHALLENGE = b"windlass-agent-1 "
"""Begins a challenge and names the version of the protocol."""
_NONCE_BYTES = 32
_TAG_LENGTH = 64
"""Length of the HMAC of a message, in hexadecimal digits."""


class Authentication:
    """The keys and counters of one side of one connection. `accepts`: whether the other side opened the connection.

    Without a secret (`b""`) the format is the same, and proves nothing.
    """

    def __init__(self, secret: bytes, *, accepts: bool) -> None:
        self._secret, self._accepts = secret, accepts
        self._nonce = os.urandom(_NONCE_BYTES)
        self._send_key = self._receive_key = b""
        self._sent = self._received = 0

    @property
    def challenge(self) -> bytes:
        """The first line of this side."""
        return _CHALLENGE + self._nonce.hex().encode()

    @property
    def is_challenged(self) -> bool:
        """Whether the challenge of the other side has come: only then can messages be signed."""
        return bool(self._send_key)

    @property
    def is_peer_proven(self) -> bool:
        """Whether the other side has sent a message with a valid HMAC."""
        return self._received > 0

    def take_challenge(self, line: bytes) -> bool:
        """Takes the first line of the other side. Returns whether it is a challenge."""
        nonce = line[len(_CHALLENGE) :]
        if not line.startswith(_CHALLENGE) or len(nonce) != 2 * _NONCE_BYTES:
            return False
        mine = self._nonce.hex().encode()
        opened, accepted = (nonce, mine) if self._accepts else (mine, nonce)
        keys = [self._derive_key(direction, opened, accepted) for direction in (b"opener", b"acceptor")]
        self._receive_key, self._send_key = keys if self._accepts else keys[::-1]
        return True

    def sign(self, body: bytes) -> bytes:
        """The line of the next message of this side: its HMAC and its body, which has no line break."""
        tag = _tag(self._send_key, self._sent, body)
        self._sent += 1
        return tag + b" " + body

    def verify(self, line: bytes) -> bytes | None:
        """The body of the next message of the other side; None unless its HMAC is valid."""
        tag, body = line[:_TAG_LENGTH], line[_TAG_LENGTH + 1 :]
        if not hmac.compare_digest(tag, _tag(self._receive_key, self._received, body)):
            return None
        self._received += 1
        return body

    def _derive_key(self, direction: bytes, opened: bytes, accepted: bytes) -> bytes:
        text = b"\0".join((_CHALLENGE, direction, opened, accepted))
        return hmac.new(self._secret, text, hashlib.sha256).digest()


def _tag(key: bytes, number: int, body: bytes) -> bytes:
    return hmac.new(key, number.to_bytes(8, "big") + body, hashlib.sha256).hexdigest().encode()
