import { createHmac } from "node:crypto";
import { expect } from "vitest";
import { agentserve } from "../../harness/cli.ts";
import { eventually } from "../../harness/waiting.ts";
import { startIssuer } from "../../auth/oidc/issuer.ts";
import type { Block } from "./blocks.ts";
import { toSources } from "./sources.ts";
import { secret } from "./tools.ts";
import type { World } from "./world.ts";

/** `ts`: a file, or a part of a config. It is served, and must do what shows that it works. */
export async function runFile(block: Block, world: World): Promise<void> {
  const shows = proofs.filter(({ of }) => of.test(block.text));
  if (shows.length === 0) throw new Error("Nobody knows what shows that this works: add it to proofs");
  const cwd = world.tools.project(toSources(block, world.blocks));
  const issuer = block.text.includes("oidcAuth(") ? await startIssuer() : undefined;
  const env = { ...world.tools.env, JWT_SECRET: secret, WEBHOOK_SECRET: secret, OIDC_ISSUER: issuer?.url };
  const server = agentserve(["start"], { cwd, env });
  const [url] = await server.waitFor(/http:\/\/\S+:\d+/);
  const makeToken = async () =>
    issuer?.mint() ?? (await agentserve(["token", "--sub", "ada"], { cwd, env }).ended).stdout.trim();
  for (const { show } of shows) await show({ url, text: block.text, makeToken });
  server.process.kill("SIGINT");
  expect((await server.ended).code).toBe(0);
  await issuer?.close();
}

interface Served {
  readonly url: string;
  readonly text: string;
  readonly makeToken: () => Promise<string>;
}
interface Proof {
  readonly of: RegExp;
  show(served: Served): Promise<void>;
}

/** `export const refund = defineWorkflow({ id: "refund"`, also when a function makes it. */
const exportedWorkflow = /^export const \w+ =(?: \(.*\) =>)?\s+defineWorkflow\(\{\s*id: "(.+?)"/m;

const scheduleId = /defineSchedule\(\{\s*id: "(.+?)"/;
interface Started {
  readonly executionId: string;
}

const proofs: readonly Proof[] = [
  {
    of: /^ {2}prices: \{/m,
    async show({ url }) {
      expect((await ask(`${url}/agents/parrot/text`, { input: "Hello there" }))[0]).toBe(200);
      expect(await ask(`${url}/agents/parrot/usage`)).toMatchObject([
        200,
        { data: { by: "day", items: [{ calls: 1, inputTokens: 4, outputTokens: 2, cost: 0.000008 }] } },
      ]);
    },
  },
  {
    of: /id: "librarian"/,
    async show({ url }) {
      expect(await ask(`${url}/agents/librarian`)).toMatchObject([200, { data: { tools: null } }]);
      await ask(`${url}/agents/librarian/text`, { input: "Which books of history are there?" });
      expect(await ask(`${url}/agents/librarian`)).toMatchObject([200, { data: { tools: [{ name: "books" }] } }]);
    },
  },
  {
    of: /context as ToolContext/,
    async show({ url }) {
      const [status, body] = await ask(`${url}/agents/cashier/text`, { input: "Pay i1", options: { userId: "ada" } });
      expect([status, body]).toMatchObject([200, { data: { text: "Paid" } }]);
    },
  },
  {
    of: /needsApproval: /,
    async show({ url }) {
      const options = { userId: "ada", conversationId: "c" };
      const [, asked]: any[] = await ask(`${url}/agents/treasurer/text`, { input: "Send Ada 500", options });
      const { finishReason, approvals } = asked.data;
      expect([finishReason, approvals]).toMatchObject(["approval", [{ toolName: "transfer" }]]);
      const path = `/approvals/${approvals[0].approvalId}?userId=ada`;
      expect(await ask(url + path, { approved: true })).toMatchObject([200, { data: { text: "Sent" } }]);
      const [, stored] = await ask(`${url}/agents/treasurer/conversations/c?userId=ada`);
      expect(JSON.stringify(stored)).toContain("500 to Ada, approved by ada");
    },
  },
  {
    of: /\/webhooks\/payment/,
    async show({ url }) {
      const body = JSON.stringify({ id: "991", amount: 20 });
      const call = async (time: number, signature = sign(time)) => {
        const headers = { "x-timestamp": String(time), "x-signature": signature };
        const response = await fetch(`${url}/webhooks/payment`, { method: "POST", headers, body });
        return [response.status, await response.json()];
      };
      const sign = (time: number) => createHmac("sha256", secret).update(`${time}.${body}`).digest("hex");
      const now = Math.floor(Date.now() / 1_000);
      expect(await call(now)).toEqual([202, { executionId: "payment-991" }]);
      expect(await call(now - 60)).toEqual([202, { executionId: "payment-991" }]);
      const refused = [401, { success: false, error: "Wrong signature, or too old" }];
      expect(await call(now, "00")).toEqual(refused);
      expect(await call(now, sign(now - 1))).toEqual(refused);
      expect(await call(now - 301)).toEqual(refused);
      expect(await ask(`${url}/executions`)).toMatchObject([
        200,
        { data: { items: [{ executionId: "payment-991" }] } },
      ]);
    },
  },
  {
    of: scheduleId,
    async show({ url, text }) {
      const [, id] = scheduleId.exec(text)!;
      const [, schedules] = (await ask(`${url}/schedules`)) as [number, { data: object[] }];
      expect(schedules.data).toContainEqual(expect.objectContaining({ id, nextAt: expect.any(String) }));
      const [status, { data }] = (await ask(`${url}/schedules/${id}/trigger`, {})) as [number, { data: Started }];
      expect(status).toBe(202);
      const owner = /\buser: /.test(text) ? "" : `&userId=schedule:${id}`;
      await eventually(async () =>
        expect(await ask(`${url}/executions?id=${data.executionId}${owner}`)).toMatchObject([
          200,
          { data: { items: [{ status: "completed" }] } },
        ]),
      );
    },
  },
  {
    of: /defineWorkflow\(\{ id: "journey"/,
    async show({ url }) {
      const travel = async (city: string) => ask(`${url}/workflows/journey/execute`, { input: { city } });
      expect(await travel("Rome")).toMatchObject([200, { data: { result: { booked: "flight to Rome" } } }]);
      expect(await travel("Atlantis")).toMatchObject([200, { data: { result: { undone: "completed" } } }]);
    },
  },
  {
    of: /runtime\.execute\(label/,
    async show({ url }) {
      expect(await ask(`${url}/workflows/ship/execute`, { input: { order: "o1" } })).toMatchObject([
        200,
        { data: { result: { order: "o1", label: "label of o1" } } },
      ]);
    },
  },
  {
    of: /event\.context\.runtime\.start\(order/,
    async show({ url }) {
      const [status, { executionId }] = (await ask(`${url}/orders`, { amount: 7 })) as [
        number,
        { executionId: string },
      ];
      expect(status).toBe(202);
      expect(await ask(`${url}/gifts/ada`, {})).toMatchObject([200, { status: "completed", result: { paid: 5 } }]);
      expect(await ask(`${url}/orders`, { amount: "7" })).toMatchObject([400, { success: false }]);
      const state = await ask(`${url}/workflows/order/executions/${executionId}/state`);
      expect(state).toMatchObject([200, { data: { input: { amount: 7 } } }]);
    },
  },
  {
    of: /rateLimit: \{ limit: 100/,
    async show({ url }) {
      for (let n = 0; n < 100; n++) expect((await ask(`${url}/workflows`))[0]).toBe(200);
      expect(await ask(`${url}/workflows`)).toEqual([429, { success: false, error: "Too many requests" }]);
    },
  },
  {
    of: /server: \{ trustedProxies: /,
    async show({ url }) {
      const document = await fetch(`${url}/doc`, { headers: { "x-forwarded-prefix": "/ai" } });
      expect(await document.json()).toMatchObject({ servers: [{ url: "/ai" }] });
    },
  },
  {
    of: /basePath: "\/api\/ai"/,
    async show({ url }) {
      expect((await ask(`${url}/api/ai/workflows`))[0]).toBe(200);
      expect((await ask(`${url}/workflows`))[0]).toBe(404);
    },
  },
  {
    of: /agentTool\(lawyer/,
    async show({ url }) {
      const answer = await ask(`${url}/agents/desk/text`, { input: "Refund o1", options: { userId: "ada" } });
      const outputs = ["Refunds are possible for 30 days.", "o1 is refunded to ada"].map((output) => ({ output }));
      expect(answer).toMatchObject([200, { data: { text: "Your order is refunded.", toolResults: outputs } }]);
    },
  },
  {
    of: /defineAgent\([^]*tools: \{ \w+ \}/,
    async show({ url, text }) {
      const [, id] = /defineAgent\(\{\s*id: "(.+?)"/.exec(text)!;
      const [, tool] = /tools: \{ (\w+) \}/.exec(text)!;
      expect(await ask(`${url}/agents`)).toMatchObject([200, { data: [{ id, tools: [{ name: tool }] }] }]);
      // Its model is that of a package which this project has not.
      const answer = await ask(`${url}/agents/${id}/text`, { input: "Hello" });
      expect(answer).toEqual([502, { success: false, error: "Model call failed" }]);
    },
  },
  {
    of: /defineWorkflow\(\{ id: "answer"/,
    async show({ url }) {
      expect(await ask(`${url}/agents/writer/text`, { input: "Hello" })).toMatchObject([
        200,
        { data: { text: "Hello" } },
      ]);
      const input = { question: "Where?" };
      const begun = await ask(`${url}/workflows/answer/execute`, { input, options: { executionId: "where-1" } });
      expect(begun).toMatchObject([200, { data: { status: "suspended", suspension: { reason: 'Send "Where?"?' } } }]);
      const ended = await ask(`${url}/workflows/answer/executions/where-1/resume`, { resumeData: { send: false } });
      expect(ended).toMatchObject([200, { data: { status: "completed", result: { text: "Where?", send: false } } }]);
    },
  },
  {
    of: exportedWorkflow,
    async show({ url, text }) {
      const [, id] = exportedWorkflow.exec(text)!;
      expect(await ask(`${url}/workflows/${id}`)).toMatchObject([200, { data: { id } }]);
    },
  },
  {
    of: /defineWorkflow\(\{\s*id: "checkout"/,
    async show({ url }) {
      const ended = await ask(`${url}/workflows/checkout/execute`, { input: { city: " Bonn ", total: 5 } });
      const result = { total: 5, shipTo: { city: "Bonn", verified: true }, typed: "Bonn" };
      expect(ended).toMatchObject([200, { data: { status: "completed", result } }]);
      expect(await ask(`${url}/workflows/address`)).toMatchObject([404, {}]);
    },
  },
  {
    of: /(?:jwtAuth|oidcAuth)\(/,
    async show({ url, text, makeToken }) {
      const closed = `${url}/workflows/none/execute`;
      expect(await ask(closed, { input: {} })).toEqual([401, { success: false, error: "Authentication required" }]);
      const authorization = `Bearer ${await makeToken()}`;
      expect(authorization).not.toContain(secret);
      expect(await ask(closed, { input: {} }, { authorization })).toMatchObject([404, {}]);
      expect(await ask(`${url}/agents`)).toMatchObject([text.includes("defaultPrivate: true") ? 401 : 200, {}]);
      if (text.includes('publicRoutes: ["GET /doc"')) expect((await ask(`${url}/doc`))[0]).toBe(200);
    },
  },
  {
    of: /app\.get\("\/(health|hello)", \(\) => \(\{ ok/,
    async show({ url, text }) {
      const path = text.includes('"/hello"') ? "hello" : "health";
      expect(await ask(`${url}/${path}`)).toEqual([200, { ok: true }]);
    },
  },
  {
    of: /cors: \{ origin: \["https:\/\/app\.example"\], credentials: true, maxAge: 600 \}/,
    async show({ url }) {
      const headers = { origin: "https://app.example", "access-control-request-method": "POST" };
      const preflight = await fetch(`${url}/agents`, { method: "OPTIONS", headers });
      expect(Object.fromEntries(preflight.headers)).toMatchObject({
        "access-control-allow-origin": "https://app.example",
        "access-control-allow-credentials": "true",
        "access-control-max-age": "600",
      });
    },
  },
  {
    of: /headers\.get\("x-api-key"\)/,
    async show({ url }) {
      const closed = `${url}/workflows/none/execute`;
      expect(await ask(closed, {}, { "x-api-key": "key-of-ada" })).toMatchObject([404, {}]);
      const refused = { success: false, error: "Invalid token: no such key" };
      expect(await ask(closed, {}, { "x-api-key": "another" })).toEqual([401, refused]);
    },
  },
];

async function ask(url: string, body?: object, headers: Record<string, string> = {}): Promise<[number, unknown]> {
  const posted = body && { method: "POST", body: JSON.stringify(body) };
  const response = await fetch(url, { ...posted, headers: { "content-type": "application/json", ...headers } });
  return [response.status, await response.json()];
}
