/** An AbortController that is made only when somebody asks for its signal: most steps never do. */
export class LazyAbort {
  #controller: AbortController | undefined;
  #reason: string | undefined;

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#reason !== undefined) this.#abort(this.#controller, this.#reason);
    return this.#controller.signal;
  }

  /** The reason is in words: an Error with its stack is dear, and mostly nobody listens. */
  abort(reason: string): void {
    this.#reason ??= reason;
    if (this.#controller) this.#abort(this.#controller, this.#reason);
  }

  #abort(controller: AbortController, reason: string): void {
    if (!controller.signal.aborted) controller.abort(new Error(reason));
  }
}
