import { type Config } from "agentserve";
import { echoModel } from "agentserve/models";
import * as v from "valibot";
import { defineRoute } from "../../../src/http/route.ts";
import type { BuiltInRoute } from "../../../src/server/built-in-routes.ts";
import { chosenBackend } from "../../harness/backends.ts";

const ran: string[] = [];

/** Called by whatever needs a caller. */
export const note = (name: string): string => (ran.push(name), name);
/** What ran since the last look, by name. */
export const take = (): string[] => ran.splice(0);

/** A built-in row that needs a caller. */
export const rows: readonly BuiltInRoute[] = [
  defineRoute({
    method: "GET",
    path: "/test/closed/:id",
    summary: "Needs a caller",
    access: "protected",
    responses: { 200: v.string() },
    handle: () => note("row"),
  }),
];

export function watchedModel(): ReturnType<typeof echoModel> {
  const model = echoModel();
  return {
    ...model,
    doGenerate: (options) => (note("model"), model.doGenerate(options)),
    doStream: (options) => (note("model"), model.doStream(options)),
  };
}

/** The engine is asked by rows that need a caller; by others, too, but in opt-in mode nobody here asks those. */
export function watchedBackend(): NonNullable<Config["backend"]> {
  const backend = chosenBackend.create();
  const watched = new Set(["begin", "list", "events", "state"]);
  return {
    ...backend,
    open(parts) {
      const { engine, ...stores } = backend.open(parts);
      const proxy = new Proxy(engine, {
        get(target, key: keyof typeof engine) {
          if (key === "clock") return target.clock;
          const member = target[key] as (...args: unknown[]) => unknown; // everything else is a method
          return (...args: unknown[]) => {
            if (watched.has(key)) note(`engine.${key}`);
            return member.apply(target, args);
          };
        },
      });
      return { engine: proxy, ...stores };
    },
  };
}
