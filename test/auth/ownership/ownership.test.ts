// Each of these changes makes tests of this file fail: an execution that nobody began and anybody may see; state, suspend,
// resume, cancel or attach that ask nobody; a list of everybody's; a resumer who becomes the owner; a conversation that is
// not its user's, or whose key can be made of other parts.
import { describe, expect, it, onTestFinished } from "vitest";
import type { Config } from "agentserve";
import type { Answer } from "../../harness/client.ts";
import { describeServer, startServer, type TestServer } from "../../harness/server.ts";
import { by, gates, open, others, relays, shown, talkers, tasks, trusting } from "./world.ts";

const workflows = [tasks, others];
const ownership: Config = { workflows, auth: { ...trusting, ownership: true, publicRoutes: open } };
const later = { prefer: "respond-async" };
const ends = ["completed", "suspended", "error", "running"] as const;
type End = (typeof ends)[number];
/** An id, null for a user without one, undefined for nobody. */
type Who = string | null | undefined;
let count = 0;

/** Resolves to the id of an execution that has come as far as it will. */
async function begin(server: TestServer, who: Who, end: End, workflow = "tasks"): Promise<string> {
  const executionId = `${end}-${++count}`;
  const body = { input: { end }, options: { executionId, userId: "ada", context: { private: "context" } } };
  const headers = { ...by(who).headers, ...(end === "running" && later) };
  const { status } = await server.post(`/workflows/${workflow}/execute`, body, { headers });
  expect(status).toBe({ completed: 200, suspended: 200, error: 500, running: 202 }[end]);
  if (end === "running") {
    await gates.reached(executionId);
    onTestFinished(() => gates.open(executionId));
  }
  return executionId;
}

const actions: [action: string, method: string, path: string, body?: object][] = [
  ["state", "GET", "/state"],
  ["state, by HEAD", "HEAD", "/state"],
  ["suspend", "POST", "/suspend", { reason: "mine now" }],
  ["resume", "POST", "/resume", { resumeData: { ok: true } }],
  ["resume with what its schema refuses", "POST", "/resume", { resumeData: "no", options: { stepId: "nope" } }],
  ["cancel", "POST", "/cancel", { reason: "mine now" }],
  ["attach", "GET", "/stream"],
  ["attach from within", "GET", "/stream?after=1"],
  ["attach, by HEAD", "HEAD", "/stream"],
];

/** All that an answer tells, but for the id that was asked for and the request's own. */
function told({ status, headers, text }: Answer, id: string): unknown {
  const kept = [...headers].filter(([name]) => !["x-request-id", "date", "content-length"].includes(name));
  return { status, headers: kept, text: text.replaceAll(id, "<id>") };
}

describeServer("ownership of executions", { config: ownership, only: ["start"] }, (server) => {
  const act = async ([, method, path, json]: (typeof actions)[number], workflow: string, id: string, who: Who) =>
    told(await server.request(`/workflows/${workflow}/executions/${id}${path}`, { method, json, ...by(who) }), id);

  it.each(ends)("hides an execution that is %s from everyone but its user", async (end) => {
    const id = await begin(server, "ada", end);
    const before = (await server.get(`/workflows/tasks/executions/${id}/state`, by("ada"))).body.data;
    expect(before).toMatchObject({ status: end, context: { userId: "ada", private: "context" } });
    const badToken = { headers: { authorization: "Bearer nobody" } };
    for (const action of actions) {
      const [, method, path, json] = action;
      for (const who of ["bob", "ADA", '["ada"]', null, undefined]) {
        const answer = await act(action, "tasks", id, who);
        expect(answer, `${action[0]} by ${who}`).toEqual(await act(action, "tasks", "unknown", who));
        expect(answer).toMatchObject({ status: 404 });
      }
      const url = `/workflows/tasks/executions/${id}${path}`;
      expect((await server.request(url, { method, json, ...badToken })).status).toBe(404);
    }
    const after = (await server.get(`/workflows/tasks/executions/${id}/state`, by("ada"))).body.data;
    expect(after).toEqual(before);
  });

  it.each(ends)("hides an execution that is %s under the id of another workflow, also from its user", async (end) => {
    const id = await begin(server, "ada", end);
    for (const workflow of ["others", "nope"])
      for (const who of ["ada", "bob"])
        for (const action of actions)
          expect(await act(action, workflow, id, who)).toEqual(await act(action, workflow, "unknown", who));
  });

  it("hides an execution without a user id from everyone", async () => {
    for (const beginner of [undefined, null]) {
      const id = await begin(server, beginner, "suspended");
      for (const action of actions)
        for (const who of [beginner, undefined, null, "ada", "undefined", "null"])
          expect(await act(action, "tasks", id, who)).toEqual(await act(action, "tasks", "unknown", who));
    }
  });

  it("lets the user of an execution see, suspend, resume, cancel and follow it", async () => {
    const suspended = await begin(server, "ada", "suspended");
    const path = `/workflows/tasks/executions/${suspended}`;
    expect((await server.get(`${path}/state`, by("ada"))).status).toBe(200);
    expect((await server.get(`${path}/stream`, by("ada"))).events.at(-1).type).toBe("workflow-result");
    const { body } = await server.post(`${path}/resume`, { resumeData: { ok: true } }, by("ada"));
    expect(body.data).toMatchObject({ status: "completed", result: { private: "result" } });
    const running = await begin(server, "ada", "running");
    expect((await server.post(`/workflows/tasks/executions/${running}/suspend`, {}, by("ada"))).status).toBe(200);
    expect((await server.post(`/workflows/tasks/executions/${running}/cancel`, {}, by("ada"))).status).toBe(200);
  });

  it("gives an id that several users start at the same time to one of them, and 409 to the others", async () => {
    for (let times = 0; times < 20; times++) {
      const options = { executionId: `race-${++count}` };
      const people = ["ada", "bob", "carol"];
      const answers = await Promise.all(
        people.map((who) =>
          server.post(`/workflows/tasks/stream`, { input: { end: "completed" }, options: { ...options } }, by(who)),
        ),
      );
      expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409, 409]);
      for (const [index, { status, events }] of answers.entries()) {
        if (status === 409) expect(events).toEqual([]);
        const state = await server.get(`/workflows/tasks/executions/${options.executionId}/state`, by(people[index]));
        expect(state.status).toBe(status === 200 ? 200 : 404);
      }
    }
  });

  it("lists executions to their user only, and none to callers without an id", async () => {
    const ids = [await begin(server, "list-ada", "completed"), await begin(server, "list-ada", "suspended", "others")];
    await begin(server, undefined, "completed");
    await begin(server, null, "completed");
    const list = async (workflow: string, who: Who, query = "") =>
      (await server.get(`/workflows/${workflow}/executions${query}`, by(who))).body.data;
    expect((await list("tasks", "list-ada")).items.map((item: any) => item.executionId)).toEqual([ids[0]]);
    expect((await list("others", "list-ada")).items.map((item: any) => item.executionId)).toEqual([ids[1]]);
    for (const who of ["list-bob", "", null, undefined])
      for (const query of ["", "?limit=1", "?status=completed", `?cursor=${toCursor(Date.now() + 1_000, "z")}`]) {
        for (const workflow of ["tasks", "others"])
          expect(await list(workflow, who, query)).toEqual({ items: [], nextCursor: null });
        expect((await server.get(`/workflows/nope/executions${query}`, by(who))).status).toBe(404);
      }
  });

  it("pages through the caller's own executions, newest first, with cursors that name no other execution", async () => {
    const own: string[] = [];
    for (let number = 0; number < 5; number++) {
      own.push(await begin(server, "page-ada", "completed"));
      await begin(server, "page-bob", "completed");
      await begin(server, "page-ada", "suspended");
    }
    const found: { executionId: string; startAt: string }[] = [];
    for (let cursor: string | null = ""; cursor !== null;) {
      const query: string = `?status=completed&limit=2${cursor && `&cursor=${cursor}`}`;
      const { body } = await server.get(`/workflows/tasks/executions${query}`, by("page-ada"));
      found.push(...body.data.items);
      cursor = body.data.nextCursor as string | null;
      if (cursor) expect(Buffer.from(cursor, "base64url").toString().split(" ")[1]).toBe(found.at(-1)!.executionId);
    }
    expect(found.map(({ executionId }) => executionId).toSorted()).toEqual(own.toSorted());
    const times = found.map(({ startAt }) => startAt);
    expect(times).toEqual(times.toSorted().toReversed());
  });
});

describeServer(
  "ownership on closed routes",
  { config: { workflows, auth: { ...trusting, ownership: true } }, only: ["start"] },
  (server) => {
    it("answers 401 to an anonymous caller on closed routes, and 404 on open ones", async () => {
      const id = await begin(server, "ada", "suspended");
      const path = `/workflows/tasks/executions/${id}`;
      const statuses = await Promise.all([
        server.get("/workflows/tasks/executions"),
        server.get(`${path}/stream`),
        server.post(`${path}/cancel`, {}),
        server.get(`${path}/state`),
        server.post(`${path}/suspend`, {}),
        server.post(`${path}/resume`, { resumeData: { ok: true } }),
      ]);
      expect(statuses.map(({ status }) => status)).toEqual([401, 401, 401, 404, 404, 404]);
    });
  },
);

describe("without ownership", () => {
  it("lets every user see, follow, list, suspend, resume and cancel an execution without ownership", async () => {
    const server = await startServer("start", { config: { workflows, auth: trusting } });
    onTestFinished(() => server.close());
    const id = await begin(server, "ada", "suspended");
    const path = `/workflows/tasks/executions/${id}`;
    expect((await server.get(`${path}/state`)).body.data.context.userId).toBe("ada");
    expect((await server.get(`${path}/stream`, by("bob"))).status).toBe(200);
    expect((await server.get("/workflows/tasks/executions", by("bob"))).body.data.items).toMatchObject([
      { executionId: id },
    ]);
    expect((await server.post(`${path}/resume`, { resumeData: { ok: true } })).body.data.status).toBe("completed");
    const running = await begin(server, "ada", "running");
    expect((await server.post(`/workflows/tasks/executions/${running}/suspend`, {})).status).toBe(200);
    expect((await server.post(`/workflows/tasks/executions/${running}/cancel`, {}, by("bob"))).status).toBe(200);
  });
});

const toCursor = (startAt: number, id: string): string => Buffer.from(`${startAt} ${id}`).toString("base64url");

/** Ids that a careless query or key would mix up. */
const crafted = [
  ...'ada ADA ada\' ada" ["ada"] % _ * null undefined true 0 é e\u0301 __proto__ constructor \\ \ufffd 😀'.split(" "),
  ...'ada","c c","ada ada,c [] {} {"id":"ada"} ada\0 ada\0x \0'.split(" "),
  "ada ",
  "ada' or '1'='1",
  "a".repeat(500),
];
describeServer("ownership of users whose ids look alike", { config: ownership, only: ["in process"] }, (server) => {
  it("tells users apart whose ids look alike, in states and lists", async () => {
    const people = crafted.map((id) => `${id}.`);
    const ids = new Map<string, string>();
    for (const who of people) ids.set(who, await begin(server, who, "suspended"));
    for (const who of people)
      for (const [owner, id] of ids) {
        const { status } = await server.get(`/workflows/tasks/executions/${id}/state`, by(who));
        expect([who, owner, status]).toEqual([who, owner, who === owner ? 200 : 404]);
      }
    for (const who of people) {
      const { items } = (await server.get("/workflows/tasks/executions", by(who))).body.data;
      expect([who, items.map((item: any) => item.executionId)]).toEqual([who, [ids.get(who)]]);
    }
  });
});

// Conversations.

const ways = ["text", "stream", "chat", "chat by id", "step"] as const;
interface Turn {
  readonly who: Who;
  /** The user that the body names. */
  readonly claims: string;
  readonly agent: string;
  readonly conversationId: string;
  readonly way: (typeof ways)[number];
}

/** Says a text. Returns the texts that the model was shown. */
async function say(server: TestServer, { who, claims, agent, conversationId, way }: Turn, text: string) {
  const options = { conversationId, userId: claims, context: { userId: claims, user: { id: claims } } };
  const messages = [{ role: "user", parts: [{ type: "text", text }] }];
  const body = {
    text: { input: text, options },
    stream: { input: text, options },
    chat: { input: messages, options },
    "chat by id": { id: conversationId, messages, trigger: "submit-message", options: { userId: claims } },
    step: { input: { text }, options },
  }[way];
  const path = way === "step" ? `/workflows/${agent}/execute` : `/agents/${agent}/${way.split(" ")[0]}`;
  const { status, text: answer } = await server.post(path, body, by(who));
  expect([status, answer]).toEqual([200, expect.anything()]);
  return shown.at(-1)!;
}

const talking: Config = { agents: talkers, workflows: relays, auth: { ...trusting, publicRoutes: open } };
describeServer("conversations", { config: talking, only: ["in process"] }, (server) => {
  it.each(ways)("shows a conversation by %s to its user only, whatever ids others send", async (way) => {
    const people = ["ada", 'ada","c', "null", "ada\u0000", undefined];
    const agent = "talker";
    for (const who of people)
      for (const conversationId of ["c", 'ada","c', "c\u0000", "null"])
        for (const claims of ["ada", "bob"]) {
          const text = `${way} ${String(who)} ${conversationId} ${claims}`;
          const sees = await say(server, { who, claims, agent, conversationId: `${way}${conversationId}`, way }, text);
          const before = `${way} ${String(who)} ${conversationId} ada`;
          expect(sees).toEqual(claims === "ada" ? [text] : [before, text]);
        }
  });

  it("does not show a conversation with one agent to another agent", async () => {
    const asked = { who: "ada", claims: "ada", conversationId: "agents", way: "text" as const };
    for (const { id } of talkers) expect(await say(server, { ...asked, agent: id }, id)).toEqual([id]);
  });

  it("shares a conversation without a user id among callers without one, and with no user", async () => {
    const asked = { claims: "ada", agent: "talker", conversationId: "faceless", way: "text" as const };
    expect(await say(server, { ...asked, who: null }, "one")).toEqual(["one"]);
    expect(await say(server, { ...asked, who: undefined }, "two")).toEqual(["one", "two"]);
    for (const who of ["ada", "null", "undefined", "faceless"])
      expect(await say(server, { ...asked, who }, "mine")).toEqual(["mine"]);
  });
});
