/** A text that arrives in many short pieces. To add each to a string would take 32 bytes of memory for every piece. */
export class JoinedText {
  #text = "";
  readonly #pieces: string[] = [];

  add(piece: string): void {
    if (this.#pieces.push(piece) >= max) this.#join();
  }

  toString(): string {
    this.#join();
    return this.#text;
  }

  #join(): void {
    this.#text += this.#pieces.splice(0).join("");
  }
}

/** Max pieces that are kept apart. */
const max = 16;
