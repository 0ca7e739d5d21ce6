"""Executors that live in another process: the protocol over HTTP JSON, its caller and its service."""
