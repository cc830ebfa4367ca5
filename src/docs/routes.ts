import { toPage } from "../http/envelope.ts";
import { defineRoute, page, type Route } from "../http/route.ts";
import { toOpenApi, type Row, type Secured } from "./openapi.ts";

/** `GET /doc`: the bare OpenAPI document, of the other rows and of itself. */
export function docRoute(others: readonly Row[], version: string): Route<Secured> {
  const documents = new WeakMap<Secured, string>();
  const row: Route<Secured> = defineRoute({
    method: "GET",
    path: "/doc",
    summary: "This document",
    access: "public",
    responses: { 200: page("application/json") },
    handle({ snapshot }) {
      const document = documents.get(snapshot) ?? JSON.stringify(toOpenApi([...others, row], version, snapshot));
      documents.set(snapshot, document);
      return toPage(document, "application/json");
    },
  });
  return row;
}
