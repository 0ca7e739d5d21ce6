// @ts-check
/** Checking who asks, and signing what is answered. */

import { createHash, createHmac, timingSafeEqual } from "node:crypto";

/** A request is good for so long; then whoever held it back cannot use it any more. */
export const WINDOW_MS = 60_000;
const MOST_NONCES = 100_000;

/** A request that is not let in. Its answer is not signed: the same nonce may have been let in before. */
export class Refused extends Error {
  /** @param {number} status @param {string} code @param {string} message */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** @param {string} secret @param {string[]} lines */
function mac(secret, lines) {
  return "v1=" + createHmac("sha256", secret).update(lines.join("\n")).digest("hex");
}

/** @param {Buffer} body */
function hashOf(body) {
  return createHash("sha256").update(body).digest("hex");
}

/** @param {string} right @param {string} said */
function same(right, said) {
  const [a, b] = [Buffer.from(right), Buffer.from(said)];
  return a.length === b.length && timingSafeEqual(a, b);
}

/** Lets signed requests of now in, each once. */
export class Gate {
  /** @param {string} secret */
  constructor(secret) {
    if (Buffer.byteLength(secret) < 32) throw new Error("the secret is shorter than 32 bytes");
    this.secret = secret;
    this.started = Date.now();
    /** @type {Map<string, number>} nonce -> when it may be forgotten, oldest first */
    this.seen = new Map();
  }

  /**
   * The nonce of a request that may be worked on; throws Refused.
   * @param {string} method @param {string} path @param {import("node:http").IncomingHttpHeaders} headers
   * @param {Buffer} body
   */
  admit(method, path, headers, body) {
    const of = (/** @type {string} */ name) => String(headers[name] ?? "");
    const [stamp, nonce, key] = [of("qtg-timestamp"), of("qtg-nonce"), of("idempotency-key")];
    const lines = ["qtg-request-v1", method, path, stamp, nonce, key, hashOf(body)];
    if (!of("qtg-signature")) throw new Refused(401, "UNSIGNED", "the request has no QTG-Signature header");
    if (!same(mac(this.secret, lines), of("qtg-signature"))) {
      throw new Refused(401, "WRONG_SIGNATURE", "the signature is not of this request, or of another secret");
    }
    if (!/^[0-9a-f]{32}$/.test(nonce)) throw new Refused(401, "BAD_NONCE", "QTG-Nonce must be 32 hex digits");
    const [now, stamped] = [Date.now(), /^[0-9]{1,15}$/.test(stamp) ? Number(stamp) : Number.NaN];
    if (!(Math.abs(now - stamped) <= WINDOW_MS)) throw new Refused(401, "STALE", "not signed within the window");
    if (stamped < this.started) throw new Refused(401, "STALE", "signed before this service started");
    for (const [old, until] of this.seen) {
      if (until >= now) break;
      this.seen.delete(old);
    }
    if (this.seen.has(nonce)) throw new Refused(409, "REPLAYED", "this nonce has been used");
    if (this.seen.size >= MOST_NONCES) throw new Refused(429, "BUSY", "more requests than can be told apart");
    this.seen.set(nonce, now + 2 * WINDOW_MS);
    return nonce;
  }

  /** @param {string} nonce @param {number} status @param {Buffer} body */
  sign(nonce, status, body) {
    return mac(this.secret, ["qtg-answer-v1", nonce, String(status), hashOf(body)]);
  }
}
