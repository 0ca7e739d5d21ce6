// @ts-check
/** The service: HTTP in, HTTP out. Settings come from the environment; see README.md. */

import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { setTimeout as pause } from "node:timers/promises";

import { Book } from "./book.mjs";
import { InvalidInput, TransferLane } from "./lane.mjs";
import { Gate, Refused, WINDOW_MS } from "./signatures.mjs";

/** @typedef {import("./protocol.d.ts").Reply} Reply */
/** @typedef {import("./protocol.d.ts").Envelope} Envelope */

const VERSION = "1.0";
const MOST_BYTES = 4_194_304;
const env = process.env;
const KEY = env.EXECUTOR_KEY ?? "exec.example.transfer";
const HOLD = env.HOLD_ANSWERS_FILE;
const gate = new Gate(env.EXECUTOR_SECRET ?? "");
const lane = new TransferLane(new Book(env.EXECUTOR_BOOK ?? "moves.jsonl"), async () => {
  while (HOLD && existsSync(HOLD)) await pause(20);
});

/** @type {Map<string, number>} idempotency keys that recovery has asked about -> until when that must be known */
const investigated = new Map();

/** @param {string} key */
function investigate(key) {
  for (const [old, until] of investigated) {
    if (until >= Date.now()) break;
    investigated.delete(old);
  }
  investigated.delete(key); // so that the order stays that of time
  investigated.set(key, Date.now() + 2 * WINDOW_MS);
}

/** @param {number} status @param {string} code @param {string} message @param {object} rest @returns {Reply} */
function failure(status, code, message, rest = {}) {
  const error = { code, message, nothing_done: status < 500, ...rest };
  return { status, document: { protocol_version: VERSION, error } };
}

/** @param {object} rest @returns {Reply} */
function success(rest) {
  return { status: 200, document: { protocol_version: VERSION, ...rest } };
}

/**
 * @param {string} method @param {Envelope} asked
 * @returns {Promise<Reply>}
 */
async function perform(method, asked) {
  const context = asked.context;
  switch (method) {
    case "preflight": {
      const problem = lane.preflight(context);
      return problem ? success({ result: problem }) : { status: 204 };
    }
    case "prepare":
      return success({ prepared: lane.prepare(context) });
    case "submit":
      if (investigated.has(context.idempotency_key)) return failure(409, "TOO_LATE", "recovery has asked about it", { nothing_done: false });
      if (!asked.prepared) return failure(400, "MALFORMED", "prepared: missing");
      return success({ result: await lane.submit(context, asked.prepared) });
    case "observe":
      return success({ result: lane.observe(context) });
    default:
      investigate(context.idempotency_key);
      return success({ result: lane.recover(context) });
  }
}

/** @param {string} verb @param {string} path @param {string} key @param {Buffer} body @returns {Promise<Reply>} */
async function answer(verb, path, key, body) {
  if (verb === "GET" && path === "/health") return success({ report: lane.health() });
  if (verb === "GET" && path === "/describe") {
    return success({ executor_key: KEY, submit_grace_seconds: WINDOW_MS / 1000, serialization_key: null, signs: false });
  }
  if (verb !== "POST" || !["/preflight", "/prepare", "/submit", "/observe", "/recover"].includes(path)) {
    return failure(404, "NO_SUCH_METHOD", `${verb} ${path}`);
  }
  /** @type {Envelope} */
  let asked;
  try {
    asked = JSON.parse(body.toString());
  } catch {
    return failure(400, "MALFORMED", "not JSON");
  }
  if (asked?.protocol_version !== VERSION) return failure(400, "WRONG_VERSION", `use protocol_version ${VERSION}`);
  if (asked.executor_key !== KEY) return failure(400, "WRONG_EXECUTOR", `this is ${KEY}`);
  if (!key || asked.context?.idempotency_key !== key) {
    return failure(400, "WRONG_KEY", "Idempotency-Key is not the context's idempotency_key");
  }
  try {
    return await perform(path.slice(1), asked);
  } catch (error) {
    if (error instanceof InvalidInput && path !== "/submit") {
      return failure(422, "INVALID_INPUT", error.message, { field: error.field, fix: error.fix });
    }
    console.error(error);
    return failure(500, "EXECUTOR_RAISED", error instanceof Error ? error.name : "Error");
  }
}

/** @param {import("node:http").IncomingMessage} request */
async function read(request) {
  const chunks = [];
  let length = 0;
  for await (const chunk of request) {
    length += chunk.length;
    if (length > MOST_BYTES) throw new Refused(413, "OVERSIZED", `a request may have ${MOST_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** @param {import("node:http").IncomingMessage} request @param {import("node:http").ServerResponse} response */
async function serve(request, response) {
  const [verb, path] = [request.method ?? "", request.url ?? ""];
  /** @type {Reply} */
  let reply;
  let nonce = "";
  try {
    const body = await read(request);
    nonce = gate.admit(verb, path, request.headers, body);
    reply = await answer(verb, path, String(request.headers["idempotency-key"] ?? ""), body);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    reply = failure(error.status, error.code, error.message);
  }
  const text = Buffer.from(reply.document ? JSON.stringify(reply.document) : "");
  const signed = nonce ? { "QTG-Signature": gate.sign(nonce, reply.status, text) } : {};
  const typed = reply.document ? { "Content-Type": "application/json", "Content-Length": text.length } : {};
  response.writeHead(reply.status, { ...typed, ...signed, "Cache-Control": "no-store" }).end(text);
}

/** @param {import("node:http").IncomingMessage} request @param {import("node:http").ServerResponse} response */
function listener(request, response) {
  serve(request, response).catch((error) => {
    console.error(error);
    response.destroy();
  });
}

const host = env.EXECUTOR_HOST ?? "127.0.0.1";
const pair = env.TLS_CERT && env.TLS_KEY ? { cert: readFileSync(env.TLS_CERT), key: readFileSync(env.TLS_KEY) } : null;
if (!pair && !["127.0.0.1", "::1", "localhost"].includes(host)) throw new Error("another machine needs TLS");
const server = pair ? createTlsServer(pair, listener) : createServer(listener);
server.listen(Number(env.EXECUTOR_PORT ?? 8701), host, () => {
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : address;
  console.log(`serving ${KEY} on ${pair ? "https" : "http"}://${host}:${port}`);
});
