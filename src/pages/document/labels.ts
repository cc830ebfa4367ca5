import type { AnyRoute } from "../catalog.ts";

export interface Labels {
  readonly operationId: string;
  readonly tags: readonly [string];
}

/** Returns the operation id of a route, and the tag that groups it. */
export function toLabels({ type, method, path }: AnyRoute): Labels {
  return { operationId: toOperationId(method, path), tags: [type === "socket" ? "WebSockets" : tagOf(path)] };
}

export function toOperationId(method: string, pattern: string): string {
  const words = pattern.replace(/:(\w+)/g, "by/$1").match(/\w+/g) ?? ["overview"];
  return [method.toLowerCase(), ...words].join("-");
}

/** The tags of the author's own entries. */
export const ownTags = { workflows: "Your workflows", agents: "Your agents", routes: "Your routes" } as const;

/** The tags, in display order. */
export const tags: readonly { readonly name: string; readonly description: string }[] = [
  { name: ownTags.workflows, description: "The registered workflows, each with its own schemas" },
  { name: ownTags.agents, description: "The registered agents" },
  { name: ownTags.routes, description: "The routes of `configureApp`" },
  { name: "Agents", description: "List agents, and generate text or objects with them" },
  { name: "Workflows", description: "List and run workflows; follow, suspend and resume executions" },
  { name: "Logs", description: "Logs of the server, its agents and its workflows" },
  { name: "WebSockets", description: "Live logs and spans" },
  { name: "Pages", description: "This document and the HTML pages" },
  { name: "Console", description: "The console and its session" },
  { name: "Health", description: "Liveness and readiness" },
];

function tagOf(path: string): string {
  const [, first = ""] = path.split("/");
  return tagsByPath[first] ?? "Health";
}

const tagsByPath: Readonly<Record<string, string>> = {
  agents: "Agents",
  approvals: "Agents",
  workflows: "Workflows",
  api: "Logs",
  "": "Pages",
  ui: "Pages",
  doc: "Pages",
  console: "Console",
};
