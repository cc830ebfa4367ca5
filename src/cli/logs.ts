import { setTimeout as sleep } from "node:timers/promises";
import { stripVTControlCharacters } from "node:util";
import { isObject, toObject, tryParseJson } from "../core/json.ts";
import { logLevels, type LogLevel } from "../core/log.ts";
import { UserError } from "../core/user-error.ts";
import { toVisibleJson } from "../core/terminal/visible.ts";
import { toTerminalLines } from "../observability/terminal/terminal.ts";
import { InterruptError, interruptible } from "./call/call.ts";
import { Client } from "./call/client.ts";
import { ConnectionError } from "./call/failure.ts";
import { toTarget, type Target } from "./call/target.ts";
import { printNote } from "./output.ts";
import { UsageError } from "./usage.ts";

export interface LogsFlags {
  readonly follow?: boolean;
  readonly level?: string;
  readonly workflow?: string;
  readonly agent?: string;
  readonly execution?: string;
  readonly limit?: string;
  readonly url?: string;
  readonly token?: string;
  readonly json?: boolean;
}

/** Prints the newest log records of a server, and new ones as they are logged with `--follow`. */
export async function logs(flags: LogsFlags): Promise<void> {
  const target = toTarget(flags);
  const client = new Client(target, printNote);
  const query = toQuery(flags);
  const printed = new Printed(flags.json ?? false);
  // Over HTTP first: a socket that is refused says nothing about the reason.
  const newest = await client.get(`/api/logs?${query}`);
  if (!flags.follow) return printed.print(newest);
  await interruptible(async (signal) => {
    const stopped = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
    for (let wait = firstWaitMs; !signal.aborted;) {
      const isOpen = await Promise.race([follow(target, query, printed), stopped]);
      if (signal.aborted) return;
      if (!isOpen && !printed.isConnected)
        throw new UserError(`${target.url} refused the log stream`, {
          hint: "pass a token with --token or AGENTSERVE_TOKEN",
        });
      if (isOpen) wait = firstWaitMs;
      printNote(`lost the connection to ${target.url}; reconnecting …`);
      for (let isUp = false; !isUp && !signal.aborted; wait = Math.min(wait * 2, maxWaitMs)) {
        await Promise.race([sleep(wait), stopped]);
        isUp = await client.get("/api/logs?limit=1").then(
          () => true,
          (error: unknown) => {
            if (error instanceof ConnectionError) return false;
            throw error;
          },
        );
      }
      query.set("limit", "1000"); // those that were missed
    }
  }).catch((error: unknown) => {
    if (!(error instanceof InterruptError)) throw error;
  });
  process.exit(0);
}

const firstWaitMs = 250;
const maxWaitMs = 5_000;
/** A server that lives answers a ping. */
const pingMs = 20_000;

/** Prints the records of one connection. Resolves when it is closed, to false if it was never open. */
async function follow({ url, token }: Target, query: URLSearchParams, printed: Printed): Promise<boolean> {
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const socket = new WebSocket(`${url.replace(/^http/, "ws")}/ws/logs?${query}`, { headers } as never); // an option of Node's WebSocket
  let isOpen = false;
  let isAlive = true;
  const timer = setInterval(() => {
    if (!isAlive) return socket.close();
    isAlive = false;
    if (socket.readyState === WebSocket.OPEN) socket.send(`{"type":"PING"}`);
  }, pingMs);
  socket.addEventListener("message", ({ data }) => {
    isAlive = true;
    const { type, data: content } = toObject(tryParseJson(String(data)));
    if (type === "LOGS_SNAPSHOT") {
      isOpen = printed.isConnected = true;
      printed.print(content);
    }
    if (type === "LOG") printed.print([content]);
  });
  await new Promise<void>((resolve) => {
    socket.addEventListener("close", () => resolve(), { once: true });
    socket.addEventListener("error", () => resolve(), { once: true });
  });
  clearInterval(timer);
  socket.close();
  return isOpen;
}

/** Prints records, each once. */
class Printed {
  readonly #isJson: boolean;
  /** The last record that was printed. A server that was restarted counts from 1 again. */
  #last = { seq: 0, timestamp: "" };
  /** True once a connection was open. */
  isConnected = false;

  constructor(isJson: boolean) {
    this.#isJson = isJson;
  }

  print(found: unknown): void {
    const records = (Array.isArray(found) ? found : []).filter(isObject);
    const isRestarted = records.length > 0 && Number(records.at(-1)!["seq"]) < this.#last.seq;
    const before = this.#last;
    for (const record of records) {
      const [seq, timestamp] = [Number(record["seq"]), String(record["timestamp"])];
      if (isRestarted ? timestamp < before.timestamp : seq <= before.seq) continue;
      this.#last = { seq, timestamp };
      process.stdout.write(`${this.#toText(record)}\n`);
    }
  }

  #toText(record: Record<string, unknown>): string {
    const text = JSON.stringify(record);
    if (this.#isJson) return toVisibleJson(text);
    const level = logLevels.find((one) => one === record["level"]) ?? "info";
    const columns = process.stdout.columns ?? 120;
    const at = Date.parse(String(record["timestamp"]));
    const lines = toTerminalLines({ level, at, text }, { error: undefined, columns }, {}).join("\n");
    return process.stdout.isTTY ? lines : stripVTControlCharacters(lines);
  }
}

function toQuery({ level, workflow, agent, execution, limit = "100" }: LogsFlags): URLSearchParams {
  if (level !== undefined && !logLevels.includes(level as LogLevel))
    throw new UsageError(`--level: expected one of ${logLevels.join(", ")}, found ${JSON.stringify(level)}`);
  if (!/^\d{1,4}$/.test(limit) || Number(limit) < 1 || Number(limit) > 1_000)
    throw new UsageError(`--limit: expected a number from 1 to 1000, found ${JSON.stringify(limit)}`);
  const all = { level, workflowId: workflow, agentId: agent, executionId: execution, limit };
  return new URLSearchParams(Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined));
}
