"""What tests share: values, fake capabilities, and the scenes that tests run in sandboxes. Type-checked like the
product.
"""

from __future__ import annotations

from pathlib import Path

SUPPORT = Path(__file__).parent
