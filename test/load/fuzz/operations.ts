import type { OpenApi } from "../../../src/pages/document/openapi.ts";

export type Json = Record<string, any>;

/** One operation of `/doc`. */
export interface Operation {
  readonly method: string;
  /** The path as `/doc` has it: `/workflows/{id}/execute`. */
  readonly path: string;
  readonly query: readonly { name: string; schema: Json }[];
  readonly body: Json | undefined;
  /** A body that is accepted: the one of `/doc`, or one that fits all agents. */
  readonly example: Json | undefined;
  readonly responses: Record<string, { content?: Record<string, unknown> }>;
}

export const nameOf = ({ method, path }: Operation): string => `${method} ${path}`;

/** Returns the operations of the server. Those of custom routes have no description of their answers. */
export function readOperations(doc: OpenApi): Operation[] {
  return Object.entries(doc.paths).flatMap(([path, methods]) =>
    Object.entries(methods as Record<string, Json>)
      .filter(([, { tags }]) => tags[0] !== "Your routes")
      .map(([method, operation]) => ({
        method: method.toUpperCase(),
        path,
        query: (operation["parameters"] ?? []).filter((parameter: Json) => parameter["in"] === "query"),
        body: operation["requestBody"]?.content["application/json"].schema,
        example: operation["requestBody"]?.content["application/json"].example ?? exampleOf(path),
        responses: resolveAll(operation["responses"], doc),
      })),
  );
}

function resolveAll(responses: Record<string, Json>, { components }: OpenApi): Operation["responses"] {
  const resolve = ({ $ref, ...response }: Json): Json =>
    $ref ? components.responses[$ref.split("/").at(-1)]! : response;
  return Object.fromEntries(Object.entries(responses).map(([status, response]) => [status, resolve(response)]));
}

function exampleOf(path: string): Json | undefined {
  if (path.endsWith("/chat")) return { input: [{ id: "m1", role: "user", parts: [{ type: "text", text: "Hello" }] }] };
  if (!path.startsWith("/agents")) return { input: {} };
  return { input: "Hello", schema: { type: "object", properties: { a: { type: "string" } } } };
}
