"""QTG: moves treasury funds between exchanges and chains, durably."""

import os
import sys

# A worker that starts again moves money when its imports are done, and a third of them would be these two:
# structlog draws tracebacks with rich when it finds it (Dagster brings it), and ours are plain;
# pydantic reads the metadata of every installed package in search of plugins, which have no business in our models.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
if not {"rich", "structlog"} & sys.modules.keys():
    sys.modules["rich"] = None  # type: ignore[assignment]
    import structlog  # noqa: F401

    del sys.modules["rich"]
