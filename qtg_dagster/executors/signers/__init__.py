"""Signers: parties that hold a key and decide for themselves what they sign."""
