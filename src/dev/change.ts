import { existsSync } from "node:fs";
import { dirname, relative } from "node:path";
import { show } from "../config/load-error.ts";
import type { ProjectEntry, Project } from "../config/load.ts";
import { toVisible } from "../core/terminal/visible.ts";

export interface Change {
  readonly before: Project;
  readonly after: Project;
  readonly files: readonly string[];
  /** The config file. */
  readonly config: string;
}

const max = 3;

/** Describes the effect of a save for its author: `workflow approval changed`. */
export function describeChange({ before, after, files, config }: Change): string {
  const changes: string[] = [];
  const described = new Set<string>();
  for (const [what, was, is] of [
    ["agent", before.agents, after.agents],
    ["workflow", before.workflows, after.workflows],
    ["schedule", before.schedules, after.schedules],
  ] as const) {
    const [old, now] = [toOrigins(was), toOrigins(is)];
    for (const id of new Set([...now.keys(), ...old.keys()])) {
      const file = files.find((one) => show(one) === (now.get(id) ?? old.get(id)));
      const change = toChange(old.has(id), now.has(id), file !== undefined && file !== config);
      if (!change) continue;
      changes.push(`${what} ${id} ${change}`);
      if (file !== undefined) described.add(file);
    }
  }
  for (const file of files) {
    if (!described.has(file))
      changes.push(`${relative(dirname(config), file)} ${existsSync(file) ? "changed" : "removed"}`);
  }
  const shown = changes.slice(0, max).map((text) => toVisible(text, { max: 200 }));
  return shown.join(", ") + (changes.length > max ? ` and ${changes.length - max} more` : "");
}

function toChange(was: boolean, is: boolean, isTouched: boolean): string | undefined {
  if (was && is) return isTouched ? "changed" : undefined;
  return is ? "added" : "removed";
}

/** Returns the file of each id: the file with its export, rather than the config. */
function toOrigins(found: readonly ProjectEntry<{ id: string }>[]): Map<string, string> {
  return new Map(found.map(({ value, origin }) => [value.id, origin]));
}
