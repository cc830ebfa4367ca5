import { expect } from "vitest";
import { parseEvents } from "../../harness/client.ts";
import type { Draft } from "./drafts.ts";
import { nameOf, type Operation } from "./operations.ts";
import type { WireAnswer } from "./wire.ts";

/** The statuses of a request that no operation takes: a malformed one, or one of another path or method. */
const unrouted = [204, 400, 403, 404, 405];
/** The statuses of a request that is not valid HTTP. */
const unreadable = [400, 405, 408, 413, 417, 431];

/** Checks the response to any request: its status, its envelope and its headers. */
export function checkAnswer(draft: Draft, answer: WireAnswer | undefined, operations: readonly Operation[]): void {
  if (!answer) return expect(draft.isCut || draft.isUnparsed, "a response").toBe(true);
  const { status, headers } = answer;
  const { operation, isElsewhere, method } = draft;
  const isUnparsed = isNotParsed(draft, answer);
  checkStatus(draft, answer, operations);
  expect(headers.has("x-injected"), "a header of the client").toBe(false);
  expect(headers.get("x-request-id"), "x-request-id").toMatch(/\S/);
  if (status === 101 || status === 204 || method === "HEAD") return;
  const type = headers.get("content-type")?.split(";")[0] ?? "";
  if (!isElsewhere && !isUnparsed) {
    expect(Object.keys(operation.responses[status]!.content ?? {}), "the media types of /doc").toContain(type);
  }
  if (type === "application/json") return checkEnvelope(draft, answer);
  expect(status, "an error is JSON").toBe(200);
  if (type === "text/event-stream") parseEvents(answer.text);
}

/** A request line and headers of over 16 KB in all are refused before any route, also if each of them is valid. */
const isNotParsed = ({ isUnparsed }: Draft, { status }: WireAnswer): boolean => isUnparsed || status === 431;

function checkStatus(draft: Draft, answer: WireAnswer, operations: readonly Operation[]): void {
  const { status, text } = answer;
  const { operation, path, isElsewhere } = draft;
  const isUnparsed = isNotParsed(draft, answer);
  const routes = isElsewhere ? operations : [operation];
  const declared = routes.flatMap(({ responses }) => Object.keys(responses)).filter((key) => key !== "default");
  const possible = [...declared.map(Number), ...(isElsewhere ? unrouted : []), ...(isUnparsed ? unreadable : [])];
  expect(possible, `a status of ${nameOf(operation)} in /doc`).toContain(status);
  if (status === 500) {
    expect(path.toLowerCase(), "a step that fails by itself").toContain("broken");
    expect(JSON.parse(text).error).toMatch(/^Failed to execute /);
  } else if (status === 502) expect(operation.path, "a model").toMatch(/^\/agents/);
  else if (status > 500) expect([503, 504]).toContain(status);
}

function checkEnvelope({ operation }: Draft, { status, text }: WireAnswer): void {
  const json = JSON.parse(text);
  if (status === 200 && json.openapi) return expect(operation.path).toBe("/doc");
  if (status < 400) return expect(json).toEqual({ success: true, data: json.data ?? null });
  const { executionId, ...error } = json;
  expect(error).toEqual({ success: false, error: expect.stringMatching(/\S/) });
  if (executionId !== undefined) expect(operation.path, "an execution that has begun").toMatch(/^\/workflows\//);
}
