import { createHmac } from "node:crypto";
import { createToken, type Config } from "agentserve";
import { createClock, createServer, type TestClock, type TestServer } from "agentserve/testing";
import { onTestFinished, vi } from "vitest";
import { nightly } from "../../../templates/webhook/schedules/nightly.ts";
import { order } from "../../../templates/webhook/workflows/order.ts";
import { report } from "../../../templates/webhook/workflows/report.ts";

export const secret = "a secret of the users, at least 32 bytes";
export const webhookSecret = "a secret of the shop";

/** A server with the config of the template, on a clock that the test moves. */
export async function open(now: string, more: Config = {}): Promise<{ server: TestServer; clock: TestClock }> {
  const clock = createClock({ now });
  const server = createServer({ ...(await (loading ??= loadConfig())), ...more }, { clock });
  onTestFinished(() => server.close());
  return { server, clock };
}

let loading: Promise<Config> | undefined;
/** The template reads its secrets when it is imported. */
async function loadConfig(): Promise<Config> {
  vi.stubEnv("JWT_SECRET", secret);
  vi.stubEnv("WEBHOOK_SECRET", webhookSecret);
  const template = await import("../../../templates/webhook/agents.config.ts");
  vi.unstubAllEnvs();
  return { ...template.default, workflows: [order, report], schedules: [nightly] };
}

export async function send(server: TestServer, path: string, init: RequestInit = {}): Promise<[number, any]> {
  const response = await server.fetch(new Request(`http://localhost${path}`, init));
  return [response.status, await response.json()];
}

/** Calls the server with a token. */
export async function as(
  server: TestServer,
  user: { sub?: string; id?: number; role?: string },
  path: string,
  body?: object,
): Promise<[number, any]> {
  const token = await createToken(user, secret);
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  return send(server, path, { headers, ...(body && { method: "POST", body: JSON.stringify(body) }) });
}
export const ada = { sub: "ada" };
export const bob = { sub: "bob" };
export const grace = { sub: "grace", role: "manager" };

export interface Delivery {
  body?: string | Uint8Array<ArrayBuffer>;
  /** The time of the signature, in seconds since 1970. The route looks at the clock of the machine. */
  time?: number | string;
  /** The text that is signed, if it is not the body. */
  signed?: string;
  signature?: string;
}
export const toBody = (id: string, price: number, requestedBy = "ada"): string =>
  JSON.stringify({ id, order: { number: id, requestedBy, items: [{ name: "desk", price, quantity: 2 }] } });
export const now = (): number => Math.floor(Date.now() / 1_000);

export async function deliver(server: TestServer, delivery: Delivery): Promise<[number, any]> {
  const { body = toBody("d-1", 450), time = now() } = delivery;
  const sign = createHmac("sha256", webhookSecret).update(`${time}.`);
  const signature = delivery.signature ?? sign.update(delivery.signed ?? body).digest("hex");
  return send(server, "/webhooks/orders", {
    method: "POST",
    headers: { "x-timestamp": String(time), "x-signature": signature },
    body,
  });
}
export const idsOf = async (server: TestServer): Promise<string[]> =>
  (await server.runtime.executions.list()).items.map(({ executionId }) => executionId);
