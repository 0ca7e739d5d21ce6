// @ts-check
/** The lane: a transfer within a book, in the six methods of an executor. */

import { createHash } from "node:crypto";

/** @typedef {import("./protocol.d.ts").Context} Context */
/** @typedef {import("./protocol.d.ts").Prepared} Prepared */
/** @typedef {import("./protocol.d.ts").Result} Result */
/** @typedef {import("./protocol.d.ts").Move} Move */

/** Input that will never do; the caller is told the field and the fix. */
export class InvalidInput extends Error {
  /** @param {string} field @param {string} message @param {string} fix */
  constructor(field, message, fix) {
    super(message);
    this.field = field;
    this.fix = fix;
  }
}

/** @param {Context} context */
function terms(context) {
  const { asset, amount, destination } = context.node_config;
  for (const [field, value] of Object.entries({ asset, amount, destination })) {
    if (typeof value !== "string" || value === "") {
      throw new InvalidInput(`node_config.${field}`, "missing, or not text", "Give it in the template.");
    }
  }
  if (!/^(0|[1-9][0-9]*)(\.[0-9]+)?$/.test(String(amount))) {
    throw new InvalidInput("node_config.amount", "not a plain decimal", "Give digits, with a point if need be.");
  }
  return { asset: String(asset), amount: String(amount), destination: String(destination) };
}

export class TransferLane {
  /**
   * `beforeAnswer` runs between the move and its answer: there a drill stops the process.
   * @param {import("./book.mjs").Book} book @param {() => Promise<void>} beforeAnswer
   */
  constructor(book, beforeAnswer = async () => {}) {
    this.book = book;
    this.beforeAnswer = beforeAnswer;
  }

  /** @param {Context} context @returns {Result | null} */
  preflight(context) {
    terms(context);
    return null;
  }

  /** @param {Context} context @returns {Prepared} */
  prepare(context) {
    const payload = JSON.stringify({ ...terms(context), key: context.idempotency_key });
    return {
      action_type: "example_transfer",
      payload_format: "example.transfer.v1",
      payload,
      payload_hash: createHash("sha256").update(payload).digest("hex"),
      signing_required: false,
      provider_refs: { client_id: context.idempotency_key },
    };
  }

  /**
   * Moves once by idempotency key, whoever asks how often.
   * @param {Context} context @param {Prepared} prepared @returns {Promise<Result>}
   */
  async submit(context, prepared) {
    const hash = createHash("sha256").update(prepared.payload).digest("hex");
    const earlier = this.book.find(context.idempotency_key);
    if (earlier && earlier.payload_hash !== hash) {
      return { status: "UNKNOWN", error_code: "OTHER_PAYLOAD", evidence: { in_the_book: earlier.payload_hash } };
    }
    const said = JSON.parse(prepared.payload);
    if (!earlier && (hash !== prepared.payload_hash || said.key !== context.idempotency_key)) {
      const evidence = { payload_hash: hash };
      return { status: "REJECTED", error_code: "WRONG_PAYLOAD", error_message: "not what was prepared", evidence };
    }
    if (!earlier) {
      this.book.make({
        idempotency_key: context.idempotency_key,
        payload_hash: hash,
        asset: said.asset,
        amount: said.amount,
        destination: said.destination,
        reference: `move-${hash.slice(0, 16)}`,
        moved_at: new Date().toISOString(),
      });
    }
    await this.beforeAnswer();
    return this.#told(context, "ACCEPTED");
  }

  /** @param {Context} context @returns {Result} */
  observe(context) {
    return this.#told(context, "COMPLETED");
  }

  /**
   * What is not in the book may still come: a request can be on its way. So absence is UNKNOWN, never FAILED.
   * @param {Context} context @returns {Result}
   */
  recover(context) {
    return this.#told(context, "COMPLETED");
  }

  health() {
    return { health_state: "healthy", detail: `${this.book.moves.size} moves in the book` };
  }

  /** @param {Context} context @param {"ACCEPTED" | "COMPLETED"} status @returns {Result} */
  #told(context, status) {
    const move = this.book.find(context.idempotency_key);
    if (!move) return { status: "UNKNOWN", error_code: "NOT_IN_THE_BOOK", evidence: { moves: this.book.moves.size } };
    if (context.prepared && context.prepared.payload_hash !== move.payload_hash) {
      return { status: "UNKNOWN", error_code: "OTHER_PAYLOAD", evidence: { in_the_book: move.payload_hash } };
    }
    return { status, provider_refs: { reference: move.reference }, evidence: { in_the_book: move } };
  }
}
