import type { Reporter, TestModule } from "vitest/node";

/** The last line of `npm test`: what other tools read. */
export default class Tally implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const count = { passed: 0, failed: errors.length, skipped: 0 };
    for (const module of modules) {
      if (module.errors().length > 0) count.failed++;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state !== "pending") count[state]++;
      }
    }
    const skipped = count.skipped > 0 ? `, ${count.skipped} skipped` : "";
    // After the summary, which the default reporter writes in this same turn.
    setImmediate(() => process.stdout.write(`${count.passed} passed, ${count.failed} failed${skipped}\n`));
  }
}
