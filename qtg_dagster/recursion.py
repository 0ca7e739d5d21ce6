"""Python's recursion limit, kept where a library would lift it."""

from __future__ import annotations

import importlib
import sys

#: Python's own default. Deeper than this nobody nests who means well.
_LIMIT = 1000
#: Comes along with web3 and eth-account, and sets the limit to 100,000 when it is imported.
_LIFTER = "py_ecc"


def keep_recursion_limit() -> None:
    """Have the library lift the limit now, once, and put it back.

    With the lifted limit, a reply of 200,000 opening brackets kills the process inside the JSON parser, with whatever
    else it has in flight, where it should raise `RecursionError`.
    """
    importlib.import_module(_LIFTER)
    sys.setrecursionlimit(_LIMIT)
