import { Validator, type Schema } from "@cfworker/json-schema";
import { addRoute, createRouter, findRoute } from "rou3";
import { expect } from "vitest";
import type { OpenApi } from "../../src/pages/document/openapi.ts";
import { patienceMs } from "./patience.ts";

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  /** The JSON body. */
  body: any;
  /** The events of a stream. */
  events: any[];
}
export interface Init extends Omit<RequestInit, "body"> {
  body?: string | ReadableStream<Uint8Array>;
  json?: unknown;
  /** Answered by the host's own code, whose answers `/doc` does not describe. */
  custom?: boolean;
}
export type Send = (path: string, init: RequestInit) => Promise<Response>;

interface Operation {
  tags: string[];
  responses: Record<string, DeclaredResponse & { $ref?: string }>;
}
interface DeclaredResponse {
  content?: Record<string, { schema: Schema }>;
}

/**
 * A client that checks every response it receives against `/doc`: a status, media type, field or type that is not there
 * fails the test that asked.
 */
export function createClient(send: Send, doc: OpenApi) {
  const router = createRouter<Operation>();
  const components = closeObjects(doc.components);
  for (const [path, methods] of Object.entries(doc.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      if ((operation as Operation).tags.includes("Your routes")) continue; // their answers are not described
      const pattern = path.replaceAll(":", "\\:").replace(/\{(\w+)\}/g, ":$1"); // an id may hold a colon
      addRoute(router, method.toUpperCase(), pattern, closeObjects(operation) as Operation);
    }
  }

  function resolve(response: Operation["responses"][string]): DeclaredResponse {
    const name = response.$ref?.replace("#/components/responses/", "");
    return name === undefined ? response : (components.responses[name] as DeclaredResponse);
  }

  // A validator resolves every reference of `components` when it is made.
  const validators = new Map<Schema, Validator>();
  function toValidator(schema: Schema): Validator {
    const made = validators.get(schema) ?? new Validator({ ...schema, components } as Schema, "2020-12", false);
    validators.set(schema, made);
    return made;
  }

  function check(method: string, path: string, { status, headers, text, body, events }: Answer, custom: boolean): void {
    const what = `${method} ${path} answered ${status}`;
    const route = method === "HEAD" ? "GET" : method;
    const operation = findRoute(router, route, new URL(path, "http://localhost").pathname)?.data;
    if (custom || method === "OPTIONS") return;
    if (!operation) {
      // No route matches: the answer has the envelope all the same, and one of these statuses.
      expect([400, 403, 404, 405], what).toContain(status);
      if (method !== "HEAD") expect(body, what).toEqual({ success: false, error: expect.any(String) });
      return;
    }
    const declared = operation.responses[status] ?? (status >= 400 ? operation.responses["default"] : undefined);
    if (!declared) throw new Error(`${what}, which /doc does not list`);
    const { content: contents } = resolve(declared);
    const media = headers.get("content-type")?.split(";")[0] ?? "";
    if (method === "HEAD") return expect(text, what).toBe("");
    if (!contents && media === "") return expect(text, what).toBe("");
    const content = contents?.[media];
    if (!content) throw new Error(`${what} as ${media || "nothing"}, which /doc does not list`);
    for (const value of media === "text/event-stream" ? events : [body === undefined ? text : body]) {
      const { valid, errors } = toValidator(content.schema).validate(value);
      if (!valid) {
        const details = errors.map(({ instanceLocation, error }) => `${instanceLocation} ${error}`).join("\n");
        throw new Error(`${what}, which is not what /doc says:\n${details}\n${JSON.stringify(value)}`);
      }
    }
  }

  /**
   * Sends a request, and sends it again while the server has no time to check its schema. The first check starts a process,
   * which takes longer on a busy machine than a request waits for it: the answer is 503 then, and nothing has happened.
   */
  async function ask(path: string, init: RequestInit): Promise<{ response: Response; text: string }> {
    const deadline = performance.now() + patienceMs;
    for (;;) {
      const response = await send(path, init);
      const text = await response.text();
      const isUnchecked = response.status === 503 && text.includes("Too many schema checks are queued");
      if (!isUnchecked || init.body instanceof ReadableStream || performance.now() > deadline)
        return { response, text };
    }
  }

  async function request(path: string, { json, custom = false, ...rest }: Init = {}): Promise<Answer> {
    const init: RequestInit = { ...rest };
    if (json !== undefined) {
      init.body = JSON.stringify(json);
      init.headers = { "content-type": "application/json", ...(rest.headers as Record<string, string>) };
    }
    if (rest.body instanceof ReadableStream) Object.assign(init, { duplex: "half" });
    const { response, text } = await ask(path, init);
    const media = response.headers.get("content-type") ?? "";
    const answer: Answer = {
      status: response.status,
      headers: response.headers,
      text,
      body: media.startsWith("application/json") && text ? JSON.parse(text) : undefined,
      events: media.startsWith("text/event-stream") ? parseEvents(text) : [],
    };
    check(init.method ?? "GET", path, answer, custom);
    return answer;
  }

  return {
    request,
    get: (path: string, init?: Init) => request(path, { ...init, method: "GET" }),
    post: (path: string, json?: unknown, init?: Init) => request(path, { ...init, method: "POST", json }),
  };
}
export type Client = ReturnType<typeof createClient>;

/** Frames are exactly `data: <JSON>` and an empty line, with an optional `id:` before; comments may stand between. */
export function parseEvents(text: string): any[] {
  const frames = text.split("\n\n");
  expect(frames.pop(), "a stream ends after a whole frame").toBe("");
  if (frames.at(-1) === "data: [DONE]") frames.pop(); // of a chat
  const events = frames.filter((frame) => frame !== ":");
  return events.map((frame) => {
    const [, json] = /^(?:id: \d+(?:\.end)?\n)?data: (.*)$/.exec(frame) ?? [];
    if (json === undefined) throw new Error(`not a frame: ${JSON.stringify(frame)}`);
    return JSON.parse(json);
  });
}

/** `/doc` leaves objects open, so that clients survive new fields. Here an undocumented field is a mistake. */
function closeObjects<T>(schema: T): T {
  if (Array.isArray(schema)) return schema.map(closeObjects) as T;
  if (typeof schema !== "object" || schema === null) return schema;
  const closed: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema)) closed[key] = closeObjects(value);
  if (closed["type"] === "object" && closed["properties"] && !("additionalProperties" in closed)) {
    closed["additionalProperties"] = false;
  }
  return closed as T;
}
