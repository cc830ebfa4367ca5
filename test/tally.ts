import type { Reporter, TestModule } from "vitest/node";

/** The last lines of `npm test`: what failed, by name, and the count that other tools read. */
export default class Tally implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const count = { passed: 0, failed: errors.length, skipped: 0 };
    const failed: string[] = [];
    for (const module of modules) {
      if (module.errors().length > 0) {
        count.failed++;
        failed.push(module.relativeModuleId);
      }
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state !== "pending") count[state]++;
        if (state === "failed") failed.push(`${module.relativeModuleId} > ${test.fullName}`);
      }
    }
    const skipped = count.skipped > 0 ? `, ${count.skipped} skipped` : "";
    // After the summary, which the default reporter writes in this same turn.
    const lines = [
      ...failed.map((name) => `failed: ${name}`),
      `${count.passed} passed, ${count.failed} failed${skipped}`,
    ];
    setImmediate(() => process.stdout.write(`${lines.join("\n")}\n`));
  }
}
