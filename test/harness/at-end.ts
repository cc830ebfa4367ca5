import { afterAll, beforeAll, onTestFinished } from "vitest";

/** Cleanups of what is being created for more than one test. */
let cleanups: (() => unknown)[] | undefined;

/** Runs a cleanup at the end of the current test, or after the last test that shares what is being created. */
export function atEnd(cleanup: () => unknown): void {
  if (cleanups) cleanups.push(cleanup);
  else onTestFinished(() => void cleanup());
}

/** Creates something once for all tests of a file, or of a `describe` block. Each of its processes costs as much as a test. */
export function shared<T>(create: () => T | Promise<T>): () => T {
  const own: (() => unknown)[] = [];
  let value: T | undefined;
  beforeAll(async () => {
    cleanups = own;
    try {
      value = await create();
    } finally {
      cleanups = undefined;
    }
  });
  afterAll(async () => {
    for (const cleanup of own.toReversed()) await cleanup();
  });
  return () => value!;
}
