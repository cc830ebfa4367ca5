import fc, { type Arbitrary } from "fast-check";
import { matching, oddText } from "./values.ts";
import type { Json, Operation } from "./operations.ts";

/** A request before it is written as bytes. */
export interface Draft {
  readonly operation: Operation;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly version: string;
  /** Without Content-Length, Transfer-Encoding and Connection. */
  readonly headers: readonly string[];
  readonly body: Buffer;
  readonly framing: "length" | "chunked" | { headers: readonly string[]; bytes: Buffer };
  /** The client ends its half of the connection after the bytes. */
  readonly isCut: boolean;
  /** The path or the method is not that of the operation any more. */
  readonly isElsewhere: boolean;
  /** HTTP itself is broken: the server may answer before it looks for a route, or close the connection. */
  readonly isUnparsed: boolean;
  /** The names of the ways in which it is broken. */
  readonly breaks: readonly string[];
}

export interface World {
  readonly operations: readonly Operation[];
  readonly components: Json;
  readonly agents: readonly string[];
  readonly workflows: readonly string[];
  /** Executions that exist, by workflow. Grows while requests are sent. */
  readonly executions: Map<string, string[]>;
  /** Values of the Authorization header. */
  readonly authorizations: readonly string[];
}

/** Returns requests that `/doc` allows. */
export function allowed(world: World): Arbitrary<Draft> {
  const each = world.operations.map((operation) =>
    fc
      .record({
        path: toPath(operation, world),
        query: toQuery(operation, world),
        body: operation.body
          ? fc.oneof(fc.constant(operation.example), matching(operation.body, world.components))
          : fc.constant(undefined),
        async: fc.boolean(),
        authorization: fc.constantFrom(undefined, ...world.authorizations),
      })
      .map(({ path, query, body, async, authorization }) => ({
        operation,
        method: operation.method,
        path,
        query,
        version: "HTTP/1.1",
        headers: [
          "Host: localhost",
          ...(operation.body ? ["Content-Type: application/json"] : []),
          ...(authorization === undefined ? [] : [`Authorization: ${authorization}`]),
          ...(async && operation.path.endsWith("/execute") ? ["Prefer: respond-async"] : []),
        ],
        body: Buffer.from(body === undefined ? "" : JSON.stringify(body)),
        framing: "length" as const,
        isCut: false,
        isElsewhere: false,
        isUnparsed: false,
        breaks: [],
      })),
  );
  return fc.oneof(...each);
}

/** Returns paths of an operation: mostly ids that exist, and ids of any text. */
function toPath({ path }: Operation, { agents, workflows, executions }: World): Arbitrary<string> {
  const ids = path.startsWith("/agents") ? agents : workflows;
  const unknown = oddText.filter((text) => text !== "" && text.isWellFormed() && !/^\.\.?$/.test(text));
  return fc
    .record({
      id: fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...ids) }, unknown),
      place: fc.option(fc.nat(), { freq: 9 }),
      other: unknown,
    })
    .map(({ id, place, other }) => {
      const workflow = /^\/workflows\/([^/{]+)/.exec(path)?.[1] ?? id;
      const known = executions.get(workflow) ?? [];
      const executionId = place !== null && known.length > 0 ? known[place % known.length]! : other;
      return path
        .replace("{id}", () => encodeURIComponent(id))
        .replace("{executionId}", () => encodeURIComponent(executionId));
    });
}

function toQuery({ query }: Operation, { components }: World): Arbitrary<string> {
  const pairs = query.map(({ name, schema }) => {
    const value = matching(schema, components).map((text) => encodeURIComponent(String(text).toWellFormed()));
    return fc.option(
      value.map((text) => `${name}=${text}`),
      { freq: 2 },
    );
  });
  return fc.tuple(...pairs).map((chosen) => {
    const text = chosen.filter((pair) => pair !== null).slice(0, 2);
    return text.length > 0 ? `?${text.join("&")}` : "";
  });
}

/** Writes a request as bytes. */
export function toBytes({ method, path, query, version, headers, body, framing }: Draft): Buffer {
  const closing = headers.some((line) => /^connection:/i.test(line)) ? [] : ["Connection: close"];
  const framed =
    framing === "length"
      ? { headers: body.length > 0 || method === "POST" ? [`Content-Length: ${body.length}`] : [], bytes: body }
      : framing === "chunked"
        ? { headers: ["Transfer-Encoding: chunked"], bytes: toChunks(body) }
        : framing;
  const lines = [`${method} ${path}${query}${version && ` ${version}`}`, ...headers, ...framed.headers, ...closing];
  return Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`), framed.bytes]);
}

function toChunks(body: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length; at += 1_000) {
    const part = body.subarray(at, at + 1_000);
    parts.push(Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from("\r\n"));
  }
  return Buffer.concat([...parts, Buffer.from("0\r\n\r\n")]);
}
