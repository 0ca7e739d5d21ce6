/** The parts of the executor protocol that this service reads and writes; all of it: docs/schemas/executor-protocol. */

export type Status = "NOT_SENT" | "REJECTED" | "ACCEPTED" | "OBSERVING" | "COMPLETED" | "FAILED" | "UNKNOWN";

export interface Context {
  idempotency_key: string;
  node_config: Record<string, unknown>;
  prepared: Prepared | null;
}

export interface Prepared {
  action_type: string;
  payload_format: string;
  /** Canonical text of the action. */
  payload: string;
  /** Hex SHA-256 of the payload's text. */
  payload_hash: string;
  signing_required: boolean;
  provider_refs?: Record<string, unknown>;
}

export interface Result {
  status: Status;
  provider_refs?: Record<string, unknown>;
  artifacts?: Record<string, unknown>;
  error_code?: string;
  error_message?: string;
  evidence?: Record<string, unknown>;
}

export interface Envelope {
  protocol_version: string;
  executor_key: string;
  context: Context;
  prepared?: Prepared;
}

/** One line of the book: a move that was made. */
export interface Move {
  idempotency_key: string;
  payload_hash: string;
  asset: string;
  amount: string;
  destination: string;
  reference: string;
  moved_at: string;
}

/** A reply before it is signed; no document = no content. */
export interface Reply {
  status: number;
  document?: object;
}
