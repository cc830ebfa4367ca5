import type { Mutation } from "./mutation.ts";

/** Faults that show only when a process is killed, starved or restarted. */
export const faults: readonly Mutation[] = [
  {
    breaks: "A step that runs again after a crash has another idempotency key",
    file: "src/engine/walk/interpreter.ts",
    find: "const idempotencyKey = toIdempotencyKey(this.#executionId, stableKey);",
    replace: "const idempotencyKey = toIdempotencyKey(this.#executionId, `${stableKey}@${process.pid}`);",
    suite: "test/faults/kills/kills.test.ts",
  },
  {
    breaks: "A tool that is recorded runs again after a crash",
    file: "src/agents/call/recorded-calls.ts",
    find: "if (text !== undefined) return this.#replayTool(",
    replace: "if (text !== undefined && this.hasModelCall === false) return this.#replayTool(",
    suite: "test/faults/turns/turns.test.ts",
  },
  {
    breaks: "A file of a newer version is opened, and damaged",
    file: "src/backends/embedded/store/migrations.ts",
    find: "const isKnown = found >= oldest && found <= format;",
    replace: "const isKnown = found >= oldest;",
    suite: "test/faults/torn.test.ts",
    isBuilt: true,
  },
  {
    breaks: "Writes into a deleted data file succeed",
    file: "src/backends/embedded/file/data-file.ts",
    find: "return this.#identities.every(([file, identity]) => identify(file) === identity);",
    replace: "return this.#identities.some(([file, identity]) => identify(file) === identity);",
    suite: "test/faults/files.test.ts",
  },
  {
    breaks: "A client that reads nothing keeps its response in memory",
    file: "src/server/network/stalled.ts",
    find: "else if (++last.checks >= most) socket.destroy();",
    replace: "else if (last.checks++ >= most * 1_000) socket.destroy();",
    suite: "test/server/unread-responses.test.ts",
  },
  {
    breaks: "A turn that was stopped goes on after a crash",
    file: "src/agents/call/recorded-calls.ts",
    find: "if (this.wasStopped) throw stopped();",
    replace: "if (this.wasStopped && !this.hasModelCall) throw stopped();",
    suite: "test/faults/turns/stop.test.ts",
  },
  {
    breaks: "A tool of a turn that was stopped runs again after a crash",
    file: "src/agents/call/recorded-calls.ts",
    find: 'if (this.wasStopped) throw new Error("Stopped");',
    replace: "",
    suite: "test/faults/turns/stop.test.ts",
  },
  {
    breaks: "The result of a tool that ends by a stop is lost in a crash",
    file: "src/agents/call/recorded-calls.ts",
    find: 'if (!signal.aborted || "output" in end) await',
    replace: "if (!signal.aborted) await",
    suite: "test/faults/turns/stop.test.ts",
  },
  {
    breaks: "An execution belongs to nobody after a crash",
    file: "src/backends/embedded/store/store.ts",
    find: "const userId = row.user ?? undefined;",
    replace: "const userId = undefined;",
    suite: "test/faults/users/users.test.ts",
  },
  {
    breaks: "Steps do not know the user of their execution after a crash",
    file: "src/backends/embedded/store/store.ts",
    find: "const options = JSON.stringify(rest);",
    replace: "const options = JSON.stringify({ ...rest, user: undefined });",
    suite: "test/faults/users/users.test.ts",
  },
  {
    breaks: "A second Ctrl+C does not end a server that drains",
    file: "src/server/shutdown.ts",
    find: "if (closing) process.exit(1);",
    replace: "if (closing) return;",
    suite: "test/faults/drain.test.ts",
    isBuilt: true,
  },
];
