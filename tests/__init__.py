"""The tests run without what hides how programs hold back their output, and without forced colours."""

import os

for name in ("PYTHONUNBUFFERED", "FORCE_COLOR"):
    os.environ.pop(name, None)
