import * as v from "valibot";
import { expect } from "vitest";
import { createToken, defineWorkflow } from "agentserve";
import { createGates } from "../harness/gates.ts";
import type { Init, Tab } from "./tab.ts";

export const gates = createGates();
/** Whom `greet` has greeted. */
export const greeted: string[] = [];

const greet = defineWorkflow({ id: "greet", input: v.object({ name: v.string() }) }).andThen({
  id: "hello",
  execute({ data: { name }, context }) {
    greeted.push(name);
    return { text: `Hello ${name}`, by: context.get("userId") ?? null };
  },
});
/** Its step waits for the gate that its input names. */
const gated = defineWorkflow({ id: "gated", input: v.object({ gate: v.string() }) }).andThen({
  id: "wait",
  execute: ({ data }) => gates.pass(data.gate),
});
const failing = defineWorkflow({ id: "failing" }).andThen({
  id: "fail",
  execute() {
    throw new Error("a detail that nobody may see");
  },
});
export const workflows = [greet, gated, failing];

export const secret = "a secret of more than thirty-two bytes";
export const token = await createToken({ sub: "ada" }, secret);

const json = { "content-type": "application/json" };
export const bearer = (value: string): Record<string, string> => ({ authorization: `Bearer ${value}` });
/** A POST as an app sends it: with a token, with cookies, as JSON. A page of another origin must ask first. */
export const post = (body: unknown, headers: Record<string, string> = bearer(token)): Init => ({
  method: "POST",
  credentials: "include",
  headers: { ...json, ...headers },
  body: typeof body === "string" ? body : JSON.stringify(body),
});

export const run = "/workflows/greet/execute";
export const greeting: Init = post({ input: { name: "Bob" } });

/** An error, what to ask for it, and the headers that a page must see. */
export type Failing = [status: number, error: string, path: string, init?: Init, headers?: Record<string, unknown>];

/** The page reads each of them: status, message and headers. */
export async function expectReadable(tab: Tab, server: string, errors: Failing[]): Promise<void> {
  for (const [status, error, path, init, headers] of errors) {
    const read = await tab.read(server + path, { ...init, credentials: "include" });
    expect(read, `${status} ${error}`).toMatchObject({
      status,
      headers: { "x-request-id": expect.any(String), ...headers },
      body: { success: false, error: expect.stringMatching(`^${error}`) },
    });
  }
}
