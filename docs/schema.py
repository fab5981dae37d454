"""Writes docs/plan.schema.json, the JSON Schema of a TOML plan, from the model that reads it.

python docs/schema.py            rewrite it
python docs/schema.py --check    exit 1 if it is not what the model says
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from harness.planning.plan import Request

FILE = Path(__file__).parent / "plan.schema.json"


def main() -> None:
    """Rewrite or check the file."""
    schema = json.dumps(Request.model_json_schema(), indent=2) + "\n"
    if "--check" in sys.argv:
        sys.exit(not FILE.exists() or FILE.read_text() != schema)
    FILE.write_text(schema)


if __name__ == "__main__":
    main()
