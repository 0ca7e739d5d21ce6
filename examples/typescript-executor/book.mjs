// @ts-check
/** The book of moves: a file that is only ever appended to. A line in it, forced to disk, is the move itself. */

import { closeSync, fsyncSync, ftruncateSync, openSync, readFileSync, writeSync } from "node:fs";

/** @typedef {import("./protocol.d.ts").Move} Move */

export class Book {
  /** @param {string} file */
  constructor(file) {
    this.handle = openSync(file, "a+", 0o600);
    this.broken = false;
    /** @type {Map<string, Move>} */
    this.moves = new Map();
    const text = readFileSync(file);
    const whole = text.lastIndexOf(10) + 1;
    if (whole < text.length) ftruncateSync(this.handle, whole); // killed within a line: that move was not made
    for (const line of text.subarray(0, whole).toString().split("\n").filter(Boolean)) {
      const move = JSON.parse(line);
      this.moves.set(move.idempotency_key, move);
    }
  }

  /** @param {string} key */
  find(key) {
    if (this.broken) throw new Error("the last line may be torn: start the service anew");
    return this.moves.get(key);
  }

  /**
   * Make a move. It is made when this returns, whatever becomes of the process.
   * @param {Move} move
   */
  make(move) {
    if (this.find(move.idempotency_key)) throw new Error("this move has been made");
    const line = Buffer.from(JSON.stringify(move) + "\n");
    this.broken = true; // until it is known to be whole
    if (writeSync(this.handle, line) !== line.length) throw new Error("the disk is full");
    fsyncSync(this.handle);
    this.broken = false;
    this.moves.set(move.idempotency_key, move);
  }

  close() {
    closeSync(this.handle);
  }
}
