import { andThen, defineWorkflow, type Authorize } from "agentserve";
import { expect, it } from "vitest";
import * as v from "valibot";
import type { Config } from "../../src/config/define.ts";
import { startTestServer, type Target, type TestServer } from "../harness/server.ts";
import { as, trusting } from "./steps/world.ts";

const resumeSchema = v.object({ approved: v.boolean() });
const workflows = [
  defineWorkflow({ id: "expense" }).andThen({
    id: "approve",
    resumeSchema,
    execute: ({ data, suspend, resumeData }) => resumeData ?? suspend("Approve?", { of: data }, { timeout: "2d" }),
  }),
  defineWorkflow({ id: "both" }).andAll({
    id: "all",
    steps: [
      andThen({ id: "legal", execute: ({ suspend, resumeData }) => resumeData ?? suspend("Legal?") }),
      andThen({ id: "money", execute: ({ suspend, resumeData }) => resumeData ?? suspend("Money?") }),
    ],
  }),
  defineWorkflow({ id: "quick" }).andThen({ id: "one", execute: () => 1 }),
];

async function open(target: Target, more: Config, by: object = as("ada")): Promise<TestServer> {
  const server = await startTestServer(target, { config: { workflows, ...more } });
  for (const { id } of workflows)
    await server.post(`/workflows/${id}/execute`, { input: { amount: 7 }, options: { executionId: id } }, by);
  return server;
}
const inbox = async (server: TestServer, by: object, query = "kind=person&include=values,access") =>
  (await server.get(`/executions?${query}`, by)).body.data.items;

it("lists in one request what an inbox shows: reason, data, step, deadline, user and mayResume", async () => {
  const server = await open("start", { auth: trusting });
  const items = await inbox(server, as("ada"));
  expect(items).toHaveLength(2);
  expect(items[1]).toMatchObject({
    executionId: "expense",
    workflowId: "expense",
    mayResume: true,
    input: { amount: 7 },
    context: { userId: "ada" },
    suspension: {
      kind: "person",
      reason: "Approve?",
      stepId: "approve",
      data: { of: { amount: 7 } },
      deadline: expect.stringMatching(/^2\d{3}-/),
    },
  });
  expect(items[0].suspension.pending).toMatchObject([{ stepId: "legal" }, { stepId: "money" }]);
  const { steps } = (await server.get("/workflows/expense")).body.data;
  expect(steps[0].resumeSchema).toMatchObject({ properties: { approved: { type: "boolean" } } });
});

it("answers `mayResume` by authorize about any waiting step, and without it by ownership", async () => {
  const authorize: Authorize = ({ action, user, stepId }) =>
    action !== "execution.resume" || (user?.["id"] === "boss" && stepId === "approve") || stepId === "money";
  const server = await open("in process", { auth: trusting, authorize });
  const access = async (user: string) =>
    Object.fromEntries(
      (await inbox(server, as(user), "include=access")).map((one: any) => [one.executionId, one.mayResume]),
    );
  const isOwnSeen = { expense: false, both: true, quick: undefined };
  expect(await access("ada")).toEqual(isOwnSeen);
  expect(await access("boss")).toEqual({ ...isOwnSeen, expense: true });
  // It is what the resume does.
  const resume = (user: string) =>
    server.post("/workflows/expense/executions/expense/resume", { resumeData: { approved: true } }, as(user));
  expect((await resume("ada")).status).toBe(403);
  expect((await resume("boss")).status).toBe(200);
  const owned = await open("in process", { auth: { ...trusting, ownership: true } });
  expect((await inbox(owned, as("ada"))).map((one: any) => one.mayResume)).toEqual([true, true]);
  expect(await inbox(owned, as("bob"))).toEqual([]);
  const anyone = await open("in process", {}, {});
  expect((await inbox(anyone, {})).map((one: any) => one.mayResume)).toEqual([true, true]);
  expect((await inbox(anyone, {}, "kind=person"))[0]).not.toHaveProperty("mayResume");
});
