"""Ids of log directories as Kafka writes them: base64 without padding; zeros for none.

directory_text(uuid.UUID(int=1))             # "AAAAAAAAAAAAAAAAAAAAAQ"
directory_uuid("AAAAAAAAAAAAAAAAAAAAAQ")     # UUID("00000000-0000-0000-0000-000000000001")
"""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode

_NONE = uuid.UUID(int=0)


def directory_text(directory_id: uuid.UUID | None) -> str:
    """The id as text."""
    return urlsafe_b64encode((directory_id or _NONE).bytes).decode().rstrip("=")


def directory_uuid(text: str) -> uuid.UUID | None:
    """The id in a text. Raises ValueError."""
    directory_id = uuid.UUID(bytes=urlsafe_b64decode(f"{text}=="))
    return None if directory_id == _NONE else directory_id
