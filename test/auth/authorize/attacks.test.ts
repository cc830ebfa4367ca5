// Each of these changes makes tests of this file fail: a result other than `true` that allows; an argument that is not
// frozen, or shared with the engine; the error of `authorize` in an answer or in the records of an anonymous reader; more
// than one record a second; `authorize` outside the scope of the request.
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { ServeError, type Authorize, type AuthorizeRequest } from "agentserve";
import { startServer, type TestServer } from "../../harness/server.ts";
import { by, expense, trusting } from "./world.ts";

async function open(authorize: Authorize): Promise<TestServer> {
  const server = await startServer("in process", { config: { workflows: [expense], auth: trusting, authorize } });
  onTestFinished(() => server.close());
  return server;
}
const execute = (server: TestServer, user: string | object = "ada") =>
  server.post("/workflows/expense/execute", { input: { amount: 7 }, options: { context: { team: ["a"] } } }, by(user));

const throws =
  (error: unknown = new Error("no")) =>
  (): never => {
    throw error;
  };
/** Throws when any property is read. */
const unreadable = (): object => new Proxy({}, { get: throws() });
/** A thenable that is no promise. */
// oxlint-disable-next-line unicorn/no-thenable
const thenable = (then: unknown): never => ({ then }) as never; // as code without types may return it

describe("a result that is not exactly true refuses", () => {
  it.each<[string, () => unknown]>([
    ["1", () => 1],
    ["a text", () => "true"],
    ["an object", () => ({})],
    ["an array", () => [true]],
    ["a boxed true", () => Object(true)],
    ["nothing", () => undefined],
    ["null", () => null],
    ["a function", () => () => true],
    ["a symbol", () => Symbol("true")],
    ["a promise of 1", async () => 1],
    ["a promise of a boxed true", async () => Object(true)],
    ["a thenable of a text", () => thenable((resolve: (value: unknown) => void) => resolve("true"))],
    ["a thenable that throws", () => thenable(throws())],
    ["a thenable that refuses and then allows", () => thenable((allow: any, refuse: any) => (refuse(1), allow(true)))],
    // oxlint-disable-next-line unicorn/no-thenable
    ["an object whose then throws", () => Object.defineProperty({}, "then", { get: throws() })],
    ["a proxy that throws", unreadable],
    ["a thrown null", throws(null)],
    ["a thrown object that cannot be shown", () => throws(unreadable())()],
  ])("refuses with 403 and logs a failure if authorize returns or throws %s", async (_, authorize) => {
    const server = await open(authorize as never);
    expect(await execute(server)).toMatchObject({ status: 403, body: { success: false, error: "Forbidden" } });
    expect(server.logs).toMatchObject([
      { level: "error", message: "authorize failed, so the request was refused", data: { action: "workflow.execute" } },
    ]);
    expect((await server.get("/workflows")).status).toBe(200); // and the server serves
  });

  it("refuses with 403 and logs nothing if authorize returns false", async () => {
    const server = await open(async () => false);
    expect((await execute(server)).status).toBe(403);
    expect(server.logs).toEqual([]);
  });

  it("allows a request if authorize returns a thenable of true", async () => {
    const server = await open(() => thenable((resolve: (value: boolean) => void) => resolve(true)));
    expect((await execute(server)).status).toBe(200);
  });
});

it("refuses a request if authorize has not answered after 5 seconds", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const called = Promise.withResolvers<void>();
  const late = Promise.withResolvers<boolean>();
  const server = await open(() => {
    called.resolve();
    return late.promise;
  });
  const answer = execute(server);
  const statuses: number[] = [];
  void answer.then(({ status }) => statuses.push(status));
  await called.promise;
  await vi.advanceTimersByTimeAsync(4_999);
  expect(statuses).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  late.resolve(true);
  expect((await answer).status).toBe(403);
  expect(server.logs).toMatchObject([{ data: { error: "no answer within 5 seconds" } }]);
});

describe("an authorize that changes its argument", () => {
  /** Every way to write to a value and the values in it. */
  function spoil(value: any, depth = 0): void {
    if (typeof value !== "object" || value === null || depth > 6) return;
    for (const key of Object.keys(value)) spoil(value[key], depth + 1);
    for (const key of [...Object.keys(value), "added"]) {
      Reflect.set(value, key, "spoilt");
      Reflect.defineProperty(value, key, { value: "spoilt" });
      Reflect.deleteProperty(value, key);
    }
    if (Array.isArray(value)) expect(() => value.push("spoilt")).toThrow(TypeError);
    expect(Reflect.setPrototypeOf(value, { spoilt: true })).toBe(false);
  }

  it("keeps the user, the execution and its values when authorize tries to change them", async () => {
    const seen: AuthorizeRequest[] = [];
    const server = await open((request) => {
      spoil(request);
      seen.push(request);
      return true;
    });
    const user = { id: "ada", roles: ["clerk"], at: { desk: 1 } };
    const begun = await execute(server, user);
    expect(server.logs).toEqual([]);
    const { executionId } = begun.body.data;
    const path = `/workflows/expense/executions/${executionId}`;
    const before = (await server.get(`${path}/state`, by("bob"))).body.data;
    const listed = (await server.get("/workflows/expense/executions", by("bob"))).body.data.items;
    expect(before).toMatchObject({ input: { amount: 7 }, context: { team: ["a"], userId: "ada" } });
    expect(listed).toEqual([before]);
    const { body } = await server.post(`${path}/resume`, { resumeData: { approved: true } }, by("bob"));
    expect(body.data).toMatchObject({ status: "completed", result: { approved: true, by: "bob" } });
    expect(seen.at(-1)).toMatchObject({
      user: { id: "bob" },
      execution: { executionId, userId: "ada", user, context: { team: ["a"] }, input: { amount: 7 } },
    });
    expect(JSON.stringify(seen)).not.toContain("spoilt");
  });
});

describe("an authorize that throws a secret", () => {
  const secret = "hunter2-of-the-database";

  it("shows the error of authorize to no caller and to no anonymous reader of the log", async () => {
    const server = await open(({ action }) => {
      if (action === "log.read") return true;
      throw new ServeError(402, `postgres://root:${secret}@db`, { headers: [["x-secret", secret]] });
    });
    const answers = [
      await execute(server),
      await server.get("/workflows/expense/executions", by("ada")),
      await server.get("/workflows/expense/executions/none/state"),
      await server.get("/metrics", by("ada")),
      await server.get("/api/logs"),
    ];
    expect(answers.map(({ status }) => status)).toEqual([403, 200, 404, 403, 200]);
    for (const { text, headers } of answers) expect(text + JSON.stringify([...headers])).not.toContain(secret);
    const logged = (answers[4]!.body.data as { message: string }[]).map(({ message }) => message);
    expect([...new Set(logged)]).toEqual(["authorize failed, so the request was refused"]);
  });

  it("logs the error of authorize at most once a second, with the request and without the user", async () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    onTestFinished(() => void vi.useRealTimers());
    const server = await open(() => {
      throw new Error("no database");
    });
    const failures = () => server.logs.filter(({ message }) => message.startsWith("authorize failed"));
    vi.advanceTimersByTime(5_000);
    for (let times = 0; times < 20; times++) await execute(server, { id: "ada", email: "ada@secret.example" });
    expect(failures()).toHaveLength(1);
    vi.advanceTimersByTime(1_001);
    for (let times = 0; times < 20; times++) await execute(server, { id: "ada", email: "ada@secret.example" });
    expect(failures()).toHaveLength(2);
    expect(failures()[0]!.data).toEqual({
      action: "workflow.execute",
      workflowId: "expense",
      agentId: undefined,
      error: new Error("no database"),
      requestId: expect.any(String),
      userId: "ada",
    });
    expect(JSON.stringify(server.logs)).not.toContain("secret.example");
  });
});
