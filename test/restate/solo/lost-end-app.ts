// An engine without a server that dies at the end of an execution without a register:
// - decided  Restate has the result of the last step, and nothing that follows from it
// - ended    Restate has the end, and not its row
import { applyIdentity, unchecked } from "../../../src/core/caller.ts";
import { Drive } from "../../../src/backends/restate/drive/drive.ts";
import { DriveRows } from "../../../src/backends/restate/drive/drive-rows.ts";
import { openEngine, pair, type Dying } from "../engine.ts";

const die = (): void => void process.kill(process.pid, "SIGKILL");

export default async function create({ name, port, id, fault }: Dying & { id: string }): Promise<void> {
  const { engine, runnable } = await openEngine(
    { name, port },
    pair(1, () => {}),
    (createWalk) => (execution, host) => {
      const walk = createWalk(execution, host);
      const confirm = walk.confirmTransition.bind(walk);
      walk.confirmTransition = () => {
        if (fault === "decided") die();
        confirm();
      };
      return walk;
    },
  );
  let context: Parameters<typeof Drive.run>[0];
  const run = Drive.run.bind(Drive);
  Drive.run = (...args) => {
    [context] = args;
    return run(...args);
  };
  DriveRows.prototype.storeEnd = async () => {
    await context.get("flushed"); // Restate has all changes before it
    die();
  };
  const { steps, definition } = runnable;
  const execution = { id, workflowId: definition.id, input: "{}", startAt: Date.now(), steps };
  await engine.begin({ ...execution, ...applyIdentity({}, unchecked) }, runnable, "awaited");
  await engine.settled(id, 0);
}
