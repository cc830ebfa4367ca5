// A step type that no method of the chain makes: it runs other steps one after the other.
import { andAll, andThen, defineWorkflow } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import type { Branch, Step } from "../../../src/engine/definition/definition.ts";
import { runInner } from "../../../src/workflows/steps/inner.ts";
import { createStep } from "../../../src/workflows/steps/step.ts";
import { runHere } from "../../harness/in-process.ts";
import { startTestServer } from "../../harness/server.ts";
import { createCalls, toRow } from "../steps/world.ts";

/** Runs steps one after the other. */
const andSequence = (id: string, steps: readonly Step[]): Step =>
  createStep({
    type: "andSequence",
    shape: "sequence",
    options: { id, steps },
    needs: {},
    run: (runner, data): Branch => runInner(runner, steps, data),
  });

it("runs the steps of a sequence one after the other, retries them, copies them into a fork, and shows them", async () => {
  const ran: string[] = [];
  let isBroken = true;
  const add = (name: string) =>
    andThen({
      id: name,
      execute({ data }) {
        ran.push(name);
        if (name === "b" && isBroken) throw new Error("b is broken");
        return [...(data as string[]), name];
      },
    });
  const ask = andThen({
    id: "ask",
    execute: ({ data, resumeData, suspend }) => (resumeData ? data : suspend("Continue?")),
  });
  const bare = defineWorkflow({ id: "w", input: v.array(v.string()) });
  const workflow = { ...bare, steps: [andSequence("two", [add("a"), add("b")]), ask] };
  const server = await startTestServer("dev", { config: { workflows: [workflow] } });
  const [original, fork] = [createCalls(server, "w", "e"), createCalls(server, "w", "f")];
  expect((await original.execute([])).status).toBe(500);
  expect((await original.steps()).map(toRow)).toEqual([
    ["two andSequence error []", [], undefined],
    ["a andThen success in two [1]", [], ["a"]],
    ["b andThen error in two [1!]", ["a"], undefined],
  ]);

  isBroken = false;
  expect((await original.post("retry")).body.data.status).toBe("suspended");
  const two = [
    ["two andSequence success []", [], ["a", "b"]],
    ["a andThen success in two [1]", [], ["a"]],
  ];
  const ended = [...two, ["b andThen success in two [1! 1]", ["a"], ["a", "b"]]];
  expect((await original.steps()).map(toRow)).toEqual([...ended, ["ask andThen suspended [1]", ["a", "b"], undefined]]);

  const forked = await original.post("fork", { fromStep: "ask", options: { executionId: "f" } });
  expect([forked.status, forked.body.data.status]).toEqual([200, "suspended"]);
  const copied = [...two, ["b andThen success in two [1]", ["a"], ["a", "b"]]];
  expect((await fork.steps()).map(toRow)).toEqual([...copied, ["ask andThen suspended [1]", ["a", "b"], undefined]]);
  const resumed = await fork.post("resume", { resumeData: true });
  expect(resumed.body.data).toMatchObject({ status: "completed", result: ["a", "b"] });
  expect(ran).toEqual(["a", "b", "b"]);
  const { stdout } = await runHere(["runs", "show", "f", "--url", server.url], { env: process.env });
  expect(stdout).toMatch(/✓ two {2}andSequence[^]*\n {2}✓ a {2}andThen[^]*\n {2}✓ b {2}andThen[^]*\n✓ ask {2}andThen/);
});

it("keeps the output of a redacted step out of the errors of the steps behind it in a sequence, and of no others", async () => {
  const quoting = v.pipe(
    v.string(),
    v.check(
      () => false,
      ({ input }) => `not ${input}`,
    ),
  );
  const check = (id: string) => andThen({ id, inputSchema: quoting, execute: () => 1 });
  const secret = andThen({ id: "secret", redact: true, execute: () => "4111" });
  const open = andThen({ id: "open", execute: () => "open" });
  const define = (id: string, ...steps: Step[]) => ({ ...defineWorkflow({ id }), steps });
  const workflows = [
    define("inside", andSequence("s", [secret, check("c")])),
    define("before", secret, andSequence("s", [check("c")])),
    define("after", andSequence("s", [secret]), check("c")),
    define("shown", andSequence("s", [secret, open, check("c")])),
    define("behind", andSequence("s", [secret, open]), check("c")),
    define("beside", andAll({ id: "all", steps: [andSequence("s", [open, check("c")]), secret] })),
  ];
  const server = await startTestServer("dev", { config: { workflows } });
  const errors = workflows.map(async ({ id }) => {
    const { body } = await createCalls(server, id, id).execute();
    return [id, /\(redacted\)|not .*/.exec(body.detail)?.[0]];
  });
  expect(Object.fromEntries(await Promise.all(errors))).toEqual({
    inside: "(redacted)",
    before: "(redacted)",
    after: "(redacted)",
    shown: "not open",
    behind: "not open",
    beside: "not open",
  });
});
