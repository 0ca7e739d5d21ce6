"""The world a newcomer and the tests run against: a local chain, stand-in exchanges, sample plans."""
