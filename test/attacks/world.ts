import { readFileSync } from "node:fs";
import { Agent, request, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { createToken } from "../../src/index.ts";
import { plain, spell, type Spelling } from "../auth/spellings/make.ts";
import type { Place } from "../auth/spellings/places.ts";
import { createLane } from "../auth/spellings/wire.ts";
import type { Random } from "../faults/kills/plan.ts";
import { atEnd, shared } from "../harness/at-end.ts";
import { createSharedFolder } from "../harness/folders.ts";
import { runHere } from "../harness/in-process.ts";
import { Host } from "../harness/start-host.ts";
import { together, within } from "../harness/waiting.ts";
import { secret, type AttackOptions, type Effect } from "./attack-app.ts";

/** A user as in a token. Undefined: no token. */
export type Caller = Readonly<Record<string, unknown>> | undefined;

/** Every kind of caller. Some are called as the server calls its own. */
export const callers = {
  ada: { id: "ada", name: "Ada" },
  bob: { id: "bob" },
  grace: { id: "grace", role: "manager" },
  code: { id: "code" },
  anonymous: { id: "anonymous" },
  nameless: { name: "has no id" },
  nobody: undefined,
} satisfies Record<string, Caller>;
export const all: readonly Caller[] = Object.values(callers);
export const toName = (caller: Caller): string => (caller ? JSON.stringify(caller) : "without a token");

export interface Ask {
  readonly json?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}
export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
  /** The JSON body. Empty if it is none. */
  readonly body: any;
  /** The request and its answer, for a finding. */
  readonly shown: string;
}
/** An open event stream, or another answer. */
export interface Reader extends Omit<Answer, "text" | "body"> {
  /** The events so far. */
  readonly events: () => any[];
  close(): void;
}

/** A server under attack. */
export class World {
  readonly host: Host;
  readonly #folder: string;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #tokens = new Map<string, Promise<string>>();

  constructor(host: Host, folder: string) {
    this.host = host;
    this.#folder = folder;
    atEnd(() => this.#agent.destroy());
  }

  /** Carries out an order by the server's own code. */
  code(order: string, value?: unknown): Promise<any> {
    return this.host.order(order, value);
  }

  /** The payments or beats so far, with their idempotency keys. */
  effects(what: Effect["what"]): string[] {
    const lines = readFileSync(join(this.#folder, "log"), "utf8").trim().split("\n").filter(Boolean);
    const effects = lines.map((line) => JSON.parse(line) as Effect);
    return effects.filter((effect) => effect.what === what).map(({ key }) => key);
  }

  async tokenOf(caller: Caller): Promise<string> {
    const name = JSON.stringify(caller);
    if (caller && !this.#tokens.has(name)) this.#tokens.set(name, createToken(caller, secret, { expiresIn: "1h" }));
    return (await this.#tokens.get(name)) ?? "";
  }

  get(caller: Caller, path: string, ask?: Ask): Promise<Answer> {
    return this.send(caller, "GET", path, ask);
  }
  post(caller: Caller, path: string, json: unknown = {}, ask?: Ask): Promise<Answer> {
    return this.send(caller, "POST", path, { ...ask, json });
  }

  /** Sends a request, and reads its whole answer. */
  async send(caller: Caller, method: string, path: string, ask?: Ask): Promise<Answer> {
    const { response, asked } = await this.#request(caller, method, path, ask);
    let read = "";
    response.on("data", (chunk: string) => (read += chunk));
    const text = await within(finished(response), asked).then(() => read);
    const { statusCode: status = 0, headers } = response;
    const isJson = headers["content-type"]?.startsWith("application/json") && text !== "";
    const shown = `${asked} → ${status} ${text.slice(0, 300)}`;
    return { status, headers, text, body: isJson ? JSON.parse(text) : {}, shown };
  }

  /** Opens an event stream. */
  async open(caller: Caller, path: string, ask?: Ask): Promise<Reader> {
    const { response, asked } = await this.#request(caller, "GET", path, ask);
    const { statusCode: status = 0, headers } = response;
    let text = "";
    response.on("data", (chunk: string) => (text += chunk)).on("error", () => {}); // it is cut by `close`
    const events = () => [...text.matchAll(/^data: (\{.*\})\n\n/gm)].map(([, json]) => JSON.parse(json!));
    return { status, headers, shown: `${asked} → ${status}`, events, close: () => void response.destroy() };
  }

  async #request(caller: Caller, method: string, path: string, { json, headers = {} }: Ask = {}) {
    const body = json === undefined ? undefined : JSON.stringify(json);
    const token = await this.tokenOf(caller);
    const sent = {
      ...(token && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { "content-type": "application/json", "content-length": Buffer.byteLength(body) }),
      ...headers,
    };
    const asked = `${toName(caller)}: ${method} ${path} ${JSON.stringify(headers)} ${body ?? ""}`.slice(0, 600);
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const out = request(this.host.url, { method, path, headers: sent, agent: this.#agent }, resolve);
    out.on("error", reject).end(body);
    return { response: (await within(promise, asked)).setEncoding("utf8"), asked };
  }
}

/** Starts a server for the tests of a `describe` block, in production mode. */
export function openWorld(options: AttackOptions): () => World {
  const folder = createSharedFolder("attack");
  return shared(async () => {
    const host = new Host(join(import.meta.dirname, "attack-app.ts"));
    atEnd(() => host.end());
    const world = new World(host, folder);
    await host.start({ folder, ...options });
    return world;
  });
}

/** Starts an execution by code for a user, whose token need not have the right. Resolves when it has ended or is suspended. */
export function begin(world: World, workflow: string, user: Caller, input: object, how: object = {}) {
  return world.code("execute", { workflow, input, ...(user && { as: user }), ...how });
}

/** A request as raw bytes, with further header lines. */
export interface RawAsk {
  readonly caller: Caller;
  readonly spelling: Spelling;
  readonly more: readonly string[];
}
/** Spells a request as its author would, or nearly so. */
export const spellSome = (random: Random, path: string, body: unknown): Spelling => {
  const place: Place = { method: "POST", path, body };
  return random.chance(0.4) ? plain(place) : spell(random, place);
};

/** Sends raw requests, a few at a time. Resolves to the requests with their answers, for a finding. */
export async function assault(world: World, attacks: readonly RawAsk[]): Promise<string[]> {
  const shown: string[] = [];
  const lanes = Array.from({ length: 6 }, () => createLane(Number(new URL(world.host.url).port)));
  await together(lanes.length, attacks, async ({ caller, spelling, more }) => {
    const lane = lanes.pop()!;
    const token = await world.tokenOf(caller);
    const { status, head, text } = (await lane.ask(spelling, [
      ...more,
      ...(token ? [`Authorization: Bearer ${token}`] : []),
    ]))!;
    lanes.push(lane);
    const { method, target, headers, body } = spelling;
    const asked = `${toName(caller)}: ${method} ${target.slice(0, 200)} ${body} ${[...headers, ...more].join("; ")}`;
    shown.push(`${asked} → ${status} ${/x-execution-id: \S+/i.exec(head)?.[0] ?? ""} ${text.slice(0, 300)}`);
  });
  for (const lane of lanes) lane.close();
  return shown;
}

/** Runs commands with the token of a caller. Resolves to those that were not refused. */
export async function commandsOf(world: World, caller: Caller, commands: readonly string[]): Promise<string[]> {
  const env = { ...process.env, AGENTSERVE_URL: world.host.url, AGENTSERVE_TOKEN: await world.tokenOf(caller) };
  const done: string[] = [];
  for (const command of commands) {
    const { code, stdout } = await runHere(command.split(" "), { env });
    if (code !== 1) done.push(`${toName(caller)}: agentserve ${command} → exit code ${code} ${stdout}`);
  }
  return done;
}
