// An engine without a server that dies at a certain place:
// - suspended, completed  the register has made this transition, and the drive has not stored its row
// - step                  the first step runs
// - rescue                on the second version of the workflow: the old drive was killed, and there is no new one
import { unchecked } from "../../src/core/caller.ts";
import { Interruptions } from "../../src/backends/restate/drive/interruptions.ts";
import { begin } from "../../src/workflows/executions.ts";
import { resume } from "../../src/workflows/resume.ts";
import { asking, openEngine, type Dying } from "./engine.ts";

const die = (): void => void process.kill(process.pid, "SIGKILL");

export default async function create({ name, port, fault }: Dying): Promise<void> {
  const { engine, runnable } = await openEngine(
    { name, port },
    asking(fault === "rescue" ? 2 : 1, () => {
      if (fault === "step") die();
    }),
    (createWalk) => (execution, host) => {
      const walk = createWalk(execution, host);
      const [next, confirm] = [walk.next.bind(walk), walk.confirmTransition.bind(walk)];
      let to: string | undefined;
      walk.next = (input) => {
        const decision = next(input);
        to = decision.transition?.to;
        return decision;
      };
      walk.confirmTransition = () => {
        if (to === fault) die();
        confirm();
      };
      return walk;
    },
  );
  if (fault === "rescue") {
    const { endDrive } = Interruptions.prototype;
    Interruptions.prototype.endDrive = async function (input) {
      await endDrive.call(this, input);
      die();
      return true;
    };
  } else {
    await begin(engine, runnable, {}, { executionId: "x" }, unchecked);
    await resume(engine, runnable, await engine.settled("x", 0), { resumeData: 2 });
    await engine.settled("x", 2);
  }
}
