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
  { name: ownTag, description: "Each workflow that is registered here, with its own schemas" },
  { name: "Agents", description: "List agents, and ask them for text or objects" },
  { name: "Workflows", description: "List workflows, run them, and follow, suspend and resume what runs" },
  { name: "Logs", description: "What the server, its agents and its workflows have logged" },
  { name: "WebSockets", description: "Logs and spans as they happen" },
  { name: "Pages", description: "This document, and pages for people" },
  { name: "Others", description: "What else this server answers" },
];

function tagOf(path: string): string {
  const [, first = ""] = path.split("/");
  return tagsByPath[first] ?? "Others";
}

const tagsByPath: Readonly<Record<string, string>> = {
  agents: "Agents",
  workflows: "Workflows",
  api: "Logs",
  "": "Pages",
  ui: "Pages",
  doc: "Pages",
};
