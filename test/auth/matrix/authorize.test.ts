// Each of these changes makes tests of this file fail: a route that does not ask (each of the rows); an `authorize` that is
// asked before authentication; a truthy result that allows; a throw or a time-out that allows; 403 in place of 404, and 404
// in place of 403; a refused execution in a list; `authorize` of the config in place of that of the workflow or agent.
import { randomUUID } from "node:crypto";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import {
  defineAgent,
  defineSchedule,
  defineTool,
  defineWorkflow,
  ServeError,
  type Authorize,
  type Config,
} from "agentserve";
import { echoModel, scriptedModel, type ScriptedStep } from "agentserve/models";
import * as v from "valibot";
import { toProject } from "../../../src/config/load.ts";
import { toRoutes } from "../../../src/server/assemble.ts";
import type { Target } from "../../harness/server.ts";
import { bySize } from "../../harness/size.ts";
import { by, trusting } from "../authorize/world.ts";
import { start, type Running, type Wire } from "./client.ts";
import { callers, expected, rows, rules, type Caller, type Row, type Rule } from "./oracle-authorize.ts";

const users: Record<Caller, string | undefined> = { owner: "ada", other: "bob", anonymous: undefined };
const toCaller = (user: object | undefined): Caller =>
  callers.find((caller) => users[caller] === (user as { id: string } | undefined)?.id)!;

/** While it is set, Ada may do everything: she starts the executions that the cases are about. */
let isPreparing = false;

function toAuthorize(rule: Rule): Authorize | undefined {
  if (rule.name.startsWith("none")) return undefined;
  const answers: Record<string, Authorize> = {
    throw: () => {
      throw new ServeError(418, "a secret of the author");
    },
    reject: () => Promise.reject(new Error("a secret of the author")),
    truthy: () => "true" as never,
    "time-out": () => new Promise(() => {}),
  };
  const decide = ({ action, user }: Parameters<Authorize>[0]): boolean => rule.allows(action, toCaller(user)) === true;
  const later: Authorize = async (request) => decide(request);
  const answer = answers[rule.name] ?? (rule.name === "allow later" ? later : decide);
  return (request) => isPreparing || answer(request);
}

const pay = defineTool({ description: "", inputSchema: v.object({}), needsApproval: true, execute: () => "paid" });
/** A model that calls the tool `pay`, and answers when it has a result. */
const createPayer = () =>
  scriptedModel(
    Array.from({ length: 1_000 }, (): ScriptedStep => ({ prompt }) => {
      return prompt.at(-1)!.role === "user" ? { toolCalls: [{ toolName: "pay", input: {} }] } : "Done";
    }),
  );

const places = ["config", "workflow and agent", "both, and that of the config says the opposite"] as const;
type Place = (typeof places)[number];

function toConfig(rule: Rule, place: Place): Config {
  const authorize = toAuthorize(rule);
  const own = place === "config" ? undefined : authorize;
  const opposite: Authorize = ({ action, user }) => isPreparing || !rule.allows(action, toCaller(user));
  const asks = defineWorkflow({ id: "asks", authorize: own }).andThen({
    id: "person",
    execute: ({ resumeData, suspend }) => (resumeData === undefined ? suspend("Go on?") : 1),
  });
  return {
    auth: { ...trusting, ownership: true },
    console: true,
    workflows: [asks],
    schedules: [defineSchedule({ id: "nightly", cron: "0 3 1 1 *", workflow: "asks" })],
    agents: [
      defineAgent({ id: "helper", instructions: "", model: echoModel(), authorize: own }),
      defineAgent({ id: "payer", instructions: "", model: createPayer(), tools: { pay }, authorize: own }),
    ],
    ...(place === "config" && { authorize }),
    ...(place.startsWith("both") && { authorize: opposite }),
  };
}

/** Sends a request of Ada that is allowed. */
async function prepare(server: Running, path: string, body: object): Promise<any> {
  isPreparing = true;
  const headers = [...Object.entries(by("ada").headers), ["content-type", "application/json"]] as [string, string][];
  const { text } = await settle(server.send({ method: "POST", path, headers, body: JSON.stringify(body) }));
  isPreparing = false;
  return JSON.parse(text).data;
}

/** Returns the id of an execution or a conversation that a case is about. */
async function begin(server: Running, { name, action }: Row): Promise<string> {
  if (name.includes("executions")) return (await prepare(server, "/workflows/asks/execute", { input: {} })).executionId;
  const conversationId = `stored-${randomUUID()}`;
  if (action === "approval.decide") {
    const answer = await prepare(server, "/agents/payer/text", { input: "Pay", options: { conversationId } });
    return answer.approvals[0].approvalId;
  }
  if (!action.startsWith("conversation.")) return "";
  await prepare(server, "/agents/helper/text", { input: "Hi", options: { conversationId } });
  return conversationId;
}

function toWire({ name, body }: Row, caller: Caller, id: string): Wire {
  const [method = "", path = ""] = name.split(" ");
  const headers = Object.entries(by(users[caller]).headers);
  if (body) headers.push(["content-type", "application/json"]);
  const wire = {
    path: path.replace(/\{(suspended|stored|waiting)\}/, id),
    headers,
    body: body && JSON.stringify(body),
  };
  if (method !== "UPGRADE") return { ...wire, method };
  headers.push(["connection", "Upgrade"], ["upgrade", "websocket"], ["sec-websocket-version", "13"]);
  headers.push(["sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="]);
  return { ...wire, method: "GET" };
}

/** Waits for an answer. Under fake timers, time passes meanwhile. */
async function settle<T>(answer: Promise<T>): Promise<T> {
  if (!vi.isFakeTimers()) return answer;
  const waiting = new Set([answer]);
  const settled = (): void => void waiting.clear();
  answer.then(settled, settled);
  while (waiting.size > 0) await vi.advanceTimersByTimeAsync(1_000);
  return answer;
}

async function play(rule: Rule, place: Place, target: Target): Promise<string[]> {
  const server = await start(target, toConfig(rule, place), []);
  onTestFinished(() => server.close());
  if (rule.name === "time-out") vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const asked = rows.filter(
    ({ name, action }) =>
      (target === "in process") !== name.startsWith("UPGRADE") &&
      (place === "config" || !/^(log|metrics|event|console)/.test(action)),
  );
  const wrong: string[] = [];
  for (const row of asked)
    for (const caller of callers) {
      const id = await begin(server, row);
      const { status, text } = await settle(server.send(toWire(row, caller, id)));
      const due = expected(rule, row, caller);
      const say = (fault: string) => wrong.push(`${row.name} by ${caller}: ${fault}`);
      if (status !== due.status) say(`${status} ${text.slice(0, 200)}, not ${due.status}`);
      if (text.includes("secret")) say(`shows the error of authorize: ${text}`);
      if (due.error && !row.name.startsWith("HEAD")) {
        const error = due.error.replace("<id>", id);
        if (text !== JSON.stringify({ success: false, error })) say(`${text}, not ${error}`);
      }
      if (due.isListed !== undefined) {
        const isListed = text.includes(JSON.stringify(id || "nightly"));
        if (isListed !== due.isListed) say(`lists ${text}`);
      }
    }
  const failed = server.logs.filter(({ message }) => message.startsWith("authorize failed"));
  const isFault = ["throw", "reject", "truthy", "time-out"].includes(rule.name);
  if (failed.length > 0 !== isFault) wrong.push(`the log has ${failed.length} failures of authorize`);
  return wrong;
}

afterEach(() => void vi.useRealTimers());

const isQuick = (place: Place, rule: Rule): boolean => (places.indexOf(place) + rules.indexOf(rule)) % 2 === 0;

describe("authorize", () => {
  const cases = places.flatMap((place) => rules.map((rule) => [rule.name, place, rule] as const));
  // Without an `authorize` of the workflow, there is nothing that the one of the config could contradict.
  const sensible = cases.filter(([name, place]) => !name.startsWith("none") || place === "config");
  // In a quick run, each rule has its place in the config and one of the others.
  it.each(sensible.filter(([, place, rule]) => bySize(0, 1) === 1 || place === "config" || isQuick(place, rule)))(
    "answers each caller as the oracle says under the rule %s (%s)",
    async (_, place, rule) => {
      expect(await play(rule, place, "in process")).toEqual([]);
    },
  );

  it.each(rules.filter(({ name }) => name !== "time-out"))(
    "answers WebSocket handshakes as the oracle says under the rule $name",
    async (rule) => {
      expect(await play(rule, "config", "start")).toEqual([]);
    },
  );

  it("has a row of the oracle for every route with an action", () => {
    const routes = toRoutes(toProject({})).filter(({ action }) => action !== undefined);
    const named = rows.map(({ name, action }) => {
      const [method = "", path = ""] = name.replace(/^(UPGRADE|HEAD)/, "GET").split(" ");
      const pattern = path
        .replace("/helper/", "/:id/")
        .replace("{stored}", ":conversationId")
        .replace("{waiting}", ":approvalId")
        .replace("/turns/t/", "/turns/:turnId/")
        .replace("/quiet/", "/:conversationId/")
        .replace("/asks/", "/:id/")
        .replace("/nightly/", "/:id/")
        .replace("{suspended}", ":executionId");
      return `${method} ${pattern} ${action}`;
    });
    expect(new Set(named)).toEqual(new Set(routes.map(({ method, path, action }) => `${method} ${path} ${action}`)));
  });
});
