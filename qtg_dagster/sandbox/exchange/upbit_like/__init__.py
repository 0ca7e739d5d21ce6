"""What the wires that Upbit began have in common: JWTs over a hash of the query, and the same endpoints and rows."""
