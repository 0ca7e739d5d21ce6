"""The demo: four sample movements on the sandbox, by the ordinary functions, judged to the last unit."""
