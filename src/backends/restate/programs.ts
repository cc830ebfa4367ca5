import type { Program } from "../../engine/contract/program.ts";
import { hasSameSteps } from "../../engine/compare-steps.ts";
import type { Execution } from "../../engine/execution.ts";

type ProgramOf = (workflowId: string) => Program | undefined;

/** Max executions whose code is kept for their drive. */
const maxExpected = 1_000;

/** The code that the drives of this replica run on. */
export class Programs {
  /** Resolves when the workflows of this replica are known. */
  readonly #known: Promise<void>;
  /** The code of the executions that were started or resumed here and are not driven yet. */
  readonly #expected = new Map<string, Program>();
  #programOf: ProgramOf | undefined;

  constructor(known: Promise<void>) {
    this.#known = known;
  }

  /** Without `programOf`, only executions that were started or resumed here have code. */
  open(programOf: ProgramOf | undefined): void {
    this.#programOf = programOf;
  }

  /** Keeps the code of the caller for a drive that comes here. Returns the undoing. */
  expect(id: string, program: Program): () => void {
    const before = this.#expected.get(id);
    this.#expected.delete(id);
    this.#expected.set(id, program);
    const [oldest = id] = this.#expected.keys();
    if (this.#expected.size > maxExpected) this.#expected.delete(oldest);
    return () => {
      if (before) this.#expected.set(id, before);
      else this.#expected.delete(id);
    };
  }

  /** The expected drive is here. Without `programOf` the next one has no other code. */
  arrived(id: string): void {
    if (this.#programOf) this.#expected.delete(id);
  }

  async find({ id, workflowId, steps }: Execution): Promise<Program | undefined> {
    const expected = this.#expected.get(id);
    if (expected && hasSameSteps(steps, expected.steps)) return expected;
    await this.#known;
    if (!this.#programOf) throw new Error(`Execution ${id} was not started here, and this replica continues no others`);
    return this.#programOf(workflowId);
  }
}
