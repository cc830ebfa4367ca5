import { toPage } from "../http/envelope.ts";
import { defineRoute, page, type Route } from "../http/route.ts";
import { toOpenApi, type Row } from "./openapi.ts";

/** `GET /doc`: the bare OpenAPI document, of the other rows and of itself. */
export function docRoute(others: readonly Row[], version: string): Route<unknown> {
  const row: Route<unknown> = defineRoute({
    method: "GET",
    path: "/doc",
    summary: "This document",
    access: "public",
    responses: { 200: page("application/json") },
    handle: () => toPage(document, "application/json"),
  });
  const document = JSON.stringify(toOpenApi([...others, row], version));
  return row;
}
