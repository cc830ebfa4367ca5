// Each of these changes makes a test of this file fail: `?userId=` that is ignored under a provider; an own action that is
// asked about a conversation of another user; a missing answer that allows; a 404 that tells whether a conversation exists.
import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import { defineAgent, type Authorize, type AuthorizeRequest, type Config } from "agentserve";
import { echoModel } from "agentserve/models";
import { release2Authorize } from "../../fixtures/release-2-authorize.ts";
import { startTestServer, type TestServer } from "../../harness/server.ts";
import { by, toPlain, trusting } from "../authorize/world.ts";

/** A route that takes `?userId=`, and the action that is asked about another user. Undefined: it takes no other user. */
interface Row {
  readonly name: string;
  readonly action: string | undefined;
  /** The status for a caller who is allowed. @default 200 */
  readonly status?: number;
  readonly body?: object;
}
const one = "/agents/:id/conversations/:conversationId";
const rows: readonly Row[] = [
  { name: "GET /agents/:id/conversations", action: "conversation.others.list" },
  { name: `GET ${one}`, action: "conversation.others.read" },
  { name: `PATCH ${one}`, action: "conversation.others.write", body: { title: "New" } },
  { name: `POST ${one}/messages`, action: "conversation.others.append", status: 201, body: { text: "Hi" } },
  { name: `GET ${one}/turns/:turnId/steps`, action: "conversation.others.read", status: 404 }, // `start` keeps none
  { name: `POST ${one}/stop`, action: "conversation.others.write", body: {} },
  { name: "GET /agents/:id/chat/:conversationId/stream", action: "conversation.others.read", status: 204 },
  { name: `DELETE ${one}`, action: "conversation.others.delete" },
  { name: "GET /approvals", action: undefined },
];

const grace = { id: "grace", role: "manager" };
const callers = { ada: by("ada"), bob: by("bob"), grace: by(grace), nameless: by({ role: "manager" }) };

const start = (config: Config): Promise<TestServer> =>
  startTestServer("in process", {
    config: {
      agents: [defineAgent({ id: "helper", instructions: "", model: echoModel() })],
      auth: trusting,
      ...config,
    },
  });

/** Stores a conversation of Ada. */
async function store(server: TestServer, init = callers.ada): Promise<string> {
  const conversationId = `of-ada-${randomUUID()}`;
  const body = { input: "My secret", options: { conversationId, userId: "ada" } };
  expect((await server.post("/agents/helper/text", body, init)).status).toBe(200);
  return conversationId;
}

function ask(server: TestServer, { name, body }: Row, id: string, userId: string, init: object) {
  const [method = "", path = ""] = name.split(" ");
  const filled = path.replace(":id", "helper").replace(":conversationId", id).replace(":turnId", "t");
  const json = body && { json: body };
  return server.request(`${filled}?userId=${userId}`, { ...init, method, ...json });
}

const forbidden = { status: 403, body: { success: false, error: "Forbidden" } };

/** An `authorize` that allows some actions only, and keeps the questions. */
function allowing(isAllowed: (request: AuthorizeRequest) => boolean) {
  const asked: any[] = [];
  const authorize: Authorize = (request) => {
    asked.push(toPlain(request));
    return request.user?.id === "ada" || isAllowed(request);
  };
  return { asked, authorize };
}

describe("conversations of other users", () => {
  const closed: Record<string, Config> = {
    "no authorize": {},
    "no authorize, with ownership": { auth: { ...trusting, ownership: true } },
    "the authorize of release 2": { authorize: release2Authorize },
    "the authorize of release 2 in the agent": {
      agents: [defineAgent({ id: "helper", instructions: "", model: echoModel(), authorize: release2Authorize })],
    },
    "an authorize of another agent": {
      agents: [
        defineAgent({ id: "helper", instructions: "", model: echoModel() }),
        defineAgent({ id: "open", instructions: "", model: echoModel(), authorize: () => true }),
      ],
    },
    "an authorize that allows all former actions": { authorize: ({ action }) => !action.includes(".others.") },
  };
  for (const [name, config] of Object.entries(closed)) {
    it(`opens no conversation of another user with ${name}`, async () => {
      const server = await start(config);
      const id = await store(server);
      const wrong: string[] = [];
      for (const row of rows)
        for (const caller of ["bob", "grace", "nameless"] as const)
          for (const [what, place] of Object.entries({ stored: id, unknown: "unknown" })) {
            const { status, body } = await ask(server, row, place, "ada", callers[caller]);
            const isForbidden = status === 403 && body.error === "Forbidden";
            if (!isForbidden) wrong.push(`${row.name} (${what}) by ${caller}: ${status} ${JSON.stringify(body)}`);
          }
      expect(wrong).toEqual([]);
      expect((await ask(server, rows[1]!, id, "ada", callers.ada)).status).toBe(200);
    });
  }

  it("asks one action for each route about a conversation of another user, and no other", async () => {
    const { asked, authorize } = allowing(({ action }) => action === allowed);
    let allowed: string | undefined;
    const server = await start({ authorize });
    const wrong: string[] = [];
    const actions = new Set(rows.map(({ action }) => action));
    let id = await store(server);
    for (const row of rows) {
      for (const action of actions) {
        allowed = action;
        asked.length = 0;
        const { status } = await ask(server, row, id, "ada", callers.bob);
        const due = row.action !== undefined && action === row.action ? (row.status ?? 200) : 403;
        if (status !== due) wrong.push(`${row.name} with ${action}: ${status}, not ${due}`);
        const questions = new Set(asked.map((question) => question.action));
        if (row.name.endsWith("/conversations")) questions.delete("conversation.others.read"); // each item
        if (row.name.endsWith("/steps")) questions.delete("execution.inspect");
        const isRight = [...questions].every((question) => question === row.action);
        if (!isRight) wrong.push(`${row.name} with ${action} asks ${[...questions].join(", ")}`);
        if (row.name.startsWith("DELETE") && status === 200) id = await store(server);
      }
    }
    expect(wrong).toEqual([]);
  });

  it("tells authorize whose conversation is meant", async () => {
    const { asked, authorize } = allowing(() => true);
    const server = await start({ authorize });
    const id = await store(server);
    asked.length = 0;
    const { body } = await server.get("/agents/helper/conversations?userId=ada", callers.bob);
    expect(body.data.items).toMatchObject([{ id, isOwn: false }]);
    const conversation = { conversationId: id, agentId: "helper", userId: "ada", isOwn: false, title: "My secret" };
    expect(asked).toMatchObject([
      { action: "conversation.others.list", user: { id: "bob" }, conversations: { userId: "ada", isOwn: false } },
      { action: "conversation.others.read", user: { id: "bob" }, agentId: "helper", conversation },
    ]);
    asked.length = 0;
    const own = await server.get("/agents/helper/conversations?userId=ada", callers.ada);
    expect(own.body.data.items).toMatchObject([{ id, isOwn: true }]);
    expect(asked).toMatchObject([{ action: "conversation.read", conversation: { userId: "ada", isOwn: true } }]);
    const read = await server.get(`/agents/helper/conversations/${id}?userId=ada`, callers.bob);
    expect(read.body.data).toMatchObject({ id, isOwn: false, messages: [{ role: "user" }, { role: "assistant" }] });
  });

  it("leaves a conversation that authorize refuses out of the list of another user", async () => {
    const { authorize } = allowing(({ action, conversation }) =>
      action === "conversation.others.list" ? true : conversation?.conversationId === shown,
    );
    let shown = "";
    const server = await start({ authorize });
    shown = await store(server);
    await store(server);
    const { body } = await server.get("/agents/helper/conversations?userId=ada", callers.bob);
    expect(body.data.items.map(({ id }: { id: string }) => id)).toEqual([shown]);
  });

  it("tells only those who may list them that another user has no such conversation", async () => {
    const { authorize } = allowing(({ action, user }) => user?.id === "grace" && action === "conversation.others.list");
    const server = await start({ authorize });
    for (const row of rows.filter(({ name }) => name.includes(":conversationId"))) {
      expect(await ask(server, row, "unknown", "ada", callers.bob)).toMatchObject(forbidden);
      const answer = await ask(server, row, "unknown", "ada", callers.grace);
      expect(answer).toMatchObject({ status: 404, body: { error: "Conversation unknown not found" } });
    }
  });

  it("opens no conversation of a user to an anonymous caller, whatever authorize says", async () => {
    const publicRoutes = ["ALL /agents/*", "ALL /approvals", "ALL /approvals/*"];
    const server = await start({ auth: { ...trusting, publicRoutes }, authorize: () => true });
    const id = await store(server);
    for (const row of rows) expect(await ask(server, row, id, "ada", {})).toMatchObject(forbidden);
  });

  it("takes the user of the query as the caller where there is no provider", async () => {
    const server = await start({ auth: undefined });
    const id = await store(server, { headers: {} });
    const { body } = await server.get("/agents/helper/conversations?userId=ada");
    expect(body.data.items).toMatchObject([{ id, isOwn: true }]);
    expect((await server.get("/agents/helper/conversations?userId=bob")).body.data.items).toEqual([]);
    expect((await server.request(`/agents/helper/conversations/${id}?userId=ada`, { method: "DELETE" })).status).toBe(
      200,
    );
  });

  it("has a row for each route that takes the user of a conversation", async () => {
    const server = await start({});
    const { body } = await server.get("/doc", callers.ada);
    const found = Object.entries(body.paths).flatMap(([path, methods]) =>
      Object.entries(methods as Record<string, { parameters?: { name: string; in: string }[] }>).flatMap(
        ([method, { parameters = [] }]) =>
          parameters.some((parameter) => parameter.in === "query" && parameter.name === "userId")
            ? [`${method.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ":$1")}`]
            : [],
      ),
    );
    // `approval.decide` is asked about the approval itself. The other ones are not about conversations.
    const others = [
      "POST /approvals/:approvalId",
      "GET /agents/:id/usage",
      "GET /executions",
      "GET /executions/stream",
      "GET /workflows/:id/executions",
    ];
    expect(found.filter((name) => !others.includes(name)).toSorted()).toEqual(rows.map(({ name }) => name).toSorted());
  });
});
