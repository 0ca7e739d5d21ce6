"""Questions that tell whether a process is ready. They answer within about a second and never raise."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import httpx


def answers_http(url: str) -> Callable[[], bool]:
    """Ready when a GET of `url` succeeds."""

    def ask() -> bool:
        try:
            return httpx.get(url, timeout=1, trust_env=False).is_success
        except httpx.HTTPError:
            return False

    return ask


def answers_json_rpc(url: str, method: str) -> Callable[[], bool]:
    """Ready when that JSON-RPC method, without parameters, gives a result."""

    def ask() -> bool:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": []}
        try:
            return "result" in httpx.post(url, json=body, timeout=1, trust_env=False).json()
        except (httpx.HTTPError, ValueError):
            return False

    return ask


def serves_code(port: int) -> Callable[[], bool]:
    """Ready when Dagster's code server on that loopback port reports that it serves."""

    def ask() -> bool:
        import grpc  # type: ignore[import-untyped]
        from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            try:
                reply = health_pb2_grpc.HealthStub(channel).Check(
                    health_pb2.HealthCheckRequest(service="DagsterApi"), timeout=1
                )
            except grpc.RpcError:
                return False
        return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)

    return ask


def daemon_beats(url: str, since: datetime) -> Callable[[], bool]:
    """Ready when Dagster's sensor daemon has written a heartbeat after `since`."""

    def ask() -> bool:
        import psycopg

        query = (
            "SELECT 1 FROM dagster.daemon_heartbeats"
            " WHERE daemon_type = 'SENSOR' AND timestamp > %s::timestamptz AT TIME ZONE 'UTC'"
        )
        try:
            with psycopg.connect(url, connect_timeout=2) as connection:
                return connection.execute(query, [since]).fetchone() is not None
        except psycopg.Error:
            return False

    return ask
