/** The failures of one walk that are in the log as the end of its execution, by step. There are at most as many as steps. */
export class LoggedFailures {
  /** Created at the first failure: most executions have none. */
  #messages: Map<string, string> | undefined;

  add(path: string, message: string): void {
    this.#messages ??= new Map();
    this.#messages.delete(path); // the latest one is the last one
    this.#messages.set(path, message);
  }

  /** Returns the last step that failed with this message. */
  find(message: string): string | undefined {
    return [...(this.#messages ?? [])].findLast(([, known]) => known === message)?.[0];
  }
}
