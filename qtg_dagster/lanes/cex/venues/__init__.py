"""One module a wire, each with a `VENUE`."""
