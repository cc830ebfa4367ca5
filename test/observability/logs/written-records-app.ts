// A log that a test fills through a route.
import { runInScope } from "../../../src/core/scope.ts";
import type { Bounds } from "../../../src/config/limits.ts";
import { withBounds } from "../../harness/bounds.ts";
import { chosenBackend } from "../../harness/backends.ts";
import type { Hosted } from "../../harness/hosted.ts";

const pad = "x".repeat(200);

export default function create({ bounds }: { bounds: Partial<Bounds> }): Hosted {
  let written = 0;
  return {
    config: withBounds(bounds, {
      logger: { info() {}, warn() {}, error() {} },
      backend: chosenBackend.create(),
      configureApp: (app) =>
        void app.post("/write", async (event) => {
          const many = Number(event.url.searchParams.get("many"));
          for (let left = many; left > 0; left--) {
            // Every third belongs to an agent, so that a filter has something to leave out.
            const n = ++written;
            const ids = n % 3 === 0 ? { agentId: "third" } : {};
            runInScope(ids, () => event.context.logger!.info("Written", { n, pad }));
            if (left % 250 === 0) await new Promise((resolve) => setImmediate(resolve));
          }
          return String(written);
        }),
    }),
  };
}
