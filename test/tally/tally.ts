import { mkdirSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { dirname, relative, resolve } from "node:path";
import type {
  Reporter,
  ReportedHookContext,
  SerializedError,
  TestCase,
  TestModule,
  TestSuite,
  TestModuleState,
  Vitest,
} from "vitest/node";
import { toLine, type Failure, type Report } from "./report.ts";

/**
 * Writes the last lines of a run: one `failed: …` line per failure, then the counts, which other tools read. The same
 * failures are in `test-results/failed.json`, or in the file that `TALLY` names.
 *
 * T1: Whatever makes Vitest exit with an error has a line: tests, hooks, unhandled errors, dead workers, teardowns.
 * T2: The lines are printed when the process exits. The global teardown runs after `onTestRunEnd`.
 */
export default class Tally implements Reporter {
  #vitest!: Vitest; // set by `onInit`, which Vitest calls first
  readonly #failures: Failure[] = [];
  readonly #loads = new Map<string, number>();
  /** Hooks that have started and not ended, by suite id. */
  readonly #openHooks = new Map<string, string>();
  readonly #counts = { passed: 0, skipped: 0 };
  readonly #startedAt = Date.now();

  onInit(vitest: Vitest): void {
    this.#vitest = vitest;
    process.once("exit", () => this.#print());
    if (isFull(vitest)) process.stdout.write(`generated tests: SEED=${process.env["SEED"]}\n`);
  }

  onHookStart({ name, entity }: ReportedHookContext): void {
    this.#openHooks.set(entity.id, name);
  }

  onHookEnd({ entity }: ReportedHookContext): void {
    this.#openHooks.delete(entity.id);
  }

  onTestCaseResult(test: TestCase): void {
    if (test.result().state === "failed") this.#loads.set(test.id, load());
  }

  onTestRunEnd(modules: readonly TestModule[], errors: readonly SerializedError[]): void {
    for (const module of modules) this.#readModule(module);
    const dead = modules.filter((module) => unfinished.includes(module.state()));
    // Errors of a worker pool name no file. They belong to the files that have not ended.
    const poolErrors = errors.filter(({ VITEST_TEST_PATH: path }) => path === undefined && dead.length > 0);
    for (const { relativeModuleId: file } of dead) {
      this.#add({ file, name: "(worker)", error: toText(poolErrors) || "The worker did not end" });
    }
    for (const error of errors) if (!poolErrors.includes(error)) this.#readUnhandled(error);
    this.#watchTeardown();
  }

  #readModule(module: TestModule): void {
    const file = module.relativeModuleId;
    this.#readHooks(module, file, []);
    for (const suite of module.children.allSuites()) this.#readHooks(suite, file, [suite.fullName]);
    for (const test of module.children.allTests()) {
      const { state, errors } = test.result();
      if (state === "failed") {
        const durationMs = Math.round(test.diagnostic()?.duration ?? 0);
        this.#add({ file, name: test.fullName, error: toText(errors), durationMs, load: this.#loads.get(test.id) });
      } else if (state !== "pending") this.#counts[state]++;
    }
  }

  /** Reads errors that belong to no test: of hooks, and of the file itself while it is collected. */
  #readHooks(suite: TestSuite | TestModule, file: string, path: string[]): void {
    if (suite.errors().length === 0) return;
    const hook = this.#openHooks.get(suite.id) ?? (suite.type === "module" ? "(file)" : "(suite)");
    this.#add({ file, name: [...path, hook].join(" > "), error: toText(suite.errors()) });
  }

  #readUnhandled(error: SerializedError): void {
    const { VITEST_TEST_PATH: path, VITEST_TEST_NAME: test, type = "Unhandled error" } = error;
    const name = [test, type].filter(Boolean).join(" > ");
    const file = typeof path === "string" ? relative(this.#vitest.config.root, path) : undefined;
    this.#add({ ...(file !== undefined && { file }), name, error: toText([error]) });
  }

  /** Vitest logs errors of the global teardown and tells no reporter: from now on, it logs nothing else as an error. */
  #watchTeardown(): void {
    const { logger } = this.#vitest;
    const { error: log } = logger;
    logger.error = (...values: unknown[]) => {
      const errors = values.filter((value) => value instanceof Error);
      if (errors.length > 0) this.#add({ name: "global teardown", error: toText(errors) });
      log.apply(logger, values);
    };
  }

  #add(failure: Omit<Failure, "load" | "repeat"> & { load?: number | undefined }): void {
    const { file } = failure;
    const repeat = file && toCommand(this.#vitest, file);
    this.#failures.push({ ...failure, load: failure.load ?? load(), ...(repeat && { repeat }) });
  }

  #print(): void {
    if (process.exitCode && this.#failures.length === 0) {
      this.#add({ name: "the run", error: `Vitest ended with exit code ${process.exitCode}, for the reason above` });
    }
    const { passed, skipped } = this.#counts;
    const failed = this.#failures.length;
    const path = resolve(this.#vitest.config.root, process.env["TALLY"] ?? "test-results/failed.json");
    mkdirSync(dirname(path), { recursive: true });
    const seconds = Math.round((Date.now() - this.#startedAt) / 1_000);
    const report: Report = { passed, failed, skipped, seconds, failures: this.#failures };
    writeFileSync(path, `${JSON.stringify(report, null, 2)}\n`);
    const repeats = new Set(this.#failures.map(({ repeat }) => repeat && `repeat: ${repeat}`));
    const lines = [
      ...repeats,
      ...this.#failures.map((failure) => toLine(failure, "failed")),
      `${passed} passed, ${failed} failed, ${skipped} skipped`,
    ];
    process.stdout.write(`${lines.filter(Boolean).join("\n")}\n`);
  }
}

const unfinished: readonly TestModuleState[] = ["queued", "pending"];

const isFull = ({ vite }: Vitest): boolean => vite.config.mode === "full";

const load = (): number => Math.round(loadavg()[0]! * 100) / 100;

/** The first 300 characters of the errors with their causes, on one line. */
function toText(errors: readonly ErrorLike[]): string {
  const texts = errors.map(({ name = "Error", message, cause }) => {
    const text = message || name;
    return cause?.message ? `${text} (${cause.message})` : text;
  });
  return texts.join("; ").replaceAll(/\s+/g, " ").slice(0, 300);
}

interface ErrorLike {
  readonly name?: string;
  readonly message: string;
  readonly cause?: any; // an error, if its `message` is a text
}

/** `vitest.<suite>.config.ts` belongs to `npm run test:<suite>`. */
function toCommand(vitest: Vitest, file: string): string {
  const [, suite] = /vitest\.(\w+)\.config\.ts$/.exec(vitest.vite.config.configFile || "") ?? [];
  const command = suite === undefined ? "npx vitest run" : `npm run test:${suite} --`;
  const mode = isFull(vitest) ? " --mode full" : "";
  const { SEED: seed } = process.env;
  return `${seed === undefined ? "" : `SEED=${seed} `}${command}${mode} ${file}`;
}
