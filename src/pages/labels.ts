import type { AnyRoute } from "./catalog.ts";

export interface Labels {
  readonly operationId: string;
  readonly tags: readonly [string];
}

/** Returns the unique operation id of a route, and the tag that groups it. */
export function toLabels({ type, method, path }: AnyRoute): Labels {
  const words = path.replace(/:(\w+)/g, "by/$1").match(/\w+/g) ?? ["overview"];
  return {
    operationId: [method.toLowerCase(), ...words].join("-"),
    tags: [type === "socket" ? "WebSockets" : tagOf(path)],
  };
}

export const ownTag = "Your workflows";

/** The tags, in display order. */
export const tags: readonly { readonly name: string; readonly description: string }[] = [
  { name: ownTag, description: "The registered workflows, each with its own schemas" },
  { name: "Agents", description: "List agents, and generate text or objects with them" },
  { name: "Workflows", description: "List and run workflows; follow, suspend and resume executions" },
  { name: "Logs", description: "Logs of the server, its agents and its workflows" },
  { name: "WebSockets", description: "Live logs and spans" },
  { name: "Pages", description: "This document and the HTML pages" },
  { name: "Health", description: "Liveness and readiness" },
];

function tagOf(path: string): string {
  const [, first = ""] = path.split("/");
  return tagsByPath[first] ?? "Health";
}

const tagsByPath: Readonly<Record<string, string>> = {
  agents: "Agents",
  workflows: "Workflows",
  api: "Logs",
  "": "Pages",
  ui: "Pages",
  doc: "Pages",
};
