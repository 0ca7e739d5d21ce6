"""The wires that the stand-in speaks, one module or folder each."""
